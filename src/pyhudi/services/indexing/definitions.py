"""Indexes of a table: kinds and names of a user, definitions of those of which a table may have several, the list."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from pyhudi.config.enums import TableType
from pyhudi.environment import Environment
from pyhudi.errors import ConfigError, InvalidRequestError, UnsupportedFeatureError
from pyhudi.format.metadata_table.expressions import FUNCTIONS, IDENTITY
from pyhudi.format.metadata_table.index_definitions import IndexDefinition
from pyhudi.merge.table_rules import table_rules_of
from pyhudi.metadata_table.partitions.maintained import is_by_partition
from pyhudi.metadata_table.partitions.secondary_index import can_be_indexed
from pyhudi.services.indexing.listing import ONE_OF_A_TABLE, PREFIXES, IndexKind, kind_of_partition
from pyhudi.storage.protocol import Storage
from pyhudi.table.metadata_partitions import RECORD_INDEX
from pyhudi.table.schema import load_table_schema
from pyhudi.table.state import TableState
from pyhudi.transaction.heartbeat import HeartbeatSettings, Liveness, heartbeat_path, liveness_of

Statistic: TypeAlias = Literal["column_stats", "bloom_filters"]

_SECONDARY = "secondary_index"
_EXPR: Final = "expr"
"""The option of a definition that names the function."""


_NAME: Final = re.compile(r"[A-Za-z0-9_]{1,100}")


def expression_definition(
    table: TableState, name: str, columns: tuple[str, ...], statistic: Statistic, options: Mapping[str, str]
) -> IndexDefinition:
    """The definition of a new expression index. `options`: those of JVM Hudi's CREATE INDEX, `expr` among them.

    Raises `InvalidRequestError` for a table that can have none, `ConfigError` for other than one column, another
    function, or options that the function does not have, and `UnsupportedFeatureError` for filters where a table has
    logs, at which JVM Hudi fails.
    """
    if not table.version.has_secondary_indexes or table.config.values.get("hoodie.bootstrap.base.path"):
        raise InvalidRequestError(
            "a table of version 6, or one that was bootstrapped, can have no expression index", index=name
        )
    if statistic not in ("column_stats", "bloom_filters"):
        raise ConfigError("an expression index has column_stats or bloom_filters", using=statistic)
    function = options.get(_EXPR, IDENTITY)
    found = FUNCTIONS.get(function)
    if found is None or (statistic == "column_stats" and function == IDENTITY):
        raise ConfigError(
            "an index can be over one of these functions; statistics of a column itself are in column_stats",
            expr=function,
            functions=sorted(FUNCTIONS),
        )
    given = options.keys() - {_EXPR}
    if not found.needed <= given <= found.options:
        raise ConfigError(
            "the function has other options", expr=function, needed=sorted(found.needed), allowed=sorted(found.options)
        )
    if not all(options[key].lstrip("-").isdigit() for key in _NUMBERS & given):
        raise ConfigError("these options are numbers", options=sorted(_NUMBERS & given))
    if statistic == "bloom_filters" and table.config.table_type is TableType.MERGE_ON_READ:
        raise UnsupportedFeatureError(
            "bloom filters of an expression cannot be kept in a merge-on-read table: JVM Hudi fails at its logs; make "
            "an index of column_stats",
            index=name,
        )
    schema = load_table_schema(table)
    assert schema is not None  # the columns were checked
    if len(columns) != 1 or columns[0] not in schema.arrow.names:
        raise ConfigError("an expression index is over one column, which is not part of another", columns=columns)
    version = "V2" if table.version.has_value_types else None
    return IndexDefinition(
        name=name, kind=statistic, function=function, source_columns=columns, options=dict(options), version=version
    )


_NUMBERS: Final = frozenset({"pos", "len", "idx", "days"})


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
    if is_by_partition(table):
        raise InvalidRequestError(
            "a secondary index needs a record index of all keys, and that of the table is by partition", index=name
        )
    column = _one_column(table, columns)
    try:
        table_rules_of(table.config)
    except UnsupportedFeatureError as error:
        raise UnsupportedFeatureError(
            "the values of rows are not known before a merger of your own has merged them, so this table can have no "
            "secondary index",
            index=name,
        ) from error
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


def partition_named(name: str, kind: str | None) -> tuple[str, IndexKind]:
    """The partition of the metadata table for a new index. Raises `ConfigError` for a name or kind that cannot be."""
    chosen = _kind_of(kind) if kind is not None else kind_of_partition(name)
    if chosen is None:
        known = ", ".join(ONE_OF_A_TABLE.values())
        raise ConfigError(f"say what kind of index it is to be, or name one of {known}", name=name)
    if chosen in ONE_OF_A_TABLE:
        if name != ONE_OF_A_TABLE[chosen]:
            raise ConfigError(
                f"a table has one index of this kind at most, and its name is {ONE_OF_A_TABLE[chosen]!r}",
                name=name,
                kind=chosen.value,
            )
        return name, chosen
    own = name.removeprefix(PREFIXES[chosen])
    if not isinstance(name, str) or _NAME.fullmatch(own) is None:
        raise ConfigError("the name of an index must be 1 to 100 letters, digits and underscores", name=repr(name))
    return PREFIXES[chosen] + own, chosen


def _kind_of(kind: str) -> IndexKind:
    try:
        return IndexKind(kind)
    except ValueError as error:
        known = ", ".join(member.value for member in IndexKind)
        raise ConfigError(f"the kind of an index must be one of {known}", kind=repr(kind)) from error


def fence_of(partition: str) -> str:
    """The name by which the runs of a build are told apart, in place of an instant time."""
    return f"index-{partition}"


def is_being_built(storage: Storage, partition: str, settings: HeartbeatSettings, environment: Environment) -> bool:
    """Whether a process that counts as alive builds the index now. Cost: two requests."""
    path = heartbeat_path(fence_of(partition))
    return liveness_of(storage, path, settings, environment) is Liveness.ALIVE
