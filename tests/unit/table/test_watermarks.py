"""The watermark: it never says that a partition is complete before all events of it are written."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tables import MOR, StepClock, environment, new_table, open_table, rows
from tests.support.two_writers import CLOCK, with_other_in_between

import pyhudi
from pyhudi.errors import ConfigError, InvalidRequestError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.watermarks import WATERMARK_KEY

TRACKED = {"hoodie.write.track.event.time.watermark": "true"}
SOURCE = "hoodie.write.event.time.source"
BEGIN = datetime(2026, 11, 22, 9, tzinfo=UTC)
MINUTE = 60_000
KEYS = itertools.count()


def ms(minute: float) -> int:
    """Minutes after nine o'clock as milliseconds since the epoch."""
    return int(BEGIN.timestamp() * 1000 + minute * MINUTE)


def moment(minute: float) -> datetime:
    return BEGIN + timedelta(minutes=minute)


def write(table: pyhudi.HudiTable, *minutes: float, source: str = "", **options: str) -> pyhudi.HudiTable:
    """A write of an event at each of these minutes."""
    batch = rows(*((next(KEYS), source or "oslo", ms(minute), "") for minute in minutes))
    named = {SOURCE: source} if source else {}
    table.upsert(batch, hudi_options={**TRACKED, **named, **options})
    return table.refresh()


@pytest.mark.parametrize(("version", "kind"), [(6, "cow"), (8, "mor"), (9, "cow"), (9, "mor")])
def test_watermark_is_the_largest_event_time_and_never_moves_back(version: int, kind: str):
    table = new_table(version=version, **({} if kind == "cow" else MOR))
    assert table.watermark().time is None
    table = write(table, 3, 40, 7)
    assert table.watermark().time == moment(40)
    table = write(table, 5)
    assert table.watermark().time == moment(40)
    table = write(table, 41)
    assert table.watermark().time == moment(41)
    assert table.watermark().instant == table.inspect.last_write().instant


def test_commits_keep_the_event_times_of_files_as_jvm_hudi_does():
    table = write(new_table(), 3, 40, 7)
    (write_done,) = table.handle.state.timeline.completed_writes
    metadata = load_commit_metadata(table.handle.state.storage, write_done, table.handle.state.version)
    ((stat,),) = metadata.stats_by_partition.values()
    assert (stat.min_event_time, stat.max_event_time) == (ms(3), ms(40))


def test_slowest_source_holds_the_watermark_back():
    table = write(new_table(), 90, source="a")
    assert table.watermark().time == moment(90)
    assert table.watermark(sources=["a", "b"]).time is None
    table = write(table, 30, source="b")
    found = table.watermark()
    assert found.time == moment(30)
    assert found.sources == {"a": moment(90), "b": moment(30)}
    assert not found.covers("2026-11-22/09")
    table = write(table, 60, source="b")
    assert table.watermark().covers("2026-11-22/09")
    assert not table.watermark().covers("2026-11-22/09", lateness=timedelta(minutes=1))


def test_idle_source_is_left_out_only_where_that_is_asked_for():
    clock, storage = StepClock(), MemoryStorage()
    new_table(storage)

    def table() -> pyhudi.HudiTable:
        return open_table(storage, env=environment(clock))

    write(table(), 30, source="a")
    clock.ms += 600_000
    write(table(), 90, source="b")
    assert table().watermark().time == moment(30)
    found = table().watermark(idle_after=timedelta(minutes=5))
    assert (found.time, found.idle) == (moment(90), ("a",))
    clock.ms += 600_000
    found = table().watermark(idle_after=timedelta(minutes=5))
    assert (found.time, found.idle) == (moment(30), ())  # nothing is known of a table that nobody writes


def test_writes_without_event_times_and_services_leave_the_watermark_where_it_is():
    table = write(new_table(), 40)
    table.upsert(rows((9, "oslo", ms(99), "x")))
    table.delete(rows((9, "oslo", 0, "")))
    table.services.clean()
    assert table.refresh().watermark().time == moment(40)
    assert write(table, 41).watermark().time == moment(41)


