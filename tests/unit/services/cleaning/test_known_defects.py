"""Situations in which cleaners and archivers of JVM Hudi lost files, kept them for ever, or broke reads."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import pytest
from tests.support.crashes import effects_of, opened, prepared, rows
from tests.support.hooks import once_at
from tests.support.table_builder import TableBuilder
from tests.support.tables import CountingLocks, StepClock, contents, environment, open_table
from tests.support.zones import zone_of_machine

import pyhudi
from pyhudi.environment import Environment
from pyhudi.errors import PermissionDeniedError
from pyhudi.format.timeline.instant import Action, InstantState
from pyhudi.services.cleaning import execute
from pyhudi.services.cleaning.execute import clean, execute_clean, pending_cleans, schedule_clean
from pyhudi.services.cleaning.plan import PlannedClean
from pyhudi.services.frame.service import ServiceCall
from pyhudi.storage.protocol import Storage
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage
from pyhudi.transaction.locks.in_process import HeldMutex

HOUR = 3_600_000
NO_CLEAN = {"hoodie.clean.automatic": "false"}
RETAIN_TWO = {"hoodie.clean.commits.retained": "2"}
BY_HOURS = {"hoodie.clean.policy": "KEEP_LATEST_BY_HOURS", "hoodie.clean.hours.retained": "3"}
BY_VERSIONS = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}
ARCHIVES = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", **RETAIN_TWO}


def update(storage: Storage, city: str, note: str, *, at_ms: int | None = None, **options: str) -> str:
    """A new version of the record 1 or 3, whichever is in this city; its instant."""
    env = environment(StepClock(at_ms)) if at_ms is not None else None
    table = open_table(storage, env=env, **{"hoodie.compact.inline": "false", **options})
    return table.upsert(rows((1 if city == "oslo" else 3, city, 10, note))).instant


def base_files(storage: Storage, partition: str = "") -> set[str]:
    found = (one.path for one in list_data_files(storage))
    return {path for path in found if path.startswith(partition) and path.endswith(".parquet")}


def actions(storage: Storage) -> list[Action]:
    return [one.action for one in load_table(storage).timeline.instants if one.state is InstantState.COMPLETED]


def test_plan_of_which_files_are_gone_already_is_completed_and_nothing_is_planned_again() -> None:
    storage = prepared(TableBuilder(9, "cow"))
    for number in range(6):
        update(storage, "oslo", f"u{number}", **NO_CLEAN)
    call = opened(storage).handle.service_call(RETAIN_TWO, call="clean")
    schedule_clean(call.reloaded())
    plan = opened(storage).services.plan_clean(hudi_options={**RETAIN_TWO, "hoodie.clean.incremental.enabled": "false"})
    gone = sorted(base_files(storage, "city=oslo"))[: plan["deletes"].to_pylist().count(True) // 2]
    for path in gone:
        storage.delete(path)

    assert gone
    opened(storage).services.clean(hudi_options=RETAIN_TWO)

    assert not pending_cleans(load_table(storage).timeline)
    assert opened(storage).services.clean(hudi_options=RETAIN_TWO) is None
    assert contents(storage)


def test_clean_that_could_not_delete_stays_and_nothing_after_it_is_archived(caplog: pytest.LogCaptureFixture) -> None:
    inner = prepared(TableBuilder(9, "cow"))

    def refuse(operation: str, path: str) -> None:
        if operation == "delete" and path.startswith("city="):
            raise PermissionDeniedError("not allowed", path=path)

    storage = FaultStorage(inner, before=refuse)
    with caplog.at_level(logging.WARNING):
        for number in range(12):
            update(storage, "oslo", f"u{number}", **ARCHIVES, **{"hoodie.archive.automatic": "true"})

    [planned] = pending_cleans(load_table(inner).timeline)
    assert "clean after it failed" in caplog.text
    timeline = load_table(inner).timeline
    after = [one for one in timeline.completed_writes if one.requested_time > planned.requested_time]
    assert len(after) >= 9
    opened(inner, later=True, **ARCHIVES).upsert(rows((1, "oslo", 10, "last")))
    assert not pending_cleans(load_table(inner).timeline)


@pytest.mark.parametrize("kind", [TableBuilder(9, "cow"), TableBuilder(8, "mor"), TableBuilder(6, "cow")], ids=str)
def test_state_of_so_many_hours_ago_is_the_same_before_and_after_each_clean(kind: TableBuilder) -> None:
    storage, now = prepared(kind), StepClock().ms
    states: dict[int, set[tuple[object, ...]]] = {}
    for hour in range(1, 9):
        at_ms = now + hour * HOUR
        update(storage, "oslo", f"u{hour}", at_ms=at_ms, **NO_CLEAN)
        states[at_ms] = contents(storage)
        instant = load_table(storage).timeline.completed_writes[-1].requested_time
        states[at_ms] = _as_of(storage, instant)
        env = environment(StepClock(at_ms + HOUR // 2))
        open_table(storage, env=env).services.clean(hudi_options=BY_HOURS)
        # Three hours before the clean the write before the last three was the newest.
        retained = load_table(storage).timeline.completed_writes[-4:]
        expected = list(states.values())[-4:]
        for write, rows_then in zip(retained[-len(expected) :], expected, strict=True):
            assert _as_of(storage, write.requested_time) == rows_then, (hour, write)


def _as_of(storage: Storage, instant: str) -> set[tuple[object, ...]]:
    found = opened(storage).scan(["id", "city", "ts", "note"], as_of=instant).to_arrow()
    return {tuple(row.values()) for row in found.to_pylist()}


def test_clean_by_hours_does_not_depend_on_the_zone_of_the_cleaner_where_the_table_names_utc() -> None:
    chosen = []
    for zone in ("UTC", "America/Los_Angeles"):
        utc = TableBuilder(9, "cow", options={"hoodie.table.timeline.timezone": "UTC"})
        storage, now = utc.insert((1, "oslo", 1, "a"), (3, "rome", 1, "c")).build(), StepClock().ms
        for hour in range(1, 9):
            with zone_of_machine(("Asia/Tokyo", zone)[hour % 2]):
                update(storage, "oslo", f"u{hour}", at_ms=now + hour * HOUR, **NO_CLEAN)
        env = environment(StepClock(now + 8 * HOUR + HOUR // 2))
        with zone_of_machine("Asia/Tokyo"):
            plan = open_table(storage, env=env).services.plan_clean(hudi_options=BY_HOURS)
        chosen.append(list(zip(plan["instant"].to_pylist(), plan["deletes"].to_pylist(), strict=True)))
    assert [deletes for _, deletes in sorted(chosen[0])].count(True) == 5
    assert [deletes for _, deletes in sorted(chosen[0])] == [deletes for _, deletes in sorted(chosen[1])]


def test_partition_that_is_no_longer_written_is_cleaned_as_others_go_on() -> None:
    storage = prepared(TableBuilder(9, "cow"))
    for number in range(3):
        update(storage, "oslo", f"u{number}", **RETAIN_TWO)
    assert len(base_files(storage, "city=oslo")) > 1

    for number in range(3):
        update(storage, "rome", f"u{number}", **RETAIN_TWO)

    assert len(base_files(storage, "city=oslo")) == 1


def test_reader_that_planned_before_an_overwrite_ends_under_each_policy() -> None:
    for policy in (RETAIN_TWO, BY_HOURS, BY_VERSIONS):
        storage = prepared(TableBuilder(9, "cow"))
        before = contents(storage)
        scan = opened(storage).scan(["id", "city", "ts", "note"])

        opened(storage, **policy).insert_overwrite(rows((1, "oslo", 20, "over"), (3, "rome", 20, "over")))

        assert {tuple(row.values()) for row in scan.to_arrow().to_pylist()} == before, policy


def test_merge_targets_of_a_long_write_are_there_when_it_commits() -> None:
    inner = prepared(TableBuilder(9, "cow"))

    def many_commits() -> None:
        for number in range(20):
            update(inner, "rome", f"u{number}", **{"hoodie.clean.commits.retained": "1"})

    storage = FaultStorage(inner, before=once_at("put_if_absent", ".inflight", many_commits))
    update(storage, "oslo", "late", **NO_CLEAN)

    assert {(one, note) for one, _, _, note in contents(inner)} == {(1, "late"), (2, "a"), (3, "u19")}


def test_archiving_deletes_completed_instants_one_by_one_oldest_first() -> None:
    for version in (6, 9):
        storage = prepared(TableBuilder(version, "cow"))
        for number in range(9):
            update(storage, "oslo", f"u{number}", **RETAIN_TWO)
        effects = effects_of(storage, lambda table: table.services.archive(hudi_options=ARCHIVES))
        deleted = [one.path for one in effects if one.name == "delete" and one.path.endswith(("commit", ".clean"))]
        assert len(deleted) > 4
        assert [path.rpartition("/")[2][:17] for path in deleted] == sorted(p.rpartition("/")[2][:17] for p in deleted)


def test_of_two_cleaners_that_plan_at_once_one_puts_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = prepared(TableBuilder(9, "cow"))
    for number in range(5):
        update(storage, "oslo", f"u{number}", **NO_CLEAN)
    call = opened(storage).handle.service_call(RETAIN_TWO, call="schedule").reloaded()
    plan, others = execute.planned_clean, []

    def plan_beside_another(given: ServiceCall, *, explains: bool, spares_readers: bool) -> PlannedClean:
        planned = plan(given, explains=explains, spares_readers=spares_readers)
        monkeypatch.undo()
        others.append(schedule_clean(call))
        return planned

    monkeypatch.setattr(execute, "planned_clean", plan_beside_another)
    assert schedule_clean(call) is None

    [planned] = pending_cleans(load_table(storage).timeline)
    assert [planned.requested_time] == others
    assert execute_clean(call.reloaded(), planned) is not None
    assert execute_clean(call.reloaded(), planned) is None
    assert clean(call) is None


@dataclass
class OnceLocks(CountingLocks):
    """A mutex that fails where a holder asks for it again, instead of waiting for itself."""

    is_held: bool = False

    def acquire(self, storage: Storage, environment: Environment, *, wait_ms: int) -> HeldMutex:
        assert not self.is_held, "asked for the table lock while holding it"
        held = super().acquire(storage, environment, wait_ms=wait_ms)
        self.is_held = True
        return Held(held.mutex, self)


@dataclass(frozen=True)
class Held(HeldMutex):
    """The mutex of `OnceLocks` while it is held."""

    locks: OnceLocks

    def release(self) -> None:
        self.locks.is_held = False
        self.mutex.release()


def test_no_service_after_a_write_asks_for_the_table_lock_while_holding_it() -> None:
    storage, locks = prepared(TableBuilder(9, "mor")), OnceLocks()
    options = {**ARCHIVES, "hoodie.archive.automatic": "true", "hoodie.compact.inline": "true"}
    for number in range(8):
        env = replace(environment(), locks=locks)
        table = open_table(storage, env=env, **options, **{"hoodie.compact.inline.max.delta.commits": "2"})
        assert isinstance(table, pyhudi.HudiTable)
        table.upsert(rows((1, "oslo", 10 + number, f"u{number}")))
    assert {Action.CLEAN, Action.COMMIT} <= set(actions(storage))
    assert locks.taken > 20
