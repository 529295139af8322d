"""Nulls below nulls: what a column inside of a struct holds where the struct itself is null."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def without_nulls(array: pa.Array) -> pa.Array:
    """The same array without marks of nulls, also inside of structs that are its values. Costs no copy of values.

    For a column that may not be null, inside of a struct: where the struct is null, the column holds nothing, and
    readers of Parquet and Avro mark that as null. Arrow refuses to write or cast such an array.
    """
    if pa.types.is_struct(array.type):
        fields = list(array.type)
        children = [
            child if field.nullable or not child.null_count else without_nulls(child)
            for field, child in zip(fields, _children(array), strict=True)
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


def _children(array: pa.StructArray) -> list[pa.Array]:
    return [array.field(number) for number in range(array.type.num_fields)]