def test_source_that_another_write_did_not_see_counts():
    inner = MemoryStorage()
    write(new_table(inner), 10, source="a")

    def other(table: pyhudi.HudiTable) -> None:
        write(table, 95, source="b")

    slow = with_other_in_between(inner, other)
    write(
        open_table(slow, env=environment(CLOCK)),
        20,
        source="a",
        **{"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"},
    )
    assert open_table(inner).watermark().sources == {"a": moment(20), "b": moment(95)}


def test_event_times_in_the_commits_of_jvm_hudi_count():
    table = write(new_table(), 3, 40)
    hide = {"hoodie.datasource.write.commitmeta.key.prefix": "pyhudi.", WATERMARK_KEY: "of another program"}
    table = write(table, 50, **hide)
    assert table.watermark().time == moment(50)


@pytest.mark.parametrize(
    ("values", "time"),
    [
        (pa.array([1_763_802_000, 5], pa.int64()), datetime(2025, 11, 22, 9, tzinfo=UTC)),
        (pa.array([1_763_802_000_123, None], pa.int64()), datetime(2025, 11, 22, 9, 0, 0, 123_000, UTC)),
        (pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * 2, pa.timestamp("us", "UTC")), datetime(2026, 1, 1, tzinfo=UTC)),
        (pa.array([datetime(2026, 1, 1, tzinfo=UTC).date()] * 2), datetime(2026, 1, 1, tzinfo=UTC)),
        (pa.array([5, 10**15], pa.int64()), None),
    ],
)
def test_event_times_are_seconds_milliseconds_timestamps_or_dates(values: pa.Array, time: datetime | None):
    schema = pa.schema([("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64()), ("at", values.type)])
    table = new_table(schema=schema)
    batch = pa.table([pa.array([1, 2]), pa.array(["a", "b"]), pa.array([1, 1]), values], schema=schema)
    table.insert(batch, hudi_options={**TRACKED, "hoodie.payload.event.time.field": "at"})
    assert table.refresh().watermark().time == time


@pytest.mark.parametrize("column", ["note", "nothing"])
def test_column_that_has_no_times_is_refused(column: str):
    with pytest.raises(ConfigError, match="event time"):
        write(new_table(), 1, **{"hoodie.payload.event.time.field": column})


def test_late_rows_of_a_partition_are_counted():
    table = write(new_table(), 70)
    seen = table.watermark().instant
    assert seen is not None
    assert table.inspect.late_rows("city=oslo", seen) == 0
    table = write(table, 10, 20)
    assert table.inspect.late_rows("city=oslo", seen) == 2
    assert table.inspect.late_rows("city=rome", seen) == 0
    with pytest.raises(InvalidRequestError, match="no such"):
        table.inspect.late_rows("city=oslo", "20010101000000000")


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 3), lateness=st.sampled_from([0, 12]))
def test_partition_is_never_complete_before_all_its_events_are_written(seed: int, count: int, lateness: int):
    chance = random.Random(seed)
    # Held-out logs, one of each source: events in the order of their arrival, none later than `lateness` minutes.
    logs = {
        f"s{number}": sorted(
            (chance.uniform(0, 200) for _ in range(25)), key=lambda minute: minute + chance.uniform(0, lateness)
        )
        for number in range(count)
    }
    unwritten = {source: list(events) for source, events in logs.items()}
    table, said = new_table(), 0
    while any(unwritten.values()):
        source = chance.choice([source for source, events in unwritten.items() if events])
        size = chance.randrange(1, 12)
        batch, unwritten[source] = unwritten[source][:size], unwritten[source][size:]
        table = write(table, *batch, source=source)
        found = table.watermark(sources=list(logs))
        for hour in range(4):
            if found.covers(f"2026-11-22/{9 + hour:02}", lateness=timedelta(minutes=lateness)):
                said += 1
                assert not [minute for events in unwritten.values() for minute in events if minute < 60 * (hour + 1)]
    assert table.watermark().time == min(moment_of_log(events) for events in logs.values())


def moment_of_log(events: list[float]) -> datetime:
    return datetime.fromtimestamp(max(map(ms, events)) / 1000, UTC)
