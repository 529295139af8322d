"""Changes of file groups: which of them an action changed, and which files held their rows before and after it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.metadata.commit import NO_PREVIOUS_COMMIT, WriteStat
from pyhudi.format.schema.internal_schema import INTERNAL_SCHEMA_KEY
from pyhudi.io.slices.files import SliceFiles
from pyhudi.metadata_table.file_changes import Change
from pyhudi.metadata_table.partitions.protocol import Source
from pyhudi.table.file_slice import FileGroupId, FileSlice, slice_files
from pyhudi.table.file_system_view import load_view


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceChange:
    """What an action did to the rows of one file group.

    Attributes:
        number: its place among the changes of the action.
        group: the file group.
        before: the files that held its rows; None: the group is new.
        after: the files that hold them now; None: the group was replaced.
        own_logs: the logs among them that the action wrote. Without any, it wrote the base file.
        inserts: how many rows of the action were new to the group, as far as its stats say.
        deletes: how many it deleted.
        size: the bytes to read.
        instant_time: the write of the group's newest base file, or of its first log; empty for a change of an action.
    """

    number: int
    group: FileGroupId
    before: SliceFiles | None
    after: SliceFiles | None
    own_logs: tuple[str, ...] = ()
    inserts: int = 0
    deletes: int = 0
    size: int = 0
    instant_time: str = ""


def slice_changes(change: Change, source: Source) -> tuple[SliceChange, ...]:
    """The file groups that an action wrote or replaced.

    Cost: that of a view if it wrote logs or replaced groups, or if columns go by ids.
    """
    bases: dict[FileGroupId, WriteStat] = {}
    logs: dict[FileGroupId, list[WriteStat]] = defaultdict(list)
    for partition, files in change.added.items():
        for file in files:
            name = parse_data_file(file.name)
            if file.stat is None or name is None or (isinstance(name, LogFileName) and name.is_cdc):
                continue
            group = FileGroupId(partition, name.file_id)
            if isinstance(name, LogFileName):
                logs[group].append(file.stat)
            else:
                bases[group] = file.stat
    unnamed = any(_follows(stat) and stat.prev_base_file is None for stat in bases.values())
    previous = _previous_slices(change, source) if logs or change.replaced or unnamed or _has_ids(change) else {}
    found = [
        *(_rewritten(group, stat, previous.get(group)) for group, stat in bases.items()),
        *(_appended(group, stats, previous.get(group)) for group, stats in logs.items()),
        *_replaced(change, previous),
    ]
    return tuple(replace(change_of_slice, number=number) for number, change_of_slice in enumerate(found))


def current_slices(source: Source) -> Iterator[SliceChange]:
    """All file groups of the table as new ones. Cost: that of a view of the table."""
    view = load_view(source.storage, source.table.timeline, lister=source.table.lister)
    numbered = enumerate(file_slice for slices in view.latest.values() for file_slice in slices)
    for number, file_slice in numbered:
        after = slice_files(file_slice.base, file_slice.logs)
        yield SliceChange(
            number=number,
            group=file_slice.group,
            before=None,
            after=after,
            size=file_slice.size,
            instant_time=file_slice.instant_time,
        )


def _previous_slices(change: Change, source: Source) -> Mapping[FileGroupId, FileSlice]:
    paths = {*change.added, *change.replaced}
    view = load_view(source.storage, source.table.timeline, paths, lister=source.table.lister)
    return {file_slice.group: file_slice for slices in view.latest.values() for file_slice in slices}


def _has_ids(change: Change) -> bool:
    """Whether columns may have other names in older files, which only a view tells."""
    return change.metadata is not None and bool(change.metadata.extra.get(INTERNAL_SCHEMA_KEY))


def _follows(stat: WriteStat) -> bool:
    return stat.prev_commit not in (None, NO_PREVIOUS_COMMIT)


def _rewritten(group: FileGroupId, stat: WriteStat, previous: FileSlice | None) -> SliceChange:
    before = None
    if stat.prev_base_file:
        folder = f"{group.partition_path}/" if group.partition_path else ""
        base = previous.base if previous is not None else None
        is_same = base is not None and str(base.name) == stat.prev_base_file
        before = SliceFiles(
            folder + stat.prev_base_file,
            (),
            source=base.source if base and is_same else None,
            names=None if base is None else base.names,
        )
    elif _follows(stat) and previous is not None:
        before = slice_files(previous.base, previous.logs)
    return SliceChange(
        number=0,
        group=group,
        before=before,
        after=SliceFiles(stat.path, ()),
        inserts=stat.num_inserts,
        deletes=stat.num_deletes,
        size=2 * stat.file_size_in_bytes,
    )


def _appended(group: FileGroupId, stats: list[WriteStat], previous: FileSlice | None) -> SliceChange:
    paths = tuple(dict.fromkeys(stat.path for stat in stats if stat.path))
    before = None if previous is None else slice_files(previous.base, previous.logs)
    kept = () if before is None else tuple(log for log in before.logs if log not in paths)
    return SliceChange(
        number=0,
        group=group,
        before=before,
        after=SliceFiles(None, paths) if before is None else replace(before, logs=(*kept, *paths), committed=()),
        own_logs=paths,
        inserts=sum(stat.num_inserts for stat in stats),
        deletes=sum(stat.num_deletes for stat in stats),
        size=(0 if previous is None else previous.size) + sum(stat.file_size_in_bytes for stat in stats),
    )


def _replaced(change: Change, previous: Mapping[FileGroupId, FileSlice]) -> Iterator[SliceChange]:
    for partition, ids in change.replaced.items():
        for file_id in ids:
            file_slice = previous.get(FileGroupId(partition, file_id))
            if file_slice is not None:
                files = slice_files(file_slice.base, file_slice.logs)
                yield SliceChange(number=0, group=file_slice.group, before=files, after=None, size=file_slice.size)
