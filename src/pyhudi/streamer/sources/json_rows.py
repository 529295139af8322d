"""JSON objects as Arrow, many at a time.

Columns that nothing says a type of get that of their values. A text stays a text: Arrow would take one that looks like
a time for a time, and the next batch would not fit. A whole number beyond 64 bits is a decimal: Arrow would round it.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from pyhudi.errors import SchemaMismatchError, UnsupportedFeatureError
from pyhudi.format.pieces import PIECE_BYTES, cuts
from pyhudi.streamer.sources.apart import NoColumnsError, UnreadableError

_ROW: Final = re.compile(r"in row (\d+)$")
_LARGE_NUMBER: Final = re.compile(rb"[:\[,]\s*-?[0-9]{19,}\s*[,}\]]")
"""A whole number of so many digits that it may be beyond 64 bits, outside of most texts."""
_BEYOND_64_BITS: Final = 2.0**63
DIGITS: Final = (20, 38)
"""The precisions of decimals for whole numbers beyond 64 bits: that of unsigned numbers of 64 bits, and the largest."""


def rows_of_json(
    values: pa.BinaryArray, wanted: pa.Schema | None, stored: pa.Schema | None, *, fits: bool = False
) -> pa.Table:
    """The object in each of these texts, of which none may be null.

    `wanted`: the columns; None for those that the objects have. `stored`: the types of columns that the table has;
    with `fits` a text with a value of another type is one that cannot be read. Raises `UnreadableError` for the first
    text that is no object, and `SchemaMismatchError` where two texts do not fit.
    """
    rows = rows_of_json_piece(values, wanted, stored, fits=fits)
    return rows if wanted is not None or not len(values) else with_types(rows)


def rows_of_json_piece(
    values: pa.BinaryArray, wanted: pa.Schema | None, stored: pa.Schema | None, *, fits: bool = False
) -> pa.Table:
    """As `rows_of_json`, but with the fields of which no value says the type: a value of another piece may say it."""
    _check_objects(values)
    tables = []
    sizes = pc.binary_length(values).to_numpy(zero_copy_only=False).astype(np.int64) + 1  # each has the end of a line
    for start, stop in cuts(sizes):
        piece = values.slice(start, stop - start)
        try:
            tables.append(_rows_of_lines(_joined(piece), wanted, stored, fits=fits))
        except UnreadableError as error:
            raise _first_bad_row(piece, wanted, start, error) from error
        if tables[-1].num_rows != len(piece):  # two objects in one text
            raise _first_bad_row(piece, wanted, start, UnreadableError(None, "it is not one JSON object"))
    return joined(tables, wanted)


def rows_of_json_lines(
    data: pa.Buffer | bytes, wanted: pa.Schema | None, stored: pa.Schema | None, *, fits: bool = False
) -> pa.Table:
    """The object in each line of a text, below 2 GiB. Arguments and errors as of `rows_of_json`."""
    rows = _rows_of_lines(data, wanted, stored, fits=fits)
    return rows if wanted is not None else with_types(rows)


def _rows_of_lines(
    data: pa.Buffer | bytes, wanted: pa.Schema | None, stored: pa.Schema | None, *, fits: bool
) -> pa.Table:
    if wanted is not None:
        _check_readable(wanted)
        return _parsed(data, wanted, only=True).select(wanted.names)
    if stored is not None:
        try:
            return _inferred(data, pa.schema([field for field in stored if _is_readable(field.type)]))
        except UnreadableError:
            if fits:
                raise
            # a value that the column's type does not take: the types of the batch decide, and the write checks
    return _inferred(data, pa.schema([]))


def _check_readable(wanted: pa.Schema) -> None:
    for field in wanted:
        if not _is_readable(field.type):
            raise UnsupportedFeatureError(
                f"column {field.name!r} is or has a map, which the streamer does not read from JSON",
                column=field.name,
                type=str(field.type),
            )


def _is_readable(data_type: pa.DataType) -> bool:
    if pa.types.is_map(data_type):
        return False
    return all(_is_readable(data_type.field(number).type) for number in range(data_type.num_fields))


def joined(tables: list[pa.Table], wanted: pa.Schema | None) -> pa.Table:
    """Tables with one set of columns. Raises `SchemaMismatchError` where a column has two types that do not fit."""
    if not tables:
        return (wanted or pa.schema([])).empty_table()
    if not any(table.column_names for table in tables):  # Arrow would forget how many rows they have
        return pa.table({"": pa.nulls(sum(table.num_rows for table in tables))}).select([])
    try:
        schema = pa.unify_schemas([table.schema for table in tables], promote_options="permissive")
        return pa.concat_tables([with_fractions(table, schema) for table in tables], promote_options="permissive")
    except pa.ArrowException as error:
        raise SchemaMismatchError(
            f"a column has values of several types, which do not fit together: {error}"
        ) from error


def with_fractions(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with floating point in place of decimals where the schema has it, as other rows have fractions there.

    Through texts, by which a number is the one that JSON would have been read as: Arrow rounds a decimal twice.
    """
    for number, field in enumerate(rows.schema):
        kind = _with_floating(field.type, schema.field(field.name).type if field.name in schema.names else field.type)
        if kind != field.type:
            chunks = [_as_floating(chunk, kind) for chunk in rows.column(number).chunks]
            rows = rows.set_column(number, field.with_type(kind), pa.chunked_array(chunks, kind))
    return rows


