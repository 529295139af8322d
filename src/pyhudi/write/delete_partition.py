"""Deleting whole partitions: their file groups are replaced by nothing. Files remain until they are cleaned."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence

from pyhudi.errors import InvalidRequestError
from pyhudi.format.metadata.commit import CommitMetadata
from pyhudi.format.metadata.replace import encode_requested_replace_metadata, requested_replace
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.instant import Action
from pyhudi.table.file_system_view import load_view
from pyhudi.table.state import TableState
from pyhudi.transaction.transaction import mark_inflight
from pyhudi.write.finish import committed, write_transaction
from pyhudi.write.job import WriteJob
from pyhudi.write.result import WriteResult


def delete_partitions(job: WriteJob, names: Sequence[str], *, patterns: bool) -> WriteResult:
    """Remove the partitions whose paths are among the names; in `patterns`, `*` stands for any characters.

    Raises `InvalidRequestError` if no partition with rows matches. Cost: two listings of the table.
    """
    operation = WriteOperation.DELETE_PARTITION
    _chosen(job.table, names, patterns=patterns)
    with write_transaction(
        job, Action.REPLACE_COMMIT, encode_requested_replace_metadata(requested_replace(operation))
    ) as transaction:
        replaced = _chosen(transaction.base, names, patterns=patterns)
        mark_inflight(transaction, CommitMetadata(operation=operation, stats_by_partition={}))
        return committed(job, transaction, operation, (), replaced)


def _chosen(table: TableState, names: Sequence[str], *, patterns: bool) -> dict[str, tuple[str, ...]]:
    """The file groups of the matching partitions, by partition path."""
    latest = load_view(table.storage, table.timeline).latest
    chosen = _matching(latest, names) if patterns else latest.keys() & set(names)
    if not chosen:
        raise InvalidRequestError(
            "no partition of the table matches; nothing was deleted",
            given=list(names),
            partitions=sorted(latest)[:20],
        )
    return {path: tuple(file.file_id for file in latest[path]) for path in sorted(chosen)}


def _matching(paths: Iterable[str], patterns: Sequence[str]) -> set[str]:
    chosen = set()
    for pattern in patterns:
        wanted = pattern.strip("/")
        found = {path for path in paths if fnmatch.fnmatchcase(path, _literal(wanted))}
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
