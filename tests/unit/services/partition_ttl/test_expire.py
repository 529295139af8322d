"""Expiry of partitions: which go, which stay, and what becomes of a drop that dies or meets another writer."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.support.archiving import AUTOMATIC
from tests.support.crashes import crash_images, opened, prepared, rows
from tests.support.table_builder import TableBuilder
from tests.support.tables import StepClock, contents, environment, open_table, rehandled

import pyhudi
from pyhudi.errors import ConfigError, UnsupportedFeatureError, WriteConflictError
from pyhudi.format.metadata.partition import PARTITION_METADATA_FILE
from pyhudi.format.timeline.instant import InstantState
from pyhudi.services.partition_ttl import expire
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage

DAY = 86_400_000
START = 1_790_000_000_000
DAYS = "hoodie.partition.ttl.strategy.days.retain"
TYPE = "hoodie.partition.ttl.management.strategy.type"
BY_CREATION = {TYPE: "KEEP_BY_CREATION_TIME"}
PLAIN = {"hoodie.clean.automatic": "false", "hoodie.compact.inline": "false"}
KINDS = [TableBuilder(version, kind) for kind in ("cow", "mor") for version in (6, 8, 9)]
EVERY_KIND = pytest.mark.parametrize("kind", KINDS, ids=str)


def on_day(storage: Storage, day: float, **options: str) -> pyhudi.HudiTable:
    """The table on a day after it was made."""
    return open_table(storage, env=environment(StepClock(START + int(day * DAY))), **{**PLAIN, **options})


def cities(storage: Storage) -> set[str]:
    return {city for _, city, _, _ in contents(storage)}


def verdicts(table: pyhudi.HudiTable, **options: str) -> dict[str, str]:
    plan = table.services.plan_expiry(hudi_options=options).to_pylist()
    return {row["partition_path"]: row["reason"] for row in plan}


@EVERY_KIND
def test_partitions_not_changed_for_the_days_go_and_their_rows_stay_in_the_retained_states(kind: TableBuilder) -> None:
    storage = kind.insert((1, "oslo", 1, "a"), (2, "rome", 1, "a"), (3, "lima", 1, "a")).build()
    on_day(storage, 8).upsert(rows((2, "rome", 2, "b")))
    before, last = contents(storage), load_table(storage).timeline.completed_writes[-1].requested_time
    table = on_day(storage, 12, **{DAYS: "10"})

    plan = table.services.plan_expiry().to_pylist()
    done = table.services.expire_partitions()

    assert [(row["partition_path"], row["expires"]) for row in plan] == [
        ("city=lima", True),
        ("city=oslo", True),
        ("city=rome", False),
    ]
    assert timedelta(days=11) < plan[0]["age"] < timedelta(days=13)
    assert plan[2]["reason"] == "last changed not more than 10 days ago"
    assert done is not None
    assert done.partitions == ("city=lima", "city=oslo")
    assert cities(storage) == {"rome"}
    older = on_day(storage, 12).scan(["id", "city", "ts", "note"], as_of=last).to_arrow().to_pylist()
    assert {tuple(row.values()) for row in older} == before
    assert on_day(storage, 12, **{DAYS: "10"}).services.expire_partitions() is None
    newest = load_table(storage).timeline.completed_writes[-1]
    assert (newest.requested_time, newest.state) == (done.instant, InstantState.COMPLETED)


@EVERY_KIND
def test_late_row_renews_the_life_of_its_partition_by_last_change_and_not_by_creation(kind: TableBuilder) -> None:
    storage = kind.insert((1, "oslo", 1, "a"), (3, "rome", 1, "a")).build()
    on_day(storage, 20).upsert(rows((1, "oslo", 2, "late")))
    table = on_day(storage, 21, **{DAYS: "10"})

    assert table.services.expire_partitions().partitions == ("city=rome",)
    assert table.services.expire_partitions(hudi_options=BY_CREATION).partitions == ("city=oslo",)
    assert contents(storage) == set()


def test_log_of_version_6_whose_write_left_the_timeline_is_as_old_as_the_timeline_at_most() -> None:
    """The name of such a log does not say when it was written."""
    storage = TableBuilder(6, "mor").insert((1, "oslo", 1, "a")).build()
    on_day(storage, 20).upsert(rows((1, "oslo", 2, "late")))
    for name in [info.name for info in storage.list_folder(".hoodie").files if info.name[:4].isdigit()]:
        storage.delete(f".hoodie/{name}")
    first = on_day(storage, 22).upsert(rows((2, "rome", 2, "b"))).instant

    plan = on_day(storage, 23, **{DAYS: "10"}).services.plan_expiry().to_pylist()
    assert [(row["partition_path"], row["since"], row["expires"]) for row in plan] == [
        ("city=oslo", first, False),
        ("city=rome", first, False),
    ]
    assert on_day(storage, 33, **{DAYS: "10"}).services.expire_partitions() is not None


def test_backfilled_partition_counts_from_the_backfill() -> None:
    storage = TableBuilder(9, "cow").insert((1, "oslo", 1, "a")).build()
    on_day(storage, 30).upsert(rows((2, "day 3", 2, "backfilled")))

    for strategy in ({}, BY_CREATION):
        assert verdicts(on_day(storage, 31), **{DAYS: "10"}, **strategy)["city=day 3"].endswith("10 days ago")
        assert on_day(storage, 31, **{DAYS: "10"}, **strategy).services.plan_expiry()["expires"].to_pylist() == [
            True,
            False,
        ]


@pytest.mark.parametrize("days", [None, "-1", "0", "-5"])
def test_without_a_number_of_days_nothing_expires_and_the_plan_says_so(days: str | None) -> None:
    storage = prepared(TableBuilder(9, "cow"))
    table = on_day(storage, 9999, **({} if days is None else {DAYS: days}), **{"hoodie.partition.ttl.inline": "true"})

    table.upsert(rows((9, "lima", 1, "x")))

    assert table.services.expire_partitions() is None
    assert set(verdicts(table).values()) == {"no number of days is set (hoodie.partition.ttl.strategy.days.retain)"}
    assert cities(storage) == {"oslo", "rome", "lima"}


def test_most_partitions_of_one_run_are_bounded_and_the_oldest_go_first() -> None:
    storage = TableBuilder(9, "cow").insert((1, "oslo", 1, "a")).build()
    for number, city in enumerate(("bern", "rome", "lima")):
        on_day(storage, 1 + number).upsert(rows((2 + number, city, 1, "a")))
    table = on_day(storage, 50, **{DAYS: "10", "hoodie.partition.ttl.strategy.max.delete.partitions": "2"})

    assert table.services.expire_partitions().partitions == ("city=oslo", "city=bern")
    assert table.services.expire_partitions().partitions == ("city=rome", "city=lima")
    assert table.services.expire_partitions() is None


def test_only_selected_partitions_expire() -> None:
    storage = prepared(TableBuilder(9, "cow"))
    options = {DAYS: "1", "hoodie.partition.ttl.strategy.partition.selected": "city=rome,city=gone"}
    table = on_day(storage, 9)

    assert verdicts(table, **options)["city=oslo"] == "not among the selected partitions"
    assert table.services.expire_partitions(hudi_options=options).partitions == ("city=rome",)


def test_partition_that_came_back_after_a_drop_is_as_old_as_the_drop_at_most() -> None:
    """Its folder still says when it was first created, and JVM Hudi goes by that."""
    storage = TableBuilder(9, "cow").insert((1, "oslo", 1, "a"), (3, "rome", 1, "a")).build()
    on_day(storage, 40).delete_partition("city=oslo")
    on_day(storage, 41).upsert(rows((1, "oslo", 2, "again")))
    table = on_day(storage, 42, **{DAYS: "10"}, **BY_CREATION)

    assert table.services.expire_partitions().partitions == ("city=rome",)
    assert cities(storage) == {"oslo"}


def test_partition_of_unknown_creation_stays() -> None:
    storage = prepared(TableBuilder(9, "cow"))
    storage.delete(f"city=oslo/{PARTITION_METADATA_FILE}")
    table = on_day(storage, 99, **{DAYS: "10"}, **BY_CREATION)

    assert verdicts(table)["city=oslo"] == "created at a time that is not known"
    assert table.services.expire_partitions().partitions == ("city=rome",)


def test_table_without_partitions_has_nothing_to_expire() -> None:
    storage = replace(TableBuilder(9, "cow"), is_partitioned=False).insert((1, "oslo", 1, "a")).build()
    table = on_day(storage, 99, **{DAYS: "10"})

    assert table.services.expire_partitions() is None
    assert table.services.plan_expiry().num_rows == 0


def test_write_expires_inline_where_the_option_says_so_and_a_failure_does_not_fail_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = prepared(TableBuilder(9, "cow"))
    on_day(storage, 20, **{DAYS: "10"}).upsert(rows((9, "lima", 1, "x")))
    assert cities(storage) == {"oslo", "rome", "lima"}

    inline = on_day(storage, 20, **{DAYS: "10", "hoodie.partition.ttl.inline": "true"})
    with monkeypatch.context() as broken, caplog.at_level(logging.WARNING):
        broken.setattr(expire, "planned_expiry", _fail)
        inline.upsert(rows((9, "lima", 2, "y")))
    assert "the expiry after it failed" in caplog.text
    assert cities(storage) == {"oslo", "rome", "lima"}

    inline.upsert(rows((9, "lima", 3, "z")))
    assert cities(storage) == {"lima"}


def _fail(*_: object) -> None:
    raise WriteConflictError("as another writer would make it")


@pytest.mark.parametrize("kind", [TableBuilder(6, "mor"), TableBuilder(9, "cow"), TableBuilder(9, "mor")], ids=str)
def test_expiry_that_dies_anywhere_drops_all_or_nothing_and_the_next_one_ends_it(kind: TableBuilder) -> None:
    storage = kind.insert((1, "oslo", 1, "a"), (3, "rome", 1, "a")).build()
    on_day(storage, 20).upsert(rows((3, "rome", 2, "b")))
    expired = contents(storage) - {(1, "oslo", 1, "a")}

    def act(table: pyhudi.HudiTable) -> object:
        later = rehandled(table, environment=environment(StepClock(START + 21 * DAY)))
        return later.services.expire_partitions(hudi_options={DAYS: "10"})

    before, seen = contents(storage), set()
    for name, image in crash_images(storage, act):
        seen.add(frozenset(contents(image)))
        inline = {DAYS: "10", "hoodie.partition.ttl.inline": "true"}
        on_day(image, 25, **inline).upsert(rows((9, "bern", 1, "x")))
        assert contents(image) == {*expired, (9, "bern", 1, "x")}, name
        opened(image, later=True).upsert(rows((9, "bern", 2, "y")))
        assert contents(image) == {*expired, (9, "bern", 2, "y")}, name
        assert not load_table(image).timeline.pending_writes, name
    assert seen == {frozenset(before), frozenset(expired)}


def test_write_into_an_expiring_partition_that_completes_first_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = TableBuilder(9, "cow").insert((1, "oslo", 1, "a"), (3, "rome", 1, "a")).build()
    plan, looks = expire.planned_expiry, []

    def plan_beside_a_writer(call):
        planned = plan(call)
        looks.append(planned)
        if len(looks) == 2:
            on_day(storage, 20).upsert(rows((1, "oslo", 2, "late")))
        return planned

    monkeypatch.setattr(expire, "planned_expiry", plan_beside_a_writer)
    with pytest.raises(WriteConflictError):
        on_day(storage, 20, **{DAYS: "10"}).services.expire_partitions()
    assert contents(storage) == {(1, "oslo", 2, "late"), (3, "rome", 1, "a")}
    assert not load_table(storage).timeline.pending_writes

    monkeypatch.undo()
    assert on_day(storage, 21, **{DAYS: "10"}).services.expire_partitions().partitions == ("city=rome",)


def test_write_that_completes_before_the_drop_begins_keeps_its_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = TableBuilder(9, "cow").insert((1, "oslo", 1, "a"), (3, "rome", 1, "a")).build()
    plan = expire.planned_expiry

    def plan_before_a_write(call):
        planned = plan(call)
        monkeypatch.undo()
        on_day(storage, 20).upsert(rows((1, "oslo", 2, "late")))
        return planned

    monkeypatch.setattr(expire, "planned_expiry", plan_before_a_write)
    done = on_day(storage, 20, **{DAYS: "10"}).services.expire_partitions()

    assert done.partitions == ("city=rome",)
    assert contents(storage) == {(1, "oslo", 2, "late")}


def test_writer_that_began_before_the_expiry_of_its_partition_gives_way() -> None:
    inner = TableBuilder(9, "cow").insert((1, "oslo", 1, "a"), (3, "rome", 1, "a")).build()
    done: list[object] = []

    def expire(operation: str, path: str) -> None:
        if path.startswith("city=oslo") and path.endswith(".parquet") and operation != "open_input" and not done:
            done.append(operation)
            done.append(on_day(inner, 20, **{DAYS: "10"}).services.expire_partitions())

    storage = FaultStorage(inner, before=expire)
    with pytest.raises(WriteConflictError):
        on_day(storage, 19).upsert(rows((1, "oslo", 2, "late")))
    assert contents(inner) == set()
    assert not load_table(inner).timeline.pending_writes


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({TYPE: "KEEP_BY_EVENT_TIME"}, ConfigError),
        ({DAYS: "many"}, ConfigError),
        ({DAYS: str(10**9)}, ConfigError),
        ({"hoodie.partition.ttl.strategy.max.delete.partitions": "0"}, ConfigError),
        ({"hoodie.partition.ttl.strategy.class": "com.example.OfMyOwn"}, UnsupportedFeatureError),
    ],
)
def test_option_that_is_not_legal_is_refused_before_anything_happens(options: dict[str, str], error: type) -> None:
    storage = prepared(TableBuilder(9, "cow"))
    with pytest.raises(error, match=r"hoodie\.partition\.ttl"):
        opened(storage).services.expire_partitions(hudi_options={DAYS: "1", **options})


def test_class_of_jvm_hudi_names_the_strategy_and_goes_before_the_type() -> None:
    storage = TableBuilder(9, "cow").insert((1, "oslo", 1, "a")).build()
    on_day(storage, 20).upsert(rows((1, "oslo", 2, "late")))
    name = "org.apache.hudi.table.action.ttl.strategy.KeepByCreationTimeStrategy"
    table = on_day(storage, 21, **{DAYS: "10", TYPE: "KEEP_BY_TIME"})

    assert table.services.expire_partitions() is None
    assert table.services.expire_partitions(hudi_options={"hoodie.partition.ttl.strategy.class": name}) is not None


@pytest.mark.parametrize("version", [6, 9])
def test_drop_that_left_the_active_timeline_still_renews_the_life_of_its_partition(version: int) -> None:
    """Its folder says when it was first created: without the drop, the new rows would expire with the old time."""
    storage = TableBuilder(version, "cow").insert((1, "oslo", 1, "a"), (3, "rome", 1, "a")).build()
    dropped = on_day(storage, 40).delete_partition("city=oslo").instant
    on_day(storage, 41).upsert(rows((1, "oslo", 2, "again")))
    for ts in range(14):
        options = {**AUTOMATIC, "hoodie.clean.automatic": "true"}
        on_day(storage, 41 + ts / 100, **options).upsert(rows((3, "rome", 5 + ts, "b")))
    assert dropped not in load_table(storage).timeline.completed_times
    table = on_day(storage, 42, **{DAYS: "10"}, **BY_CREATION)

    plan = {row["partition_path"]: row for row in table.services.plan_expiry().to_pylist()}

    assert plan["city=oslo"]["since"] == dropped
    assert not plan["city=oslo"]["expires"]
    assert plan["city=rome"]["expires"]
