"""Plans a restore: what it rolls back, in which order, and which files that deletes. Only reads.

The table goes back to the state after one completed write, the target. What came later is rolled back, newest first, so
that readers see at each moment a state that the table once had. Writes that are pending were not completed when the
target was, so they are rolled back, too; their writers fail at their commits. Plans of services that are older than the
target stay: their input is part of the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyhudi.environment import Environment
from pyhudi.errors import (
    ConfigError,
    CorruptDataError,
    HistoryNotRetainedError,
    InvalidRequestError,
    WriteConflictError,
)
from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.log.blocks import BlockType
from pyhudi.format.metadata.savepoint import SavepointMetadata
from pyhudi.format.timeline.instant import Action, Instant, InstantState, instant_time_from_user
from pyhudi.io.log.scan import scan_blocks
from pyhudi.services.cleaning.execute import load_clean_plan, pending_cleans
from pyhudi.services.rollback.plan import Leftovers, find_leftovers
from pyhudi.storage.protocol import FileInfo
from pyhudi.table.file_slice import FileSlice
from pyhudi.table.instant_times import table_zone
from pyhudi.table.lister import list_data_files
from pyhudi.table.retention import load_cleaned
from pyhudi.table.savepoints import (
    archived_after,
    comes_after,
    completed_write,
    load_savepoints,
    savepoint_named,
    view_after,
)
from pyhudi.table.state import TableState
from pyhudi.table.timeline import position_of
from pyhudi.transaction.heartbeat import HeartbeatSettings
from pyhudi.transaction.plan_fencing import is_running

_NOT_A_DATA_BLOCK = (BlockType.CORRUPT, BlockType.COMMAND)
NAMED_MAX = 10
"""How many files an error names."""


@dataclass(frozen=True, slots=True)
class PastState:
    """A state of the table of which every file is there.

    `slices`: the newest slice of each file group, by partition path. `listed`: all data files of the table now.
    """

    slices: Mapping[str, tuple[FileSlice, ...]] = field(repr=False)
    listed: tuple[FileInfo, ...] = field(repr=False)

    @property
    def paths(self) -> frozenset[str]:
        """The files of the state, relative to the table."""
        return frozenset(path for slices in self.slices.values() for file_slice in slices for path in file_slice.paths)


@dataclass(frozen=True, slots=True)
class PlannedRestore:
    """What a restore would do. `instants`: what it rolls back, in this order. `state`: what comes back."""

    target: Instant
    instants: tuple[Instant, ...]
    state: PastState = field(repr=False)

    @property
    def undone(self) -> frozenset[str]:
        """The requested times of what is rolled back."""
        return frozenset(instant.requested_time for instant in self.instants)

    def leftovers(self, table: TableState) -> Iterator[tuple[Instant, Leftovers]]:
        """The files that the rollback of each instant deletes. Cost: see `find_leftovers`, without the listing."""
        for instant in self.instants:
            yield instant, find_leftovers(table, instant, listed=self.state.listed, undone=self.undone)


def plan_restore(table: TableState, to: str, settings: HeartbeatSettings, environment: Environment) -> PlannedRestore:
    """The restore to the state that `to` means, as `target_of` says.

    Cost: one listing of the table, a read per savepoint, per write that this process does not know and per later clean;
    two requests per later plan; in version 6 the block headers of later file slices; the archive, where there is one.

    Raises `InvalidRequestError` for a target that is no completed write of the active timeline, for a later write that
    has a savepoint, and where later writes are archived; `WriteConflictError` for a later plan that a process is
    executing; otherwise as `audit`.
    """
    savepoints = load_savepoints(table.storage, table.timeline)
    target = completed_write(table.timeline, target_of(table, to, savepoints))
    later = [instant for instant in table.timeline.instants if comes_after(instant, target)]
    for instant in later:
        if instant.requested_time in savepoints:
            raise InvalidRequestError(
                "a later write has a savepoint: delete it first; nothing was changed",
                instant=target.requested_time,
                savepoint=instant.requested_time,
                name=savepoints[instant.requested_time].name,
            )
    _check_not_archived(table, target)
    _check_not_running(table, later, settings, environment)
    state = audit(table, target, verb="be restored to")
    if target.requested_time in savepoints:
        _check_files(target, savepoints[target.requested_time].paths, state, later)
    planned = PlannedRestore(target, tuple(sorted(later, key=_place, reverse=True)), state)
    if not table.version.has_completion_times:
        _check_slices(table, planned)
    return planned


def target_of(table: TableState, to: str, savepoints: Mapping[str, SavepointMetadata]) -> str:
    """The instant time of the write after which the table was as `to` means: an instant, a savepoint's name or a time.

    A time is that of the write which was completed last by then; in table version 6, which has no completion times, of
    the one which began last. Digits without separators are an instant: with a wrong digit they must not mean another
    write. Raises `InvalidRequestError` where the active timeline has no write that was completed by a time.
    """
    named = savepoint_named(savepoints, to) or to
    if named.isdecimal():
        return named
    try:
        time = instant_time_from_user(to, table_zone(table.config))
    except ConfigError:
        return to
    by_then = [write for write in table.timeline.completed_writes if position_of(write) <= time]
    if not by_then:
        raise InvalidRequestError(
            "no write of the active timeline was completed by this time; nothing was changed",
            time=time,
            earliest=table.timeline.first_time,
        )
    return max(by_then, key=position_of).requested_time


def _place(instant: Instant) -> tuple[bool, str]:
    """Pending writes go first, for nothing depends on them; then by completion, and plans by when they were made."""
    is_plan = instant.action in (Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING)
    return instant.state is not InstantState.COMPLETED and not is_plan, position_of(instant)


def _check_not_archived(table: TableState, target: Instant) -> None:
    """Archived writes cannot be rolled back, also such as began before the target and completed after it."""
    archived = archived_after(table.storage, table.timeline, target)
    if archived:
        raise InvalidRequestError(
            "later writes are archived, so that they cannot be rolled back; nothing was changed",
            instant=target.requested_time,
            archived=min(archived),
        )


def _check_not_running(
    table: TableState, later: Sequence[Instant], settings: HeartbeatSettings, environment: Environment
) -> None:
    for instant in later:
        if instant.state is InstantState.COMPLETED or instant in table.timeline.pending_writes:
            continue
        if is_running(table.storage, table.version, instant, settings, environment):
            raise WriteConflictError(
                "another process is executing a plan that is younger than the target: let it end first; nothing was "
                "changed",
                winner=instant.requested_time,
                action=instant.action.value,
            )


def _check_files(target: Instant, named: frozenset[str], state: PastState, later: Sequence[Instant]) -> None:
    """The files that the savepoint names must be there, but for those of writes that it does not keep."""
    sizes = {info.path: info.size for info in state.listed}
    gone = {instant.requested_time for instant in later}
    missing = []
    for path in sorted(named):
        name = parse_data_file(path.rpartition("/")[2])
        if (name is None or name.instant_time not in gone) and not sizes.get(path):
            missing.append(path)
    if missing:
        raise CorruptDataError(
            "files that the savepoint keeps are missing or empty; nothing was changed",
            path=missing[0],
            instant=target.requested_time,
            missing=missing[:10],
        )


def _check_slices(table: TableState, planned: PlannedRestore) -> None:
    """In version 6, refuse if a slice that a later instant begins has a block of a write that stays.

    No writer of Hudi appends to a slice that is younger than its write. The logs are deleted with the slice.
    """
    staying = {
        write.requested_time for write in table.timeline.completed_writes if write.requested_time not in planned.undone
    }
    for info in _later_logs(planned):
        for block in scan_blocks(table.storage, info.path):
            if block.kind not in _NOT_A_DATA_BLOCK and block.instant_time in staying:
                raise CorruptDataError(
                    "a log that this restore would delete has rows of a write that stays; nothing was changed",
                    path=info.path,
                    instant=block.instant_time,
                )


def _later_logs(planned: PlannedRestore) -> Iterator[FileInfo]:
    for info in planned.state.listed:
        name = parse_data_file(info.name)
        if isinstance(name, LogFileName) and not name.is_cdc and name.instant_time in planned.undone:
            yield info


def audit(table: TableState, write: Instant, *, verb: str) -> PastState:
    """The state of the table after a completed write of its active timeline.

    `verb`: what the caller is about to do, for messages. Cost: one listing of the table; one read per completed write
    that this process does not know, and per clean that began after the write.

    Raises `HistoryNotRetainedError` where cleaners have deleted files of the state, `CorruptDataError` where others
    are missing or cut off, and `WriteConflictError` where a clean that is planned names files of the state.
    """
    storage = table.storage
    listed = tuple(list_data_files(storage))
    view = view_after(storage, table.timeline, write, listed)
    past = view.timeline
    state = PastState(view.latest, listed)
    cleaned = load_cleaned(storage, view, since=write.requested_time)
    counted = past.completed_times
    if lost := cleaned.lost_at(lambda time: time in counted or past.starts_after(time)):
        missing = sorted(lost.values())
        raise HistoryNotRetainedError(
            f"cleaners have deleted files of this state, so that the table cannot {verb} it; nothing was changed",
            instant=write.requested_time,
            path=missing[0],
            missing=missing[:NAMED_MAX],
            earliest=cleaned.needless_from,
        )
    _check_cleans(table, state, write, verb)
    return state


def _check_cleans(table: TableState, state: PastState, write: Instant, verb: str) -> None:
    """A clean may be executed by anyone at any time, and deletes what its plan names."""
    for clean in pending_cleans(table.timeline):
        plan = load_clean_plan(table.storage, clean, table)
        if plan is not None and (shared := sorted(plan.paths & state.paths)):
            raise WriteConflictError(
                f"a clean that is planned is about to delete files of this state, so that the table cannot {verb} it; "
                "nothing was changed: choose a newer write, or give the clean up by "
                f'recovery.rollback("{clean.requested_time}"), if it has not begun',
                instant=write.requested_time,
                winner=clean.requested_time,
                action=clean.action.value,
                files=shared[:NAMED_MAX],
            )
