"""Ranges of columns as payloads of the metadata table: `HoodieMetadataColumnStats`, of files and of partitions.

The ranges are rows with these columns (`pyhudi.io.column_ranges`): `file`, `column`, `low`, `high`, `values`, `nulls`,
`size`, `uncompressed_size`, `type`, `info`. Of a partition, `file` is its path.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.metadata_table.value_types import as_version_1

_BOUNDS: Final = {"minValue": "low", "maxValue": "high"}
_COLUMNS: Final = {
    "fileName": "file",
    "columnName": "column",
    "valueCount": "values",
    "nullCount": "nulls",
    "totalSize": "size",
    "totalUncompressedSize": "uncompressed_size",
}
_VALUE_TYPE: Final = "valueType"
_TIGHT: Final = "isTightBound"
_DELETED: Final = "isDeleted"


def statistics_payloads(ranges: pa.RecordBatch, kind: pa.DataType, *, is_tight: bool) -> pa.StructArray:
    """The payloads of ranges, in their order.

    Args:
        ranges: see above.
        kind: the type of payloads of the table's version (`payload_type`). One without types of values is version 1.
        is_tight: the bounds are those of all files of a partition, so readers forget previous ones. Readers unite other
            bounds with those before.
    """
    has_types = kind.get_field_index(_VALUE_TYPE) >= 0
    count = ranges.num_rows
    fields: list[pa.Array] = []
    for field in kind:
        if field.name in _BOUNDS:
            bounds = ranges.column(_BOUNDS[field.name])
            fields.append(_wrapped(bounds, ranges, field.type, has_types=has_types))
        elif field.name == _VALUE_TYPE:
            fields.append(_types(ranges, field.type))
        elif field.name in (_TIGHT, _DELETED):
            value = is_tight if field.name == _TIGHT else False
            fields.append(pa.repeat(pa.scalar(value, pa.bool_()), count))
        else:
            fields.append(ranges.column(_COLUMNS[field.name]).cast(field.type))
    return pa.StructArray.from_arrays(fields, fields=list(kind))


def _wrapped(bounds: pa.StructArray, ranges: pa.RecordBatch, kind: pa.DataType, *, has_types: bool) -> pa.StructArray:
    """Bounds as the records have them: a struct with one field per wrapper, which is a struct with a `value`.

    NaN becomes infinity. JVM Hudi asks the bounds by a DataFrame of Spark, and loses the files, and whole partitions,
    whose greatest value is NaN by a condition such as `x > 5`. Infinity passes it.
    """
    if has_types:
        values = {field.name: bounds.field(number) for number, field in enumerate(bounds.type)}
    else:
        values = as_version_1(bounds, ranges.column("type"), ranges.column("info"))
    wrappers = []
    for field in kind:
        found = values.get(field.name)
        if found is not None and pa.types.is_floating(found.type):
            found = pc.if_else(pc.is_nan(found), pa.scalar(float("inf"), found.type), found)
        if found is None:
            wrappers.append(pa.nulls(len(bounds), field.type))
        else:
            inner = field.type.field(0)
            wrappers.append(_struct([found.cast(inner.type)], field.type, found.is_valid()))
    some = [wrapper.is_valid() for wrapper in wrappers]
    return _struct(wrappers, kind, _any(some, len(bounds)))


def _types(ranges: pa.RecordBatch, kind: pa.DataType) -> pa.StructArray:
    numbers = ranges.column("type").cast(kind.field(0).type)
    return _struct([numbers, ranges.column("info").cast(kind.field(1).type)], kind, None)


def _struct(children: list[pa.Array], kind: pa.DataType, valid: pa.Array | None) -> pa.StructArray:
    mask = None if valid is None else pc.invert(valid)
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)


def _any(flags: list[pa.Array], count: int) -> pa.Array:
    found = pa.repeat(pa.scalar(False), count)
    for flag in flags:
        found = pc.or_(found, flag)
    return found
