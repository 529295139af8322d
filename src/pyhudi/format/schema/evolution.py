"""Schema evolution: the schema of a table after a write, and conversion of rows to it.

The rules are those of Hudi 1.2.0 for writes without schema-on-read evolution, for canonical types
(`pyhudi.format.schema.avro_arrow`):

- columns are matched by name, first by exact spelling, then ignoring letter case;
- a new nullable column is appended, at every level of nesting; a new column that is not nullable is refused;
- a missing column is refused, unless the caller fills it with nulls;
- rows of a narrower type become the table's: int -> long -> float -> double, numbers -> string,
  string <-> bytes, decimals of one scale to the larger precision;
- rows of a wider type widen the table in the same way, but for bytes, and older values are read as that type. The
  text of fractions is Java's;
- a column that is nullable in the rows becomes nullable in the table, and never the other way.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import SchemaMismatchError
from pyhudi.format.keys.value_text import value_text
from pyhudi.format.schema.avro_arrow import (
    LIST_ELEMENT,
    MAP_VALUE,
    ColumnPath,
    canonical_type,
    column_text,
    is_list,
    list_of,
    normalise,
)
from pyhudi.format.schema.meta_columns import without_meta_columns

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

_WIDENINGS: Final = frozenset(
    {
        (pa.int32(), pa.int64()),
        (pa.int32(), pa.float32()),
        (pa.int32(), pa.float64()),
        (pa.int32(), pa.string()),
        (pa.int64(), pa.float32()),
        (pa.int64(), pa.float64()),
        (pa.int64(), pa.string()),
        (pa.float32(), pa.float64()),
        (pa.float32(), pa.string()),
        (pa.float64(), pa.string()),
    }
)
"""(table, rows): the table's type becomes that of the rows, as in JVM Hudi. Integers that become floats are rounded."""
_PROMOTIONS: Final = _WIDENINGS | {(pa.string(), pa.binary()), (pa.binary(), pa.string())}
"""(rows, table): rows that become the table's type."""
_DIGITS_OF_A_DOUBLE: Final = 17
_DIGITS_MAX: Final = 76
"""Of Arrow's widest decimals."""
_DIGITS_BEHIND: Final = 38
_DIGITS_AT_ONCE: Final = 9


def is_read_as(stored: pa.DataType, target: pa.DataType) -> bool:
    """Whether stored values of one type without nesting are read as another one, which the column has since.

    Of the changes of type that JVM Hudi makes these are missing, because not all values can be read so: text to dates
    or decimals, and fractions to decimals (`is_reread_as`).
    """
    if stored == target or (stored, target) in _PROMOTIONS:
        return True
    if pa.types.is_decimal(target):
        if pa.types.is_decimal(stored):
            whole_digits = stored.precision - stored.scale
            return bool(stored.scale <= target.scale and whole_digits <= target.precision - target.scale)
        return bool(pa.types.is_integer(stored))
    if target == pa.string():
        return any(kind(stored) for kind in (pa.types.is_floating, pa.types.is_date, pa.types.is_decimal))
    return False


class Missing(enum.Enum):
    """What becomes of columns of the table that the rows lack."""

    REFUSED = "the write is refused"
    NULL = "they are null in the rows"
    DROPPED = "the table drops them"


def write_schema(table: pa.Schema | None, incoming: pa.Schema, *, missing: Missing = Missing.REFUSED) -> pa.Schema:
    """The table's schema after a write of rows with schema `incoming`, without meta columns.

    Equal to `table` where the write changes nothing: the caller can keep the table's Avro JSON as it is then.

    Args:
        table: The table's schema; None for a table that has none yet.
        incoming: The rows' schema, as it comes.
        missing: What becomes of columns that the rows lack, as `hoodie.write.set.null.for.missing.columns`,
            `hoodie.datasource.write.reconcile.schema` and
            `hoodie.datasource.write.schema.allow.auto.evolution.column.drop` say.

    Raises:
        SchemaMismatchError: the rows do not fit; names the column, both types and what to do.
    """
    rows = normalise(without_meta_columns(incoming))
    if table is None:
        for field in rows:
            _check_typed(field, (field.name,))
        return rows
    return pa.schema(_merge_fields(list(without_meta_columns(table)), list(rows), (), missing))


