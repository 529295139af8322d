"""Streams of a table: offsets, where a stream starts, and how much of what is there one micro-batch gets.

An offset is a position on the timeline, as `HudiTable.changes` takes it, in the form of JVM Hudi's streams. Where a
limit of files or bytes splits the rows of a range, the offset is a place in the list of its file slices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pyhudi.config.enums import QueryType, TableType
from pyhudi.config.options_streams import START_EARLIEST, START_LATEST
from pyhudi.config.read_config import EARLIEST, ReadConfig
from pyhudi.errors import ConfigError, HistoryNotRetainedError
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.instant import BOOTSTRAP_INSTANTS, Action, Instant, instant_time_from_user
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.read.cdc.plan import ChangePlan
from pyhudi.read.cdc.planning import SERVICES, plan_changes
from pyhudi.read.scan import ScanPlan, ScanSlice, plan_table_scan, timeline_positions
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.instant_times import table_zone
from pyhudi.table.outcome import Outcome, outcome_of
from pyhudi.table.pending_clusterings import instants_of_clusterings
from pyhudi.table.state import TableState
from pyhudi.table.timeline import position_of
from pyhudi.table.written_files import load_written_files

_COMPLETION: Final = "offsetCommitTime"
_INSTANT: Final = "commitTime"
_POSITIONS: Final = (_COMPLETION, _INSTANT, "position")
"""Names of the position: of versions 8 and 9, of version 6, and of earlier streams of pyhudi."""
_TABLE: Final = "table"
"""The name of the table, which earlier streams of pyhudi kept."""
_WRITE: Final = "write"
_UNTIL: Final = "until"
_AFTER: Final = "after"


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """Everything until `position` has been read; of the range from there to `until`, the file groups until `after`.

    `until` and `after` are None where no range was split. `write`: the newest write of the table when the offset was
    made, by which the table is known again: its name may change, and another one may stand at its path.
    """

    position: str
    until: str | None = None
    after: str | None = None
    write: str | None = None
    table: str | None = None

    @staticmethod
    def from_json(offset: Mapping[str, Any]) -> StreamOffset:
        """The offset in a checkpoint, of pyhudi or of JVM Hudi.

        Raises:
            ConfigError: it is that of another kind of source.
        """
        position = next((offset[name] for name in _POSITIONS if name in offset), None)
        if not isinstance(position, str) or not position.isdigit():
            raise ConfigError(
                "the checkpoint is that of a stream of another kind: start the query with a new one",
                offset=dict(offset),
            )
        return StreamOffset(position, *(offset.get(name) for name in (_UNTIL, _AFTER, _WRITE, _TABLE)))

    def to_json(self, version: TableVersion) -> dict[str, str]:
        """The offset as the checkpoint keeps it for a table of a version."""
        position = _COMPLETION if version.has_completion_times else _INSTANT
        values = {position: self.position, _UNTIL: self.until, _AFTER: self.after, _WRITE: self.write}
        return {name: value for name, value in values.items() if value is not None}

    def of(self, table: TableState) -> StreamOffset:
        """The offset, with what the table is known again by."""
        newest = max(table.timeline.completed_times, default=None)
        return replace(self, write=None if newest is None else str(newest), table=None)

    def is_of(self, table: TableState) -> bool:
        """Whether the offset is one of this table.

        False for that of another table, or of one that stood at its path before; and where the timeline has lost all
        that the offset knew of it. Of the offsets of JVM Hudi, and of an empty table, nothing is known: True.

        Cost: nothing while the write of the offset is on the active timeline; otherwise as `outcome_of`, and where it
        does not know the write, a read of the archived timeline.
        """
        if self.write is None:
            return self.table in (None, table.config.name) or _is_position(table, self.position)
        if self.write in BOOTSTRAP_INSTANTS:  # those of all tables
            return not table.version.has_completion_times or _is_position(table, self.until or self.position)
        # A write that was rolled back is unknown once its rollback is; an older one, at the position, may not be.
        return outcome_of(table, self.write) is not Outcome.UNKNOWN or (
            self.position not in BOOTSTRAP_INSTANTS and _is_position(table, self.position)
        )

    def check(self, table: TableState) -> None:
        """Check that the offset is one of this table.

        Raises:
            ConfigError: it is not, see `is_of`.

        Cost: as `is_of`.
        """
        if not self.is_of(table):
            raise ConfigError(
                "the checkpoint is that of a stream of another table, or of one that stood here before; or its newest "
                "write, or that one's rollback, was removed from the archived timeline: start the query with a new "
                "checkpoint, and with the option startOffset if you know where it has to go on",
                table=table.config.name,
                path=table.storage.uri,
                position=self.position,
                write=self.write,
            )


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one micro-batch may have; None: no limit."""

    commits: int | None = None
    files: int | None = None
    bytes: int | None = None

    @property
    def are_set(self) -> bool:
        """Whether there is a limit at all."""
        return self.commits is not None or self.splits

    @property
    def splits(self) -> bool:
        """Whether there is a limit that may split a commit."""
        return self.files is not None or self.bytes is not None


