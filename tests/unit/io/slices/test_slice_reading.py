"""A base file met by the changes of its logs: what stays, what is new, what goes, and what is looked at for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.table_builder import ONE_GROUP, TableBuilder, every_version
from tests.support.tables import EVENT_TIME, MOR, SCHEMA, contents, new_table, open_table, plan_of, rows

from pyhudi.errors import CorruptDataError, UnsupportedFeatureError
from pyhudi.io.slices import merged as merged_slice
from pyhudi.io.slices.files import SliceFiles
from pyhudi.io.slices.merged import MergeSettings, merge_slice, read_merged
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.testing.faults import FaultStorage


def prepared(version: int = 9) -> Storage:
    """A base file of three records, and logs: one updated, one that came late, one deleted."""
    table = TableBuilder(version, "mor", options=EVENT_TIME).insert(*ONE_GROUP)
    return table.upsert((1, "oslo", 6, "b"), (2, "oslo", 4, "late")).delete((3, "oslo", 0, "")).build()


def only_slice(storage: MemoryStorage) -> tuple[SliceFiles, MergeSettings]:
    plan = plan_of(open_table(storage))
    (one,) = plan.slices
    return one.files, plan.merging


def notes(batches: Sequence[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    return sorted((row["id"], row["note"]) for batch in batches for row in batch.to_pylist())


@every_version
def test_a_piece_tells_rows_that_stay_from_those_that_changed_and_counts_those_that_go(version: int) -> None:
    storage = prepared(version)
    files, settings = only_slice(storage)

    pieces = list(merge_slice(storage, files, settings, ["id", "note"]))

    assert notes([piece.stored for piece in pieces]) == [(2, "a")]
    assert notes([piece.updated for piece in pieces]) == [(1, "b")]
    assert notes([piece.inserted for piece in pieces]) == []
    assert sum(piece.deleted for piece in pieces) == 1


def test_records_of_logs_alone_come_last_and_without_those_that_logs_delete_again() -> None:
    storage = prepared()
    files, settings = only_slice(storage)
    sink = pa.BufferOutputStream()
    pq.write_table(pq.read_table(pa.BufferReader(storage.read(files.base or ""))).slice(1, 1), sink)
    storage.put("city=oslo/smaller.parquet", sink.getvalue().to_pybytes())

    pieces = list(merge_slice(storage, replace(files, base="city=oslo/smaller.parquet"), settings, ["id", "note"]))

    assert notes([piece.inserted for piece in pieces[:-1]]) == []
    assert notes([pieces[-1].inserted]) == [(1, "b")]
    assert sum(piece.deleted for piece in pieces) == 0


def test_logs_without_a_base_file_are_a_slice_of_their_newest_versions() -> None:
    storage = prepared()
    files, settings = only_slice(storage)

    found = read_merged(storage, replace(files, base=None), settings, ["id", "note"])

    assert notes(list(found)) == [(1, "b"), (2, "late")]


def test_the_result_has_the_wanted_columns_in_their_order_and_no_others() -> None:
    storage = prepared()
    files, settings = only_slice(storage)
    wanted = ["note", "_hoodie_commit_time", "id"]

    for piece in merge_slice(storage, files, settings, wanted):
        for batch in (piece.stored, piece.updated, piece.inserted):
            assert batch.schema.names == wanted
            assert batch.schema.types == [pa.string(), pa.string(), pa.int64()]


def test_changed_rows_carry_the_write_that_changed_them_and_others_their_own() -> None:
    storage = prepared()
    first, second, _ = (i.requested_time for i in open_table(storage).handle.state.timeline.completed_writes)

    files, settings = only_slice(storage)
    found = list(read_merged(storage, files, settings, ["id", "_hoodie_commit_time"]))

    assert {tuple(row.values()) for batch in found for row in batch.to_pylist()} == {(1, second), (2, first)}


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 7])
def test_changes_find_their_rows_in_whatever_batch_of_the_base_file(
    monkeypatch: pytest.MonkeyPatch, batch_rows: int
) -> None:
    storage = MemoryStorage()
    new_table(storage, **EVENT_TIME, **MOR).insert(rows(*((n, "oslo", 5, "a") for n in range(7))))
    open_table(storage, **MOR).upsert(rows(*((n, "oslo", 6, "b") for n in (0, 2, 3, 6))))
    open_table(storage, **MOR).delete(rows((1, "oslo", 0, ""), (5, "oslo", 0, "")))
    monkeypatch.setattr(merged_slice, "BATCH_ROWS", batch_rows)

    files, settings = only_slice(storage)
    found = notes(list(read_merged(storage, files, settings, ["id", "note"])))

    assert found == [(0, "b"), (2, "b"), (3, "b"), (4, "a"), (6, "b")]


def test_stored_duplicates_of_a_key_are_all_changed() -> None:
    storage = MemoryStorage()
    new_table(storage, **EVENT_TIME, **MOR).insert(rows((1, "oslo", 5, "a"), (1, "oslo", 7, "z"), (2, "oslo", 5, "a")))
    open_table(storage, **MOR).upsert(rows((1, "oslo", 6, "b")))

    files, settings = only_slice(storage)
    found = notes(list(read_merged(storage, files, settings, ["id", "note"])))

    assert found == [(1, "b"), (1, "z"), (2, "a")]


def test_of_stored_rows_only_those_of_the_wanted_writes_are_there() -> None:
    storage = prepared()
    first, second, third = (i.requested_time for i in open_table(storage).handle.state.timeline.completed_writes)
    files, settings = only_slice(storage)

    def ids(*writes: str) -> list[int]:
        chosen = replace(settings, commit_times=frozenset(writes))
        return sorted(n for n, _ in notes(list(read_merged(storage, files, chosen, ["id", "note"]))))

    assert ids(first) == [1, 2]
    # Whether a change lost against a row that is not looked at, nobody asks.
    assert ids(second) == ids(second, third) == [1, 2]


def test_rows_of_an_older_schema_are_read_under_the_newest() -> None:
    old = pa.schema([("id", pa.int64()), ("city", pa.string()), ("ts", pa.int32())])
    storage = MemoryStorage()
    before = pa.table([[1, 2], ["oslo"] * 2, pa.array([5, 5], pa.int32())], schema=old)
    new_table(storage, schema=old, **EVENT_TIME, **MOR).insert(before)

    open_table(storage, **MOR).upsert(rows((1, "oslo", 2**40, "b")))

    assert open_table(storage).scan(SCHEMA.names).to_arrow().schema.field("ts").type == pa.int64()
    assert contents(storage) == {(1, "oslo", 2**40, "b"), (2, "oslo", 5, None)}


def test_a_slice_without_logs_costs_no_merge() -> None:
    storage = MemoryStorage()
    new_table(storage, **MOR).insert(rows(*ONE_GROUP))
    watched = FaultStorage(storage)

    assert len(open_table(watched).scan(["note"]).to_arrow()) == 3

    assert not plan_of(open_table(storage)).merged
    assert [one.path for one in watched.operations if ".log." in one.path] == []


def test_a_table_without_meta_columns_cannot_be_merged() -> None:
    storage = prepared()
    files, settings = only_slice(storage)

    with pytest.raises(UnsupportedFeatureError, match="_hoodie_record_key"):
        list(merge_slice(storage, files, replace(settings, schema=SCHEMA), ["id"]))


def test_a_damaged_base_file_under_logs_is_named() -> None:
    storage = prepared()
    files, _ = only_slice(storage)
    assert files.base is not None
    storage.put(files.base, storage.read(files.base)[:-20])

    with pytest.raises(CorruptDataError) as caught:
        open_table(storage).scan().to_arrow()

    assert files.base in str(caught.value)


@pytest.mark.parametrize(
    ("where", "kept"),
    [([("note", "==", "b")], [1]), ([("note", "==", "a")], [2]), ([("ts", ">", 5)], [1]), ([("ts", "<", 5)], [])],
)
def test_a_condition_is_asked_of_merged_rows_and_not_of_older_versions(where: list[Any], kept: list[int]) -> None:
    found = open_table(prepared()).scan(["id"], where).to_arrow()

    assert found.column("id").to_pylist() == kept


def test_pruned_partitions_with_logs_are_not_opened() -> None:
    storage = prepared()
    open_table(storage, **MOR).insert(rows((8, "rome", 1, "a")))
    watched = FaultStorage(storage)

    found = open_table(watched).scan(["id"], [("city", "==", "rome")]).to_arrow()

    assert found.column("id").to_pylist() == [8]
    assert [one.path for one in watched.operations if one.path.startswith("city=oslo/")] == []
