"""The messages of Debezium: PostgreSQL, MySQL and MariaDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.cdc.event_columns import (
    DELETE,
    OPERATION,
    ORIGIN_TIME,
    POSTGRESQL,
    binlog_columns,
    check_every_value,
    column,
    fields_of,
    postgres_columns,
    without_tombstones,
)
from pyhudi.errors import InvalidRequestError, UnsupportedFeatureError

_ROWS: Final = pa.array(["c", "u", "r", DELETE])
_NO_ROWS: Final = "m"
"""A message that a program wrote into the log of PostgreSQL."""
_DATABASES: Final = (POSTGRESQL, "mysql", "mariadb")


def debezium_rows(envelopes: pa.Table, kept: Sequence[str]) -> tuple[str, pa.Table]:
    """The kind of the database, and the rows of the messages, as `flatten` describes them, with the columns `kept`."""
    if "op" not in envelopes.column_names:
        if "payload" in envelopes.column_names:
            raise UnsupportedFeatureError(
                "messages with a schema and a payload are not read: give Debezium value.converter.schemas.enable=false"
            )
        raise InvalidRequestError(
            "these are no messages of Debezium, which have op, before, after and source, nor of Maxwell: let Debezium "
            "send whole changes, without the transformation ExtractNewRecordState",
            columns=[name for name in envelopes.column_names if name not in kept],
        )
    envelopes = without_tombstones(envelopes, "op", kept)
    operations = column(envelopes, "op", pa.string())
    is_row = pc.is_in(operations, _ROWS)
    _check_operations(operations, is_row)
    envelopes, operations = envelopes.filter(is_row), operations.filter(is_row)
    source = fields_of(envelopes, "source")
    database = _database(source)
    events = {
        OPERATION: operations,
        "_upstream_event_processed_ts_ms": column(envelopes, "ts_ms", pa.int64()),
        "db_shard_source_partition": column(source, "name", pa.string()),
        ORIGIN_TIME: column(source, "ts_ms", pa.int64()),
    }
    if database == POSTGRESQL:
        events |= postgres_columns(source, operations)
    else:
        file, position = column(source, "file", pa.string()), column(source, "pos", pa.int64())
        events |= binlog_columns(file, position, column(source, "row", pa.int32()), operations)
    events |= {name: envelopes[name] for name in kept}
    return database, with_events(_changed_rows(envelopes, operations), events)


def _check_operations(operations: pa.StringArray, is_row: pa.BooleanArray) -> None:
    others = set(pc.unique(operations.filter(pc.invert(is_row))).to_pylist()) - {_NO_ROWS}
    if "t" in others:
        raise UnsupportedFeatureError(
            "the source table was truncated, which rows cannot say: give Debezium skipped.operations=t, which is its "
            "default, and delete the rows of the table"
        )
    if others:
        raise InvalidRequestError("a message has an operation that is unknown", operations=sorted(others))


def _database(source: pa.Table) -> str:
    """The kind of the database. Raises `UnsupportedFeatureError` where the messages are those of several tables."""
    values = {name: column(source, name, pa.string()) for name in ("connector", "db", "schema", "table")}
    for name in ("connector", "table"):
        check_every_value(values[name], f"source.{name}")
    names = {name: pc.unique(found).to_pylist() for name, found in values.items()}
    several = {name: found for name, found in names.items() if len(found) > 1}
    if several:
        raise UnsupportedFeatureError("the changes are those of several tables: flatten each by itself", **several)
    database = next(iter(names["connector"]), _DATABASES[0])
    if database not in _DATABASES:
        raise UnsupportedFeatureError(
            "changes of this database are not read", connector=database, known=list(_DATABASES)
        )
    return str(database)


def _changed_rows(envelopes: pa.Table, operations: pa.StringArray) -> pa.Table:
    """What is after a change, and for a delete what was before it, in the order of the messages."""
    deletes = pc.equal(operations, DELETE).to_numpy(zero_copy_only=False)
    parts, places = [], []
    for name, chosen in (("after", ~deletes), ("before", deletes)):
        rows = np.flatnonzero(chosen)
        if not rows.size:
            continue
        part = envelopes.take(pa.array(rows))
        if name not in part.column_names or part[name].null_count:
            raise InvalidRequestError(
                f"a change has no {name!r}, so nothing says which row it is: give the source table a primary key, or "
                "the replica identity FULL",
                operation=operations[int(rows[0])].as_py(),
            )
        parts.append(fields_of(part, name))
        places.append(rows)
    if not parts:
        return fields_of(envelopes, "after").slice(0, 0)
    joined = pa.concat_tables(parts, promote_options="permissive")
    return joined if len(parts) == 1 else joined.take(pa.array(np.argsort(np.concatenate(places), kind="stable")))


def with_events(rows: pa.Table, events: Mapping[str, pa.Array | pa.ChunkedArray]) -> pa.Table:
    """The rows with the columns of their changes. Raises `InvalidRequestError` where they have such columns."""
    twice = sorted(set(rows.column_names) & set(events))
    if twice:
        raise InvalidRequestError(
            "the source table has columns with the names that say where changes are", columns=twice
        )
    return pa.table([*rows.columns, *events.values()], names=[*rows.column_names, *events])
