"""Deleting whole partitions: their file groups give way to nothing. Files stay until they are cleaned."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from pyhudi.errors import InvalidRequestError
from pyhudi.format.commit_metadata import CommitMetadata, WriteOperation
from pyhudi.format.instant import Action
from pyhudi.format.replace_metadata import encode_requested_replace_metadata, requested_replace
from pyhudi.table.file_system_view import load_view
from pyhudi.table.state import TableState
from pyhudi.table.transaction import mark_inflight
from pyhudi.write.finish import committed, write_transaction
from pyhudi.write.job import WriteJob
from pyhudi.write.result import WriteResult


def delete_partitions(job: WriteJob, patterns: Sequence[str]) -> WriteResult:
    """Remove the partitions whose paths match; `*` stands for any characters.

    Raises `InvalidRequestError` when no partition with rows matches. Cost: two listings of the table.
    """
    operation = WriteOperation.DELETE_PARTITION
    _chosen(job.table, patterns)
    with write_transaction(
        job, Action.REPLACE_COMMIT, encode_requested_replace_metadata(requested_replace(operation))
    ) as transaction:
        replaced = _chosen(transaction.base, patterns)
        mark_inflight(transaction, CommitMetadata(operation=operation, stats_by_partition={}))
        return committed(job, transaction, operation, (), replaced)


def _chosen(table: TableState, patterns: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The file groups of the partitions that match, by partition path."""
    latest = load_view(table.storage, table.timeline).latest
    chosen = {path for path in latest for pattern in patterns if fnmatch.fnmatchcase(path, _literal(pattern))}
    if not chosen:
        raise InvalidRequestError(
            "no partition of the table matches; nothing was deleted",
            given=list(patterns),
            partitions=sorted(latest)[:20],
        )
    return {path: tuple(file.file_id for file in latest[path]) for path in sorted(chosen)}


def _literal(pattern: str) -> str:
    """Only `*` is special: brackets and question marks may stand in partition values."""
    return pattern.strip("/").replace("[", "[[]").replace("?", "[?]")
