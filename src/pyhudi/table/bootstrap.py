"""Bootstrapped file groups: where the columns of their skeleton files are."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyhudi.errors import CorruptDataError, NotFoundError, UnsafePathError
from pyhudi.format.bootstrap_index import (
    PARTITIONS_PATH,
    SourcePartition,
    SourceStatus,
    decode_source_folder,
    decode_source_partition,
    partition_key,
)
from pyhudi.format.hfile.reader import read_hfile
from pyhudi.format.keys.partition_paths import path_columns
from pyhudi.format.safe_paths import path_problem
from pyhudi.io.slices.files import SourceFile
from pyhudi.storage.open import open_storage
from pyhudi.storage.paths import local_path
from pyhudi.storage.protocol import Storage, StorageSpec
from pyhudi.table.file_slice import FileGroupId


def load_sources(storage: Storage, partition_paths: Collection[str]) -> Mapping[FileGroupId, SourceFile]:
    """The source files of the skeletons of these partitions. Cost: one read of the bootstrap index.

    The source is opened with the options of the table's store.

    Raises:
        CorruptDataError: the index is missing or damaged.
        UnsafePathError: it names a file outside the folder of the source.
    """
    try:
        data = storage.read(PARTITIONS_PATH)
    except NotFoundError as error:
        raise CorruptDataError(
            "the bootstrap index is missing: without it nothing says which files have the columns of the table's "
            "skeleton files; restore it from a copy, or bootstrap the table again",
            path=PARTITIONS_PATH,
        ) from error
    index = read_hfile(data, path=PARTITIONS_PATH)
    folder = decode_source_folder(index, path=PARTITIONS_PATH)
    root = open_storage(folder, storage.spec.options).spec
    wanted = {partition_key(path).encode() for path in partition_paths}
    found: dict[FileGroupId, SourceFile] = {}
    for key, value in zip(index.keys.to_pylist(), index.values, strict=True):
        if key in wanted:
            partition = decode_source_partition(value.as_py(), path=PARTITIONS_PATH)
            for file_id, status in partition.files.items():
                found[FileGroupId(partition.partition_path, file_id)] = _source_file(root, folder, partition, status)
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
    return SourceFile(root, path, status.size, path_columns(partition.source_path))


def _plain(uri: str) -> str:
    """A path or URI as Hadoop means it: with or without the scheme of local files it is the same file."""
    return str(local_path(uri) or uri)
