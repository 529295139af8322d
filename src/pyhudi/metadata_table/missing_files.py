"""The check that the newest slices of a partition of the metadata table have all files that its commits name.

Without it a lost log would be a lost answer: an index would leave out files with rows, and a write store keys twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyhudi.errors import CorruptDataError
from pyhudi.format.file_names import instant_in_name
from pyhudi.format.metadata.written_files import WrittenFile, WrittenFiles
from pyhudi.format.timeline.instant import Instant
from pyhudi.metadata_table.file_group import GroupSlice
from pyhudi.metadata_table.folders import partition_folder
from pyhudi.metadata_table.write_checks import INITIAL_PREFIX
from pyhudi.storage.protocol import Storage
from pyhudi.table.metadata_partitions import FILES
from pyhudi.table.timeline import Timeline, position_of
from pyhudi.table.written_files import load_written_files


def check_nothing_missing(
    storage: Storage, inner: Timeline, valid: frozenset[str], partition: str, slices: Iterable[GroupSlice]
) -> None:
    """Raise where a file of a commit is missing in the slices of a partition, or shorter than the commit left it.

    `valid`: the instants that count. Commits that were archived are not known. In table version 6 nothing says when a
    partition was built again: there a file is missed where its name shows that it belongs to the newest slice.

    Raises:
        CorruptDataError: names the file.

    Cost: a read for each commit since the oldest of the base files, several at once, and once per process.
    """
    groups = {file_slice.file_id: file_slice for file_slice in slices}
    if not inner.version.has_completion_times:
        _check_by_names(storage, inner, valid, partition, groups)
        return
    merged = [group_slice.base_instant for group_slice in groups.values() if not _is_first(group_slice.base_instant)]
    oldest = min(merged) if len(merged) == len(groups) else ""
    counting = (
        instant
        for instant in inner.completed_writes
        if instant.requested_time in valid and position_of(instant) >= oldest
    )
    writes = load_written_files(storage, inner.version, counting)
    built = _built(writes, partition)
    for write, files in writes.items():
        for file in files.written.get(partition, ()):
            group = groups.get(file.file_id)
            base_instant = group.base_instant if group is not None else ""
            since = built if _is_first(base_instant) else base_instant
            is_older = since is None or position_of(write) < since
            if is_older or (not file.is_log and write.requested_time < base_instant):
                continue
            _check_file(partition, group, file)


def _check_file(partition: str, group: GroupSlice | None, file: WrittenFile) -> None:
    size = None if group is None else _sizes(group).get(file.name)
    if size is None or size < file.end:
        problem = "is missing" if size is None else "is cut off"
        path = f"{partition_folder(partition)}/{file.name}"
        raise CorruptDataError(f"a file of the metadata table {problem}", path=path)


def _check_by_names(
    storage: Storage, inner: Timeline, valid: frozenset[str], partition: str, groups: Mapping[str, GroupSlice]
) -> None:
    """`check_nothing_missing` of table version 6, where the name of a log has the instant of its slice.

    A slice of a compaction tells that the partition was not built again since. One of a build has a number that no
    other has, unless it was given again after the first of them was archived.
    """
    begins = {
        file_id: group_slice.base_instant or instant_in_name(group_slice.logs[0])
        for file_id, group_slice in groups.items()
    }
    first = min(begins.values())
    oldest = "" if _is_first(first) else first
    counting = (
        write for write in inner.completed_writes if write.requested_time in valid and write.requested_time >= oldest
    )
    writes = load_written_files(storage, inner.version, counting)
    numbers_are_whole = any(
        _is_first(instant.requested_time) and FILES in files.written for instant, files in writes.items()
    )
    for files in writes.values():
        for file in files.written.get(partition, ()):
            begin, of_slice = begins.get(file.file_id, first), instant_in_name(file.name)
            group = groups.get(file.file_id)
            logs = () if group is None else group.logs
            if _is_first(begin):
                # The base file of a compaction, of which there are logs, or a log of the slice that was built.
                is_expected = (
                    any(instant_in_name(path) == of_slice for path in logs)
                    if not _is_first(of_slice)
                    else of_slice == begin and numbers_are_whole
                )
            else:
                is_expected = of_slice >= begin
            if is_expected:
                _check_file(partition, group, file)


def _is_first(base_instant: str) -> bool:
    """Whether a slice has no base file of a compaction."""
    return not base_instant or base_instant.startswith(INITIAL_PREFIX)


def _built(writes: Mapping[Instant, WrittenFiles], partition: str) -> str | None:
    """When the partition was built: what commits before it named is gone. None where that is not known."""
    first = (
        instant for instant, files in writes.items() if _is_first(instant.requested_time) and partition in files.written
    )
    return max(map(position_of, first), default=None)


def _sizes(group: GroupSlice) -> dict[str, int]:
    paths = zip(group.logs, group.log_sizes, strict=True)
    base = {} if group.base is None else {group.base.rpartition("/")[2]: group.base_size}
    return {path.rpartition("/")[2]: size for path, size in paths} | base
