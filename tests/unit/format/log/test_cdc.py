"""The codec of change data logs: schemas as JVM Hudi writes them, and what comes back."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from pyhudi.errors import CorruptDataError
from pyhudi.format.avro.records import encode_avro_records
from pyhudi.format.log.cdc import (
    LoggingMode,
    change_rows,
    change_schema,
    decode_changes,
    encode_changes,
)
from pyhudi.format.schema.avro_arrow import arrow_to_avro, avro_with_meta_columns

TABLE = pa.schema([("id", pa.string()), ("fare", pa.decimal128(10, 2)), ("tags", pa.list_(pa.string()))])
AVRO = arrow_to_avro(TABLE, table_name="trips")
ROWS = pa.RecordBatch.from_pydict({"id": ["a", "b"], "fare": [None, None], "tags": [["x"], None]}).cast(
    pa.schema([pa.field(field.name, field.type) for field in TABLE])
)
OF_HUDI = {
    # Written by JVM Hudi 1.2.0; `{}` stands for the record of the table without its namespace.
    LoggingMode.OP_KEY_ONLY: '{"type":"record","name":"Record","fields":[{"name":"op","type":["string","null"]},'
    '{"name":"record_key","type":["string","null"]}]}',
    LoggingMode.DATA_BEFORE: '{"type":"record","name":"CDC","namespace":"hoodie.trips","doc":"","fields":'
    '[{"name":"op","type":["null","string"],"doc":"","default":null},'
    '{"name":"record_key","type":["null","string"],"doc":"","default":null},'
    '{"name":"before","type":["null",{}],"doc":"","default":null}]}',
    LoggingMode.DATA_BEFORE_AFTER: '{"type":"record","name":"CDC","namespace":"hoodie.trips","doc":"","fields":'
    '[{"name":"op","type":["null","string"],"doc":"","default":null},'
    '{"name":"ts_ms","type":["null","string"],"doc":"","default":null},'
    '{"name":"before","type":["null",{}],"doc":"","default":null},'
    '{"name":"after","type":["null","trips_record"],"doc":"","default":null}]}',
}


@pytest.mark.parametrize("mode", LoggingMode)
def test_schema_is_that_of_jvm_hudi(mode: LoggingMode) -> None:
    inner = json.dumps({k: v for k, v in json.loads(AVRO).items() if k != "namespace"}, separators=(",", ":"))
    assert change_schema(mode, AVRO) == OF_HUDI[mode].replace("{}", inner)


def test_schema_of_older_releases_has_no_docs() -> None:
    assert '"doc"' not in change_schema(LoggingMode.DATA_BEFORE_AFTER, AVRO, has_docs=False)


@pytest.mark.parametrize("mode", LoggingMode)
def test_a_schema_that_names_the_meta_columns_has_the_same_images(mode: LoggingMode) -> None:
    assert json.loads(change_schema(mode, avro_with_meta_columns(AVRO))) == json.loads(change_schema(mode, AVRO))


@pytest.mark.parametrize("mode", LoggingMode)
@pytest.mark.parametrize("operation", ["i", "u", "d"])
def test_changes_come_back_as_they_were_written(mode: LoggingMode, operation: str) -> None:
    schema = change_schema(mode, AVRO)
    before, after = (None if operation == "i" else ROWS), (None if operation == "d" else ROWS)
    rows = change_rows(schema, operation, "20261123060735652", ROWS.column("id"), before, after)
    found = decode_changes(encode_changes(rows, schema), schema, path="f", offset=0)
    assert tuple(found.schema.names) == mode.columns
    assert found.to_pylist() == rows.to_pylist()
    values = ROWS.to_pylist()
    expected = {
        "op": [operation] * 2,
        "ts_ms": ["20261123060735652"] * 2,
        "record_key": ["a", "b"],
        "before": [None, None] if before is None else values,
        "after": [None, None] if after is None else values,
    }
    assert found.to_pydict() == {name: expected[name] for name in mode.columns}


def test_a_log_without_records_has_none() -> None:
    schema = change_schema(LoggingMode.DATA_BEFORE_AFTER, AVRO)
    rows = change_rows(schema, "i", "1", pa.array([], pa.string()), None, None)
    assert decode_changes(encode_changes(rows, schema), schema, path="f", offset=0).num_rows == 0


@pytest.mark.parametrize(
    "fields",
    [
        [("op", "string"), ("key", "string")],
        [("op", "int"), ("record_key", "string")],
        [("op", "string"), ("record_key", "string"), ("before", "string")],
    ],
)
def test_rows_that_are_no_change_data_are_named(fields: list[tuple[str, str]]) -> None:
    schema = json.dumps({"type": "record", "name": "X", "fields": [{"name": n, "type": t} for n, t in fields]})
    types = {"string": pa.string(), "int": pa.int32()}
    rows = pa.record_batch(
        [pa.array([], types[t]) for _, t in fields], schema=pa.schema([pa.field(n, types[t], False) for n, t in fields])
    )
    with pytest.raises(CorruptDataError) as caught:
        decode_changes(encode_avro_records(rows, schema), schema, path="f", offset=7)
    assert caught.value.context["path"] == "f"
    with pytest.raises(CorruptDataError, match="no schema"):
        decode_changes(b"", None, path="f", offset=7)
