"""Base files into one, by copying their row groups: for clusterings that do not sort."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import pyarrow as pa

from pyhudi.errors import LockLostError, NotFoundError
from pyhudi.format.markers import Marker, MarkerKind
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.format.metadata_table.ranges import Range
from pyhudi.format.schema.meta_columns import with_meta_columns
from pyhudi.io.base_file import read_footer, read_ranges
from pyhudi.io.row_group_copy import FileJoin, NotAlikeError
from pyhudi.storage.protocol import Storage
from pyhudi.tasks.data_file import DataFileSpec, WriteTarget, check_write_is_running, column_ranges
from pyhudi.transaction.markers.announcing import create_markers

T = TypeVar("T")


def joins_of(storage: Storage, paths: Sequence[str], target: WriteTarget) -> list[FileJoin]:
    """The new files: base files in order, those together whose sizes add up to the maximum size of a file at most.

    Raises `NotAlikeError` if they must be decoded. Cost: the footers, and a request per file for its size.
    """
    settings = target.files
    if not _same_columns(read_footer(storage, paths[0]).schema, with_meta_columns(target.schema)):
        # Readers may find the columns of a file by the schema of its instant, which is now a newer one.
        raise NotAlikeError(f"the columns of {paths[0]} are not those of the table")
    sizes = []
    for path in paths:
        info = storage.info(path)
        if info is None:
            raise NotFoundError("a file is gone that was to be copied", path=path)
        sizes.append(info.size)
    return [FileJoin(storage, pack, settings.bloom) for pack in packs(paths, sizes, settings.max_file_size)]


def packs(items: Sequence[T], sizes: Sequence[int], size_max: int) -> list[list[T]]:
    """Items in order, those together whose sizes add up to the maximum at most; a larger one is alone."""
    found: list[list[T]] = []
    room = -1
    for item, size in zip(items, sizes, strict=True):
        if size > room:
            found.append([])
            room = size_max
        found[-1].append(item)
        room -= size
    return found


def _same_columns(found: pa.Schema, expected: pa.Schema) -> bool:
    return found.names == expected.names and all(
        _same_type(one.type, other.type) for one, other in zip(found, expected, strict=True)
    )


def _same_type(found: pa.DataType, expected: pa.DataType) -> bool:
    """Whether the types are the same, whatever the elements of lists and maps are called in files."""
    if found.id != expected.id:
        return False
    if pa.types.is_list(found):
        return _same_type(found.value_type, expected.value_type)
    if pa.types.is_map(found):
        return _same_type(found.key_type, expected.key_type) and _same_type(found.item_type, expected.item_type)
    if pa.types.is_struct(found):
        return _same_columns(pa.schema(list(found)), pa.schema(list(expected)))
    return bool(found == expected)


def write_joined(storage: Storage, spec: DataFileSpec, join: FileJoin) -> WriteStat:
    """Write the first base file of a new file group. Memory: some megabytes, and the footers."""
    target, path = spec.target, spec.path
    marker = Marker(path, MarkerKind.CREATE)
    create_markers(storage, target.instant_time, target.markers, [marker], groups_exist=False)
    with storage.open_output(path) as sink:
        rows = join.write(sink, str(spec.name), target.files.codec)
    info = storage.info(path)
    if info is None:
        raise LockLostError(
            "a file was deleted while it was written: another writer rolled this clustering back as its heartbeat had "
            "expired; run it again",
            path=path,
        )
    check_write_is_running(storage, target, path)
    return WriteStat(
        file_id=spec.file_id,
        path=path,
        prev_commit="null",
        num_writes=rows,
        num_inserts=rows,
        total_write_bytes=info.size,
        file_size_in_bytes=info.size,
        partition_path=spec.partition_path,
        column_ranges=column_ranges(target, spec.partition_path, str(spec.name), _ranges(storage, path, target)),
    )


def _ranges(storage: Storage, path: str, target: WriteTarget) -> list[Range]:
    columns = target.files.indexed_columns
    return read_ranges(storage, path, columns) if columns else []
