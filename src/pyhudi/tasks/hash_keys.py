"""The first step for incoming rows: record key, partition path, and the schema of the table."""

from __future__ import annotations

import pyarrow as pa

from pyhudi.engine.protocol import TaskContext
from pyhudi.format.keys.generator import KeyGenerator, auto_record_keys
from pyhudi.format.schema.evolution import align_incoming
from pyhudi.format.schema.meta_columns import PARTITION_PATH, RECORD_KEY


def keyed_schema(schema: pa.Schema) -> pa.Schema:
    """Record key, partition path, then the columns of `schema`."""
    return pa.schema([pa.field(RECORD_KEY, pa.string()), pa.field(PARTITION_PATH, pa.string()), *schema])


def keyed_rows(
    keys: KeyGenerator,
    schema: pa.Schema,
    row_id: str,
    context: TaskContext,
    batch: pa.RecordBatch,
    first_row: int,
) -> pa.RecordBatch:
    """The batch as `keyed_schema(schema)`.

    A table that generates its keys makes them of `row_id`, which is unique to the write, the split, and the number of
    the row in it, which begins at `first_row`.

    Raises `RecordKeyError`, `UnsafePathError` and `SchemaMismatchError` for rows that cannot be stored.
    """
    rows = align_incoming(batch, schema)
    # From the rows as the table stores them: the text of an integer differs from that of the same float.
    if keys.record_key_fields:
        record_keys = keys.record_keys(rows)
    else:
        record_keys = auto_record_keys(row_id, context.partition, first_row, rows.num_rows)
    paths = keys.partition_paths(rows).dictionary_decode()
    return pa.RecordBatch.from_arrays([record_keys, paths, *rows.columns], schema=keyed_schema(schema))
