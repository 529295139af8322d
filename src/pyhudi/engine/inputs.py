"""Conversion of the input of a write into Arrow: from pandas, polars, duckdb and other libraries that export Arrow."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa

from pyhudi.errors import SchemaMismatchError


def opened(rows: Any) -> Any:
    """Any accepted input as an Arrow table, batch or reader.

    Call it only once per input: it may consume an input that is a stream. The named levels of a pandas index become
    columns. A pandas index without a name is left out, because it holds only row numbers.

    Raises:
        SchemaMismatchError: a column has no Arrow type, two columns have the same name, or an index without a name
            holds other values than row numbers.
    """
    if rows is None or isinstance(rows, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return rows
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if polars is not None and isinstance(rows, polars.DataFrame):
        _refuse_objects(rows, polars.Object)
    try:
        if pandas is not None and isinstance(rows, pandas.DataFrame):
            return pa.Table.from_pandas(_with_index_columns(rows), preserve_index=False)
        return pa.RecordBatchReader.from_stream(rows)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as cause:
        raise SchemaMismatchError(
            f"the rows cannot be converted to Arrow: {cause}; cast, rename or drop the column before writing",
            given=type(rows).__name__,
        ) from cause


def _with_index_columns(frame: Any) -> Any:
    """The frame with the named levels of its index as columns."""
    index = frame.index
    unnamed = [level for level, name in enumerate(index.names) if name is None]
    counts_rows = index.nlevels == 1 and (index.dtype.kind in "iu" or len(index) == 0)
    if unnamed and not counts_rows:
        raise SchemaMismatchError(
            "the index of this frame holds other values than row numbers, but has no name for a column: name it "
            "(frame.rename_axis), or drop it (frame.reset_index(drop=True))",
            index=str(index.dtype),
            levels=index.nlevels,
        )
    return frame if unnamed else frame.reset_index()


def _refuse_objects(frame: Any, kind: Any) -> None:
    for name, data_type in frame.schema.items():
        if data_type == kind:
            # polars would export the objects' addresses in memory to Arrow, as if they were values.
            raise SchemaMismatchError(
                f"column {name!r} holds Python objects, which no table can store: cast it to a type, or leave it out",
                column=name,
            )