def first_offset(table: TableState, start: str) -> StreamOffset:
    """Where a new query starts that asks for `start`: `earliest`, `latest`, an instant, or a time.

    Raises:
        ConfigError: the text is no time.
    """
    text = start.strip()
    if text.lower() == START_EARLIEST:
        return StreamOffset(EARLIEST).of(table)
    if text.lower() == START_LATEST:
        return StreamOffset(newest_position(table) or EARLIEST).of(table)
    time = instant_time_from_user(text, table_zone(table.config))
    # The instant of a write stands for its completion: what the write itself wrote has been seen.
    return StreamOffset(timeline_positions(table, time).get(time, time)).of(table)


def _is_position(table: TableState, position: str) -> bool:
    """Whether a write of the table, archived ones included, has a position."""
    return position in timeline_positions(table, EARLIEST).values()


def newest_position(table: TableState) -> str | None:
    """The position of the newest completed write; in version 6 of those that no running write comes before.

    Cost: in version 6 a read per pending replace commit, which may be a clustering.
    """
    timeline = table.timeline
    positions = [position_of(instant) for instant in timeline.completed_writes]
    if not table.version.has_completion_times and timeline.pending_writes:
        clusterings = instants_of_clusterings(table.storage, timeline)
        running = (write.requested_time for write in timeline.pending_writes if write.requested_time not in clusterings)
        first = min(running, default=None)
        positions = [position for position in positions if first is None or position < first]
    return max(positions, default=None)


def next_offset(
    table: TableState, config: ReadConfig, start: StreamOffset, target: str, limits: Limits
) -> StreamOffset:
    """The end of the micro-batch that begins at `start`, not after the position `target`; `start` if nothing changed.

    A range is not split while a clustering is pending that would come into it: in version 6, where instants order.
    It would give the rest of the rows other file groups.

    Cost: without limits a read for each write until the first that changed rows; otherwise also that of planning the
    micro-batch.
    """
    # A restore may have removed the newest commits.
    if start.until is None and (target <= start.position or _nothing_changed(table, start.position, target)):
        return start
    if config.change_data:
        ends = _ends(table, start.position, target, limits.commits)
        return _whole(start, ends[0] if ends else target)
    if not limits.are_set:
        return replace(start, position=start.until or target, until=None, after=None)
    strict = replace(config, fall_back_to_full_scan=False)
    if start.until is not None:
        return _end_of_part(start, start.until, plan_batch(table, strict, start, _whole(start, start.until)), limits)
    for until in _ends(table, start.position, target, limits.commits):
        try:
            plan = plan_batch(table, strict, start, _whole(start, until))
        except HistoryNotRetainedError:
            # Cleaners have left no state of this moment; they may have of a later one.
            continue
        return _whole(start, until) if _may_be_clustered(table, until) else _end_of_part(start, until, plan, limits)
    return _whole(start, target)


def plan_change_batch(table: TableState, config: ReadConfig, start: StreamOffset, end: StreamOffset) -> ChangePlan:
    """The changes between two offsets.

    Raises:
        InvalidRequestError: the table does not capture changes.
        HistoryNotRetainedError: files of the micro-batch have been cleaned; names the earliest position.
    """
    changes = replace(config, query_type=QueryType.INCREMENTAL, begin=start.position, end=end.position)
    return plan_changes(table, changes)