def align(rows: Rows, schema: pa.Schema) -> Rows:
    """The rows with exactly this schema: columns in its order and types, null where the rows lack one.

    Columns that `schema` does not name are left out. Works on whole columns and shares the memory of those
    that need no change. An integer that becomes a float is rounded, as in Spark, and a fraction that becomes a decimal,
    as in JVM Hudi; nothing else may lose a bit.

    Raises:
        SchemaMismatchError: a type that does not promote, a value that does not fit (a null where none may
            be, a timestamp between two microseconds, bytes that are no text), or no column for one that is
            not nullable.
    """
    columns = []
    for field, index in zip(schema, match_columns(schema.names, rows.schema.names), strict=True):
        path = (field.name,)
        if index is None:
            _check_fillable(field, path)
            columns.append(pa.nulls(rows.num_rows, field.type))
            continue
        column = rows.column(index)
        if isinstance(column, pa.ChunkedArray):
            chunks = [_align_child(chunk, field, path) for chunk in column.chunks]
            columns.append(pa.chunked_array(chunks, field.type))
        else:
            columns.append(_align_child(column, field, path))
    return type(rows).from_arrays(columns, schema=schema)


def align_incoming(rows: Rows, schema: pa.Schema) -> Rows:
    """`align` for rows of a write: only stored values of an older type are read as dates or decimals.

    Raises `SchemaMismatchError` as `align`, and for text and fractions where the table has dates or decimals.
    """
    for field, index in zip(schema, match_columns(schema.names, rows.schema.names), strict=True):
        if index is not None:
            _check_not_reread(rows.schema.field(index).type, field.type, (field.name,))
    return align(rows, schema)


def match_columns(wanted: Sequence[str], available: Sequence[str]) -> list[int | None]:
    """For each wanted name the index of the available one that it means, or None.

    Exact spelling goes first; names without an exact partner match regardless of letter case.

    Raises:
        SchemaMismatchError: regardless of letter case, more than two names are the same.
    """
    exact = {name: index for index, name in enumerate(available)}
    spelled = set(wanted)
    loose: dict[str, int] = {}
    for name, index in exact.items():
        if name not in spelled and loose.setdefault(name.lower(), index) != index:
            raise SchemaMismatchError("columns of the rows differ only in letter case; rename one", column=name)
    # A loose name serves once: a second claim to it finds nothing, and counts as a missing column.
    return [exact[name] if name in exact else loose.pop(name.lower(), None) for name in wanted]


# --- what a write makes of the table's schema -----------------------------------------------------------


def _merge_fields(
    table: Sequence[pa.Field], rows: Sequence[pa.Field], path: ColumnPath, missing: Missing
) -> list[pa.Field]:
    merged: list[pa.Field] = []
    matches = match_columns([field.name for field in table], [field.name for field in rows])
    for field, index in zip(table, matches, strict=True):
        field_path = (*path, field.name)
        if index is None:
            if missing is not Missing.DROPPED:
                _check_missing(field, field_path, missing)
                merged.append(field)
        else:
            merged.append(_merge_field(field, rows[index], field_path, missing))
    known = set(matches)
    for index, field in enumerate(rows):
        if index not in known:
            field_path = (*path, field.name)
            _check_typed(field, field_path)
            if not field.nullable:
                raise SchemaMismatchError(
                    f"the new column {column_text(field_path)!r} is not nullable, so the table's present rows"
                    " could not have it; make it nullable",
                    column=column_text(field_path),
                )
            merged.append(field)
    return merged


def _merge_field(table: pa.Field, rows: pa.Field, path: ColumnPath, missing: Missing) -> pa.Field:
    data_type = _merge_type(table.type, rows.type, path, missing)
    return pa.field(table.name, data_type, table.nullable or rows.nullable)


def _merge_type(table: pa.DataType, rows: pa.DataType, path: ColumnPath, missing: Missing) -> pa.DataType:
    if pa.types.is_struct(table) and pa.types.is_struct(rows):
        return pa.struct(_merge_fields(list(table), list(rows), path, missing))
    if is_list(table) and is_list(rows):
        element = _merge_field(table.value_field, rows.value_field, (*path, LIST_ELEMENT), missing)
        return list_of(element)
    if pa.types.is_map(table) and pa.types.is_map(rows):
        value = _merge_field(table.item_field, rows.item_field, (*path, MAP_VALUE), missing)
        return pa.map_(pa.string(), value)
    wider = _wider(table, rows)
    if wider is None:
        raise _mismatch(table, rows, path)
    return wider


