"""Bootstrapped file groups: where the columns of their skeleton files are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from pyhudi.errors import CorruptDataError, NotFoundError, UnsafePathError, WriteConflictError
from pyhudi.format.bootstrap_index import (
    PARTITIONS_PATH,
    SourcePartition,
    SourceStatus,
    decode_source_folder,
    decode_source_partition,
    partition_key,
)
from pyhudi.format.hfile.indexed import sorted_keys
from pyhudi.format.keys.partition_paths import path_columns
from pyhudi.format.safe_paths import path_problem
from pyhudi.format.timeline.instant import FULL_RECORD_INSTANT, SKELETON_INSTANT, Instant
from pyhudi.io.hfile import open_hfile_of
from pyhudi.io.slices.files import SourceFile
from pyhudi.storage.open import open_storage
from pyhudi.storage.paths import local_path
from pyhudi.storage.protocol import Storage, StorageSpec
from pyhudi.table.file_slice import FileGroupId
from pyhudi.table.state import TableState

_PARTITIONS_AT_ONCE: Final = 256
"""How many entries are looked up together: each has all files of a partition."""


def is_being_bootstrapped(table: TableState) -> bool:
    """Whether the bootstrap of a table has not ended: it runs, or it died. Cost: no request."""
    if not table.config.values.get("hoodie.bootstrap.base.path"):
        return False
    timeline = table.timeline
    pending = {instant.requested_time for instant in timeline.pending_writes}
    return not timeline.completed_writes or not pending.isdisjoint((SKELETON_INSTANT, FULL_RECORD_INSTANT))


def is_second_commit(table: TableState, instant: Instant) -> bool:
    """Whether a commit is the one without which a bootstrap of both modes has a part of its source alone.

    Only the next bootstrap knows to undo the first one, too.
    """
    is_of_skeletons = instant.requested_time == SKELETON_INSTANT
    return is_of_skeletons and table.timeline.completed_times == {FULL_RECORD_INSTANT}


def check_bootstrapped(table: TableState) -> None:
    """Raise `WriteConflictError` if `is_being_bootstrapped`: a write would take the records of the source for new."""
    if is_being_bootstrapped(table):
        raise WriteConflictError(
            "the bootstrap of this table has not ended, and records of its source may be missing; wait for it; if its "
            "process has died, run the bootstrap again, which goes on",
            path=table.storage.uri,
            source=table.config.values["hoodie.bootstrap.base.path"],
        )


def load_sources(storage: Storage, partition_paths: Collection[str]) -> Mapping[FileGroupId, SourceFile]:
    """The source files of the skeletons of these partitions.

    The source is opened with the options of the table's store. Cost: one request for a small bootstrap index; else two
    or three to open it, and the blocks that have these partitions.

    Raises:
        CorruptDataError: the index is missing or damaged.
        UnsafePathError: it names a file outside the folder of the source.
    """
    try:
        reader = open_hfile_of(storage, PARTITIONS_PATH)
    except NotFoundError as error:
        raise CorruptDataError(
            "the bootstrap index is missing: without it nothing says which files have the columns of the table's "
            "skeleton files; restore it from a copy, or bootstrap the table again",
            path=PARTITIONS_PATH,
        ) from error
    found: dict[FileGroupId, SourceFile] = {}
    with reader:
        folder = decode_source_folder(reader.file.file_info, path=PARTITIONS_PATH)
        root = open_storage(folder, storage.spec.options).spec
        wanted = sorted_keys([partition_key(path) for path in set(partition_paths)])
        for start in range(0, len(wanted), _PARTITIONS_AT_ONCE):
            _, values = reader.file.with_keys(wanted.slice(start, _PARTITIONS_AT_ONCE))
            for value in values:
                partition = decode_source_partition(value.as_py(), path=PARTITIONS_PATH)
                for file_id, status in partition.files.items():
                    found[FileGroupId(partition.partition_path, file_id)] = _source_file(
                        root, folder, partition, status
                    )
    return found


def _source_file(root: StorageSpec, folder: str, partition: SourcePartition, status: SourceStatus) -> SourceFile:
    below = _plain(folder).rstrip("/") + "/"
    place = _plain(status.uri)
    path = place.removeprefix(below)
    if path == place or path_problem(path):
        raise UnsafePathError(
            "the bootstrap index names a file outside the folder of its source; nothing was done with it",
            path=PARTITIONS_PATH,
            named=status.uri,
            folder=folder,
        )
    return SourceFile(root, path, status.size, status.modified_ms, path_columns(partition.source_path))


def _plain(uri: str) -> str:
    """A path or URI as Hadoop means it: with or without the scheme of local files it is the same file."""
    return str(local_path(uri) or uri)