def _with_floating(kind: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """The type with floating point in place of the decimals for which another type has it."""
    if pa.types.is_decimal(kind):
        return wanted if pa.types.is_floating(wanted) else kind
    if pa.types.is_list(kind) and pa.types.is_list(wanted):
        return pa.list_(kind.value_field.with_type(_with_floating(kind.value_type, wanted.value_type)))
    if pa.types.is_struct(kind) and pa.types.is_struct(wanted):
        inner = {field.name: field.type for field in wanted.fields}
        return pa.struct(
            [field.with_type(_with_floating(field.type, inner.get(field.name, field.type))) for field in kind.fields]
        )
    return kind


def _as_floating(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    mask = array.is_null() if array.null_count else None
    if pa.types.is_list(kind):
        offsets = pa.array(array.offsets.to_numpy())  # none of a slice, with which a list cannot be null
        return pa.ListArray.from_arrays(offsets, _as_floating(array.values, kind.value_type), kind, mask=mask)
    if pa.types.is_struct(kind):
        children = [_as_floating(array.field(field.name), field.type) for field in kind.fields]
        return pa.StructArray.from_arrays(children, fields=list(kind.fields), mask=mask)
    return array.cast(pa.string()).cast(kind)


def _inferred(data: pa.Buffer | bytes, types: pa.Schema) -> pa.Table:
    found = _parsed(data, types, only=False)
    typed = {*types.names}
    own = [field for field in found.schema if field.name not in typed]
    texts = [field.with_type(_without_times(field.type)) for field in own]
    changed = [text for field, text in zip(own, texts, strict=True) if text.type != field.type]
    whole = [found_type for text in texts if (found_type := _whole_numbers(data, found, text)) is not None]
    if changed or whole:
        again = {field.name: field for field in (*types, *changed, *whole)}
        found = _parsed(data, pa.schema(list(again.values())), only=False).select(found.column_names)
    return found


def _whole_numbers(data: pa.Buffer | bytes, found: pa.Table, column: pa.Field) -> pa.Field | None:
    """A column that has whole numbers beyond 64 bits, with a type of these; None for others.

    Arrow makes floating point of such numbers, in which several of them are one. A column that has fractions, too, is
    one of floating point. Cost: where a number is that large, the text is parsed again for the column.
    """
    for digits in DIGITS:
        wanted = column.with_type(_with_decimals(found[column.name], column.type, pa.decimal128(digits, 0)))
        if wanted.type == column.type or not _LARGE_NUMBER.search(memoryview(data)):
            return None
        with contextlib.suppress(UnreadableError):
            _parsed(data, pa.schema([wanted]), only=True)
            return wanted
    return None


def _with_decimals(values: pa.ChunkedArray, of_column: pa.DataType, decimal: pa.DataType) -> pa.DataType:
    """The type with decimals in place of floating point where a value is beyond whole numbers of 64 bits."""
    if pa.types.is_floating(of_column):
        return decimal if is_beyond_64_bits(values) else of_column
    if pa.types.is_struct(of_column):
        columns = pa.table({"": values}).flatten().columns
        fields = zip(columns, of_column.fields, strict=True)
        return pa.struct([field.with_type(_with_decimals(column, field.type, decimal)) for column, field in fields])
    if pa.types.is_list(of_column):
        return pa.list_(_with_decimals(pc.list_flatten(values), of_column.value_type, decimal))
    return of_column


def is_beyond_64_bits(values: pa.ChunkedArray) -> bool:
    """Whether Arrow made floating point of numbers that may be whole ones beyond 64 bits."""
    if not pa.types.is_floating(values.type):
        return False
    bounds = pc.min_max(values).as_py()
    return bounds["max"] is not None and max(-bounds["min"], bounds["max"]) >= _BEYOND_64_BITS


def _parsed(data: pa.Buffer | bytes, types: pa.Schema, *, only: bool) -> pa.Table:
    size = len(data) if isinstance(data, bytes) else data.size
    if not size:
        return types.empty_table()
    try:
        return pa_json.read_json(
            pa.BufferReader(data),
            read_options=pa_json.ReadOptions(use_threads=False, block_size=size + 1),
            parse_options=pa_json.ParseOptions(
                explicit_schema=types,
                newlines_in_values=True,
                unexpected_field_behavior="ignore" if only else "infer",
            ),
        )
    except (pa.ArrowException, ValueError) as error:
        raise UnreadableError(None, str(error)) from error


def _without_times(data_type: pa.DataType) -> pa.DataType:
    """The type with text in place of times."""
    if pa.types.is_timestamp(data_type) or pa.types.is_date(data_type) or pa.types.is_time(data_type):
        return pa.string()
    if pa.types.is_struct(data_type):
        return pa.struct([field.with_type(_without_times(field.type)) for field in data_type.fields])
    if pa.types.is_list(data_type):
        return pa.list_(_without_times(data_type.value_type))
    return data_type


def with_types(table: pa.Table) -> pa.Table:
    """The table without columns of which no value says the type: they come when a batch has one.

    Raises `NoColumnsError` where no others are left.
    """
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        kept = _typed(column.type)
        if kept is not None:
            columns[name] = column if kept == column.type else _narrowed(column, kept)
    if not columns:
        raise NoColumnsError(None, "no field of any row has a value, so nothing says what columns there are")
    return pa.table(columns)


def _typed(data_type: pa.DataType) -> pa.DataType | None:
    """The part of a type whose types are known; None where that is nothing."""
    if pa.types.is_null(data_type):
        return None
    if pa.types.is_list(data_type):
        kept = _typed(data_type.value_type)
        return None if kept is None else pa.list_(kept)
    if pa.types.is_struct(data_type):
        fields = [(field, _typed(field.type)) for field in data_type.fields]
        known = [field.with_type(kept) for field, kept in fields if kept is not None]
        return pa.struct(known) if known else None
    return data_type


def _narrowed(column: pa.ChunkedArray, kept: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([_narrowed_array(chunk, kept) for chunk in column.chunks], kept)


def _narrowed_array(array: pa.Array, kept: pa.DataType) -> pa.Array:
    if array.type == kept:
        return array
    valid = array.is_null()
    if pa.types.is_list(kept):
        values = _narrowed_array(array.values, kept.value_type)
        return pa.ListArray.from_arrays(array.offsets, values, mask=valid if array.null_count else None)
    children = [_narrowed_array(array.field(field.name), field.type) for field in kept.fields]
    return pa.StructArray.from_arrays(children, fields=list(kept.fields), mask=valid if array.null_count else None)


def _check_objects(values: pa.BinaryArray) -> None:
    """Raise `UnreadableError` for a text that does not begin and end as an object: it would join with others."""
    texts = _texts(values)
    if pc.all(_is_braced(texts)).as_py():  # so most texts are not copied
        return
    is_object = _is_braced(pc.ascii_trim(texts, " \t\r\n"))
    if not pc.all(is_object).as_py():
        raise UnreadableError(pc.index(is_object, False).as_py(), "it is not a JSON object")


def _is_braced(texts: pa.LargeStringArray) -> pa.BooleanArray:
    return pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))


def _texts(values: pa.BinaryArray) -> pa.LargeStringArray:
    try:
        return values.cast(pa.large_string())
    except pa.ArrowInvalid:
        for row, value in enumerate(values.to_pylist()):
            try:
                value.decode()
            except UnicodeDecodeError:
                raise UnreadableError(row, "it is not UTF-8") from None
        raise


def _joined(values: pa.BinaryArray) -> pa.Buffer:
    one_list = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    joined_values: Any = pc.binary_join(one_list, b"\n")
    return joined_values[0].as_buffer()


def _first_bad_row(
    values: pa.BinaryArray, wanted: pa.Schema | None, before: int, error: UnreadableError
) -> UnreadableError:
    """The error for the first text that does not parse. One text at a time, as the batch has failed."""
    for row, value in enumerate(values.to_pylist()):
        try:
            if not isinstance(json.loads(value), dict):
                return UnreadableError(before + row, "it is not a JSON object")
        except ValueError as cause:
            return UnreadableError(before + row, f"it is not JSON: {cause}")
        if wanted is not None:
            try:
                _parsed(value, wanted, only=True)
            except UnreadableError as cause:
                return UnreadableError(before + row, cause.reason)
    named = _ROW.search(error.reason)
    return type(error)(None if named is None else before + int(named.group(1)), error.reason)


def lines_of(data: io.BufferedIOBase) -> Iterator[bytes]:
    """The content of a file of lines, in pieces of whole lines."""
    rest = b""
    while piece := data.read(PIECE_BYTES):
        whole, newline, begun = piece.rpartition(b"\n")
        if newline:
            yield rest + whole
            rest = begun
        else:
            rest += piece
    if rest:
        yield rest
