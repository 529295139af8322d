"""Whoever follows `changes()` and upserts what it gives has the rows of the table, late rows or not."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tests.support.table_builder import COW_TABLES, MOR_TABLES, TableBuilder
from tests.support.tables import DELETE_FLAG, EVENT_TIME, SCHEMA, Row, contents, open_table, rows

import pyhudi
from pyhudi.config.enums import TableType
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.testing.faults import FaultStorage

EXAMPLES = int(os.environ.get("PYHUDI_FOLLOWER_EXAMPLES", "8"))
ORDERED_6 = {"hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload"}
FILLING = {"hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.PartialUpdateAvroPayload"}


def table(kind: TableBuilder, options: dict[str, str]) -> TableBuilder:
    return replace(kind, has_delete_flag=True, is_partitioned=False, options=options)


def ordered(kind: TableBuilder) -> TableBuilder:
    return table(kind, ORDERED_6 if kind.version == 6 else EVENT_TIME)


MOR = tuple(map(ordered, MOR_TABLES))
every_mor = pytest.mark.parametrize("kind", MOR, ids=str)


def table_of(storage: Storage) -> pyhudi.HudiTable:
    return open_table(storage, env=None, **{"hoodie.compact.inline": "false"})


def rows_given(storage: Storage, begin: str | None) -> list[Row]:
    """The rows of `changes`, which is the same by all ways of asking."""
    scan = table_of(storage).changes(begin or "earliest")
    found = scan.to_arrow()
    assert scan.count() == found.num_rows
    notes = table_of(storage).changes(begin or "earliest", columns=["note"]).to_arrow()
    assert sorted(notes.column("note").to_pylist()) == sorted(found.column("note").to_pylist())
    return sorted(tuple(row[name] for name in SCHEMA.names) for row in found.to_pylist())  # type: ignore[misc]


def position(storage: Storage) -> str:
    found = table_of(storage).inspect.position()
    assert found is not None
    return found


# -- one late row ---------------------------------------------------------------------------------------------


@every_mor
def test_a_late_row_that_lost_against_the_base_file_is_not_given(kind: TableBuilder) -> None:
    storage = kind.insert((1, "oslo", 5, "a"), (2, "oslo", 5, "b")).build()
    begin = position(storage)
    table_of(storage).upsert(kind.batch((1, "oslo", 4, "late"), (2, "oslo", 5, "same time")))
    assert rows_given(storage, begin) == [(2, "oslo", 5, "same time")]


@every_mor
def test_a_late_row_that_lost_against_a_log_of_before_is_not_given(kind: TableBuilder) -> None:
    storage = kind.insert((1, "oslo", 1, "a"), (2, "oslo", 1, "b")).upsert((1, "oslo", 7, "in log")).build()
    begin = position(storage)
    table_of(storage).upsert(kind.batch((1, "oslo", 6, "late"), (2, "oslo", 3, "new")))
    assert rows_given(storage, begin) == [(2, "oslo", 3, "new")]


@pytest.mark.parametrize("kind", MOR[1:], ids=str)
def test_a_late_row_below_a_delete_of_before_is_not_given(kind: TableBuilder) -> None:
    storage = kind.insert((1, "oslo", 1, "a"), (2, "oslo", 1, "b")).build()
    gone = rows((1, "oslo", 7, "")).append_column(DELETE_FLAG, pa.array([True]))
    table_of(storage).upsert(gone)
    begin = position(storage)
    table_of(storage).upsert(kind.batch((1, "oslo", 6, "late"), (2, "oslo", 3, "new")))
    assert rows_given(storage, begin) == [(2, "oslo", 3, "new")]


@pytest.mark.parametrize("kind", MOR[1:], ids=str)
def test_a_record_that_is_there_again_is_given(kind: TableBuilder) -> None:
    """The late row takes the place of the delete in the log, and loses against the base file: so JVM Hudi merges."""
    storage = kind.insert((1, "oslo", 5, "a"), (2, "oslo", 1, "b")).build()
    table_of(storage).delete(rows((1, "oslo", 0, "")))
    begin = position(storage)
    table_of(storage).upsert(kind.batch((1, "oslo", 3, "late")))
    assert contents(storage) == {(1, "oslo", 5, "a"), (2, "oslo", 1, "b")}
    assert rows_given(storage, begin) == [(1, "oslo", 5, "a")]


@every_mor
def test_a_range_that_ends_earlier_gives_the_state_of_its_end(kind: TableBuilder) -> None:
    storage = kind.insert((1, "oslo", 5, "a"), (2, "oslo", 5, "b")).build()
    begin = position(storage)
    table_of(storage).upsert(kind.batch((1, "oslo", 6, "first"), (2, "oslo", 4, "late")))
    end = position(storage)
    table_of(storage).upsert(kind.batch((1, "oslo", 7, "second"), (2, "oslo", 8, "later")))
    found = table_of(storage).changes(begin, end).to_arrow().column("note").to_pylist()
    assert found == ["first"]


def test_values_that_a_late_row_fills_in_are_given() -> None:
    kind = table(MOR_TABLES[2], FILLING)
    storage = kind.insert((1, "oslo", 5, None), (2, "oslo", 5, "b")).build()  # type: ignore[arg-type]
    begin = position(storage)
    table_of(storage).upsert(kind.batch((1, "oslo", 4, "filled")))
    assert rows_given(storage, begin) == [(1, "oslo", 5, "filled")]


# -- what it costs --------------------------------------------------------------------------------------------


@every_mor
def test_rows_that_cannot_lose_cost_the_footer_of_the_base_file(kind: TableBuilder) -> None:
    storage = kind.insert(*((n, "oslo", 5, "x" * 50) for n in range(3000))).build()
    begin = position(storage)
    table_of(storage).upsert(kind.batch((1, "oslo", 5, "new")))

    def read(note: str) -> list[str]:
        counted = FaultStorage(storage)
        found = table_of(counted).changes(begin).to_arrow()
        assert found.column("note").to_pylist() == [note]
        return [each.path for each in counted.operations if each.name == "open_input" and ".parquet" in each.path]

    assert len(read("new")) == 1  # the footer
    table_of(storage).upsert(kind.batch((1, "oslo", 4, "late"), (3, "oslo", 4, "late")))
    assert len(read("new")) == 2  # and then keys and ordering values


def test_a_table_without_ordering_never_opens_the_earlier_base_file() -> None:
    kind = replace(MOR_TABLES[2], options={"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"})
    storage = kind.insert((1, "oslo", 5, "a")).build()
    begin = position(storage)
    table_of(storage).upsert(rows((1, "oslo", 4, "new")))
    counted = FaultStorage(storage)
    assert table_of(counted).changes(begin).to_arrow().column("note").to_pylist() == ["new"]
    assert not [each for each in counted.operations if each.name == "open_input" and ".parquet" in each.path]


# -- lives ----------------------------------------------------------------------------------------------------

IDS, TIMES = st.integers(0, 5), st.integers(0, 6)


def records(most: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    return st.lists(st.tuples(IDS, TIMES), min_size=1, max_size=most, unique_by=lambda value: value[0])


UPSERT, GONE, DELETE = (st.tuples(st.just(verb), records(4)) for verb in ("upsert", "gone", "delete"))
SERVICES = ["compact", "schedule", "compact_logs", "cluster"]
SERVICE: st.SearchStrategy[tuple[str, list[Any]]] = st.tuples(st.sampled_from(SERVICES), st.just([]))
STEPS = st.lists(st.tuples(st.one_of(UPSERT, UPSERT, UPSERT, GONE, DELETE, SERVICE), st.booleans()), max_size=9)
BY_ARRIVAL = tuple(table(kind, {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}) for kind in MOR_TABLES[1:])
KINDS = (*MOR, *BY_ARRIVAL, *(table(kind, FILLING) for kind in MOR_TABLES), ordered(COW_TABLES[2]))


def step(storage: Storage, verb: str, values: list[tuple[int, int]], label: str) -> None:
    opened = table_of(storage)
    batch: list[Any] = [(key, "oslo", ts, f"{label}:{key}") for key, ts in values]
    if verb == "upsert":
        opened.upsert(rows(*batch).append_column(DELETE_FLAG, pa.array([False] * len(batch))))
    elif verb == "gone":
        opened.upsert(rows(*batch).append_column(DELETE_FLAG, pa.array([True] * len(batch))))
    elif verb == "delete":
        opened.delete(rows(*batch))
    elif verb == "cluster":
        opened.services.cluster()
    elif opened.handle.state.config.table_type is TableType.MERGE_ON_READ:
        getattr(opened.services, verb)()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind}{'-filling' if kind.options == FILLING else ''}")
@given(steps=STEPS)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_follower_that_upserts_what_it_is_given_has_the_rows_of_the_table(kind: TableBuilder, steps: Any) -> None:
    storage = kind.insert(*((n, "oslo", 3, f"start:{n}") for n in range(4))).build(MemoryStorage())
    begin: str | None = None
    follower: dict[int, Row] = {}
    for number, ((verb, values), follows) in enumerate([*steps, (("upsert", [(0, 9)]), True)]):
        note(f"{number}: {verb} {values}{', followed' if follows else ''}")
        step(storage, verb, values, str(number))
        if not follows:
            continue
        source = {row[0]: row for row in contents(storage)}
        for row in rows_given(storage, begin):
            assert source[row[0]] == row, f"{row} was given"
            follower[row[0]] = row
        begin = position(storage)
        # Of deletes it learns in another way: `changes` does not tell of them.
        follower = {key: row for key, row in follower.items() if key in source}
        assert follower == source
