"""Changing the version of a table: the checks, then one leg after the other, each of which is whole by itself."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi.config.enums import TableType
from pyhudi.config.table_config import TableConfig
from pyhudi.errors import UnsupportedFeatureError, WriteConflictError
from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.timeline.instant import Action, Instant, InstantState
from pyhudi.format.timeline.table_version import TABLE_VERSIONS, TableVersion
from pyhudi.markup import Shown
from pyhudi.services.frame.service import ServiceCall
from pyhudi.services.upgrade.properties import Leg, legs_between, properties_after
from pyhudi.services.upgrade.steps import STEPS, Move, Step, delete_leftovers, move_of
from pyhudi.storage.naming import naming
from pyhudi.table.features import check_writable
from pyhudi.table.file_system_view import FileSystemView, load_view
from pyhudi.table.pending_clusterings import is_clustering_plan
from pyhudi.table.remembered_files import listed_once
from pyhudi.table.savepoints import load_savepoints
from pyhudi.table.state import TableState
from pyhudi.transaction.conflicts.check import check_nothing_exclusive
from pyhudi.transaction.conflicts.table import Own
from pyhudi.transaction.locks.table_lock import table_lock

_CARRIED = frozenset({Action.SAVEPOINT})
"""Actions whose pending instants mean nothing, and are taken along."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChanged(Shown):
    """What an upgrade or a downgrade did: the versions before and after, and the steps, in order."""

    before: int
    after: int
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step that a change of version would take, with the leg that it belongs to."""

    leg: Leg
    step: Step


def planned_change(call: ServiceCall, target: TableVersion) -> tuple[PlannedStep, ...]:
    """The steps that would lead to this version now, in order. Raises what `change_version` refuses, and as it does."""
    call = call.reloaded()
    legs = legs_between(call.table.version, target)
    _check(call, legs)
    return tuple(PlannedStep(leg, step) for leg in legs for step in _steps(leg, call))


def change_version(call: ServiceCall, target: TableVersion) -> VersionChanged:
    """Take the table to this version, up or down, through the versions between.

    Refuses everything that it can before anything is changed. Of a change that died before, what it left is removed.
    Cost: per leg the table lock, a put of the properties, and on the way from or to version 6 a read, a put and a
    delete per file of the timeline and of the archive; in a merge-on-read table first a compaction, and on the way to
    version 6 a clean of all older file slices, which ends the time travel to them.

    Raises `UnsupportedFeatureError` for what one of the versions cannot hold, and `WriteConflictError` while something
    is pending that is not of a dead writer.
    """
    call = call.reloaded()
    before, legs = call.table.version.number, legs_between(call.table.version, target)
    _check(call, legs)
    taken: list[str] = []
    for leg in legs:
        taken += _go(call.reloaded(), leg)
    if not legs:
        with table_lock(call.table.storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
            delete_leftovers(call.table.reload(), lock)
    return VersionChanged(before=before, after=target.number, steps=tuple(taken))


def _check(call: ServiceCall, legs: tuple[Leg, ...]) -> None:
    check_changeable(call.table, legs)
    config = call.table.config
    for leg in legs:
        config = TableConfig.from_properties(properties_after(leg, config, call.config), path=config.path)


def _steps(leg: Leg, call: ServiceCall) -> tuple[Step, ...]:
    return tuple(step for step in STEPS[leg.origin.number, leg.target.number] if step.is_needed(call.table))


def _go(call: ServiceCall, leg: Leg) -> list[str]:
    steps = _steps(leg, call)
    for step in steps:
        if not step.under_lock:
            step.run(move_of(call, leg))
    storage = call.table.storage
    with naming(storage), table_lock(storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        call = call.reloaded()
        _check_unchanged(call, leg)
        check_changeable(call.table, (leg,))
        check_nothing_runs(call.table)
        if call.table.config.table_type is TableType.MERGE_ON_READ:
            _check_logs(call, leg)
        move: Move = move_of(call, leg, lock)
        for step in steps:
            if step.under_lock:
                step.run(move)
    return [f"{leg}: {step.name}" for step in steps]


def _check_unchanged(call: ServiceCall, leg: Leg) -> None:
    if TABLE_VERSIONS[call.table.version.number] is not leg.origin:
        raise WriteConflictError(
            "another process changed the version of the table first: load the table again",
            table_version=call.table.version.number,
        )


def check_changeable(table: TableState, legs: tuple[Leg, ...]) -> None:
    """Refuse a table whose rows this release must not change, and what one of the versions cannot hold.

    Raises `UnsupportedFeatureError`. Cost: for a downgrade of a merge-on-read table to version 6 a read per savepoint.
    """
    check_writable(table)
    if any(_to_old_logs(leg) for leg in legs) and table.config.table_type is TableType.MERGE_ON_READ:
        _check_savepoints(table)


def _to_old_logs(leg: Leg) -> bool:
    return leg.moves_timeline and not leg.is_upgrade


def _check_savepoints(table: TableState) -> None:
    """Refuse savepoints that keep logs: version 6 would not find them, and no clean may delete them."""
    for instant_time, savepoint in load_savepoints(table.storage, table.timeline).items():
        for path in sorted(savepoint.paths):
            if isinstance(parse_data_file(path.rpartition("/")[2]), LogFileName):
                raise UnsupportedFeatureError(
                    "a savepoint keeps logs, which version 6 would not find: delete it first, or stay",
                    path=path,
                    savepoint=instant_time,
                )


def _check_logs(call: ServiceCall, leg: Leg) -> None:
    """Refuse a merge-on-read table that has logs which the change would lose. Cost: a listing, in tasks of the engine.

    Raises `WriteConflictError`.
    """
    table = call.table
    with listed_once(table.storage, table.timeline, call.lister) as lister:
        view = load_view(table.storage, table.timeline, lister=lister)
    check_compacted(view)
    if _to_old_logs(leg):
        check_bases_of_logs(view)


def check_compacted(view: FileSystemView) -> None:
    """Refuse logs that came after the compaction of a merge-on-read table. Raises `WriteConflictError`."""
    for slices in view.latest.values():
        for file_slice in slices:
            if file_slice.logs:
                raise WriteConflictError(
                    "this table got logs since it was compacted, or a planned clustering holds file groups with logs:"
                    " call this again, or let the clustering run first; the version of the table is as it was",
                    path=file_slice.logs[0].path,
                )


def check_bases_of_logs(view: FileSystemView) -> None:
    """Refuse logs that version 6 would not find: there the name of a log says to which base file it belongs.

    Neither would Hudi 0.15 read their blocks, which have headers that it does not know. Raises `WriteConflictError`.
    """
    for group in view.groups.values():
        bases = {base.instant_time for base in group.base_files}
        strange = next((log for log in group.logs if log.name.instant_time not in bases), None)
        if strange is not None:
            raise WriteConflictError(
                "version 6 would not find the logs of this table that came since it was compacted and cleaned, or that"
                " a plan or another process holds: call this again; the version of the table is as it was",
                path=strange.path,
            )


def check_nothing_runs(table: TableState) -> None:
    """Refuse a table on which something is pending that the change would break.

    Pending clusterings that were only planned are taken along. Raises `WriteConflictError`. Cost: in version 6 a read
    per pending replace commit.
    """
    check_nothing_exclusive(table.timeline, Own.VERSION_CHANGE)
    for instant in table.timeline.instants:
        if (
            instant.state is InstantState.COMPLETED
            or instant.action in _CARRIED
            or _is_planned_clustering(table, instant)
        ):
            continue
        raise WriteConflictError(
            f"a {instant.action.value} is {instant.state.name.lower()} on this table: let it finish, or end its"
            " process and roll it back, and call this again; the version of the table is as it was",
            winner=instant.requested_time,
            action=instant.action.value,
        )


def _is_planned_clustering(table: TableState, instant: Instant) -> bool:
    if instant.state is not InstantState.REQUESTED:
        return False
    return is_clustering_plan(table.storage, table.version, instant)
