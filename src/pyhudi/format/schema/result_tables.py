"""Tables of results: small Arrow tables whose columns are declared in one text, as `instant string, rows int64`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from typing import Any, Final

import numpy as np
import pyarrow as pa

_NUMBERS: Final[Mapping[pa.DataType, tuple[Any, Callable[[Any], int | float]]]] = {
    pa.int64(): (np.int64, index),
    pa.float64(): (np.float64, float),
}
TEXT_BYTES_MAX: Final = 2**31 - 1
"""So many bytes of texts fit into one array; Arrow makes several of more."""


def schema_of(columns: str) -> pa.Schema:
    """The schema of a text with name and type of each column; types by their names in Arrow, `list<string>` too."""
    return pa.schema([(name, _type_of(kind)) for name, kind in (column.split() for column in columns.split(","))])


def table_of(columns: str, rows: Iterable[Mapping[str, Any] | Sequence[Any]]) -> pa.Table:
    """A table of rows, each with its values by name or in the order of the columns."""
    schema = schema_of(columns)
    named = [row if isinstance(row, Mapping) else dict(zip(schema.names, row, strict=True)) for row in rows]
    columns_of = ([row.get(field.name) for row in named] for field in schema)
    return pa.Table.from_arrays(list(map(_array, columns_of, schema.types)), schema=schema)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An array of these values. `pa.array` loads pandas first, which takes a command longer than its table."""
    are_valid = np.fromiter((value is not None for value in values), bool, len(values))
    mask = _bits(are_valid)
    if kind in _NUMBERS:
        width, number = _NUMBERS[kind]
        numbers = np.fromiter((0 if value is None else number(value) for value in values), width, len(values))
        return pa.Array.from_buffers(kind, len(values), [mask, pa.py_buffer(numbers)])
    if kind == pa.bool_():
        bits = _bits(np.fromiter(map(bool, values), bool, len(values)))
        return pa.Array.from_buffers(kind, len(values), [mask, bits])
    if kind == pa.string():
        texts = [b"" if value is None else value.encode() for value in values]
        if sum(map(len, texts)) > TEXT_BYTES_MAX:
            return pa.array(values, kind)
        return pa.Array.from_buffers(kind, len(values), [mask, _offsets(texts), pa.py_buffer(b"".join(texts))])
    if kind == pa.list_(pa.string()):
        items = _array([item for value in values for item in value or ()], kind.value_type)
        offsets = _offsets([value or () for value in values])
        return pa.Array.from_buffers(kind, len(values), [mask, offsets], children=[items])
    return pa.array(values, kind)


def _bits(values: np.typing.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))


def _offsets(values: Sequence[Sequence[Any] | bytes]) -> pa.Buffer:
    return pa.py_buffer(np.cumsum([0, *map(len, values)], dtype=np.int32))


def _type_of(name: str) -> pa.DataType:
    return pa.list_(pa.string()) if name == "list<string>" else pa.type_for_alias(name)
