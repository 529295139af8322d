"""Do two readers see the same table? Rows by key, every column, types as far as they mean something different."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Collection
from typing import Any

import pyarrow as pa

#: Set by the task that happened to write the row; two tables with the same rows differ in them. For readers of ONE
#: table nothing is left out: they read the same files.
WRITER_META = ("_hoodie_commit_seqno", "_hoodie_file_name")
ALL_META = ("_hoodie_commit_time", "_hoodie_record_key", "_hoodie_partition_path", *WRITER_META)

_SHOWN_DIFFERENCES = 8


def assert_same_rows(
    expected: pa.Table, actual: pa.Table, *, ignore: Collection[str] = (), hint: str = "", types: bool = True
) -> None:
    """Fail unless both have the same columns, types and rows, whatever the order of columns and rows.

    Types are compared in normal form: large and dictionary-encoded ones as plain ones, instants in microseconds,
    names and nullability of list elements left out.
    """
    names = sorted(set(expected.column_names) - set(ignore))
    found = sorted(set(actual.column_names) - set(ignore))
    assert found == names, f"{hint}: columns differ: missing {set(names) - set(found)}, more {set(found) - set(names)}"
    if types:
        pairs = {name: (_plain(expected.field(name).type), _plain(actual.field(name).type)) for name in names}
        wrong = {name: f"{want} became {got}" for name, (want, got) in pairs.items() if want != got}
        assert not wrong, f"{hint}: types differ: {wrong}"
    wanted, given = _rows(expected, names), _rows(actual, names)
    if wanted != given:
        raise AssertionError(f"{hint}: {_differences(wanted, given)}")


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if pa.types.is_map(kind):
        return pa.map_(pa.field("key", _plain(kind.key_type), False), pa.field("value", _plain(kind.item_type)))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", _plain(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(part.name, _plain(part.type)) for part in kind])
    return kind


def _rows(table: pa.Table, names: list[str]) -> list[dict[str, Any]]:
    plain = table.select(names)
    plain = plain.cast(pa.schema([pa.field(f.name, _plain(f.type)) for f in plain.schema]))
    rows = [{name: _value(value, plain.field(name).type) for name, value in row.items()} for row in plain.to_pylist()]
    return sorted(rows, key=_row_order)


def _row_order(row: dict[str, Any]) -> str:
    keys = [repr(row.get(name)) for name in ("_hoodie_partition_path", "_hoodie_record_key", "id")]
    return "\0".join([*keys, repr(sorted(row.items()))])


def _value(value: Any, kind: pa.DataType) -> Any:
    """A value that is equal to another one exactly when both mean the same."""
    if value is None:
        return None
    if isinstance(value, float):
        # By text: NaN equals NaN, and -0.0 is not 0.0.
        return "NaN" if math.isnan(value) else repr(value)
    if isinstance(value, dt.datetime):
        return value.isoformat()
    if pa.types.is_map(kind):
        return sorted((_value(k, kind.key_type), _value(v, kind.item_type)) for k, v in value)
    if pa.types.is_list(kind):
        return [_value(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {part.name: _value(value[part.name], part.type) for part in kind}
    return value


def _differences(wanted: list[dict[str, Any]], given: list[dict[str, Any]]) -> str:
    lines = [f"{len(wanted)} rows expected, {len(given)} found"]
    left = [row for row in wanted if row not in given]
    right = [row for row in given if row not in wanted]
    by_key = {_identity(row): row for row in right}
    for row in left[:_SHOWN_DIFFERENCES]:
        other = by_key.get(_identity(row))
        if other is None:
            lines.append(f"missing {row}")
            continue
        parts = {name: f"{row[name]!r} became {other[name]!r}" for name in row if row[name] != other[name]}
        lines.append(f"{_identity(row)}: {parts}")
    expected_keys = {_identity(row) for row in wanted}
    lines += [f"unexpected {row}" for row in right[:_SHOWN_DIFFERENCES] if _identity(row) not in expected_keys]
    if len(left) + len(right) == 0:
        lines.append("some rows are there more than once")
    return "\n  ".join(lines)


def _identity(row: dict[str, Any]) -> tuple[Any, ...]:
    return row.get("_hoodie_partition_path"), row.get("_hoodie_record_key", row.get("id"))
