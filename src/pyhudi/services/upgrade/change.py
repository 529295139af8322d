"""Changing the version of a table: one leg after the other, each of which is whole by itself."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi.config.table_config import TableConfig
from pyhudi.errors import WriteConflictError
from pyhudi.format.timeline.table_version import TABLE_VERSIONS, TableVersion
from pyhudi.services.frame.service import ServiceCall
from pyhudi.services.upgrade.checks import check_changeable, check_compacted, check_logs, check_nothing_runs
from pyhudi.services.upgrade.properties import Leg, legs_between, properties_after
from pyhudi.services.upgrade.steps import STEPS, Move, Step, delete_leftovers, move_of
from pyhudi.storage.naming import naming
from pyhudi.transaction.locks.table_lock import table_lock


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChanged:
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
        check_compacted(call.table)
        check_logs(call.table, leg)
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