def plan_batch(table: TableState, config: ReadConfig, start: StreamOffset, end: StreamOffset) -> ScanPlan:
    """The rows between two offsets, in order of their file groups.

    Raises:
        HistoryNotRetainedError: files of the micro-batch have been cleaned; names the earliest position.
    """
    splits = start.until is not None or end.until is not None
    changes = replace(
        config,
        query_type=QueryType.INCREMENTAL,
        begin=start.position,
        end=start.until or end.until or end.position,
        # The whole table has other file groups than the range, so the rest of a range would not be what is left of it.
        fall_back_to_full_scan=config.fall_back_to_full_scan and not splits,
    )
    plan = plan_table_scan(table, changes)
    if not splits:
        return plan
    slices = sorted(plan.slices, key=_group_of)
    after, last = start.after or "", end.after if end.until is not None else None
    kept = (
        file_slice
        for file_slice in slices
        if after < _group_of(file_slice) and (last is None or _group_of(file_slice) <= last)
    )
    return replace(plan, slices=tuple(kept))


def _may_be_clustered(table: TableState, until: str) -> bool:
    """Whether a pending clustering is going to have a position before the end of a range."""
    if table.version.has_completion_times or not table.timeline.pending_writes:
        return False
    return any(clustering <= until for clustering in instants_of_clusterings(table.storage, table.timeline))


def _nothing_changed(table: TableState, begin: str, target: str) -> bool:
    """Whether no write of a range changed rows. Archived writes count as such that did."""
    active = {write.requested_time: write for write in table.timeline.completed_writes}
    in_range = [write for write in active.values() if begin < position_of(write) <= target]
    if not in_range or not all(_is_service(table, write) or _is_empty(table, write) for write in in_range):
        return False
    positions = timeline_positions(table, begin)
    return all(write in active for write, position in positions.items() if begin < position <= target)


def _is_service(table: TableState, instant: Instant) -> bool:
    """Whether a completed write is a compaction or a clustering. A log compaction counts as a write."""
    if instant.action is Action.REPLACE_COMMIT:
        return load_commit_metadata(table.storage, instant, table.version).operation in SERVICES
    return instant.action is Action.COMMIT and table.config.table_type is TableType.MERGE_ON_READ


def _is_empty(table: TableState, instant: Instant) -> bool:
    """Whether a completed write changed nothing, as a merge without matches. A change of columns is none of these."""
    files = load_written_files(table.storage, table.version, [instant])[instant]
    if files.written or any(files.replaced.values()):
        return False
    return load_commit_metadata(table.storage, instant, table.version).operation is not WriteOperation.ALTER_SCHEMA


def _ends(table: TableState, begin: str, target: str, commits: int | None) -> list[str]:
    """The positions where a micro-batch may end, the best one first."""
    positions = sorted(
        {position for position in timeline_positions(table, begin).values() if begin < position <= target}
    )
    return positions[(commits or len(positions)) - 1 :] or positions[-1:]


def _whole(start: StreamOffset, until: str) -> StreamOffset:
    return replace(start, position=until, until=None, after=None)


def _end_of_part(start: StreamOffset, until: str, plan: ScanPlan, limits: Limits) -> StreamOffset:
    """The offset after as many slices as the limits allow, and at least one."""
    if not limits.splits:
        return _whole(start, until)
    size = 0
    slices = sorted(plan.slices, key=_group_of)
    for count, file_slice in enumerate(slices):
        size += file_slice.size
        too_many = limits.files is not None and count >= limits.files
        too_large = limits.bytes is not None and size > limits.bytes and count > 0
        if too_many or too_large:
            return replace(start, until=until, after=_group_of(slices[count - 1]))
    return _whole(start, until)


def _group_of(scan_slice: ScanSlice) -> str:
    path = scan_slice.files.base or scan_slice.files.logs[0]
    folder, _, name = path.rpartition("/")
    parsed = parse_data_file(name)
    return f"{folder}/{parsed.file_id if parsed is not None else name}"
