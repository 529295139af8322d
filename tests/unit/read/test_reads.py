"""Snapshot, time travel and incremental reads: which rows, in which types, and how many files are opened for them."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.table_builder import every_version
from tests.support.tables import StepClock, environment, new_table, open_table, rows, values_of

import pyhudi
from pyhudi.api.writes import save
from pyhudi.storage.memory import MemoryStorage
from pyhudi.testing.faults import FaultStorage

_numbers = itertools.count()


def fresh_path() -> str:
    return f"memory://reads-{next(_numbers)}/t"


def written(version: int = 9) -> tuple[MemoryStorage, list[pyhudi.WriteResult]]:
    storage = MemoryStorage()
    table = new_table(storage, version=version, **{"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"})
    return storage, [
        table.insert(rows((1, "oslo", 1, "a"), (2, "rome", 1, "a"))),
        table.upsert(rows((1, "oslo", 2, "b"), (3, "bern", 2, "b"))),
        table.delete(rows((2, "rome", 0, ""))),
        table.insert_overwrite(rows((4, "oslo", 3, "c"))),
    ]


@every_version
def test_time_travel_shows_each_state_that_was(version: int) -> None:
    storage, results = written(version)
    states = [[1, 2], [1, 2, 3], [1, 3], [3, 4]]

    for result, ids in zip(results, states, strict=True):
        found = open_table(storage).scan(["id"], as_of=result.instant).to_arrow().column("id").to_pylist()
        assert sorted(found) == ids
    assert len(open_table(storage).scan(as_of="2001-01-01").to_arrow()) == 0
    assert sorted(
        open_table(storage).scan(["id"], as_of="2099-01-01 00:00:00").to_arrow().column("id").to_pylist()
    ) == [3, 4]


@every_version
def test_changes_are_the_rows_written_in_the_range_as_of_its_end(version: int) -> None:
    storage, results = written(version)
    table = open_table(storage)
    at = [None, *(result.completion_time for result in results)]

    def ids(begin: int, end: int) -> list[int]:
        return sorted(table.changes(at[begin], at[end]).to_arrow().column("id").to_pylist())

    assert ids(0, 1) == [1, 2]
    assert ids(1, 2) == [1, 3]
    assert ids(0, 2) == [1, 2, 3]
    assert ids(2, 3) == []
    assert ids(1, 3) == [1, 3]
    assert ids(1, 4) == [3, 4]
    assert ids(3, 4) == [4]
    assert ids(4, 4) == []
    assert sorted(table.changes(at[3]).to_arrow().column("id").to_pylist()) == [4]


@pytest.mark.parametrize("version", [8, 9])
def test_changes_go_by_completion_when_a_write_that_began_earlier_ends_later(version: int) -> None:
    storage = MemoryStorage()
    clock = StepClock()
    new_table(storage, version=version).insert(rows((1, "oslo", 1, "a"), (2, "rome", 1, "a")))
    opened = [open_table(storage, env=environment(clock))]
    first = opened[0].upsert(rows((1, "oslo", 2, "b"), (2, "rome", 2, "b")))
    quick: list[pyhudi.WriteResult] = []

    def overtake(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith("inflight") and not quick:
            quick.append(open_table(storage, env=environment(clock)).upsert(rows((2, "rome", 3, "c"))))

    slow_table = open_table(FaultStorage(storage, before=overtake), env=environment(clock))
    slow = slow_table.upsert(rows((1, "oslo", 3, "d")))
    assert slow.instant < quick[0].instant < quick[0].completion_time < slow.completion_time

    table = open_table(storage)
    until_quick = table.changes(None, quick[0].completion_time).to_arrow()
    assert values_of(until_quick, ["id", "note"]) == [(1, "b"), (2, "c")]
    assert values_of(table.changes(first.completion_time, quick[0].completion_time).to_arrow(), ["id", "note"]) == [
        (2, "c")
    ]
    assert values_of(table.changes(quick[0].completion_time).to_arrow(), ["id", "note"]) == [(1, "d")]


def test_a_filter_on_a_partition_column_opens_only_its_files() -> None:
    storage, _ = written()
    watched = FaultStorage(storage)

    found = open_table(watched).scan(["id"], [("city", "==", "bern")]).to_arrow()

    assert found.column("id").to_pylist() == [3]
    opened = {o.path for o in watched.operations if o.name == "open_input"}
    assert {path.rpartition("/")[0] for path in opened} == {"city=bern"}


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        pytest.param([("id", ">", 3)], [4], id="one condition"),
        pytest.param([("id", ">", 1), ("city", "==", "bern")], [3], id="all of a list hold"),
        pytest.param([[("id", "==", 4)], [("note", "==", "b")]], [3, 4], id="one of the lists holds"),
        pytest.param(pc.field("city").isin(["bern", "x"]), [3], id="an expression"),
        pytest.param([("city", "==", "nowhere")], [], id="no partition"),
    ],
)
def test_where_takes_conditions_and_expressions(where: Any, ids: list[int]) -> None:
    storage, _ = written()

    assert sorted(open_table(storage).scan(["id"], where).to_arrow().column("id").to_pylist()) == ids


KEYGEN = "hoodie.keygen.timebased"
TIMESTAMPS = {
    "seconds": (pa.array([1_700_000_000, 1_500_000_000]), {f"{KEYGEN}.timestamp.type": "UNIX_TIMESTAMP"}, "yyyy"),
    "text": (
        pa.array(["2024-01-02", "2017-03-04"]),
        {f"{KEYGEN}.timestamp.type": "DATE_STRING", f"{KEYGEN}.input.dateformat": "yyyy-MM-dd"},
        "yyyyMM",
    ),
}


@pytest.mark.parametrize("kind", ["TIMESTAMP", "CUSTOM"])
@pytest.mark.parametrize("name", list(TIMESTAMPS))
def test_a_time_partition_column_reads_as_it_was_written_and_not_as_its_path(name: str, kind: str) -> None:
    values, options, pattern = TIMESTAMPS[name]
    path = fresh_path()
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "at" if kind == "TIMESTAMP" else "at:TIMESTAMP",
        "hoodie.datasource.write.keygenerator.type": kind,
        f"{KEYGEN}.output.dateformat": pattern,
        **options,
    }
    save(pa.table({"id": [1, 2], "at": values}), path, hudi_options=options)

    table = pyhudi.HudiTable.for_path(path)
    assert values_of(table.scan().to_arrow(), ["id", "at"]) == list(zip([1, 2], values.to_pylist(), strict=True))
    assert table.scan(["id"], [("at", "==", values[0].as_py())]).to_arrow().column("id").to_pylist() == [1]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("x", pa.string()),
        (7, pa.int32()),
        (-7, pa.int64()),
        (19000, pa.date32()),
        (1.5, pa.float64()),
        (True, pa.bool_()),
    ],
)
def test_a_partition_column_of_any_type_is_read_and_filtered(value: Any, kind: pa.DataType) -> None:
    path = fresh_path()
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    column = pa.array([value, None], kind)
    save(
        pa.table({"id": [1, 2], "p": column}),
        path,
        hudi_options={**options, "hoodie.datasource.write.partitionpath.field": "p"},
    )

    table = pyhudi.HudiTable.for_path(path)
    assert table.scan(["id"], pc.field("p") == column[0]).to_arrow().column("id").to_pylist() == [1]
    assert table.scan(["id"], pc.field("p").is_null()).to_arrow().column("id").to_pylist() == [2]
    assert table.scan(["p"]).to_arrow().schema.field("p").type == kind


def test_columns_come_in_the_order_asked_for_and_a_batch_at_a_time() -> None:
    storage, _ = written()
    table = open_table(storage)

    assert table.scan(["note", "id"]).to_arrow().column_names == ["note", "id"]
    assert sum(batch.num_rows for batch in table.scan(["id"]).to_batches()) == 2


def test_a_table_that_was_never_written_reads_as_empty_in_its_own_columns() -> None:
    table = new_table(MemoryStorage())

    assert len(table.scan(["id", "city"]).to_arrow()) == 0
    assert table.changes().to_arrow().num_rows == 0
    assert table.schema.names == rows().schema.names


def test_an_opened_table_answers_from_the_moment_it_was_opened() -> None:
    storage = MemoryStorage()
    table = new_table(storage)
    table.insert(rows((1, "oslo", 1, "a")))
    before = open_table(storage)
    table.upsert(rows((1, "oslo", 2, "b")))
    table.delete_partition("city=oslo")

    assert before.scan(["note"]).to_arrow().to_pylist() == [{"note": "a"}]
    assert len(before.refresh().scan().to_arrow()) == 0


def test_history_and_detail_say_what_happened() -> None:
    storage, results = written()
    table = open_table(storage)

    history = table.inspect.history().to_pylist()
    assert [row["operation"] for row in history] == ["insert_overwrite", "delete", "upsert", "insert"]
    assert [row["instant"] for row in reversed(history)] == [result.instant for result in results]
    assert [(row["inserted"], row["updated"], row["deleted"]) for row in history] == [
        (1, 0, 0),
        (0, 0, 1),
        (1, 1, 0),
        (2, 0, 0),
    ]
    detail = table.inspect.detail()
    assert (detail.writes, detail.pending, detail.version) == (4, (), 9)
