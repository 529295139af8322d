"""Tables of results: small Arrow tables whose columns are declared in one text, as `instant string, rows int64`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa


def schema_of(columns: str) -> pa.Schema:
    """The schema of a text with name and type of each column; types by their names in Arrow, `list<string>` too."""
    return pa.schema([(name, _type_of(kind)) for name, kind in (column.split() for column in columns.split(","))])


def table_of(columns: str, rows: Iterable[Mapping[str, Any] | Sequence[Any]]) -> pa.Table:
    """A table of rows, each with its values by name or in the order of the columns."""
    schema = schema_of(columns)
    named = [row if isinstance(row, Mapping) else dict(zip(schema.names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(named, schema=schema)


def _type_of(name: str) -> pa.DataType:
    return pa.list_(pa.string()) if name == "list<string>" else pa.type_for_alias(name)
