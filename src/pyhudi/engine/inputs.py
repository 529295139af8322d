"""The rows that users hand over, as one of Arrow's own kinds: pandas, polars, duckdb and whatever else speaks Arrow."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa

from pyhudi.errors import SchemaMismatchError


def opened(rows: Any) -> Any:
    """Any accepted input as a table, a batch or a reader of Arrow: a stream that can be taken only once is taken here.

    Of a pandas frame the index becomes columns where it has names. Without a name it only counts rows, and is left out.

    Raises:
        SchemaMismatchError: a column has no form in Arrow, two columns have one name, or an index without a name holds
            something else than row numbers.
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
            f"these rows have no form in Arrow, in which they are written: {cause}; cast the column, or rename or drop "
            "it, before writing",
            given=type(rows).__name__,
        ) from cause


def _with_index_columns(frame: Any) -> Any:
    """The frame with the named levels of its index as columns; without a name an index counts rows."""
    index = frame.index
    unnamed = [level for level, name in enumerate(index.names) if name is None]
    counts_rows = index.nlevels == 1 and (index.dtype.kind in "iu" or len(index) == 0)
    if unnamed and not counts_rows:
        raise SchemaMismatchError(
            "the index of this frame has no name to store it by and holds more than row numbers: name it "
            "(frame.rename_axis), or drop it (frame.reset_index(drop=True))",
            index=str(index.dtype),
            levels=index.nlevels,
        )
    return frame if unnamed else frame.reset_index()


def _refuse_objects(frame: Any, kind: Any) -> None:
    for name, data_type in frame.schema.items():
        if data_type == kind:
            # Arrow would be handed their addresses in memory, as if these were values.
            raise SchemaMismatchError(
                f"column {name!r} holds Python objects, which no table can store: cast it to a type, or leave it out",
                column=name,
            )
