"""The steps of each change of version, in order, and what each of them does and why.

The steps `before` run without the table lock and are services as on any day: a crash among them leaves a table of the
old version. The others hold the lock. They put the timeline of the new version beside the old one, where no reader of
the old version looks; then one put of `hoodie.properties` makes the change; then what only the old version needs goes.
A crash before that put leaves a table of the old version, one after it a table of the new version, each whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pyhudi.config.enums import CompactionStrategy, TableType
from pyhudi.config.options_cleaning import CleaningOptions
from pyhudi.config.table_config import TableConfig
from pyhudi.format.avro.container import CONTAINER_BYTES_MAX
from pyhudi.format.metadata.clean import CleaningPolicy
from pyhudi.format.timeline.instant import InstantState, format_instant_time, parse_instant_file_name
from pyhudi.format.timeline.table_version import V6, V8, TableVersion
from pyhudi.services.cleaning.execute import clean, execute_clean, pending_cleans
from pyhudi.services.compaction.execute import run_compaction, run_pending_compactions
from pyhudi.services.compaction.schedule import schedule_compaction
from pyhudi.services.frame.service import ServiceCall
from pyhudi.services.rollback.rollback import roll_back_failed_writes
from pyhudi.services.upgrade.conversion import (
    InstantFile,
    archived_write_times,
    in_other_layout,
    put_archive_logs,
    put_history,
    write_bounds,
)
from pyhudi.services.upgrade.properties import Leg, properties_after
from pyhudi.storage.bounded import read_at_most
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.instant_times import table_zone
from pyhudi.table.metadata_table import drop_metadata_table, has_metadata_table
from pyhudi.table.state import LEFT_MARK, TableState, put_properties
from pyhudi.table.timeline import WRITE_ACTIONS, instant_path
from pyhudi.transaction.locks.table_lock import HeldLock


@dataclass(frozen=True, slots=True)
class Move:
    """A leg under way. `properties`: those of the table in the new version. `lock`: None for the steps before it.

    `bounds`: on the way from version 6, by the requested time of each write, archived or not, that of the next one.
    """

    call: ServiceCall
    leg: Leg
    properties: Mapping[str, str] = field(repr=False)
    target: TableVersion
    lock: HeldLock | None = None
    bounds: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def storage(self) -> Storage:
        """The table's store."""
        return self.call.table.storage

    @property
    def table(self) -> TableState:
        """The table in the old version."""
        return self.call.table

    def check_held(self) -> None:
        """Raise `LockLostError` unless the table lock is still held."""
        if self.lock is not None:
            self.lock.check_held()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a leg: its name, what it does and why, and the code. `is_needed`: whether a table needs it."""

    name: str
    what: str
    why: str
    run: Callable[[Move], None] = field(repr=False)
    is_needed: Callable[[TableState], bool] = field(default=lambda _: True, repr=False)
    under_lock: bool = True


def _recover(move: Move) -> None:
    call = move.call
    roll_back_failed_writes(call.table, call.settings, call.environment)


def _compact(move: Move) -> None:
    call = move.call.reloaded()
    everything = replace(call.config.compaction, strategies=(CompactionStrategy.UNBOUNDED,))
    call = replace(call, config=replace(call.config, compaction=everything))
    run_pending_compactions(call)
    if (planned := schedule_compaction(call)) is not None:
        run_compaction(call, planned)


def _finish_cleans(move: Move) -> None:
    call = move.call.reloaded()
    for instant in pending_cleans(call.table.timeline):
        execute_clean(call, instant)


def _clean_logs(move: Move) -> None:
    call = move.call.reloaded()
    newest = replace(
        CleaningOptions(), policy=CleaningPolicy.KEEP_LATEST_FILE_VERSIONS, versions_retained=1, trigger_commits=1
    )
    clean(replace(call, config=replace(call.config, cleaning=newest)), spares_readers=False)


def _make_room(move: Move) -> None:
    """Delete what a change that died has put into the folders of the new version, or a previous one left there."""
    _delete_timeline(move.storage, move.target, move.lock)


def _put_timeline(move: Move) -> None:
    storage, table, target = move.storage, move.table, move.target
    by_time: dict[str, list[FileInfo]] = defaultdict(list)
    for info in storage.list_folder(table.version.timeline_folder).files:
        parsed = parse_instant_file_name(info.name, table.version)
        if parsed is not None:
            by_time[parsed.requested_time].append(info)
    all_files = (info for infos in by_time.values() for info in infos)
    bounds = _bounds_of_active(move.bounds, [_instant_file(move, info, reads=False) for info in all_files])
    for time in sorted(by_time):
        files = [_instant_file(move, info) for info in by_time[time]]
        for instant, data in in_other_layout(files, target, bounds):
            move.check_held()
            storage.put(instant_path(instant, target), data)


def _bounds_of_active(bounds: Mapping[str, str], files: list[InstantFile]) -> Mapping[str, str]:
    """The bounds, with one for the last write where the files of others are younger than the writes after them.

    Then the table was copied, or downgraded, and its files say nothing of when its writes were completed.
    """
    reached = {
        file.instant.requested_time: file.reached
        for file in files
        if file.instant.state is InstantState.COMPLETED and file.instant.action in WRITE_ACTIONS
    }
    last = max(reached, default=None)
    if last is not None and any(time in bounds and put >= bounds[time] for time, put in reached.items()):
        return {**bounds, last: last}
    return bounds


def _instant_file(move: Move, info: FileInfo, *, reads: bool = True) -> InstantFile:
    instant = parse_instant_file_name(info.name, move.table.version)
    assert instant is not None
    reached = format_instant_time(info.modified_ms, table_zone(move.table.config))
    data = read_at_most(move.storage, info.path, CONTAINER_BYTES_MAX) if info.size and reads else b""
    return InstantFile(instant, data, reached, info.path)


def _put_history(move: Move) -> None:
    if move.target.has_completion_times:
        put_history(move.storage, move.table.version, move.target, move.bounds)
    else:
        put_archive_logs(move.storage, move.table.version, move.target)


def _switch(move: Move) -> None:
    move.check_held()
    put_properties(move.storage, move.properties)


def _leave(move: Move) -> None:
    """Delete the timeline of the old version, for a table whose properties name the new one."""
    _delete_timeline(move.storage, move.table.version, move.lock)


def delete_leftovers(table: TableState, lock: HeldLock) -> None:
    """Delete what a change that died has left of a version that the table does not have. Cost: four listings."""
    other = V8 if table.version.layout_version == V6.layout_version else V6
    _delete_timeline(table.storage, other, lock)
    if not has_metadata_table(table):
        drop_metadata_table(table)


def _delete_timeline(storage: Storage, version: TableVersion, lock: HeldLock | None) -> None:
    """Delete a timeline that the properties do not name, the archived one with it.

    Its mark tells readers that still look there to read the properties again.
    """
    folder = version.timeline_folder
    names = storage.list_names(folder)
    instants = [name for name in names if parse_instant_file_name(name, version) is not None]
    if instants or LEFT_MARK in names:
        if lock is not None:
            lock.check_held()
        storage.put(f"{folder}/{LEFT_MARK}", b"")
        for name in instants:
            storage.delete(f"{folder}/{name}")
    if storage.list_recursive(version.history_folder):
        storage.delete_folder(version.history_folder)
    if instants or LEFT_MARK in names:
        storage.delete(f"{folder}/{LEFT_MARK}")


def _drop_metadata_table(move: Move) -> None:
    drop_metadata_table(move.table.reload())


def _has_logs(table: TableState) -> bool:
    return table.config.table_type is TableType.MERGE_ON_READ


def _has_cleans(table: TableState) -> bool:
    return any(instant.state is not InstantState.COMPLETED for instant in pending_cleans(table.timeline))


_RECOVER: Final = Step(
    name="recover",
    what="roll back the writes of dead writers",
    why="the new version would take their files for those of its own writes",
    run=_recover,
    under_lock=False,
)
_COMPACT: Final = Step(
    name="compact",
    what="merge all logs into base files",
    why="the versions name logs, and compare the records in them, in different ways",
    run=_compact,
    is_needed=_has_logs,
    under_lock=False,
)
_CLEANS: Final = Step(
    name="finish cleans",
    what="execute the cleans that are planned",
    why="a clean that runs elsewhere would complete in the timeline that the table leaves",
    run=_finish_cleans,
    is_needed=_has_cleans,
    under_lock=False,
)
_CLEAN_LOGS: Final = Step(
    name="clean",
    what="delete all file slices but those of the newest state; older states of the table cannot be read then",
    why="version 6 would not find the logs of the older slices, nor could Hudi 0.15 read them",
    run=_clean_logs,
    is_needed=_has_logs,
    under_lock=False,
)
_ROOM: Final = Step(
    name="make room",
    what="delete what an interrupted change has left in the new timeline's folders",
    why="it may be out of date",
    run=_make_room,
)
_HISTORY_TO_8: Final = Step(
    name="convert the archive",
    what="put the archived instants into history files of version 8",
    why="version 8 does not read the archive logs of version 6",
    run=_put_history,
)
_HISTORY_TO_6: Final = replace(
    _HISTORY_TO_8,
    what="put the archived instants into archive logs of version 6",
    why="version 6 does not read the history files of version 8",
)
_TIMELINE_TO_8: Final = Step(
    name="convert the timeline",
    what="put every instant into .hoodie/timeline, with a completion time and its metadata as Avro",
    why="that is where, and how, version 8 reads them",
    run=_put_timeline,
)
_TIMELINE_TO_6: Final = replace(
    _TIMELINE_TO_8,
    what="put every instant into .hoodie, without completion times and with its commit metadata as JSON",
    why="that is where, and how, version 6 reads them",
)
_SWITCH: Final = Step(
    name="switch",
    what="put hoodie.properties with the new version, its merge rule and key generator, without a metadata table",
    why="from this put on, and not before, the table has the new version for everyone",
    run=_switch,
)
_LEAVE: Final = Step(
    name="delete the old timeline",
    what="delete the instants and the archive of the old version",
    why="no version of the table reads them now, and a later change of version would find them",
    run=_leave,
)
_METADATA: Final = Step(
    name="drop the metadata table",
    what="delete .hoodie/metadata",
    why="it is a table of the old version; JVM Hudi builds it again at its next write",
    run=_drop_metadata_table,
)

STEPS: Final[Mapping[tuple[int, int], tuple[Step, ...]]] = {
    (6, 8): (_RECOVER, _COMPACT, _CLEANS, _ROOM, _HISTORY_TO_8, _TIMELINE_TO_8, _SWITCH, _LEAVE, _METADATA),
    (8, 9): (_RECOVER, _COMPACT, _CLEANS, _SWITCH, _METADATA),
    (9, 8): (_RECOVER, _COMPACT, _CLEANS, _SWITCH, _METADATA),
    (8, 6): (
        _RECOVER,
        _COMPACT,
        _CLEANS,
        _CLEAN_LOGS,
        _ROOM,
        _HISTORY_TO_6,
        _TIMELINE_TO_6,
        _SWITCH,
        _LEAVE,
        _METADATA,
    ),
}
"""The steps from each version to the next one, up and down, in order."""


def move_of(call: ServiceCall, leg: Leg, lock: HeldLock | None = None) -> Move:
    """The leg on the table as it is now; with a `lock`, to be changed under it. Raises as `properties_after`."""
    properties = properties_after(leg, call.table.config, call.config)
    config = TableConfig.from_properties(properties, path=call.table.config.path)
    target = config.version.in_folders(config.timeline_path, config.history_path)
    bounds: Mapping[str, str] = {}
    if lock is not None and target.has_completion_times and leg.moves_timeline:
        table = call.table
        active = {instant.requested_time for instant in table.timeline.instants if instant.action in WRITE_ACTIONS}
        bounds = write_bounds(active | archived_write_times(table.storage, table.version))
    return Move(call, leg, properties, target, lock, bounds)
