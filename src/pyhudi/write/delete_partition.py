"""Deleting whole partitions: their file groups are replaced by nothing. Files remain until they are cleaned."""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Collection, Sequence

from pyhudi.errors import InvalidRequestError
from pyhudi.format.safe_paths import data_path_problem
from pyhudi.index.key_value.hbase_publishing import withdraw
from pyhudi.metadata_table.partitions.protocol import Source
from pyhudi.services.partition_ttl.drop import Choice, drop_partitions
from pyhudi.table.remembered_files import latest_slices
from pyhudi.table.state import TableState
from pyhudi.write.job import WriteJob
from pyhudi.write.result import WriteResult, result_of


def delete_partitions(job: WriteJob, names: Sequence[str], *, patterns: bool) -> WriteResult:
    """Remove the partitions whose paths are among the names; in `patterns`, `*` stands for any characters.

    Raises `InvalidRequestError` if no partition with rows matches, or none matches one of the patterns. A write that
    may be empty commits without a change where none matches. Cost: a listing of each named partition, or with `*` of
    the table; a second one when the drop begins, unless the first is remembered (`table/remembered_files.py`).
    """
    wanted = [name.strip("/") for name in names] if patterns else names
    searches = patterns and any("*" in name for name in wanted)
    listed = None if searches else [name for name in wanted if data_path_problem(name) is None]

    def choose(table: TableState) -> dict[str, tuple[str, ...]]:
        groups = _groups(job, table, listed)
        found = {name: _matching(groups, name) if patterns else groups.keys() & {name} for name in wanted}
        unmatched = [name for name in found if not found[name]]
        is_missed = len(unmatched) == len(found) and not job.config.what.allows_empty_commit
        if is_missed or (patterns and unmatched):
            raise InvalidRequestError(
                "no partition of the table matches; nothing was deleted",
                given=unmatched,
                partitions=list(_groups(job, table))[:20],
            )
        return {path: groups[path] for path in sorted(set[str]().union(*found.values()))}

    choose(job.table)
    return _dropped(job, choose)


def truncate(job: WriteJob) -> WriteResult:
    """Remove all partitions, so all rows; of a table without partitions the one that it has. Cost: one listing."""
    return _dropped(job, functools.partial(_groups, job))


def _dropped(job: WriteJob, choose: Choice) -> WriteResult:
    done = drop_partitions(
        job.table,
        choose,
        settings=job.transaction_settings,
        environment=job.environment,
        extra=job.extra_metadata,
    )
    source = Source(done.base, job.environment, job.merging.spill, job.engine)
    withdraw(job.config.index, source, done.instant, done.metadata)
    seconds = job.environment.clock.monotonic() - job.started
    return result_of(done.metadata, done.instant, done.completion_time, seconds)


def _groups(
    job: WriteJob, table: TableState, partition_paths: Collection[str] | None = None
) -> dict[str, tuple[str, ...]]:
    """The file groups of the partitions that have rows, of all or of some, by partition path."""
    latest = latest_slices(table, job.lister, partition_paths)
    return {path: tuple(file_slice.file_id for file_slice in slices) for path, slices in sorted(latest.items())}


def _matching(paths: Collection[str], pattern: str) -> set[str]:
    found = {path for path in paths if fnmatch.fnmatchcase(path, _literal(pattern))}
    if pattern in found and len(found) > 1:
        raise InvalidRequestError(
            "a partition has exactly this name, and as a pattern it matches others, too; nothing was deleted: pass "
            "rows of the partitions to delete to the operation delete_partition, instead of names",
            given=pattern,
            partitions=sorted(found)[:20],
        )
    return found


def _literal(pattern: str) -> str:
    """Only `*` is special: brackets and question marks may stand in partition values."""
    return pattern.replace("[", "[[]").replace("?", "[?]")
