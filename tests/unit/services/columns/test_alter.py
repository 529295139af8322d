"""Changes of columns alone: what they commit, what they refuse, and what a crash leaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.support import two_writers
from tests.support.crashes import BEFORE, assert_nothing_left_over, crash_images, opened, prepared, rows
from tests.support.table_builder import TableBuilder
from tests.support.tables import MOR, SCHEMA, acting_at_staging, new_table, open_table
from tests.support.two_writers import CLOCK

import pyhudi
from pyhudi.errors import ConfigError, SchemaMismatchError, UnsupportedFeatureError, WriteConflictError
from pyhudi.format.metadata.commit import encode_commit_metadata
from pyhudi.format.schema.internal_schema import SCHEMA_FOLDER
from pyhudi.format.timeline.instant import Action
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path

BY_IDS = {"hoodie.schema.on.read.enable": "true"}
Alter = Callable[[pyhudi.HudiTable], Any]


def table_of(kind: str = "cow", version: int = 9) -> Storage:
    return prepared(TableBuilder(version, kind, has_delete_flag=True))


def rename_note(table: pyhudi.HudiTable) -> None:
    table.alter.rename_column("note", "remark", hudi_options=BY_IDS)


def notes(storage: Storage) -> set[tuple[Any, ...]]:
    """The rows, whatever the column of notes is called now."""
    table = opened(storage)
    name = "remark" if "remark" in table.schema.names else "note"
    return {tuple(row.values()) for row in table.scan(["id", "city", "ts", name]).to_arrow().to_pylist()}


def newest(storage: Storage) -> Any:
    table = load_table(storage)
    instant = table.timeline.completed_writes[-1]
    return instant, load_commit_metadata(storage, instant, table.version)


@pytest.mark.parametrize(
    ("kind", "version", "action"),
    [("cow", 9, Action.COMMIT), ("mor", 8, Action.DELTA_COMMIT), ("mor", 6, Action.DELTA_COMMIT)],
)
def test_a_rename_is_a_commit_without_files_in_the_form_of_jvm_hudi(kind: str, version: int, action: Action) -> None:
    storage = table_of(kind, version)

    rename_note(opened(storage))

    instant, metadata = newest(storage)
    own, time = instant.requested_time, instant.completion_time
    assert (instant.action, metadata.operation.value, metadata.stats_by_partition) == (action, "alter_schema", {})
    latest = json.loads(metadata.extra["latest_schema"])
    assert list(latest) == ["max_column_id", "version_id", "type", "fields"]
    assert latest["version_id"] == int(own)
    by_name = {column["name"]: column for column in latest["fields"]}
    assert by_name["remark"] == {"id": by_name["remark"]["id"], "name": "remark", "optional": True, "type": "string"}
    assert [column["id"] for column in latest["fields"]] == list(range(len(latest["fields"])))
    completed = f"{own}_{time}" if version >= 8 else own
    files = {info.name: storage.read(info.path) for info in storage.list_folder(SCHEMA_FOLDER).files}
    assert files.keys() == {
        f"{own}.schemacommit.requested",
        f"{own}.schemacommit.inflight",
        f"{completed}.schemacommit",
    }
    newer, older = json.loads(files[f"{completed}.schemacommit"])["schemas"]
    assert newer == latest
    assert (older["version_id"], older["max_column_id"]) == (0, latest["max_column_id"])
    assert "note" in [column["name"] for column in older["fields"]]


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", [6, 9])
def test_a_change_of_columns_that_dies_anywhere_leaves_the_old_columns_or_the_new_ones(kind: str, version: int) -> None:
    given = table_of(kind, version)

    for where, image in crash_images(given, rename_note):
        assert notes(image) == BEFORE, where
        is_done = "remark" in opened(image).schema.names
        table = opened(image, later=True)
        if is_done:
            table.alter.add_column("extra", pa.int32())
        else:
            rename_note(table)
        assert notes(image) == BEFORE, where
        assert "remark" in opened(image).schema.names, where
        assert_nothing_left_over(image)


def test_a_write_that_dies_after_its_history_leaves_the_columns_as_they_were() -> None:
    given = table_of("mor")
    rename_note(opened(given))
    schema = opened(given).schema.append(pa.field("more", pa.int32()))
    row = {"id": 1, "city": "oslo", "ts": 9, "remark": "z", "more": 1, "_hoodie_is_deleted": False}

    def widen(table: pyhudi.HudiTable) -> None:
        table.upsert(pa.Table.from_pylist([row], schema=schema))

    for where, image in crash_images(given, widen, every=3):
        after = (BEFORE - {(1, "oslo", 2, "b")}) | {(1, "oslo", 9, "z")}
        expected = after if "more" in opened(image).schema.names else BEFORE
        assert notes(image) == expected, where
        opened(image, later=True).alter.rename_column("remark", "note")
        assert notes(image) == expected, where


def test_statistics_of_files_under_an_older_name_leave_no_file_out() -> None:
    storage = MemoryStorage()
    table = TableBuilder(9, "cow", options={"hoodie.parquet.small.file.limit": "0"})
    for number in range(9):
        table = table.insert((number, f"city{number}", number, f"n{number}"))
    storage = table.build()
    opened(storage).alter.rename_column("note", "old", hudi_options=BY_IDS)
    opened(storage).alter.add_column("note", pa.string())
    opened(storage).alter.rename_column("old", "kept")

    table = opened(storage)
    assert table.scan(["id"], where=[("kept", "==", "n4")]).to_arrow().to_pylist() == [{"id": 4}]
    assert table.scan(["id"], where=[("note", "==", "n4")]).count() == 0
    assert table.scan(["id"], where=pa.compute.field("note").is_null()).count() == 9


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (lambda a: a.rename_column("note", "remark"), UnsupportedFeatureError, "hoodie.schema.on.read.enable"),
        (lambda a: a.drop_column("note"), UnsupportedFeatureError, "hoodie.schema.on.read.enable"),
        (lambda a: a.drop_column("id", hudi_options=BY_IDS), SchemaMismatchError, "record keys"),
        (lambda a: a.rename_column("city", "town", hudi_options=BY_IDS), SchemaMismatchError, "partition paths"),
        (lambda a: a.change_type("ts", pa.string()), SchemaMismatchError, "orders"),
        (lambda a: a.change_type("note", pa.int32()), SchemaMismatchError, "cannot all be read as int32"),
        (lambda a: a.change_type("note", str), ConfigError, r"one of Arrow, such as pa\.int64"),
        (lambda a: a.add_column("x", "varchar"), ConfigError, r"one of Arrow, such as pa\.int64"),
        (lambda a: a.add_column("Note", pa.int32()), SchemaMismatchError, "there already"),
        (lambda a: a.add_column("no te", pa.int32()), SchemaMismatchError, "letters"),
        (lambda a: a.add_column("note.x", pa.int32()), SchemaMismatchError, "no struct"),
        (lambda a: a.add_column("x", pa.int32(), after="nowhere"), SchemaMismatchError, "not beside it"),
        (lambda a: a.add_column("x", pa.int32(), after="id", first=True), ConfigError, "one of the two"),
        (lambda a: a.rename_column("nowhere", "x", hudi_options=BY_IDS), SchemaMismatchError, "no column"),
        (lambda a: a.rename_column("note", "CITY", hudi_options=BY_IDS), SchemaMismatchError, "there already"),
        (lambda a: a.move_column("note", hudi_options=BY_IDS), ConfigError, "where the column goes"),
        (lambda a: a.drop_column("_hoodie_record_key", hudi_options=BY_IDS), SchemaMismatchError, "no column"),
    ],
)
def test_a_change_that_cannot_be_is_refused_before_anything_is_written(
    change: Alter, error: type[Exception], said: str
) -> None:
    storage = table_of()
    before = sorted(info.path for info in storage.list_recursive(""))

    with pytest.raises(error, match=said):
        change(opened(storage).alter)

    assert sorted(info.path for info in storage.list_recursive("")) == before


def test_captured_changes_from_before_a_rename_have_the_values_of_the_column() -> None:
    cdc = {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": "op_key_only"}
    storage = TableBuilder(9, "mor", options=cdc).insert((1, "oslo", 1, "a")).upsert((1, "oslo", 2, "b")).build()
    rename_note(opened(storage))

    found = opened(storage).changes(format="cdc").to_arrow().to_pylist()

    images = [(one["before"], one["after"]) for one in found]
    told = [[one and json.loads(one)["remark"] for one in pair] for pair in images]
    assert told == [[None, "a"], ["a", "b"]]


@pytest.mark.parametrize("mode", ["data_before_after", "data_before", "op_key_only"])
def test_typed_images_have_the_columns_of_today_whatever_those_of_the_log_are_called(mode: str) -> None:
    cdc = {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": mode}
    storage = TableBuilder(9, "cow", options=cdc).insert((1, "oslo", 1, "a")).upsert((1, "oslo", 2, "b")).build()
    rename_note(opened(storage))
    opened(storage).alter.add_column("note", pa.int32())

    found = opened(storage).changes(format="cdc_typed").to_arrow().to_pylist()

    images = [(one["before"], one["after"]) for one in found]
    told = [[one and (one["remark"], one["note"]) for one in pair] for pair in images]
    assert told == [[None, ("a", None)], [("a", None), ("b", None)]]


def test_columns_without_ids_get_more_of_them_and_comments() -> None:
    storage = table_of()

    changed = opened(storage).alter.add_column("tip", pa.float64(), after="id", comment="in oslo")

    assert changed.schema.names[:2] == ["id", "tip"]
    assert not changed.has_ids
    _, metadata = newest(storage)
    assert "latest_schema" not in metadata.extra
    tip = next(one for one in json.loads(metadata.schema)["fields"] if one["name"] == "tip")
    assert tip == {"name": "tip", "type": ["null", "double"], "doc": "in oslo", "default": None}
    assert not storage.list_folder(SCHEMA_FOLDER).files
    opened(storage).alter.add_column("more", pa.int32())
    assert "in oslo" in newest(storage)[1].schema


def test_columns_of_types_that_pyhudi_carries_through_keep_their_logical_types() -> None:
    storage = table_of()
    vector = {"type": "fixed", "name": "vector_float_3", "size": 12, "logicalType": "vector", "dimension": 3}
    instant, metadata = newest(storage)
    record = json.loads(metadata.schema)
    record["fields"].append({"name": "v", "type": ["null", vector], "default": None})
    table = load_table(storage)
    changed = replace(metadata, extra={**metadata.extra, "schema": json.dumps(record)})
    storage.put(instant_path(instant, table.version), encode_commit_metadata(changed, table.version))

    opened(storage).alter.add_column("more", pa.int32())
    table = opened(storage)
    table.upsert(pa.Table.from_pylist([{"id": 9, "city": "oslo", "ts": 1, "v": bytes(12)}], table.schema))

    fields = {one["name"]: one["type"] for one in json.loads(newest(storage)[1].schema)["fields"]}
    assert fields["v"] == ["null", vector]
    with pytest.raises(UnsupportedFeatureError, match=r"'v' has the type fixed\[12\]"):
        rename_note(opened(storage))


def test_a_timestamp_without_a_zone_keeps_a_table_from_getting_ids() -> None:
    storage = table_of()
    opened(storage).alter.add_column("at", pa.timestamp("us"))

    with pytest.raises(UnsupportedFeatureError, match="'at' has the type local-timestamp-micros"):
        rename_note(opened(storage))


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_whole_numbers_with_more_digits_than_a_float_are_rounded_wherever_they_are_read(kind: str) -> None:
    inside = pa.struct([("x", pa.int64())])
    schema = pa.schema([*SCHEMA, ("n", pa.int64()), ("s", inside)])
    exact = (1 << 53) + 1
    options = MOR if kind == "mor" else {}
    storage = new_table(schema=schema, **options).handle.state.storage
    row = {"id": 1, "city": "oslo", "ts": 1, "note": "a", "n": exact, "s": {"x": exact}}
    open_table(storage).upsert(pa.Table.from_pylist([row], schema=schema))
    open_table(storage).alter.change_type("n", pa.float64())
    open_table(storage).alter.change_type("s.x", pa.float64())

    table = open_table(storage)
    rounded = [{"n": float(1 << 53), "s": {"x": float(1 << 53)}}]
    assert table.scan(["n", "s"]).to_arrow().to_pylist() == rounded
    assert table.scan(["n", "s"], [("n", "==", float(1 << 53))]).to_arrow().to_pylist() == rounded
    assert table.scan(where=[("n", "==", float(1 << 53))]).count() == 1


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_write_prepared_before_a_column_is_made_anew_gives_way(kind: str) -> None:
    storage = TableBuilder(9, kind, has_delete_flag=True, clock=CLOCK).insert((1, "oslo", 1, "a")).build()  # type: ignore[arg-type]

    def made_anew() -> None:
        two_writers.opened(storage).alter.drop_column("note", hudi_options=BY_IDS)
        two_writers.opened(storage).alter.add_column("note", pa.string(), after="ts")

    with pytest.raises(WriteConflictError, match="another writer changed the table"):
        acting_at_staging(two_writers.opened(storage), made_anew).upsert(rows((2, "rome", 1, "b")))
    assert two_writers.opened(storage).scan(["id", "note"]).to_arrow().to_pylist() == [{"id": 1, "note": None}]
