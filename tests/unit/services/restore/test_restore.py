"""Restore: the table as it was, files and timeline; what it refuses; and deaths at every change of the store."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

import pytest
from tests.support.cleaning import archive, completed_at, save
from tests.support.crashes import COW, MOR, assert_nothing_left_over, crash_images, opened, prepared, rows
from tests.support.table_builder import TableBuilder
from tests.support.tables import StepClock, contents, environment, open_table

import pyhudi
from pyhudi.errors import (
    CorruptDataError,
    HistoryNotRetainedError,
    HudiError,
    InvalidRequestError,
    WriteConflictError,
)
from pyhudi.format.metadata.restore import RestorePlan, decode_restored_instants, encode_restore_plan
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.services.cleaning.execute import schedule_clean
from pyhudi.storage.protocol import Storage
from pyhudi.table.lister import list_data_files
from pyhudi.table.outcome import Outcome
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path, position_of

KINDS = [*COW, *MOR]
EVERY_KIND = pytest.mark.parametrize("kind", KINDS, ids=str)
NO_CLEAN = {"hoodie.clean.automatic": "false"}
RETAIN_ONE = {"hoodie.clean.commits.retained": "1"}


def updated(storage: Storage, times: int, **options: str) -> list[str]:
    return [opened(storage, **options).upsert(rows((1, "oslo", 10 + n, f"u{n}"))).instant for n in range(times)]


def writes_of(storage: Storage) -> list[InstantTime]:
    return [instant.requested_time for instant in load_table(storage).timeline.completed_writes]


def files_of(storage: Storage) -> set[str]:
    return {info.path for info in list_data_files(storage) if not info.name.startswith(".hoodie")}


def bytes_of(storage: Storage) -> dict[str, bytes]:
    return {info.path: storage.read(info.path) for info in storage.list_recursive("")}


def assert_refused(storage: Storage, to: str, error: type[HudiError], reason: str) -> HudiError:
    """Refused before anything is touched, by `restore` and by `plan_restore`."""
    before = bytes_of(storage)
    with pytest.raises(error, match=reason):
        opened(storage).recovery.plan_restore(to)
    with pytest.raises(error, match=reason) as caught:
        opened(storage).recovery.restore(to)
    assert bytes_of(storage) == before
    return caught.value


def lived(kind: TableBuilder) -> tuple[Storage, str]:
    """A table on which everything came after a target: updates, new groups, replacements, a compaction and a plan."""
    storage = prepared(kind)
    target = writes_of(storage)[-1]
    opened(storage, **NO_CLEAN).upsert(rows((1, "oslo", 10, "u"), (9, "lima", 10, "new")))
    if kind.is_merge_on_read:
        opened(storage).services.compact()
        opened(storage, **NO_CLEAN).upsert(rows((1, "oslo", 11, "after the compaction")))
        assert opened(storage).services.schedule() is not None
        opened(storage, **NO_CLEAN).upsert(rows((1, "oslo", 12, "beside the plan")))
    opened(storage, **NO_CLEAN).insert_overwrite(rows((8, "rome", 13, "only")))
    opened(storage, **NO_CLEAN).delete(rows((9, "lima", 14, "")))
    return storage, target


@EVERY_KIND
def test_table_is_as_it_was_after_the_write_and_goes_on(kind):
    storage = prepared(kind)
    before, files, target = contents(storage), files_of(storage), writes_of(storage)[-1]
    lived_storage, lived_target = lived(kind)
    later = writes_of(lived_storage)[2:]

    planned = opened(lived_storage).recovery.plan_restore(lived_target)
    done = opened(lived_storage).recovery.restore(lived_target)

    assert done.to == lived_target
    assert contents(lived_storage) == before
    assert set(later) <= set(done.rolled_back)
    assert list(dict.fromkeys(planned["instant"].to_pylist())) == list(done.rolled_back)
    deleted = planned.filter(planned["deletes"])["path"].to_pylist()
    assert deleted
    assert not set(deleted) & files_of(lived_storage)
    if kind.version != 6 or not kind.is_merge_on_read:
        assert len(files_of(lived_storage)) == len(files)
    assert_nothing_left_over(lived_storage)
    assert not load_table(lived_storage).timeline.pending_compactions
    table = opened(lived_storage)
    assert {table.recovery.outcome_of(one) for one in later} == {Outcome.ROLLED_BACK}
    assert state_as_of(table, lived_target) == before
    table.upsert(rows((1, "oslo", 30, "next"), (5, "bern", 30, "next")))
    assert contents(lived_storage) == before - {(1, "oslo", 2, "b")} | {
        (1, "oslo", 30, "next"),
        (5, "bern", 30, "next"),
    }
    assert target


def state_as_of(table: pyhudi.HudiTable, instant: str) -> set[tuple[object, ...]]:
    found = table.scan(as_of=instant).to_arrow().select(["id", "city", "ts", "note"]).to_pylist()
    return {tuple(row.values()) for row in found}


@EVERY_KIND
def test_restore_that_dies_anywhere_is_finished_by_the_next_write_or_restore(kind):
    storage, target = lived(kind)
    before = state_as_of(opened(storage), target)
    images = crash_images(storage, lambda table: table.recovery.restore(target))
    for number, (name, image) in enumerate(images, start=kind.version % 4):
        began = any(one.action is Action.RESTORE for one in load_table(image).timeline.instants)
        if number % 2 and began:
            opened(image).upsert(rows((7, "oslo", 40, "next")))
            assert contents(image) == before | {(7, "oslo", 40, "next")}, name
        else:
            opened(image).recovery.restore(target)
            assert contents(image) == before, name
        restores = [one for one in load_table(image).timeline.instants if one.action is Action.RESTORE]
        assert [one.state for one in restores] == [InstantState.COMPLETED], name
        assert_nothing_left_over(image)


@EVERY_KIND
def test_completed_restore_says_what_it_has_rolled_back(kind):
    storage, target = lived(kind)
    opened(storage).recovery.plan_restore(target)
    done = opened(storage).recovery.restore(target)
    table = load_table(storage)
    (restore,) = (one for one in table.timeline.instants if one.action is Action.RESTORE)
    assert restore.requested_time == done.instant
    path = instant_path(restore, table.version)
    assert decode_restored_instants(storage.read(path), path=path) == set(done.rolled_back)
    rollbacks = [one for one in table.timeline.instants if one.action is Action.ROLLBACK]
    assert len(rollbacks) == len(done.rolled_back)


def test_write_that_a_restore_of_jvm_hudi_took_away_counts_as_rolled_back():
    storage, target = lived(COW[2])
    later = opened(storage).recovery.restore(target).rolled_back
    for info in storage.list_recursive(".hoodie"):
        if ".rollback" in info.name:  # JVM Hudi removes these at the end of a restore
            storage.delete(info.path)
    table = opened(storage)
    assert {table.recovery.outcome_of(one) for one in later} == {Outcome.ROLLED_BACK}
    assert table.recovery.outcome_of(target) is Outcome.COMMITTED
    assert table.recovery.outcome_of("20991231235959999") is Outcome.UNKNOWN


@EVERY_KIND
def test_restore_to_the_newest_write_does_nothing(kind):
    storage = prepared(kind)
    before = bytes_of(storage)
    done = opened(storage).recovery.restore(writes_of(storage)[-1])
    assert (done.instant, done.rolled_back) == (None, ())
    assert bytes_of(storage) == before


@pytest.mark.parametrize("seed", range(8))
def test_random_lives_go_back_to_any_state_exactly_or_are_refused_untouched(seed):
    choose = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    storage, clock = prepared(kind), StepClock()
    states = {}
    for number in range(14):
        clock.ms += choose.choice([1, 4_000_000])
        options = choose.choice([NO_CLEAN, NO_CLEAN, {"hoodie.clean.commits.retained": "3"}])
        compacts = {"hoodie.compact.inline.max.delta.commits": "2", "hoodie.compact.inline": choose.choice("tf") * 1}
        compacts["hoodie.compact.inline"] = {"t": "true", "f": "false"}[compacts["hoodie.compact.inline"]]
        table = open_table(storage, env=environment(clock), **options, **compacts)
        one = rows((choose.randint(1, 5), choose.choice(["oslo", "rome", "lima"]), 100 + number, f"n{number}"))
        step = choose.random()
        if step < 0.6:
            written = table.upsert(one)
        elif step < 0.75:
            written = table.insert_overwrite(one)
        elif step < 0.85:
            written = table.delete(one)
        else:
            written = table.bulk_insert(one)
        states[written.instant] = contents(storage)
        if number == 4:
            open_table(storage, env=environment(clock)).savepoints.create(name="kept")
    order = choose.sample(sorted(states), 4)
    reached = 0
    for instant in sorted([*order, *sorted(states)[6:7]], reverse=True):
        before = bytes_of(storage)
        try:
            opened(storage).recovery.restore(instant)
            assert contents(storage) == states[instant], instant
            reached += 1
        except (HistoryNotRetainedError, InvalidRequestError):
            assert bytes_of(storage) == before
    assert reached
    opened(storage).recovery.restore("kept")
    assert contents(storage) == states[sorted(states)[4]]
    assert_nothing_left_over(storage)


@EVERY_KIND
def test_what_is_no_target_is_refused(kind):
    storage = kind.insert((1, "oslo", 1, "a")).upsert((1, "oslo", 2, "b")).upsert((1, "oslo", 3, "c")).build()
    first, second, _ = writes_of(storage)
    assert_refused(storage, "29990101000000000", InvalidRequestError, "no write of the table")
    assert_refused(storage, "no such name", InvalidRequestError, "instant time")
    save(storage, second)
    error = assert_refused(storage, first, InvalidRequestError, "later write has a savepoint")
    assert error.context["savepoint"] == second


@EVERY_KIND
def test_restore_to_a_time_keeps_the_writes_that_were_completed_by_then(kind):
    storage = kind.insert((1, "oslo", 1, "a")).upsert((1, "oslo", 2, "b")).upsert((1, "oslo", 3, "c")).build()
    first, second, third = writes_of(storage)
    timeline = load_table(storage).timeline
    completed = [position_of(write) for write in sorted(timeline.completed_writes, key=position_of)]
    by, before = _time_of(completed[1]), _time_of(completed[0]) - timedelta(milliseconds=1)
    state = state_as_of(opened(storage), second)

    assert_refused(storage, before.isoformat(" ", "milliseconds"), InvalidRequestError, "completed by this time")
    done = opened(storage).recovery.restore(by.astimezone())  # instants are in the zone of this machine

    assert (done.to, done.rolled_back) == (second, (third,))
    assert state_as_of(opened(storage), second) == state
    restored = opened(storage).recovery.restore(_time_of(completed[0]).isoformat(" ", "milliseconds"))
    assert restored.to == first


def test_digits_that_are_no_instant_are_not_taken_for_a_time():
    storage = prepared(TableBuilder())
    first, *_ = updated(storage, 2)
    assert_refused(storage, str(int(first) + 1), InvalidRequestError, "no write of the table has this instant time")


def _time_of(instant_time: str) -> datetime:
    return datetime.strptime(instant_time + "000", "%Y%m%d%H%M%S%f")


def test_archived_target_and_target_with_archived_later_writes_are_refused():
    storage = prepared(TableBuilder())
    updated(storage, 3, **NO_CLEAN)
    first, second, *_ = writes_of(storage)
    save(storage, first)
    archive(storage, [second])
    assert_refused(storage, first, InvalidRequestError, "later writes are archived")
    assert_refused(storage, second, InvalidRequestError, "older than the active timeline|no write")


def test_state_before_an_archived_write_that_began_earlier_and_completed_later_is_refused():
    storage = prepared(TableBuilder())
    late, target, _, newest = updated(storage, 4, **NO_CLEAN)
    completed_at(storage, late, str(int(newest) + 500))
    archive(storage, [late])
    assert_refused(storage, target, InvalidRequestError, "later writes are archived")


@EVERY_KIND
def test_state_of_which_files_are_cleaned_missing_or_cut_off_is_refused_by_their_name(kind):
    storage = prepared(kind)
    target = writes_of(storage)[-1]
    compacts = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    updated(storage, 3, **NO_CLEAN, **compacts)
    whole = bytes_of(storage)
    opened(storage, **RETAIN_ONE).services.clean()
    error = assert_refused(storage, target, HistoryNotRetainedError, "deleted files|have been deleted")
    assert "oslo" in error.context["path"]

    (base,) = (path for path in whole if "rome" in path and path.endswith(".parquet"))
    untouched = prepared(kind)
    target = writes_of(untouched)[-1]
    updated(untouched, 1, **NO_CLEAN)
    (base,) = (path for path in files_of(untouched) if "rome" in path and path.endswith(".parquet"))
    content = untouched.read(base)
    untouched.put(base, content[:-1])
    assert_refused(untouched, target, CorruptDataError, "cut off")
    untouched.delete(base)
    error = assert_refused(untouched, target, CorruptDataError, "missing")
    assert error.context["path"] == base
    untouched.put(base, content)
    assert opened(untouched).recovery.restore(target).rolled_back


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.version != 6], ids=str)
def test_savepoint_of_which_a_file_of_an_archived_write_is_missing_is_refused_by_its_name(kind):
    # The helper `archive` writes archives of versions 8 and 9.
    storage = prepared(kind)
    first, second = writes_of(storage)
    opened(storage).savepoints.create(name="kept")
    archive(storage, [first])
    updated(storage, 1, **NO_CLEAN)
    (base,) = (path for path in files_of(storage) if "rome" in path and path.endswith(".parquet"))
    content = storage.read(base)
    storage.delete(base)
    error = assert_refused(storage, "kept", CorruptDataError, "savepoint keeps are missing")
    assert error.context["missing"] == [base]
    storage.put(base, content)
    assert opened(storage).recovery.restore("kept").to == second


@EVERY_KIND
def test_planned_clean_that_names_files_of_the_state_refuses_the_restore(kind):
    storage = prepared(kind)
    target = writes_of(storage)[-1]
    compacts = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    updated(storage, 3, **NO_CLEAN, **compacts)
    planned = schedule_clean(opened(storage, **RETAIN_ONE).handle.service_call({}, call="clean"))
    error = assert_refused(storage, target, WriteConflictError, "a clean that is planned")
    assert error.context["winner"] == planned


@EVERY_KIND
def test_writer_that_lives_while_the_table_is_restored_fails_at_its_commit(kind):
    storage, target = lived(kind)
    expected = state_as_of(opened(storage), target)

    class RestoresMeanwhile:
        def __init__(self) -> None:
            self.done = False

        def __call__(self, operation: str, path: str) -> None:
            if not self.done and operation == "put_if_absent" and path.endswith("inflight"):
                self.done = True
                opened(storage).recovery.restore(target)

    from pyhudi.testing.faults import FaultStorage

    with pytest.raises(HudiError):
        opened(FaultStorage(storage, before=RestoresMeanwhile())).upsert(rows((1, "oslo", 50, "late")))
    opened(storage, later=True).recovery.roll_back_failed_writes()
    assert contents(storage) == expected
    assert_nothing_left_over(storage)


@EVERY_KIND
def test_dead_write_from_before_and_after_the_target_is_rolled_back(kind):
    storage = kind.insert((1, "oslo", 1, "a")).dead_writer((1, "oslo", 3, "c")).build()
    (target,) = writes_of(storage)
    done = opened(storage).recovery.restore(target)
    assert len(done.rolled_back) == 1
    assert contents(storage) == {(1, "oslo", 1, "a")}
    assert_nothing_left_over(storage, (".hoodie/.temp", ".hoodie/.heartbeat"))


def jvm_restore(storage: Storage, to: str, instants: list[tuple[str, str]]) -> Instant:
    """A restore of JVM Hudi that has just begun."""
    table = load_table(storage)
    time = InstantTime(str(int(table.timeline.latest_time) + 1))
    instant = Instant(time, Action.RESTORE, InstantState.REQUESTED)
    plan = RestorePlan(to=to, instants=tuple(instants), is_ours=False)
    storage.put(instant_path(instant, table.version), encode_restore_plan(plan))
    return instant


@pytest.mark.parametrize("version", [6, 9])
def test_restore_of_jvm_hudi_is_left_to_it_until_it_has_stood_still_and_the_same_is_asked_for(version):
    storage = prepared(TableBuilder(version, "mor", has_delete_flag=True))
    first, second = writes_of(storage)
    before = state_as_of(opened(storage), first)
    theirs = jvm_restore(storage, first, [(second, "deltacommit")])
    for call in (
        lambda: opened(storage).upsert(rows((1, "oslo", 9, "x"))),
        lambda: opened(storage, later=True).upsert(rows((1, "oslo", 9, "x"))),
        lambda: opened(storage).recovery.restore(first),
        lambda: opened(storage, later=True).recovery.restore(second),
        opened(storage).savepoints.create,
    ):
        with pytest.raises(WriteConflictError, match="restore") as caught:
            call()
        assert caught.value.context["winner"] == theirs.requested_time
    done = opened(storage, later=True).recovery.restore(first)
    assert done.instant == theirs.requested_time
    assert contents(storage) == before


def test_restore_plan_that_was_never_written_is_removed_when_it_is_old():
    storage = prepared(TableBuilder())
    table = load_table(storage)
    path = instant_path(
        Instant(InstantTime("29990101000000000"), Action.RESTORE, InstantState.REQUESTED), table.version
    )
    storage.put(path, b"Obj")
    with pytest.raises(CorruptDataError):
        opened(storage).upsert(rows((1, "oslo", 9, "x")))
    opened(storage, later=True).upsert(rows((1, "oslo", 9, "x")))
    assert storage.info(path) is None
