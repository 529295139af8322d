"""The columns that say which change a row comes from, as JVM Hudi's Debezium sources name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import InvalidRequestError, UnsupportedFeatureError

OPERATION: Final = "_change_operation_type"
"""The column that says what a change did: `c` inserted, `u` updated, `d` deleted, `r` read by a snapshot."""
DELETE: Final = "d"
"""The value of that column in rows that delete."""
ORIGIN_TIME: Final = "_event_origin_ts_ms"
"""The column with the time of the change in the database, in milliseconds since the epoch."""
LSN: Final = "_event_lsn"
FILE, NUMBER, POSITION, ROW, SEQUENCE = (
    "_event_bin_file",
    "_event_bin_number",
    "_event_pos",
    "_event_row",
    "_event_seq",
)
SNAPSHOT: Final = "r"
POSTGRESQL: Final = "postgresql"
_BINLOG: Final = (NUMBER, POSITION, ROW)
ORDERING: Final[Mapping[str, tuple[str, ...]]] = {
    POSTGRESQL: (LSN,),
    "mysql": _BINLOG,
    "mariadb": _BINLOG,
    "maxwell": _BINLOG,
}
"""By source: the columns whose values grow with each change of a row."""
_SUFFIX: Final = r"\.(?P<number>[0-9]+)$"


def table_options(source: str) -> dict[str, str]:
    """The options of a new table for the rows of `flatten`: which change is the newest, and which ones delete.

    Args:
        source: postgresql, mysql, mariadb or maxwell.

    Raises:
        InvalidRequestError: another source.

    Cost: none.
    """
    if source not in ORDERING:
        raise InvalidRequestError("changes of this source are not read", source=source, known=list(ORDERING))
    if source == POSTGRESQL:
        return {"hoodie.datasource.write.payload.class": "PostgresDebeziumAvroPayload"}
    return {
        "hoodie.table.ordering.fields": ",".join(ORDERING[source]),
        "hoodie.payload.delete.field": OPERATION,
        "hoodie.payload.delete.marker": DELETE,
    }


def postgres_columns(source: pa.Table, operations: pa.Array) -> dict[str, pa.Array]:
    """Where the changes are in PostgreSQL's log."""
    return {
        "_event_tx_id": column(source, "txId", pa.int64()),
        LSN: _placed(column(source, "lsn", pa.int64()), operations, LSN),
        "_event_xmin": column(source, "xmin", pa.int64()),
    }


def binlog_columns(file: pa.Array, position: pa.Array, row: pa.Array, operations: pa.Array) -> dict[str, pa.Array]:
    """Where the changes are in the log of MySQL or MariaDB. `_event_bin_number` is the number in the file's name.

    JVM Hudi's `_event_seq` is a text, by which position 99 comes after 100.
    """
    suffix = pc.struct_field(pc.extract_regex(file, _SUFFIX), "number")
    if pc.any(pc.less(position, 0)).as_py():
        raise InvalidRequestError(
            "a change is at a position below 0 in the log, so nothing orders it: Debezium reads no positions from this"
            " server, which was seen with MariaDB 11.4 and not with 10.11",
            row=pc.index(pc.fill_null(pc.less(position, 0), False), True).as_py(),
        )
    number = _placed(suffix.cast(pa.int64()), operations, NUMBER)
    position = _placed(position, operations, POSITION)
    return {
        FILE: file,
        NUMBER: number,
        POSITION: position,
        ROW: pc.fill_null(row, 0),
        SEQUENCE: pc.binary_join_element_wise(suffix, position.cast(pa.string()), "."),
    }


def _placed(values: pa.Array, operations: pa.Array, name: str) -> pa.Array:
    """The values, with 0 where a snapshot read a row at no place of the log: each change is newer than that."""
    unknown = pc.and_(values.is_null(), pc.not_equal(operations, SNAPSHOT))
    if pc.any(unknown).as_py():
        raise InvalidRequestError(
            f"a change does not say where it is in the log of the database: {name} would be null",
            row=pc.index(unknown, True).as_py(),
        )
    return pc.fill_null(values, 0)


def column(table: pa.Table, name: str, data_type: pa.DataType) -> pa.Array:
    """A column as one array of a type; nulls where there is no such column."""
    if name not in table.column_names or pa.types.is_null(table.schema.field(name).type):
        return pa.nulls(table.num_rows, data_type)
    joined: Any = pa.concat_arrays(table[name].chunks) if table[name].num_chunks else pa.nulls(0, data_type)
    return joined.cast(data_type)


def check_every_value(values: pa.Array, name: str) -> None:
    """Raise `InvalidRequestError` for a change that does not say from which table it is."""
    if values.null_count:
        raise InvalidRequestError(
            f"a change does not say in {name!r} which table it is of", row=pc.index(values.is_null(), True).as_py()
        )


def without_tombstones(messages: pa.Table, name: str, kept: Sequence[str]) -> pa.Table:
    """The messages with a value in column `name`, which says what a change did.

    Those with no value in any column are tombstones, which follow deletes. Raises `InvalidRequestError` for others
    without it. Columns `kept` are none of the message.
    """
    is_unknown = messages[name].is_null().to_numpy()
    if not is_unknown.any():
        return messages
    columns = [messages[other].is_valid().to_numpy() for other in messages.column_names if other not in kept]
    strange = np.flatnonzero(is_unknown & np.logical_or.reduce(columns))
    if strange.size:
        raise InvalidRequestError(
            f"a message does not say in {name!r} what changed: it is none of Debezium, nor of Maxwell",
            row=int(strange[0]),
        )
    return messages.filter(pa.array(~is_unknown))


def fields_of(table: pa.Table, name: str) -> pa.Table:
    """The fields of a struct column as a table; one without columns where there is no such column."""
    if name not in table.column_names or pa.types.is_null(table.schema.field(name).type):
        return pa.table({"": pa.nulls(table.num_rows)}).select([])
    if not pa.types.is_struct(table.schema.field(name).type):
        raise UnsupportedFeatureError(
            f"{name!r} of a change must be an object with the columns of the row",
            type=str(table.schema.field(name).type),
        )
    fields = table.schema.field(name).type.fields
    parts = table.select([name]).flatten().columns
    return pa.table(parts, schema=pa.schema([field.with_nullable(True) for field in fields]))
