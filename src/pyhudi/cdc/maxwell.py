"""The messages of Maxwell, which reads the log of MySQL and MariaDB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.cdc.debezium import with_events
from pyhudi.cdc.event_columns import (
    DELETE,
    OPERATION,
    ORIGIN_TIME,
    SNAPSHOT,
    binlog_columns,
    check_every_value,
    column,
    fields_of,
    without_tombstones,
)
from pyhudi.errors import InvalidRequestError, UnsupportedFeatureError
from pyhudi.merge.pairs import choose

_OPERATIONS: Final = {"insert": "c", "update": "u", "delete": DELETE, "bootstrap-insert": SNAPSHOT}
_LAST_ROW: Final = np.iinfo(np.int32).max
"""The place of the last row of a transaction, whose message has `commit` in place of `xoffset`."""
_POSITION: Final = r"^(?P<file>.+):(?P<position>[0-9]+)$"
_COLUMNS: Final = frozenset({"type", "database"})
_NO_ROWS: Final = pa.array(
    [
        "bootstrap-start",
        "bootstrap-complete",
        *(f"{what}-{done}" for what in ("database", "table") for done in ("create", "alter", "drop")),
    ]
)


def is_maxwell(envelopes: pa.Table) -> bool:
    """Whether the messages are Maxwell's."""
    return set(envelopes.column_names) >= _COLUMNS and "op" not in envelopes.column_names


def maxwell_rows(envelopes: pa.Table, keys: Sequence[str], kept: Sequence[str]) -> tuple[str, pa.Table]:
    """The kind of source, and the rows of the messages, as `flatten` describes them, with the columns `kept`.

    Messages about the schema and about the begin and end of a bootstrap are no rows. Raises `InvalidRequestError` for
    other types of messages.
    """
    envelopes = without_tombstones(envelopes, "type", kept)
    kinds = column(envelopes, "type", pa.string())
    is_row = pc.is_in(kinds, pa.array(list(_OPERATIONS)))
    is_known = pc.or_(is_row, pc.is_in(kinds, _NO_ROWS))
    if not pc.all(is_known).as_py():
        others = pc.unique(kinds.filter(pc.invert(is_known))).to_pylist()
        raise InvalidRequestError("a message has a type that Maxwell does not send of rows or schemas", types=others)
    envelopes, kinds = envelopes.filter(is_row), kinds.filter(is_row)
    _check_one_table(envelopes)
    rows, old = fields_of(envelopes, "data"), fields_of(envelopes, "old")
    before = _with_old_keys(rows, old, keys)
    moved = np.zeros(len(kinds), bool)
    for name in set(keys) & set(old.column_names):
        moved |= old[name].is_valid().to_numpy()
    moved &= pc.equal(kinds, "update").to_numpy(zero_copy_only=False)
    names = pa.array(list(_OPERATIONS.values()))
    operations = names.take(pc.index_in(kinds, pa.array(list(_OPERATIONS))))
    events = {OPERATION: operations, **_events(envelopes, operations), **{name: envelopes[name] for name in kept}}
    changes = with_events(rows, events)
    if not moved.any():
        return "maxwell", changes
    deletes = with_events(before, {**events, OPERATION: pa.array([DELETE]).take(pa.array(np.zeros(len(kinds), int)))})
    places = np.concatenate([np.flatnonzero(moved), np.arange(len(kinds))])
    joined = pa.concat_tables([deletes.take(pa.array(np.flatnonzero(moved))), changes])
    return "maxwell", joined.take(pa.array(np.argsort(places, kind="stable")))


def _check_one_table(envelopes: pa.Table) -> None:
    for name in ("database", "table"):
        values = column(envelopes, name, pa.string())
        check_every_value(values, name)
        found = pc.unique(values).to_pylist()
        if len(found) > 1:
            raise UnsupportedFeatureError(
                "the changes are those of several tables: flatten each by itself", **{name: found}
            )


def _with_old_keys(rows: pa.Table, old: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The rows with the keys that they had before an update. `old` has only what an update changed."""
    for name in keys:
        if name in old.column_names and name in rows.column_names:
            values = old[name].cast(rows.schema.field(name).type)
            known = values.is_valid().to_numpy()
            rows = rows.set_column(rows.column_names.index(name), name, choose(known, values, rows[name]))
    return rows


def _events(envelopes: pa.Table, operations: pa.StringArray) -> dict[str, pa.Array]:
    seconds = column(envelopes, "ts", pa.int64())
    places = pc.extract_regex(column(envelopes, "position", pa.string()), _POSITION)
    is_unplaced = pc.and_(places.is_null(), pc.not_equal(operations, SNAPSHOT))
    if pc.any(is_unplaced).as_py():
        raise InvalidRequestError(
            "messages of Maxwell do not say where they are in the log, so nothing orders them: set "
            "output_binlog_position=true in Maxwell"
        )
    offsets = column(envelopes, "xoffset", pa.int32())
    row = pc.if_else(pc.fill_null(column(envelopes, "commit", pa.bool_()), False), _LAST_ROW, offsets)
    position = pc.struct_field(places, "position").cast(pa.int64())
    return {
        "_upstream_event_processed_ts_ms": pc.multiply(seconds, 1000),
        "db_shard_source_partition": column(envelopes, "database", pa.string()),
        ORIGIN_TIME: pc.multiply(seconds, 1000),
        **binlog_columns(pc.struct_field(places, "file"), position, row.cast(pa.int32()), operations),
    }
