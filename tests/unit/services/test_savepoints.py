"""Savepoints: what they keep from cleans, what they refuse, and what a death on the way leaves behind."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from tests.support.archiving import KEEP, commits
from tests.support.cleaning import archive, completed_at
from tests.support.crashes import copied, crash_images, opened, prepared, rows
from tests.support.table_builder import THREE_ROWS, TableBuilder
from tests.support.tables import StepClock, contents, environment, open_table
from tests.support.two_writers import CLOCK, with_other_in_between

import pyhudi
from pyhudi.errors import (
    ConfigError,
    CorruptDataError,
    HistoryNotRetainedError,
    InvalidRequestError,
    WriteConflictError,
)
from pyhudi.format.timeline.instant import Action, InstantState
from pyhudi.services.cleaning.execute import pending_cleans, schedule_clean
from pyhudi.storage.protocol import Storage
from pyhudi.table.savepoints import load_savepoints
from pyhudi.table.state import load_table

KINDS = [TableBuilder(version, kind) for kind in ("cow", "mor") for version in (6, 8, 9)]
EVERY_KIND = pytest.mark.parametrize("kind", KINDS, ids=str)
NO_CLEAN = {"hoodie.clean.automatic": "false"}
RETAIN_ONE = {"hoodie.clean.commits.retained": "1"}
VERSIONS_ONE = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}
HOURS_ONE = {"hoodie.clean.policy": "KEEP_LATEST_BY_HOURS", "hoodie.clean.hours.retained": "1"}
COMPACTS = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}


def updated(storage: Storage, times: int, **options: str) -> list[str]:
    return [opened(storage, **options).upsert(rows((1, "oslo", 10 + n, f"u{n}"))).instant for n in range(times)]


def state_of(scan: pyhudi.Scan) -> set[tuple[object, ...]]:
    return {tuple(row.values()) for row in scan.to_arrow().select(["id", "city", "ts", "note"]).to_pylist()}


@EVERY_KIND
def test_named_savepoint_is_listed_read_by_its_name_and_deleted(kind):
    storage = prepared(kind)
    before = contents(storage)
    made = opened(storage).savepoints.create(name="start", comment="before the updates", user="ann")
    updated(storage, 2, **NO_CLEAN)
    table = opened(storage)
    assert table.savepoints.list().drop_columns("created").to_pylist() == [
        {"instant": made.instant, "name": "start", "comment": "before the updates", "user": "ann", "files": made.files}
    ]
    assert state_of(table.scan(as_of="start")) == before != contents(storage)
    table.savepoints.delete("start")
    assert table.savepoints.list().num_rows == 0
    assert not [path for path in storage.list_names(load_table(storage).version.timeline_folder) if "savepoint" in path]
    with pytest.raises(ConfigError, match="no savepoint has this name"):
        table.refresh().scan(as_of="start")


@pytest.mark.parametrize("policy", [RETAIN_ONE, VERSIONS_ONE, HOURS_ONE], ids=["commits", "versions", "hours"])
@EVERY_KIND
def test_no_policy_cleans_a_savepoint_and_its_state_stays_exact(kind, policy):
    storage, clock = prepared(kind), StepClock()
    opened(storage).savepoints.create(name="kept")
    kept = contents(storage)
    files = set(next(iter(load_savepoints(storage, load_table(storage).timeline).values())).paths)
    for number in range(8):
        clock.ms += 2 * 3_600_000
        open_table(storage, env=environment(clock), **policy, **(COMPACTS if kind.is_merge_on_read else {})).upsert(
            rows((1, "oslo", 10 + number, "u"), (3, "rome", 10 + number, "u"))
        )
    table = opened(storage)
    assert table.inspect.timeline().to_pydict()["action"].count("clean") >= 1
    assert state_of(table.scan(as_of="kept")) == kept
    assert files <= {info.path for info in storage.list_recursive("")}
    table.savepoints.delete("kept")
    clock.ms += 2 * 3_600_000
    open_table(storage, env=environment(clock), **policy).services.clean()
    if not kind.is_merge_on_read:
        assert not files <= {info.path for info in storage.list_recursive("")}


@pytest.mark.parametrize("policy", [RETAIN_ONE, VERSIONS_ONE, HOURS_ONE], ids=["commits", "versions", "hours"])
@pytest.mark.parametrize("seed", range(3))
def test_savepoint_of_any_write_is_refused_or_keeps_exactly_its_rows(seed, policy):
    choose = random.Random(seed)
    kind = KINDS[choose.randrange(len(KINDS))]
    storage, clock = prepared(kind), StepClock()
    states = {}
    for number in range(8):
        clock.ms += choose.choice([1, 2_000_000])
        table = open_table(storage, env=environment(clock), **(policy if number % 2 else NO_CLEAN), **COMPACTS)
        one = rows((choose.randint(1, 3), choose.choice(["oslo", "rome"]), 10 + number, f"n{number}"))
        written = table.insert_overwrite(one) if choose.random() < 0.25 else table.upsert(one)
        states[written.instant] = contents(storage)
    newest = opened(storage).savepoints.create().instant
    states[newest] = contents(storage)
    kept, refused = [newest], 0
    for instant in sorted(states.keys() - kept):
        try:
            opened(storage).savepoints.create(instant)
            kept.append(instant)
        except HistoryNotRetainedError:
            refused += 1
    for number in range(3):
        clock.ms += 4_000_000
        open_table(storage, env=environment(clock), **policy).upsert(rows((1, "oslo", 50 + number, "u")))
    for instant in kept:
        assert state_of(opened(storage).scan(as_of=instant)) == states[instant]
    assert refused


@EVERY_KIND
def test_what_is_no_completed_write_of_the_active_timeline_gets_no_savepoint(kind):
    storage = kind.insert((1, "oslo", 1, "a")).upsert((1, "oslo", 2, "b")).dead_writer((1, "oslo", 3, "c")).build()
    timeline = load_table(storage).timeline
    dead = timeline.pending_writes[0].requested_time
    first = timeline.completed_writes[0].requested_time
    table = opened(storage)
    for instant, reason in (
        (dead, "not completed"),
        ("29990101000000000", "no write"),
        ("2001", "older than the active"),
    ):
        with pytest.raises(InvalidRequestError, match=reason):
            table.savepoints.create(instant)
    table.savepoints.create(first, name="a")
    with pytest.raises(InvalidRequestError, match="has a savepoint"):
        table.savepoints.create(first)
    with pytest.raises(InvalidRequestError, match="has this name"):
        table.savepoints.create(name="a")
    with pytest.raises(InvalidRequestError, match="no such savepoint"):
        table.savepoints.delete("b")
    assert table.savepoints.list()["instant"].to_pylist() == [first]


@pytest.mark.parametrize("name", ["", " ", "2024-01-31", "20240131", "7", "a\nb", "x" * 201])
def test_name_that_is_no_name_or_a_time_is_refused(name):
    table = opened(prepared(TableBuilder()))
    with pytest.raises(ConfigError, match="name of a savepoint"):
        table.savepoints.create(name=name)
    assert table.savepoints.list().num_rows == 0


@pytest.mark.parametrize("kind", [TableBuilder(9, "cow"), TableBuilder(9, "mor")], ids=str)
def test_savepoint_shows_no_row_of_an_archived_write_that_began_before_and_completed_after(kind: TableBuilder) -> None:
    storage = prepared(kind)
    late, kept, newest = (
        opened(storage, **NO_CLEAN).upsert(rows((1 + n, f"city{n}", 10 + n, f"u{n}"))) for n in range(3)
    )
    opened(storage).savepoints.create(kept.instant, name="kept")
    completed_at(storage, late.instant, str(int(newest.completion_time) + 1))
    before = opened(storage).scan(["id", "note"], as_of="kept").to_arrow().to_pylist()
    archive(storage, [late.instant, newest.instant])

    shown = opened(storage).scan(["id", "note"], as_of="kept").to_arrow().to_pylist()

    assert sorted(map(str, shown)) == sorted(map(str, before))
    assert {"u1"} == {row["note"] for row in shown} & {"u0", "u1", "u2"}


@pytest.mark.parametrize("kind", [TableBuilder(6, "cow"), TableBuilder(6, "mor"), TableBuilder(9, "mor")], ids=str)
def test_savepoint_shows_its_state_when_all_later_writes_are_archived(kind: TableBuilder) -> None:
    storage = prepared(kind)
    kept = opened(storage).upsert(rows((1, "oslo", 10, "kept"))).instant
    for number in range(2):
        opened(storage, **NO_CLEAN).upsert(rows((30 + number, "rome", 1, ""), (1, "oslo", 20 + number, "later")))
    opened(storage).savepoints.create(kept, name="kept")
    before = opened(storage).scan(["id", "note"], as_of="kept").to_arrow().to_pylist()
    updated(storage, 9, **NO_CLEAN, **KEEP)
    opened(storage).services.archive(hudi_options={**KEEP, "hoodie.archive.beyond.savepoint": "true"})
    assert kept < min(set(commits(storage)) - {kept})

    scan = opened(storage).scan
    if kind.version == 6 and kind.is_merge_on_read:
        with pytest.raises(HistoryNotRetainedError, match="can no longer be told"):
            scan(as_of="kept")
        return
    assert sorted(map(str, scan(["id", "note"], as_of="kept").to_arrow().to_pylist())) == sorted(map(str, before))


def test_savepoint_of_an_empty_table_and_of_an_archived_write_are_refused():
    with pytest.raises(InvalidRequestError, match="no completed write"):
        opened(TableBuilder().build()).savepoints.create()
    storage = prepared(TableBuilder())
    archived = load_table(storage).timeline.completed_writes[0].requested_time
    archive(storage, [archived])
    with pytest.raises(InvalidRequestError, match="older than the active timeline"):
        opened(storage).savepoints.create(archived)


@EVERY_KIND
def test_state_that_a_planned_clean_or_a_missing_file_has_broken_gets_no_savepoint(kind):
    storage = prepared(kind)
    old = updated(storage, 3, **NO_CLEAN, **COMPACTS)[0]
    call = opened(storage, **RETAIN_ONE).handle.service_call({}, call="clean")
    assert schedule_clean(call) is not None
    table = opened(storage)
    with pytest.raises(WriteConflictError, match="a clean that is planned") as caught:
        table.savepoints.create(old)
    assert caught.value.context["winner"] == pending_cleans(load_table(storage).timeline)[0].requested_time
    made = table.savepoints.create()
    table.savepoints.delete(made.instant)
    newest = next(path for path in load_latest(storage) if path.endswith(".parquet") and "oslo" in path)
    storage.delete(newest)
    with pytest.raises(CorruptDataError, match="missing"):
        opened(storage).savepoints.create()
    assert not [one for one in load_table(storage).timeline.instants if one.action is Action.SAVEPOINT]


def load_latest(storage: Storage) -> list[str]:
    from pyhudi.table.file_system_view import load_view

    latest = load_view(storage, load_table(storage).timeline).latest
    return [path for slices in latest.values() for one in slices for path in one.paths]


def test_clean_that_is_planned_while_a_savepoint_is_made_spares_its_files():
    storage = prepared(TableBuilder())
    old = updated(storage, 3, **NO_CLEAN)[0]
    for name, image in crash_images(storage, lambda table: table.savepoints.create(old)):
        planned = schedule_clean(opened(image, **VERSIONS_ONE).handle.service_call({}, call="clean"))
        if any(one.action is Action.SAVEPOINT for one in load_table(image).timeline.instants):
            if not opened(image).savepoints.list().num_rows:
                opened(image).savepoints.create(old)
        else:
            assert planned is not None, name


@pytest.mark.parametrize("kind", [KINDS[0], KINDS[2], KINDS[5]], ids=str)
def test_making_and_deleting_that_die_anywhere_are_finished_or_undone_by_the_next_call(kind):
    storage = prepared(kind)
    for name, image in crash_images(storage, lambda table: table.savepoints.create(name="x")):
        state = load_table(image).timeline
        held = [one for one in state.instants if one.action is Action.SAVEPOINT]
        if held and held[0].state is not InstantState.COMPLETED:
            assert opened(image).savepoints.list().num_rows == 0, name
            opened(image).upsert(rows((1, "oslo", 20, "soon")))
            assert [one for one in load_table(image).timeline.instants if one.action is Action.SAVEPOINT], name
            opened(image, later=True).upsert(rows((1, "oslo", 21, "late")))
            assert not [one for one in load_table(image).timeline.instants if one.action is Action.SAVEPOINT], name
        if not opened(image).savepoints.list().num_rows:
            opened(image).savepoints.create(name="x")
        assert opened(image).savepoints.list()["name"].to_pylist() == ["x"], name
    opened(storage).savepoints.create(name="x")
    for name, image in crash_images(storage, lambda table: table.savepoints.delete("x")):
        table = opened(image)
        if table.savepoints.list().num_rows:
            table.savepoints.delete("x")
        table.upsert(rows((1, "oslo", 9, "later")))
        assert not [one for one in load_table(image).timeline.instants if one.action is Action.SAVEPOINT], name


def test_list_has_its_columns_and_types_without_any_savepoint():
    schema = opened(prepared(TableBuilder())).savepoints.list().schema
    assert schema.names == ["instant", "name", "comment", "user", "created", "files"]
    assert schema.field("created").type == pa.timestamp("ms", "UTC")


@pytest.mark.parametrize(
    "kind", [TableBuilder(version, kind) for kind in ("cow", "mor") for version in (8, 9)], ids=str
)
def test_savepoint_by_name_shows_what_a_restore_brings_back_where_writes_overlapped(kind: TableBuilder) -> None:
    """One write began before that of the savepoint and completed after it."""
    storage = kind.insert(*THREE_ROWS).build()
    seen: list[object] = []

    def other(table: pyhudi.HudiTable) -> None:
        table.upsert(rows((3, "rome", 9, "saved")))
        table.refresh().savepoints.create(name="kept")
        seen.append(state_of(opened(storage).scan(as_of="kept")))

    first = open_table(with_other_in_between(storage, other), env=environment(CLOCK))
    first.upsert(rows((1, "oslo", 9, "late")))
    opened(storage).upsert(rows((2, "oslo", 9, "later")))

    shown = state_of(opened(storage).scan(as_of="kept"))
    by_time = state_of(opened(storage).scan(as_of=opened(storage).savepoints.list()["instant"][0].as_py()))
    restored = copied(storage)
    opened(restored).recovery.restore("kept")

    assert shown == contents(restored) == seen[0]
    assert "late" not in str(shown)
    assert "late" in str(by_time)
