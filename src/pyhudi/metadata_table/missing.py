"""The check that the newest slices of a partition of the metadata table have all files that its commits name.

Without it a lost log would be a lost answer: an index would leave out files with rows, and a write store keys twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pyhudi.errors import CorruptDataError
from pyhudi.format.metadata.written_files import WrittenFiles
from pyhudi.format.timeline.instant import Instant
from pyhudi.metadata_table.folders import partition_folder
from pyhudi.metadata_table.trust import INITIAL_PREFIX
from pyhudi.storage.protocol import Storage
from pyhudi.table.timeline import Timeline, position_of
from pyhudi.table.written_files import load_written_files

if TYPE_CHECKING:
    from pyhudi.metadata_table.state import GroupSlice


def check_nothing_missing(
    storage: Storage, inner: Timeline, valid: frozenset[str], partition: str, slices: Iterable[GroupSlice]
) -> None:
    """Raise where a file of a commit is missing in the slices of a partition, or shorter than the commit left it.

    `valid`: the instants that count. Commits that were archived are not known; of table version 6, whose logs do not
    show their writes, nothing is.

    Raises:
        CorruptDataError: names the file.

    Cost: a read for each commit since the oldest of the base files, several at once, and once per process.
    """
    if not inner.version.has_completion_times:
        return
    groups = {one.file_id: one for one in slices}
    merged = [one.base_instant for one in groups.values() if not _is_first(one.base_instant)]
    oldest = min(merged) if len(merged) == len(groups) else ""
    counting = (one for one in inner.completed_writes if one.requested_time in valid and position_of(one) >= oldest)
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
            size = None if group is None else _sizes(group).get(file.name)
            if size is None or size < file.end:
                problem = "is missing" if size is None else "is cut off"
                path = f"{partition_folder(partition)}/{file.name}"
                raise CorruptDataError(f"a file of the metadata table {problem}", path=path)


def _is_first(base_instant: str) -> bool:
    """Whether a slice has no base file of a compaction."""
    return not base_instant or base_instant.startswith(INITIAL_PREFIX)


def _built(writes: Mapping[Instant, WrittenFiles], partition: str) -> str | None:
    """When the partition was built: what commits before it named is gone. None where that is not known."""
    first = (one for one, files in writes.items() if _is_first(one.requested_time) and partition in files.written)
    return max(map(position_of, first), default=None)


def _sizes(group: GroupSlice) -> dict[str, int]:
    paths = zip(group.logs, group.log_sizes, strict=True)
    base = {} if group.base is None else {group.base.rpartition("/")[2]: group.base_size}
    return {path.rpartition("/")[2]: size for path, size in paths} | base
