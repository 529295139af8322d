"""Reading the markers of a write, of both kinds.

Every marker folder is searched for both kinds, and `MARKERS.type` is ignored: a process may have died before it wrote
that file, or after its options changed to the other kind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from pyhudi.errors import CorruptDataError
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.markers import (
    MARKERS_BYTES_MAX,
    is_markers_file,
    marker_folder,
    markers_file_name,
    parse_marker_path,
    parse_markers_file,
)
from pyhudi.storage.bounded import read_at_most
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.file_slice import FileGroupId


def load_markers(storage: Storage, instant_time: str, *, whole: bool = False) -> frozenset[str]:
    """The data files that a write has markers for, as paths relative to the table; empty if it has none.

    `whole`: a `MARKERS<n>` file that is missing before the last one counts as damage. JVM Hudi may leave a number out.

    Cost: one recursive listing of the write's marker folder, and one read per `MARKERS<n>` file.

    Raises:
        StorageError: the folder or a file in it cannot be read; this never counts as "no markers".
        CorruptDataError: a `MARKERS<n>` file is damaged.
    """
    listed = storage.list_recursive(marker_folder(instant_time))
    if whole:
        _check_whole({info.name for info in listed if is_markers_file(info.name)}, marker_folder(instant_time))
    return frozenset(_announced(storage, instant_time, listed))


def groups_in_markers(storage: Storage, instant_time: str, partition_paths: Collection[str]) -> frozenset[FileGroupId]:
    """The file groups in some partitions that a write has markers for.

    Cost: one listing of the top of its marker folder; then one read per `MARKERS<n>` file, or, if there is none,
    one listing per partition path.

    Raises:
        StorageError: something cannot be read; `NotFoundError` also if the write ended meanwhile.
        CorruptDataError: a `MARKERS<n>` file is damaged.
    """
    folder = marker_folder(instant_time)
    top = storage.list_folder(folder).files
    listed = list(top)
    if not any(is_markers_file(info.name) for info in top):
        for path in sorted(partition_paths):
            listed += storage.list_folder(f"{folder}/{path}").files if path else ()
    groups = groups_of_files(_announced(storage, instant_time, listed))
    return frozenset(group for group in groups if group.partition_path in partition_paths)


def groups_of_files(data_paths: Iterable[str]) -> Iterator[FileGroupId]:
    """The file groups that data files belong to; other files are skipped."""
    for data_path in data_paths:
        partition_path, _, file_name = data_path.rpartition("/")
        name = parse_data_file(file_name)
        if name is not None:
            yield FileGroupId(partition_path, name.file_id)


def _check_whole(names: Collection[str], folder: str) -> None:
    if missing := {markers_file_name(number) for number in range(len(names))} - {*names}:
        raise CorruptDataError("a file of markers is missing", path=f"{folder}/{min(missing)}")


def _announced(storage: Storage, instant_time: str, listed: Iterable[FileInfo]) -> Iterator[str]:
    folder = marker_folder(instant_time)
    for info in listed:
        if is_markers_file(info.name) and info.path == f"{folder}/{info.name}":
            data = read_at_most(storage, info.path, MARKERS_BYTES_MAX)
            for marker in parse_markers_file(data, path=info.path):
                yield marker.data_path
        elif (data_path := parse_marker_path(info.path, instant_time)) is not None:
            yield data_path