def _wider(table: pa.DataType, rows: pa.DataType) -> pa.DataType | None:
    """The type without nesting that holds the values of both columns, or None; the table's where both do."""
    if table == rows or pa.types.is_null(rows):
        return table
    if pa.types.is_timestamp(table) and pa.types.is_timestamp(rows):
        # Units may differ in tables of other writers; a time with a zone and one without never mean the same.
        return table if (table.tz is None) == (rows.tz is None) else None
    if pa.types.is_decimal(table) and pa.types.is_decimal(rows):
        return table if is_read_as(rows, table) else rows if is_read_as(table, rows) else None
    if pa.types.is_fixed_size_binary(table) and rows == pa.binary():
        return table
    if (rows, table) in _PROMOTIONS:
        return table
    return rows if (table, rows) in _WIDENINGS else None


def _check_typed(field: pa.Field, path: ColumnPath) -> None:
    """Refuse a new column that has, at some depth, no type."""
    if pa.types.is_null(field.type):
        raise SchemaMismatchError(
            f"the new column {column_text(path)!r} holds no value that would tell its type; cast it to one, or"
            " leave it out",
            column=column_text(path),
        )
    for child in _children(field.type):
        _check_typed(child, (*path, child.name))


def _children(data_type: pa.DataType) -> list[pa.Field]:
    """The columns of a struct, the element of a list, the value of a map (its keys are never null)."""
    if pa.types.is_map(data_type):
        return [data_type.item_field]
    return [data_type.field(index) for index in range(data_type.num_fields)]


def _check_missing(field: pa.Field, path: ColumnPath, missing: Missing) -> None:
    if missing is Missing.REFUSED:
        raise SchemaMismatchError(
            f"the rows lack the table's column {column_text(path)!r}; add it, let it be null by"
            " hoodie.write.set.null.for.missing.columns=true, or drop it by"
            " hoodie.datasource.write.schema.allow.auto.evolution.column.drop=true",
            column=column_text(path),
        )
    _check_fillable(field, path)


def _check_fillable(field: pa.Field, path: ColumnPath) -> None:
    if not field.nullable:
        raise SchemaMismatchError(
            f"the rows lack the column {column_text(path)!r}, which the table does not let be null; add it",
            column=column_text(path),
        )


def _check_not_reread(rows: pa.DataType, table: pa.DataType, path: ColumnPath) -> None:
    if pa.types.is_struct(rows) and pa.types.is_struct(table):
        fields = list(table)
        matches = match_columns([field.name for field in fields], [field.name for field in rows])
        for field, index in zip(fields, matches, strict=True):
            if index is not None:
                _check_not_reread(rows.field(index).type, field.type, (*path, field.name))
    elif is_list(rows) and is_list(table):
        _check_not_reread(rows.value_type, table.value_type, (*path, LIST_ELEMENT))
    elif pa.types.is_map(rows) and pa.types.is_map(table):
        _check_not_reread(rows.item_type, table.item_type, (*path, MAP_VALUE))
    elif (pa.types.is_date(table) or pa.types.is_decimal(table)) and is_reread_as(canonical_type(rows, path), table):
        raise _mismatch(table, rows, path)


def _mismatch(table: pa.DataType, rows: pa.DataType, path: ColumnPath) -> SchemaMismatchError:
    column = column_text(path)
    return SchemaMismatchError(
        f"column {column!r} is {table} in the table and {rows} in the rows, which does not promote to it;"
        f" cast the column to {table} before writing",
        column=column,
        table_type=str(table),
        rows_type=str(rows),
    )


# --- rows to a schema -----------------------------------------------------------------------------------


def _align_child(array: pa.Array, field: pa.Field, path: ColumnPath) -> pa.Array:
    """The values of a column, or of the elements of a list, as `field` has them."""
    converted = _convert(array, field.type, path)
    if not field.nullable and converted.null_count:
        raise _null_where_none_may_be(path)
    return converted


