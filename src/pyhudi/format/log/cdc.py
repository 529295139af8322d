"""Change data logs: what one write did to the records of a file group, record by record, with images of the rows.

A change data log is a log file (`.<file id>_<instant>.log.1_<write token>.cdc`) of blocks of the type CDC_DATA, whose
content is laid out like that of an Avro data block. It stands beside the base file that the write made, and only the
write's metadata name it. The logging mode of the table decides what a record of it has:

    OP_KEY_ONLY          op, record_key
    DATA_BEFORE          op, record_key, before
    DATA_BEFORE_AFTER    op, ts_ms, before, after

`op` is i, u or d; `ts_ms` the instant of the write; the images are rows without meta columns, null where there is none.
"""

from __future__ import annotations

import enum
import json
from typing import Any, Final

import pyarrow as pa

from pyhudi.errors import CorruptDataError
from pyhudi.format.avro.layout import record_layout
from pyhudi.format.avro.records import decode_avro_records, encode_avro_records
from pyhudi.format.schema.meta_columns import META_COLUMNS

OPERATION: Final = "op"
INSTANT: Final = "ts_ms"
KEY: Final = "record_key"
BEFORE: Final = "before"
AFTER: Final = "after"

INSERTED: Final = "i"
UPDATED: Final = "u"
DELETED: Final = "d"


class LoggingMode(enum.Enum):
    """What change data logs hold (`hoodie.table.cdc.supplemental.logging.mode`)."""

    OP_KEY_ONLY = "OP_KEY_ONLY"
    DATA_BEFORE = "DATA_BEFORE"
    DATA_BEFORE_AFTER = "DATA_BEFORE_AFTER"

    @property
    def columns(self) -> tuple[str, ...]:
        """The fields of its records, in their order."""
        return _COLUMNS[self]


_COLUMNS: Final = {
    LoggingMode.OP_KEY_ONLY: (OPERATION, KEY),
    LoggingMode.DATA_BEFORE: (OPERATION, KEY, BEFORE),
    LoggingMode.DATA_BEFORE_AFTER: (OPERATION, INSTANT, BEFORE, AFTER),
}
# Without images the null branch comes last, and the record has no namespace: so JVM Hudi writes it.
_KEY_ONLY_SCHEMA: Final = json.dumps(
    {
        "type": "record",
        "name": "Record",
        "fields": [{"name": name, "type": ["string", "null"]} for name in (OPERATION, KEY)],
    },
    separators=(",", ":"),
)


def change_schema(mode: LoggingMode, table_schema: str, *, has_docs: bool = True) -> str:
    """The Avro JSON of the records of a change data log, for a table whose rows have this schema.

    `has_docs`: fields have an empty doc, as JVM Hudi writes them since 1.0.

    Raises:
        CorruptDataError: not the JSON of a record schema.
    """
    if mode is LoggingMode.OP_KEY_ONLY:
        return _KEY_ONLY_SCHEMA
    record = json.loads(table_schema)
    if not isinstance(record, dict) or "name" not in record:
        raise CorruptDataError("the Avro schema is not one of a record")
    doc = {"doc": ""} if has_docs else {}
    inner = {key: value for key, value in record.items() if key != "namespace"}
    # After an ALTER TABLE of JVM Hudi the schema of a table names the meta columns, too.
    inner["fields"] = [field for field in record.get("fields", ()) if field.get("name") not in META_COLUMNS]
    types: dict[str, Any] = dict.fromkeys((OPERATION, INSTANT, KEY), "string")
    types |= {BEFORE: inner, AFTER: record["name"]}
    outer = {
        "type": "record",
        "name": "CDC",
        **({"namespace": record["namespace"]} if "namespace" in record else {}),
        **doc,
        "fields": [{"name": name, "type": ["null", types[name]], **doc, "default": None} for name in mode.columns],
    }
    return json.dumps(outer, ensure_ascii=False, separators=(",", ":"))


def change_rows(
    schema: str,
    operation: str,
    instant_time: str,
    keys: pa.Array,
    before: pa.RecordBatch | None,
    after: pa.RecordBatch | None,
) -> pa.RecordBatch:
    """Changes of one operation as records of this schema. Images have the table's own columns; None: there is none."""
    count = len(keys)
    columns = []
    fields = record_layout(schema).schema
    for field in fields:
        if field.name in (BEFORE, AFTER):
            image = before if field.name == BEFORE else after
            columns.append(pa.nulls(count, field.type) if image is None else _struct(image, field.type))
        elif field.name == KEY:
            columns.append(keys)
        else:
            columns.append(pa.repeat(operation if field.name == OPERATION else instant_time, count))
    return pa.RecordBatch.from_arrays(columns, schema=fields)


def encode_changes(changes: pa.RecordBatch, schema: str) -> bytes:
    """The content of one block. Errors: see `encode_avro_records`."""
    return encode_avro_records(changes, schema)


def decode_changes(content: pa.Buffer | bytes, schema: str | None, *, path: str, offset: int) -> pa.RecordBatch:
    """The changes of one block: `op`, and of `ts_ms`, `record_key`, `before` and `after` what its mode has.

    Raises:
        CorruptDataError: a damaged content, a block without a schema, or one whose schema is not of change data.
        UnsupportedFeatureError: see `decode_avro_records`.
    """
    if schema is None:
        raise CorruptDataError("a block of change data has no schema", path=path, offset=offset)
    changes = decode_avro_records(content, schema, path=path, offset=offset)
    if not any(set(changes.schema.names) == set(mode.columns) for mode in LoggingMode):
        raise CorruptDataError("a block has no change data", path=path, offset=offset, columns=changes.schema.names)
    for field in changes.schema:
        is_right = pa.types.is_struct(field.type) if field.name in (BEFORE, AFTER) else pa.types.is_string(field.type)
        if not is_right:
            raise CorruptDataError(
                "a column of change data has another type", path=path, offset=offset, column=field.name
            )
    return changes


def _struct(rows: pa.RecordBatch, kind: pa.StructType) -> pa.StructArray:
    """The rows as an array of this type, whose fields are the columns."""
    columns = [rows.column(field.name) for field in kind]
    return pa.StructArray.from_arrays(columns, fields=list(kind))
