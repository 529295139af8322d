"""Decoding of Avro records one by one, for the few with very long arrays.

A record whose array has a hundred thousand items is read faster this way than in as many rounds over one record.
Otherwise it is slow, about 10 µs per row. The results equal those of `pyhudi.format.avro.decode`, except that fastavro
accepts a few invalid values: a boolean of 2, a varint with more than 64 bits.
"""

from __future__ import annotations

import decimal
import io
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import Any, Final

import fastavro
import pyarrow as pa

from pyhudi.errors import CorruptDataError
from pyhudi.format.avro.layout import Kind, Layout, null_bytes_max

_NAMES: Final[Mapping[tuple[Kind, int], str]] = {
    (Kind.NULL, 0): "null",
    (Kind.BOOLEAN, 1): "boolean",
    (Kind.INT, 0): "int",
    (Kind.LONG, 0): "long",
    (Kind.FLOATING, 4): "float",
    (Kind.FLOATING, 8): "double",
    (Kind.TEXT, 0): "string",
    (Kind.BYTES, 0): "bytes",
    (Kind.DECIMAL_BYTES, 0): "bytes",
    (Kind.ENUM, 0): "int",  # its symbols may be words that a library refuses
}
_DECODER_ERRORS: Final = (
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    ValueError,
    ArithmeticError,
    struct.error,
)
_PLAIN_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_EXACT: Final = decimal.Context(prec=64)


def read_rowwise(layout: Layout, records: Sequence[bytes], *, path: str, offset: int) -> list[pa.Array]:
    """The fields of these records, one array each, of the types in `layout`.

    Args:
        layout: That of the record.
        records: One datum each; what is left over at its end is damage.
        path: The file, for errors.
        offset: Where the block stands in it, for errors.

    Raises:
        CorruptDataError: the bytes are no such records.
    """
    if len(records) * layout.null_bytes > null_bytes_max(sum(map(len, records))):
        raise CorruptDataError("the rows of an Avro block would take many times its size", path=path, offset=offset)
    schema = fastavro.parse_schema(_plain_schema(layout, count()))
    try:
        rows = [_row(record, schema) for record in records]
        columns = [
            pa.array([_converted(child, row[name]) for row in rows], child.arrow)
            for name, child in zip(_plain_names(layout), layout.children, strict=True)
        ]
        for column in columns:
            column.validate(full=True)  # finds times of day outside of a day
    except _DECODER_ERRORS as cause:
        raise CorruptDataError("a record in an Avro block is damaged", path=path, offset=offset) from cause
    return columns


def _row(record: bytes, schema: Any) -> dict[str, Any]:
    source = io.BytesIO(record)
    row = fastavro.schemaless_reader(source, schema, None)
    if source.tell() != len(record):
        raise ValueError("bytes are left over")
    assert isinstance(row, dict)
    return row


def _plain_schema(layout: Layout, numbers: Iterator[int]) -> Any:
    """An Avro schema of the same bytes without logical types, and with names that any library takes."""
    if layout.kind is Kind.UNION:
        return _plain_union(layout, numbers)
    plain = _plain_type(layout, numbers)
    if not layout.is_union:
        return plain
    if layout.value_branch is None:
        return ["null"]
    return [plain] if layout.null_branch is None else ["null", plain] if layout.null_branch == 0 else [plain, "null"]


def _plain_union(layout: Layout, numbers: Iterator[int]) -> Any:
    """A union of records with one field each, which takes no bytes of its own, and whose name tells the branch."""
    branches: dict[int, Any] = {} if layout.null_branch is None else {layout.null_branch: "null"}
    for number, (branch, child) in enumerate(zip(layout.branches, layout.children, strict=True)):
        fields = [{"name": f"f{number}", "type": _plain_type(child, numbers)}]
        branches[branch] = {"type": "record", "name": f"t{next(numbers)}", "fields": fields}
    return [branches[branch] for branch in sorted(branches)]


def _plain_type(layout: Layout, numbers: Iterator[int]) -> Any:
    match layout.kind:
        case Kind.FIXED | Kind.DECIMAL_FIXED:
            return {"type": "fixed", "name": f"t{next(numbers)}", "size": layout.size}
        case Kind.ARRAY:
            return {"type": "array", "items": _plain_schema(layout.children[0], numbers)}
        case Kind.MAP:
            return {"type": "map", "values": _plain_schema(layout.children[1], numbers)}
        case Kind.RECORD:
            fields = [
                {"name": name, "type": _plain_schema(child, numbers)}
                for name, child in zip(_plain_names(layout), layout.children, strict=True)
            ]
            return {"type": "record", "name": f"t{next(numbers)}", "fields": fields}
    return _NAMES[layout.kind, layout.size]


def _plain_names(layout: Layout) -> tuple[str, ...]:
    """The names of a record's fields in the plain schema: their own, if any library takes them."""
    if all(map(_PLAIN_NAME.fullmatch, layout.names)):
        return layout.names
    return tuple(f"f{number}" for number in range(len(layout.names)))


@lru_cache(maxsize=1024)
def _is_plain(layout: Layout) -> bool:
    """Whether `pyarrow.array` takes the values of the plain schema as they are."""
    if layout.kind in (Kind.ENUM, Kind.DECIMAL_FIXED, Kind.DECIMAL_BYTES, Kind.UNION, Kind.MAP):
        return False
    return _plain_names(layout) == layout.names and all(map(_is_plain, layout.children))


def _converted(layout: Layout, value: Any) -> Any:
    """A value of the plain schema as `pyarrow.array` takes it."""
    convert = _CONVERSIONS.get(layout.kind)
    return value if value is None or convert is None else convert(layout, value)


def _enum(layout: Layout, number: int) -> str:
    if number < 0:
        raise IndexError(number)
    return layout.symbols[number]


def _decimal(layout: Layout, value: bytes) -> decimal.Decimal:
    if not value:
        raise ValueError("a decimal has no digits")
    unscaled = decimal.Decimal(int.from_bytes(value, "big", signed=True))
    return unscaled.scaleb(-layout.arrow.scale, _EXACT)


def _list(layout: Layout, values: list[Any]) -> list[Any]:
    (item,) = layout.children
    return [_converted(item, value) for value in values]


def _map(layout: Layout, values: dict[str, Any]) -> list[tuple[str, Any]]:
    if _is_plain(layout.children[1]):
        return [*values.items()]
    return [(key, _converted(layout.children[1], value)) for key, value in values.items()]


def _record(layout: Layout, values: dict[str, Any]) -> dict[str, Any]:
    members = zip(layout.names, _plain_names(layout), layout.children, strict=True)
    return {name: _converted(child, values[plain]) for name, plain, child in members}


def _union(layout: Layout, value: dict[str, Any]) -> dict[str, Any]:
    ((branch, inner),) = value.items()
    number = int(branch[1:])
    return {layout.names[number]: _converted(layout.children[number], inner)}


_CONVERSIONS: Final[Mapping[Kind, Callable[[Layout, Any], Any]]] = {
    Kind.ENUM: _enum,
    Kind.DECIMAL_FIXED: _decimal,
    Kind.DECIMAL_BYTES: _decimal,
    Kind.ARRAY: _list,
    Kind.MAP: _map,
    Kind.RECORD: _record,
    Kind.UNION: _union,
}
