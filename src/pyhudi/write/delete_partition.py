"""Deleting whole partitions: their file groups give way to nothing. Files stay until they are cleaned."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from pyhudi.errors import InvalidRequestError
from pyhudi.format.commit_metadata import CommitMetadata, WriteOperation
from pyhudi.format.instant import Action
from pyhudi.format.replace_metadata import encode_requested_replace_metadata, requested_replace
from pyhudi.table.file_system_view import load_view
from pyhudi.table.transaction import mark_inflight
from pyhudi.write.finish import committed, write_transaction
from pyhudi.write.job import WriteJob
from pyhudi.write.result import WriteResult


def delete_partitions(job: WriteJob, patterns: Sequence[str]) -> WriteResult:
    """Remove the partitions whose paths match; `*` stands for any characters.

    Raises `InvalidRequestError` when no partition with rows matches. Cost: one listing of the table.
    """
    operation = WriteOperation.DELETE_PARTITION
    with write_transaction(
        job, Action.REPLACE_COMMIT, encode_requested_replace_metadata(requested_replace(operation))
    ) as transaction:
        latest = load_view(transaction.storage, transaction.base.timeline).latest
        chosen = {path for path in latest for pattern in patterns if fnmatch.fnmatchcase(path, _literal(pattern))}
        if not chosen:
            raise InvalidRequestError(
                "no partition of the table matches; nothing was deleted",
                given=list(patterns),
                partitions=sorted(latest)[:20],
            )
        replaced = {path: tuple(file.file_id for file in latest[path]) for path in sorted(chosen)}
        mark_inflight(transaction, CommitMetadata(operation=operation, stats_by_partition={}))
        return committed(job, transaction, operation, (), replaced)


def _literal(pattern: str) -> str:
    """Only `*` is special: brackets and question marks may stand in partition values."""
    return pattern.strip("/").replace("[", "[[]").replace("?", "[?]")
