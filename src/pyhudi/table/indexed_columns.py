"""Columns of indexes, which have to stay what the indexes need when a write changes the columns of a table."""

from __future__ import annotations

import pyarrow as pa

from pyhudi.errors import SchemaMismatchError
from pyhudi.format.metadata_table.index_definitions import IndexDefinition
from pyhudi.table.index_definitions import load_index_definitions, types_at
from pyhudi.table.metadata_partitions import SECONDARY_INDEX_PREFIX
from pyhudi.table.state import TableState

_STATISTICS = ("column_stats", "partition_stats", "files", "bloom_filters", "record_index")


def indexed_columns(table: TableState) -> dict[str, IndexDefinition]:
    """The definitions of the indexes that were made over columns, by index. Cost: one read."""
    return {name: definition for name, definition in load_index_definitions(table).items() if name not in _STATISTICS}


def check_indexed_columns(table: TableState, previous: pa.Schema, merged: pa.Schema) -> None:
    """Refuse a write that drops a column of an index, or makes its values other ones for the index.

    A whole number that becomes a wider one or text keeps its entries in a secondary index. Raises
    `SchemaMismatchError`. Cost: a read, for tables with such indexes.
    """
    for index, definition in indexed_columns(table).items():
        before = types_at(previous, definition.source_columns)
        after = types_at(merged, definition.source_columns)
        for name, kind in before.items():
            if kind == after.get(name):
                continue
            if name in after and index.startswith(SECONDARY_INDEX_PREFIX) and _keeps_entries(kind, after[name]):
                continue
            wanted = after.get(name)
            becomes = "would be dropped" if wanted is None else f"would become {wanted}"
            raise SchemaMismatchError(
                f"column {name!r} {becomes} by this write, but is in the index {index}: drop the index first",
                column=name,
                index=index,
                table_type=str(kind),
                rows_type=None if wanted is None else str(wanted),
            )


def _keeps_entries(stored: pa.DataType, kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(stored) and (pa.types.is_integer(kind) or pa.types.is_string(kind)))