def _convert(array: pa.Array, target: pa.DataType, path: ColumnPath) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        is_bool = array.type.extension_name == "arrow.bool8"
        array = array.storage.cast(pa.bool_()) if is_bool else array.storage
    if isinstance(array, pa.DictionaryArray):
        array = _decoded(array)
    source = array.type
    if source == target and not _has_required(target):
        return array
    if pa.types.is_null(source):
        return pa.nulls(len(array), target)
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        return _convert_struct(array, target, path)
    if is_list(source) and pa.types.is_list(target):
        return _convert_list(array, target, path)
    if pa.types.is_map(source) and pa.types.is_map(target):
        # A map lies in memory as a list of its entries does; `view` costs nothing.
        entries = array.view(_entries_type(source))
        return _convert_list(entries, _entries_type(target), path).view(target)
    return array if source == target else _cast(array, target, path)


def _decoded(array: pa.DictionaryArray) -> pa.Array:
    """The values of a dictionary column; Arrow cannot take from views, such as those of polars."""
    values = array.dictionary
    if pa.types.is_string_view(values.type) or pa.types.is_binary_view(values.type):
        plain = pa.large_string() if pa.types.is_string_view(values.type) else pa.large_binary()
        array = pa.DictionaryArray.from_arrays(array.indices, values.cast(plain))
    return array.dictionary_decode()


def _cast(array: pa.Array, target: pa.DataType, path: ColumnPath) -> pa.Array:
    source = array.type
    canonical = canonical_type(source, path)
    is_reread = is_reread_as(canonical, target)
    if _wider(target, canonical) != target and not is_read_as(canonical, target) and not is_reread:
        raise _mismatch(target, source, path)
    rounds = pa.types.is_integer(source) and pa.types.is_floating(target)
    try:
        if is_reread:
            return reread(pc.cast(array, canonical), target)
        if target == pa.string() and not pa.types.is_integer(source) and not pa.types.is_binary(canonical):
            return pc.cast(array if pa.types.is_string(canonical) else value_text(array), target)
        if pa.types.is_decimal(target) and pa.types.is_integer(source):
            array = pc.cast(pc.cast(array, pa.int64()), pa.decimal128(19, 0))
        return pc.cast(array, target, safe=not rounds)
    except pa.ArrowException as cause:
        raise SchemaMismatchError(
            f"column {column_text(path)!r} has a value that does not fit in {target}: {cause}",
            column=column_text(path),
            table_type=str(target),
            rows_type=str(source),
        ) from cause


def _convert_struct(array: pa.StructArray, target: pa.StructType, path: ColumnPath) -> pa.Array:
    valid = array.is_valid()
    children: list[pa.Array] = []
    fields = list(target)
    matches = match_columns([field.name for field in fields], [field.name for field in array.type])
    for field, index in zip(fields, matches, strict=True):
        child_path = (*path, field.name)
        if index is None:
            _check_fillable(field, child_path)
            children.append(pa.nulls(len(array), field.type))
            continue
        child = _convert(array.field(index), field.type, child_path)
        if not field.nullable and child.null_count:
            # Where the struct itself is null, its columns hold nothing.
            if pc.any(pc.and_(valid, child.is_null())).as_py():
                raise _null_where_none_may_be(child_path)
            child = without_nulls(child)
        children.append(child)
    return pa.StructArray.from_arrays(children, fields=fields, mask=pc.invert(valid))


def _convert_list(array: Any, target: pa.ListType, path: ColumnPath) -> pa.ListArray:
    """A list array of any kind as a plain one. `flatten` leaves out what is under nulls or outside a slice."""
    values = _align_child(array.flatten(), target.value_field, (*path, target.value_field.name))
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(array) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] > np.iinfo(np.int32).max:
        raise SchemaMismatchError(
            "the lists of one batch hold more than 2^31 - 1 elements; write smaller batches",
            column=column_text(path),
        )
    # A list is null where its first offset is.
    nulls = np.append(array.is_null().to_numpy(zero_copy_only=False), False)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32(), mask=nulls), values, type=target)


