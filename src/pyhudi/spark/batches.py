"""Batches of rows as tasks of a write get them: of one schema, and large enough."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from pyhudi.format.pieces import in_pieces

SPLIT_BATCH_ROWS = 65_536
SPLIT_BATCH_BYTES = 32 << 20
"""Batches are joined up to this size, so that the work per batch and column becomes negligible."""


def conformed(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The batches cast to `schema` and joined to larger ones. Timestamps in the session's time zone become UTC."""
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        pending.append(cast_batch(batch, schema))
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= SPLIT_BATCH_ROWS or size >= SPLIT_BATCH_BYTES:
            yield from in_pieces(_joined(pending))
            pending, rows, size = [], 0, 0
    if pending:
        yield from in_pieces(_joined(pending))


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch cast to `schema`. Columns that have the right type are not copied."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        column if column.type == kept.type else column.cast(kept.type)
        for column, kept in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
