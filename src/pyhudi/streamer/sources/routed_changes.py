"""The source table of each change, in a topic with the changes of many tables of a database."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.cdc.event_columns import column, fields_of
from pyhudi.errors import SchemaMismatchError
from pyhudi.streamer.sources.apart import UnreadableError
from pyhudi.streamer.sources.avro_rows import in_order, places_by_schema, rows_of_avro
from pyhudi.streamer.sources.json_rows import rows_of_json

_DEBEZIUM: Final = pa.schema([("source", pa.struct([(name, pa.string()) for name in ("db", "schema", "table")]))])
_MAXWELL: Final = pa.schema([("database", pa.string()), ("table", pa.string())])
SchemaOf = Callable[[int], str | None]


def tables_of_json(values: pa.ChunkedArray, *, is_maxwell: bool) -> pa.Array:
    """The source table of each message, as `schema.table` of PostgreSQL and `database.table` of others.

    It is null where a message does not say it, or is no JSON object.
    """
    texts = values.combine_chunks()
    try:
        rows = rows_of_json(texts, _MAXWELL if is_maxwell else _DEBEZIUM, None)
    except (UnreadableError, SchemaMismatchError):
        return pa.array([_table_in(text, is_maxwell=is_maxwell) for text in texts.to_pylist()], pa.string())
    return _names(rows) if is_maxwell else _names(fields_of(rows, "source"))


def tables_of_avro(schema_of: SchemaOf, values: pa.ChunkedArray) -> pa.Array:
    """The same of Debezium's messages in Avro, which are decoded by the schemas that they name."""
    messages = values.combine_chunks()
    try:
        places = places_by_schema(messages)
        found = [_names_of_avro(schema_of, messages.take(pa.array(rows))) for rows in places.values()]
    except UnreadableError:
        return pa.array([_table_of_one(schema_of, messages.slice(row, 1)) for row in range(len(messages))], pa.string())
    return pa.concat_arrays(found).take(in_order(places)) if found else pa.nulls(0, pa.string())


def _table_of_one(schema_of: SchemaOf, message: pa.BinaryArray) -> str | None:
    """As `tables_of_avro`, of one message; slow, for ranges of which not all can be read."""
    try:
        found: str | None = _names_of_avro(schema_of, message)[0].as_py()
    except UnreadableError:
        return None
    return found


def _names_of_avro(schema_of: SchemaOf, messages: pa.BinaryArray) -> pa.Array:
    rows = rows_of_avro(messages, schema_of, None, None)
    if not pa.types.is_struct(rows.schema.field("source").type if "source" in rows.column_names else pa.null()):
        return pa.nulls(len(messages), pa.string())
    return _names(fields_of(rows, "source"))


def _names(rows: pa.Table) -> pa.Array:
    """The names of tables, of columns with the database, the schema and the table."""
    spaces = [column(rows, name, pa.string()) for name in ("schema", "database", "db")]
    return pc.binary_join_element_wise(pc.coalesce(*spaces), column(rows, "table", pa.string()), ".")


def _table_in(text: bytes, *, is_maxwell: bool) -> str | None:
    """As `tables_of_json`, of one message; slow, for ranges in which not all are alike."""
    try:
        found: Any = json.loads(text)
    except ValueError:
        return None
    if not is_maxwell:
        found = found.get("source") if isinstance(found, dict) else None
    if not isinstance(found, dict):
        return None
    space = next((found[name] for name in ("schema", "database", "db") if found.get(name) is not None), None)
    table = found.get("table")
    return f"{space}.{table}" if isinstance(space, str) and isinstance(table, str) else None
