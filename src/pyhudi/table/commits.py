"""The metadata of completed writes, from the active timeline or, once they have left it, from the archived one."""

from __future__ import annotations

from pyhudi.errors import NotFoundError
from pyhudi.format.metadata.commit import (
    JSON_BYTES_MAX,
    CommitMetadata,
    CommitSummary,
    decode_commit_metadata,
    summarise_commit,
)
from pyhudi.format.timeline.instant import Instant
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.storage.bounded import read_decoded
from pyhudi.storage.protocol import Storage
from pyhudi.table.archive.history import archived_commit
from pyhudi.table.timeline import instant_path


def load_commit_summary(storage: Storage, instant: Instant, version: TableVersion) -> CommitSummary:
    """`load_commit_metadata` without the statistics of files. Cost and errors: as that, at a tenth of the work."""
    try:
        return read_decoded(storage, instant_path(instant, version), JSON_BYTES_MAX, summarise_commit)
    except NotFoundError:
        return CommitSummary.of(load_commit_metadata(storage, instant, version))


def load_commit_metadata(storage: Storage, instant: Instant, version: TableVersion) -> CommitMetadata:
    """The metadata of a completed write. Cost: one read; more if it was archived since the timeline was loaded.

    Raises:
        CorruptDataError: the metadata are damaged; names the file.
        NotFoundError: the write was rolled back since the timeline was loaded.
    """
    try:
        return read_decoded(storage, instant_path(instant, version), JSON_BYTES_MAX, decode_commit_metadata)
    except NotFoundError:
        archived = archived_commit(storage, version, instant)
        if archived is None:
            raise
        return archived
