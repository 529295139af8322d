"""Deleting whole partitions: their file groups are replaced by nothing. Files remain until they are cleaned."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Sequence

from pyhudi.errors import InvalidRequestError
from pyhudi.index.key_value.hbase_publishing import withdraw
from pyhudi.services.partition_ttl.drop import Choice, drop_partitions
from pyhudi.table.file_system_view import load_view
from pyhudi.table.state import TableState
from pyhudi.write.job import WriteJob
from pyhudi.write.result import WriteResult, result_of


def delete_partitions(job: WriteJob, names: Sequence[str], *, patterns: bool) -> WriteResult:
    """Remove the partitions whose paths are among the names; in `patterns`, `*` stands for any characters.

    Raises `InvalidRequestError` if no partition with rows matches, or none matches one of the patterns. Cost: two
    listings of the table.
    """

    def choose(table: TableState) -> dict[str, tuple[str, ...]]:
        groups = _groups(table)
        chosen = _matching(groups, names) if patterns else groups.keys() & set(names)
        if not chosen:
            raise _no_match(names, groups)
        return {path: groups[path] for path in sorted(chosen)}

    choose(job.table)
    return _dropped(job, choose)


def truncate(job: WriteJob) -> WriteResult:
    """Remove all partitions, so all rows; of a table without partitions the one that it has. Cost: one listing."""
    return _dropped(job, _groups)


def _dropped(job: WriteJob, choose: Choice) -> WriteResult:
    done = drop_partitions(
        job.table,
        choose,
        settings=job.transaction_settings,
        environment=job.environment,
        extra=job.extra_metadata,
    )
    withdraw(job.config.index, done.base, done.instant, done.metadata, engine=job.engine, environment=job.environment)
    seconds = job.environment.clock.monotonic() - job.started
    return result_of(done.metadata, done.instant, done.completion_time, seconds)


def _groups(table: TableState) -> dict[str, tuple[str, ...]]:
    """The file groups of the partitions that have rows, by partition path."""
    latest = load_view(table.storage, table.timeline).latest
    return {path: tuple(file_slice.file_id for file_slice in slices) for path, slices in sorted(latest.items())}


def _no_match(given: Sequence[str], paths: Collection[str]) -> InvalidRequestError:
    return InvalidRequestError(
        "no partition of the table matches; nothing was deleted", given=list(given), partitions=sorted(paths)[:20]
    )


def _matching(paths: Collection[str], patterns: Sequence[str]) -> set[str]:
    chosen = set()
    for pattern in patterns:
        wanted = pattern.strip("/")
        found = {path for path in paths if fnmatch.fnmatchcase(path, _literal(wanted))}
        if not found:
            raise _no_match([pattern], paths)
        if wanted in found and len(found) > 1:
            raise InvalidRequestError(
                "a partition has exactly this name, and as a pattern it matches others, too; nothing was deleted: pass "
                "rows of the partitions to delete to the operation delete_partition, instead of names",
                given=pattern,
                partitions=sorted(found)[:20],
            )
        chosen |= found
    return chosen


def _literal(pattern: str) -> str:
    """Only `*` is special: brackets and question marks may stand in partition values."""
    return pattern.replace("[", "[[]").replace("?", "[?]")
