"""The definitions of a table's indexes, `.hoodie/.index_defs/index.json`, and the columns that have statistics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from pyhudi.errors import ConfigError, NotFoundError
from pyhudi.format.metadata_table.index_definitions import (
    DEFINITIONS_PATH,
    IndexDefinition,
    format_index_definitions,
    parse_index_definitions,
)
from pyhudi.format.metadata_table.value_types import fits_version_1, value_kind
from pyhudi.format.schema.meta_columns import COMMIT_TIME, PARTITION_PATH, RECORD_KEY
from pyhudi.format.schema.type_at import type_at
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.storage.bounded import read_at_most
from pyhudi.table.state import TableState, update_properties

DEFINITIONS_KEY: Final = "hoodie.table.index.defs.path"
DEFINITIONS_BYTES_MAX: Final = 16 * 1024 * 1024
COLUMN_STATS: Final = "column_stats"
PARTITION_STATS: Final = "partition_stats"
INDEXED_META_COLUMNS: Final = (COMMIT_TIME, PARTITION_PATH, RECORD_KEY)
INDEXED_COLUMNS_MAX: Final = 32
COLUMNS_MAX_KEY: Final = "hoodie.metadata.index.column.stats.max.columns.to.index"
RECORD_KIND: Final = pa.string()
"""The type of the meta columns."""


def load_index_definitions(table: TableState) -> dict[str, IndexDefinition]:
    """The definitions by name; none where the table names no file of them, or it is not there.

    Cost: one read, or none for a table that remembers them.
    """
    if table.index_definitions is not None:
        return dict(table.index_definitions)
    path = table.config.values.get(DEFINITIONS_KEY)
    if not path:
        return {}
    try:
        data = read_at_most(table.storage, path, DEFINITIONS_BYTES_MAX)
    except NotFoundError:
        return {}
    return parse_index_definitions(data, path=path)


def remembering_definitions(table: TableState) -> TableState:
    """The table with its definitions, which are not read again.

    For the holder of the table lock, who alone changes them. Cost: one read where the table has definitions.
    """
    return replace(table, index_definitions=load_index_definitions(table))


def put_index_definitions(table: TableState, definitions: Iterable[IndexDefinition]) -> None:
    """Replace all definitions, under the table lock. Cost: one put; for the first ones an update of the properties."""
    path = table.config.values.get(DEFINITIONS_KEY)
    put = {definition.name: definition for definition in definitions}
    table.storage.put(path or DEFINITIONS_PATH, format_index_definitions(put.values()))
    if table.index_definitions is not None:
        table.index_definitions.clear()
        table.index_definitions.update(put)
    if not path:
        update_properties(table.storage, {DEFINITIONS_KEY: DEFINITIONS_PATH})


def default_indexed_columns(
    schema: pa.Schema, version: TableVersion, *, columns_max: int = INDEXED_COLUMNS_MAX, meta_columns: bool = True
) -> tuple[str, ...]:
    """The columns that have statistics where no list is given: three meta columns, and the first ones of the table.

    `schema`: without meta columns. Columns of types without statistics, as nested ones, do not count.
    """
    able = [field.name for field in schema if can_be_indexed(field.type, version)]
    return (*(INDEXED_META_COLUMNS if meta_columns else ()), *able[:columns_max])


def listed_columns(columns: Sequence[str], schema: pa.Schema, version: TableVersion) -> tuple[str, ...]:
    """Those of given columns that can have statistics, in their order; nested ones by dotted paths.

    Raises `ConfigError` for a column that the table does not have.
    """
    kinds = {name: type_at(schema, name) for name in dict.fromkeys(columns)}
    if unknown := [name for name, kind in kinds.items() if kind is None]:
        raise ConfigError("the table has no such column to index", unknown=unknown, columns=schema.names)
    return tuple(name for name, kind in kinds.items() if kind is not None and can_be_indexed(kind, version))


def types_at(schema: pa.Schema, columns: Sequence[str]) -> dict[str, pa.DataType]:
    """The types of those columns that a table has, meta columns among them, by dotted path. `schema`: without them."""
    kinds = {name: RECORD_KIND if name in INDEXED_META_COLUMNS else type_at(schema, name) for name in columns}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def can_be_indexed(kind: pa.DataType, version: TableVersion) -> bool:
    """Whether columns of a type can have statistics in a table version."""
    return value_kind(kind) is not None if version.has_value_types else fits_version_1(kind)


def indexed_columns(
    definition: IndexDefinition | None, schema: pa.Schema, version: TableVersion, *, meta_columns: bool = True
) -> tuple[str, ...]:
    """The columns of which a table keeps statistics under its newest schema, which may have more columns than before.

    A definition that lists the first columns of the table goes on with those that were added; another one is a list
    that was given. In table version 6, which has no definitions, all columns have statistics.
    """
    columns_max = INDEXED_COLUMNS_MAX if version.has_secondary_indexes else len(schema)
    given = "" if definition is None else definition.options.get(COLUMNS_MAX_KEY, "")
    default = default_indexed_columns(
        schema, version, columns_max=int(given) if given.isdigit() else columns_max, meta_columns=meta_columns
    )
    listed = () if definition is None else definition.source_columns
    if tuple(default[: len(listed)]) == tuple(listed):
        return default
    return tuple(name for name, kind in types_at(schema, listed).items() if can_be_indexed(kind, version))
