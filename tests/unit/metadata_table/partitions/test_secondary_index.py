"""Secondary indexes follow every action: applying their records to the previous entries gives those of a new build."""

from __future__ import annotations

import datetime as dt
import random

import pyarrow as pa
import pytest
from tests.support.index_changes import FLAGGED, act, source_of
from tests.support.tables import EVENT_TIME, MOR, SCHEMA, new_table, open_table

from pyhudi.errors import SchemaMismatchError, UnsupportedFeatureError
from pyhudi.format.metadata_table.keys import split_secondary_keys
from pyhudi.metadata_table.file_changes import change_of_commit
from pyhudi.metadata_table.partitions.secondary_index import SecondaryIndexPartition, entry_keys, indexed_text
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.state import TableState, load_table

BY_NOTE = SecondaryIndexPartition(name="secondary_index_by_note", column="note", hashes_values=True)
VALUES = ("a", "a$b", "x\\y", "n\0z", "", None, "é\ue000")


@pytest.mark.parametrize(
    ("version", "kind", "index"),
    [(8, "mor", "GLOBAL_SIMPLE"), (9, "cow", "GLOBAL_SIMPLE"), (9, "mor", "GLOBAL_SIMPLE"), (9, "mor", "SIMPLE")],
)
def test_entries_follow_random_actions(version: int, kind: str, index: str) -> None:
    chance = random.Random(f"{version}{kind}{index}")
    options = {"hoodie.index.type": index, "hoodie.parquet.small.file.limit": "0", **EVENT_TIME}
    if kind == "mor":
        options |= MOR
    storage = new_table(version=version, schema=FLAGGED, **options).handle.state.storage
    by_note = BY_NOTE if version == 9 else SecondaryIndexPartition(name="s", column="note", hashes_values=False)
    entries: set[str] = set()
    for step in range(9):
        before = load_table(storage)
        act(chance, open_table(storage, **options), step, notes=VALUES)
        entries = _followed(by_note, before, entries)
        table = load_table(storage)
        assert entries == _built(by_note, table), f"after step {step}"
        rows = open_table(storage).scan(["_hoodie_record_key", "note"]).to_arrow()
        assert len(entries) == rows.num_rows - (0 if version == 9 else rows.column("note").null_count)


@pytest.mark.parametrize("hashes_values", [False, True])
def test_a_key_gives_back_its_value_and_record_key(hashes_values: bool) -> None:
    values, record_keys = pa.array(["a$b", "x\\y", "", "\\$"]), pa.array(["k$1", "k\\2", "k3", "$\\"])
    keys = entry_keys(values, record_keys, hashes_values)
    assert split_secondary_keys(keys, path="x") == (values, record_keys)


def test_keys_are_those_of_jvm_hudi() -> None:
    """Taken from tables that Hudi 1.2.0 (version 2) and 1.0.2 (version 1) wrote."""
    names, record_keys = pa.array(["n\0z", None, "a$b"]), pa.array(["k017", "k\\028", "k$015"])
    assert entry_keys(names, record_keys, True).to_pylist() == ["n\\\0z$k017", "\0$k\\\\028", "a\\$b$k\\$015"]
    assert entry_keys(names[:1], record_keys[:1], False).to_pylist() == ["n\0z$k017"]
    day, moment = pa.array([dt.date(2020, 1, 14)]), pa.array([1578790923000004], pa.timestamp("us", "UTC"))
    assert indexed_text(day, True).to_pylist() == ["18275"]
    assert indexed_text(day, False).to_pylist() == ["2020-01-14"]
    assert indexed_text(moment, True).to_pylist() == ["1578790923000004"]


def test_an_entry_is_placed_by_its_value_and_in_version_1_by_its_key() -> None:
    keys = entry_keys(pa.array(["a$b", None]), pa.array(["1", "2"]), True)
    assert BY_NOTE.hashed(keys).to_pylist() == ["a\\$b$", "\0$"]
    assert SecondaryIndexPartition(name="s", column="note", hashes_values=False).hashed(keys) == keys


def test_numbers_whose_text_depends_on_the_java_are_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="type double"):
        indexed_text(pa.array([0.5]), True)


def _followed(by_note: SecondaryIndexPartition, before: TableState, entries: set[str]) -> set[str]:
    found, table = set(entries), load_table(before.storage)
    for instant in table.timeline.completed_writes:
        if instant.requested_time in before.timeline.completed_times:
            continue
        metadata = load_commit_metadata(table.storage, instant, table.version)
        for batch in by_note.records_of(change_of_commit(instant.requested_time, metadata), source_of(before)):
            found = _applied(found, batch)
    return found


def _built(by_note: SecondaryIndexPartition, table: TableState) -> set[str]:
    found: set[str] = set()
    for batch in by_note.initial_records(source_of(table)):
        found = _applied(found, batch)
    return found


def _applied(entries: set[str], batch: pa.RecordBatch) -> set[str]:
    keys, there = batch.column("key").to_pylist(), batch.column(2).is_valid().to_pylist()
    assert len(keys) == len(set(keys))
    added = {key for key, is_there in zip(keys, there, strict=True) if is_there}
    return (entries - set(keys)) | added


INDEXED = {"hoodie.metadata.enable": "true", "hoodie.metadata.global.record.level.index.enable": "true"}
DROPPING = {"hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true"}


@pytest.mark.parametrize(("name", "kind"), [("ts_of_note", pa.string()), ("note", None), ("size", pa.float64())])
def test_a_write_that_takes_a_column_from_its_index_is_refused_before_anything_is_written(
    name: str, kind: pa.DataType | None
) -> None:
    schema = pa.schema([*SCHEMA, ("size", pa.int32())])
    rows = pa.Table.from_pylist([{"id": 1, "city": "oslo", "ts": 1, "note": "a", "size": 7}], schema=schema)
    storage = new_table(schema=schema, **INDEXED).handle.state.storage
    open_table(storage, **INDEXED).upsert(rows)
    for column in ("note", "size"):
        open_table(storage, **INDEXED).indexes.create(f"by_{column}", "secondary", column)
    before = sorted(info.path for info in storage.list_recursive(""))
    kept = [field.with_type(kind) if field.name == name and kind else field for field in schema]
    written = pa.schema([field for field in kept if field.name != name or kind])
    given = rows.select(written.names).cast(written)

    if name in schema.names:
        with pytest.raises(SchemaMismatchError, match=f"'{name}' would .* is in the index secondary_index_by_{name}"):
            open_table(storage, **INDEXED).upsert(given, hudi_options=DROPPING)
        with pytest.raises(SchemaMismatchError, match="drop the index first"):
            open_table(storage, **INDEXED).insert_overwrite_table(given, hudi_options=DROPPING)
        assert sorted(info.path for info in storage.list_recursive("")) == before
        return
    open_table(storage, **INDEXED).upsert(given.set_column(4, "size", pa.array(["7"])))
    assert open_table(storage, **INDEXED).scan(["id"], [("size", "==", "7")]).count() == 1
