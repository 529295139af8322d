"""Planning a read of change data: what each write of a range did, from which files it is read. On the driver.

For each write and each file group that it touched there is one way to its changes:

    logged      from its change data log, which has the images; or only keys, whose rows are then looked up
    added       all rows of a base file of a new file group
    removed     all rows of a file group that it replaced
    compared    the base file compared with the slice before it, where they were not logged
    appended    the keys of its log blocks, and their rows before and after it

Table services change no rows. The range is one of positions on the timeline, as for other incremental reads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pyhudi.config.read_config import EARLIEST, ReadConfig
from pyhudi.errors import ConfigError, HistoryNotRetainedError, InvalidRequestError, UnsupportedFeatureError
from pyhudi.format.file_names import BaseFileName, parse_data_file
from pyhudi.format.log.cdc import LoggingMode
from pyhudi.format.metadata.commit import CommitMetadata, WriteStat
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.schema.meta_columns import without_meta_columns
from pyhudi.format.schema.stored_names import NamesByWrite
from pyhudi.format.timeline.instant import instant_time_from_user
from pyhudi.io.log.block_filter import BlockFilter
from pyhudi.merge.rules import Merger
from pyhudi.metadata_table.lister import load_read_view
from pyhudi.read.cdc.plan import ChangePlan, ChangeTask
from pyhudi.read.scan import ScanSlice, check_settled, in_range, plan_slices, timeline_positions
from pyhudi.storage.bounded import at_once
from pyhudi.storage.naming import naming
from pyhudi.table.archive.history import archived_metadata
from pyhudi.table.archive.writes import block_filter, with_archive
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.file_slice import FileGroupId, FileSlice
from pyhudi.table.file_system_view import FileSystemView
from pyhudi.table.instant_times import table_zone
from pyhudi.table.retention import Cleaned, load_cleaned
from pyhudi.table.state import TableState

SERVICES = frozenset(
    {
        WriteOperation.COMPACT,
        WriteOperation.LOG_COMPACT,
        WriteOperation.CLUSTER,
        WriteOperation.BUCKET_RESCALE,
        WriteOperation.INDEX,
        WriteOperation.ALTER_SCHEMA,
    }
)
"""Operations that change no rows."""


def plan_changes(
    table: TableState, config: ReadConfig, mergers: Sequence[Merger] = (), *, typed: bool = False
) -> ChangePlan:
    """Resolve a read of the changes that were written after `config.begin` and until `config.end`.

    `typed`: images are structs of the table's columns, not JSON. Cost: as an incremental scan, and a read for each
    write of the range; the archived timeline too if the range reaches back to it.

    Raises:
        ConfigError: a time cannot be parsed, or the range ends before it begins.
        InvalidRequestError: the table does not log changes (`hoodie.table.cdc.enabled`).
        HistoryNotRetainedError: cleaners have deleted files that the read needs; `earliest` is where to begin instead.
        HistoryNotSettledError: in table version 6, a write of the range is still running.
        UnsupportedFeatureError: the table has no meta columns, or a merger that the call does not give.
    """
    if not table.config.cdc_enabled:
        raise InvalidRequestError(
            "the table does not capture changes: switch it on with table.alter.capture_changes() or ALTER TABLE … SET"
            " TBLPROPERTIES ('hoodie.table.cdc.enabled' = 'true'), or read the changed rows as they are at the end"
            " (hoodie.datasource.query.incremental.format=latest_state)",
            path=table.config.path,
        )
    if not table.config.populate_meta_fields:
        raise UnsupportedFeatureError(
            "change data needs the meta columns, which this table does not keep (hoodie.populate.meta.fields=false)",
            path=table.config.path,
        )
    with naming(table.storage):
        return _Planner.of(table, config).plan(config, mergers, typed=typed)


@dataclass(frozen=True, slots=True)
class _Found:
    """Changes of one write in one group, as slices. Fields as of `ChangeTask`; `appends`: to logs."""

    instant_time: str
    position: str
    group: FileGroupId
    before: FileSlice | None = None
    after: FileSlice | None = None
    logs: tuple[tuple[str, int], ...] = ()
    appends: bool = False


@dataclass(frozen=True)
class _Planner:
    table: TableState
    positions: Mapping[str, str]
    written: Mapping[str, str]
    view: FileSystemView
    cleaned: Cleaned

    @staticmethod
    def of(table: TableState, config: ReadConfig) -> _Planner:
        zone = table_zone(table.config)
        begin = EARLIEST if config.begin == EARLIEST else instant_time_from_user(config.begin, zone)
        end = instant_time_from_user(config.end, zone) if config.end is not None else None
        if end is not None and end < begin:
            raise ConfigError("the incremental range ends before it begins", begin=begin, end=end)
        positions = timeline_positions(table, begin)
        written = {write: position for write, position in positions.items() if in_range(position, begin, end)}
        if not table.version.has_completion_times:
            check_settled(table, max(written, default="") if end is None else end, after=begin)
        view = load_read_view(table, wanted=config.metadata_table, skips_damaged=config.skip_damaged_files)
        cleaned = load_cleaned(table.storage, view, since=min(written, default=None))
        return _Planner(table, positions, written, view, cleaned)

    def plan(self, config: ReadConfig, mergers: Sequence[Merger], *, typed: bool) -> ChangePlan:
        found: list[_Found] = []
        lost: dict[str, str] = {}
        compactions: set[str] = set()
        for time, metadata in self._metadata():
            if metadata.operation is WriteOperation.LOG_COMPACT:
                compactions.add(time)
            if metadata.operation in SERVICES:
                continue
            for changes, missing in self._changes_of(time, metadata):
                found.append(changes)
                if missing is not None:
                    lost[self.written[time]] = missing
        if lost:
            raise HistoryNotRetainedError(
                "changes of this range can no longer be read: cleaners have deleted files of it; begin at `earliest`",
                begin=config.begin,
                earliest=max(lost),
                path=lost[max(lost)],
            )
        return self._resolved(config, mergers, found, frozenset(compactions), typed=typed)

    def _metadata(self) -> Iterator[tuple[str, CommitMetadata]]:
        """The writes of the range with their metadata, in the order of their positions."""
        active = [instant for instant in self.table.timeline.completed_writes if instant.requested_time in self.written]
        storage, version = self.table.storage, self.table.version
        loaded = at_once(storage, lambda instant: load_commit_metadata(storage, instant, version), active)
        found = {instant.requested_time: metadata for instant, metadata in zip(active, loaded, strict=True)}
        if len(found) < len(self.written):
            for instant, metadata in archived_metadata(storage, version):
                if instant.requested_time in self.written:
                    found.setdefault(instant.requested_time, metadata)
        yield from sorted(found.items(), key=lambda each: (self.written[each[0]], each[0]))

    def _changes_of(self, time: str, metadata: CommitMetadata) -> Iterator[tuple[_Found, str | None]]:
        """What one write did, group by group; and a missing file for what can no longer be read."""
        by_group: dict[FileGroupId, list[WriteStat]] = defaultdict(list)
        for path, stats in metadata.stats_by_partition.items():
            for stat in stats:
                if stat.path:
                    by_group[FileGroupId(path, stat.file_id)].append(stat)
        for group, written in by_group.items():
            yield self._written_group(time, group, written)
        for path, file_ids in (metadata.replaced_file_ids or {}).items():
            for file_id in file_ids:
                group = FileGroupId(path, file_id)
                before, missing = self._slice(group, time, inclusive=False)
                if before is not None or missing is not None:
                    yield _Found(time, self.written[time], group, before=before), missing

    def _written_group(self, time: str, group: FileGroupId, stats: Sequence[WriteStat]) -> tuple[_Found, str | None]:
        position = self.written[time]
        base = next((stat for stat in stats if _is_base(stat)), None)
        if base is None:
            after, missing = self._slice(group, time, inclusive=True)
            return _Found(time, position, group, after=after, appends=True), missing
        logs = tuple(log for stat in stats for log in (stat.cdc_stats or {}).items())
        mode = self.table.config.change_data_mode
        after, missing = self._own_base(time, base, group)
        gone = next((path for path, _ in logs if path not in self.view.change_logs), None)
        if logs and mode is LoggingMode.DATA_BEFORE_AFTER:
            return _Found(time, position, group, logs=logs), gone
        if logs and mode is LoggingMode.DATA_BEFORE:
            return _Found(time, position, group, after=after, logs=logs), gone or missing
        if base.prev_base_file is None and base.prev_commit in _NO_COMMIT:
            return _Found(time, position, group, after=after), missing
        before, gone_before = self._slice(group, time, inclusive=False)
        return _Found(time, position, group, before, after, logs), gone or missing or gone_before

    def _own_base(self, time: str, stat: WriteStat, group: FileGroupId) -> tuple[FileSlice | None, str | None]:
        """The base file that a write made, alone."""
        known = self.view.groups.get(group)
        files = known.base_files if known is not None else ()
        found = next((file for file in files if file.instant_time == time and file.path == stat.path), None)
        return (None, stat.path) if found is None else (FileSlice(group, time, found), None)

    def _slice(self, group: FileGroupId, time: str, *, inclusive: bool) -> tuple[FileSlice | None, str | None]:
        """The slice of a group before or after a write, and a file of it that is missing."""
        counts = self._counts_until(self.written[time], inclusive=inclusive)
        found, missing = self.view.slice_at(group, counts)
        lost = self.cleaned.lost_at(counts).get(group) if group in self.cleaned.groups else None
        return found, lost or missing

    def _counts_until(self, until: str, *, inclusive: bool) -> Callable[[str], bool]:
        by_time = not self.table.version.has_completion_times

        def counts(write: str) -> bool:
            position = self.positions.get(write)
            if position is None:
                # Not among the writes that were asked for: archived, or in version 6 the name of a slice.
                return self.table.timeline.starts_after(write) or (by_time and write <= until)
            return position <= until if inclusive else position < until

        return counts

    def _resolved(
        self,
        config: ReadConfig,
        mergers: Sequence[Merger],
        found: Sequence[_Found],
        compactions: frozenset[str],
        *,
        typed: bool,
    ) -> ChangePlan:
        joined = _joined(found)
        slices = {
            id(source): source
            for change in joined
            for source in (change.last.before, change.last.after)
            if source is not None
        }
        blocks = self._blocks(compactions)
        rows, scanned = plan_slices(self.table, config, mergers, list(slices.values()), blocks)
        of_slice = dict(zip(slices, scanned, strict=True))

        def scan_slice(file_slice: FileSlice | None) -> ScanSlice | None:
            return None if file_slice is None else of_slice[id(file_slice)]

        names = self._names()
        tasks = tuple(
            ChangeTask(
                instant_time=change.first_time,
                before=scan_slice(change.last.before),
                after=scan_slice(change.last.after),
                logs=change.last.logs,
                names_in_logs=names.of(change.first_time) if names is not None and change.last.logs else None,
                steps=change.steps,
                positions=self._log_positions(change.last.after) if change.steps else {},
                until=self._last_before(change.first_time),
                size=sum(source.size for source in (change.last.before, change.last.after) if source is not None),
            )
            for change in joined
        )
        images = without_meta_columns(rows.schema) if typed else None
        writes = tuple(sorted(self.written, key=lambda time: (self.written[time], time)))
        return ChangePlan(replace(rows, slices=()), tasks, images, writes)

    def _blocks(self, compactions: frozenset[str]) -> BlockFilter:
        """The blocks that count: not those of writes after the range, which may be in logs that were named before."""
        timeline = self.table.timeline
        if not self.table.version.has_completion_times:
            return with_archive(block_filter(timeline, timeline.completed_times - compactions), self.view.archived)
        last = max(self.written.values(), default=EARLIEST)
        ended = frozenset(write for write, position in self.positions.items() if position <= last)
        return BlockFilter(committed=ended, archived_before=min(self.positions, default=""))

    def _names(self) -> NamesByWrite | None:
        """What the columns of today are called in the files of each write; all files of a view have the same."""
        for group in self.view.groups.values():
            for names in (*(base.names for base in group.base_files), *(log.names for log in group.logs)):
                return names
        return None

    def _last_before(self, time: str) -> str | None:
        if self.table.version.has_completion_times:
            return None
        return max((write for write in self.positions if write < time), default=EARLIEST)

    def _log_positions(self, appended: FileSlice | None) -> dict[str, str]:
        if appended is None or not self.table.version.has_completion_times:
            return {}
        return {log.instant_time: log.position for log in appended.logs}


_NO_COMMIT = (None, "", "null")


@dataclass(slots=True)
class _Joined:
    """Changes that one task reads: the appends of several writes to one slice, or one other change."""

    first_time: str
    last: _Found
    steps: tuple[str, ...] = ()


def _joined(found: Sequence[_Found]) -> list[_Joined]:
    joined: list[_Joined] = []
    open_slices: dict[FileGroupId, _Joined] = {}
    for write in found:
        if not write.appends:
            open_slices.pop(write.group, None)
            joined.append(_Joined(write.instant_time, write))
            continue
        previous = open_slices.get(write.group)
        if previous is not None and _same_slice(previous.last, write):
            previous.steps, previous.last = (*previous.steps, write.instant_time), write
            continue
        open_slices[write.group] = _Joined(write.instant_time, write, (write.instant_time,))
        joined.append(open_slices[write.group])
    return joined


def _same_slice(first: _Found, second: _Found) -> bool:
    if first.after is None or second.after is None:
        return False
    return first.after.base == second.after.base


def _is_base(stat: WriteStat) -> bool:
    return isinstance(parse_data_file(stat.path.rpartition("/")[2]), BaseFileName)
