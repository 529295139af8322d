"""Rows whose record stays in the partition where it was found, though their own values name another.

So does a global index with `update.partition.path=false`. Readers take a partition's folder for what its rows have in
the partition columns: JVM Hudi shows the folder's value, and all leave out the other folders where a condition asks for
one value. So rows that stay get the values of the folder; with their own they would be found by neither.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import CorruptDataError
from pyhudi.format.keys.generator import KeyGenerator
from pyhudi.format.keys.generator_types import PartitionFieldKind
from pyhudi.format.keys.partition_paths import partition_values, typed_value
from pyhudi.format.schema.meta_columns import PARTITION_PATH


def with_values_of_path(rows: pa.RecordBatch, path: str, keys: KeyGenerator) -> pa.RecordBatch:
    """The rows, with the partition columns that the path says in those which were staged for another one.

    Columns whose text in a path is not their value (timestamps, nested ones) stay as they are. Cost: a comparison where
    all rows belong to the path.
    """
    elsewhere = pc.not_equal(rows.column(PARTITION_PATH), path)
    if not pc.any(elsewhere).as_py():
        return rows
    try:
        texts = partition_values(
            path, keys.partition_field_names, hive_style=keys.hive_style, url_encoded=keys.url_encode
        )
    except CorruptDataError:
        return rows  # values with slashes cannot be assigned to their fields
    for field in keys.partition_fields:
        at = rows.schema.get_field_index(field.name)
        if at < 0 or field.kind is not PartitionFieldKind.SIMPLE:
            continue
        column, text = rows.schema.field(at), texts[field.name]
        value = pa.scalar(None, column.type) if text is None else typed_value(text, column.type)
        if value is not None and (value.is_valid or column.nullable):
            rows = rows.set_column(at, column, pc.if_else(elsewhere, value, rows.column(at)))
    return rows
