"""Definitions of the indexes of which a table may have several, from what a user asks for."""

from __future__ import annotations

from pyhudi.errors import ConfigError, InvalidRequestError, UnsupportedFeatureError
from pyhudi.format.metadata_table.index_definitions import IndexDefinition
from pyhudi.metadata_table.changed_rows import row_settings
from pyhudi.metadata_table.secondary_index import can_be_indexed
from pyhudi.table.metadata_partitions import RECORD_INDEX
from pyhudi.table.schema import load_table_schema
from pyhudi.table.state import TableState

_SECONDARY = "secondary_index"


def secondary_definition(table: TableState, name: str, columns: tuple[str, ...]) -> IndexDefinition:
    """The definition of a new secondary index over a column, which the table has.

    Raises `InvalidRequestError` for a table that can have none, `ConfigError` for other than one column,
    `UnsupportedFeatureError` for a type that has no exact text, and for a table with a merger of the user's own.
    """
    if not table.version.has_secondary_indexes:
        raise InvalidRequestError("a table of version 6 has no secondary indexes: upgrade it first", index=name)
    if RECORD_INDEX not in table.config.metadata_partitions:
        raise InvalidRequestError(
            "a secondary index finds record keys, and the record index their files: create record_index first",
            index=name,
        )
    column = _one_column(table, columns)
    if not row_settings(table, (column,)).merges:
        raise UnsupportedFeatureError(
            "the values of rows are not known before a merger of your own has merged them, so this table can have no "
            "secondary index",
            index=name,
        )
    version = "V2" if table.version.has_value_types else None
    return IndexDefinition(name=name, kind=_SECONDARY, function="identity", source_columns=(column,), version=version)


def _one_column(table: TableState, columns: tuple[str, ...]) -> str:
    schema = load_table_schema(table)
    assert schema is not None  # the columns were checked
    if len(columns) != 1 or columns[0] not in schema.arrow.names:
        raise ConfigError("a secondary index is over one column, which is not part of another", columns=columns)
    kind = schema.arrow.field(columns[0]).type
    if not can_be_indexed(kind):
        raise UnsupportedFeatureError(
            f"a secondary index over a column of type {kind} cannot be kept: it may be text, an integer, a date or a "
            "timestamp",
            column=columns[0],
        )
    return columns[0]