def _entries_type(data_type: pa.MapType) -> pa.ListType:
    key = pa.field("key", data_type.key_type, nullable=False)
    entry = pa.struct([key, data_type.item_field.with_name(MAP_VALUE)])
    return pa.list_(pa.field("entries", entry, nullable=False))


def _has_required(data_type: pa.DataType) -> bool:
    """Whether a value of this type has parts that must not be null, so that its rows need a look."""
    return any(not child.nullable or _has_required(child.type) for child in _children(data_type))


def _null_where_none_may_be(path: ColumnPath) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"column {column_text(path)!r} has a null, which the table does not allow there; fill it before writing",
        column=column_text(path),
    )


def without_nulls(array: pa.Array) -> pa.Array:
    """The same array without marks of nulls, also inside of structs that are its values. Costs no copy of values.

    For a column that may not be null, inside of a struct: where the struct is null, the column holds nothing, and
    readers of Parquet and Avro mark that as null. Arrow refuses to write or cast such an array.
    """
    if pa.types.is_struct(array.type):
        fields = list(array.type)
        children = [
            child if field.nullable or not child.null_count else without_nulls(child)
            for field, child in zip(fields, map(array.field, range(len(fields))), strict=True)
        ]
        return pa.StructArray.from_arrays(children, fields=fields)
    if pa.types.is_map(array.type) or pa.types.is_list(array.type):
        inner = (
            array.values
            if pa.types.is_list(array.type)
            else pa.StructArray.from_arrays(
                [array.keys, array.items], fields=[array.type.key_field, array.type.item_field]
            )
        )
        return pa.Array.from_buffers(
            array.type, len(array), [None, array.buffers()[1]], null_count=0, offset=array.offset, children=[inner]
        )
    buffers: list[Any] = [None, *array.buffers()[1:]]
    return pa.Array.from_buffers(array.type, len(array), buffers, null_count=0, offset=array.offset)


def is_reread_as(stored: pa.DataType, target: pa.DataType) -> bool:
    """Whether stored values of one type without nesting are read as another one if they can all be."""
    if pa.types.is_date(target):
        return bool(pa.types.is_string(stored))
    is_fraction = bool(pa.types.is_floating(stored))
    return bool(pa.types.is_decimal(target)) and (is_fraction or bool(pa.types.is_string(stored)))


def reread(values: pa.Array, target: pa.DataType) -> pa.Array:
    """The values as dates or decimals. Raises `pa.ArrowInvalid` naming one that has none.

    Dates are `2026-01-05`; of decimals, exponents count, and spaces do not. NaN and infinite numbers are no decimals.
    """
    if pa.types.is_date(target):
        return pc.cast(values, target)
    scale = target.scale
    if pa.types.is_floating(values.type):
        # What is below a tenth of the last digit is zero; its text may have more digits than Arrow reads.
        is_nothing = pc.less(pc.abs(values), 10.0 ** -(scale + 1))
        values = value_text(pc.if_else(is_nothing, pa.scalar(0, values.type), values))
    behind = max(_DIGITS_BEHIND, scale + 1 + _DIGITS_OF_A_DOUBLE)
    exact = pc.cast(values, pa.decimal256(_DIGITS_MAX, behind))
    return pc.cast(_rounded(exact, scale), target)


def _rounded(exact: pa.Array, scale: int) -> pa.Array:
    """Decimals rounded half up. Where Arrow drops 18 digits at once, it makes other numbers of some (26.0.1)."""
    # A sum has one digit more than its parts, and Arrow has no wider type: it must not count the first one.
    narrower = pa.decimal256(_DIGITS_MAX - 1, exact.type.scale)
    parts = pa.Array.from_buffers(narrower, len(exact), exact.buffers(), offset=exact.offset)
    half = pa.scalar(Decimal(5).scaleb(-scale - 1), narrower)
    below_zero = pc.less(parts, pa.scalar(Decimal(0), narrower))
    result = pc.add(parts, pc.if_else(below_zero, pc.negate(half), half))
    for left in (*range(exact.type.scale - _DIGITS_AT_ONCE, scale, -_DIGITS_AT_ONCE), scale):
        shorter = pa.decimal256(_DIGITS_MAX, left)
        result = pc.cast(result, options=pc.CastOptions(shorter, allow_decimal_truncate=True))
    return result
