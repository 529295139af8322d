"""CREATE INDEX and REFRESH INDEX: from a name and columns to a definition, and to an index that is built."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from pyhudi.errors import ConfigError, HudiError, InvalidRequestError, UnsupportedFeatureError
from pyhudi.format.metadata_table.index_definitions import IndexDefinition
from pyhudi.format.schema.meta_columns import META_COLUMNS
from pyhudi.metadata_table.partitions.expression_index import expression_index_of
from pyhudi.metadata_table.partitions.maintained import is_by_partition, maintained_partition, secondary_index_of
from pyhudi.metadata_table.partitions.protocol import MetadataPartition
from pyhudi.metadata_table.requested_indexes import asked_indexes, can_be_built, sizing_of
from pyhudi.services.frame.service import ServiceCall
from pyhudi.services.indexing.build import BuiltIndex, build_index
from pyhudi.services.indexing.definitions import (
    Statistic,
    expression_definition,
    partition_named,
    secondary_definition,
)
from pyhudi.services.indexing.drop import drop_index
from pyhudi.services.indexing.listing import ONE_OF_A_TABLE, IndexKind, kind_of_partition
from pyhudi.table.features import check_writable
from pyhudi.table.index_definitions import COLUMN_STATS, load_index_definitions, types_at
from pyhudi.table.indexed_columns import indexed_columns
from pyhudi.table.metadata_partitions import FILES, RECORD_INDEX, is_maintained
from pyhudi.table.schema import load_table_schema
from pyhudi.table.state import TableState

_log = logging.getLogger("pyhudi")


def create_index(
    call: ServiceCall,
    name: str,
    kind: str | None,
    columns: tuple[str, ...],
    statistic: Statistic = "column_stats",
    expression: Mapping[str, str] | None = None,
) -> BuiltIndex:
    """Build a new index. `statistic` and `expression`: of an expression index. Errors: see `Indexes.create`."""
    call = call.reloaded()
    check_writable(call.table)
    partition, chosen = partition_named(name, kind)
    _check_maintained(partition, chosen)
    _check_columns(call.table, chosen, columns)
    if chosen is IndexKind.PARTITION_STATS and COLUMN_STATS not in call.table.config.metadata_partitions:
        raise InvalidRequestError("statistics of partitions need those of files: create column_stats first")
    if chosen is not IndexKind.EXPRESSION and expression is not None:
        raise ConfigError("only an index of the kind expression has an expression", kind=chosen.value)
    if chosen is IndexKind.EXPRESSION:
        definition = expression_definition(call.table, partition, columns, statistic, expression or {})
        return _build_defined(call, definition)
    if chosen is IndexKind.SECONDARY:
        return _build_defined(call, secondary_definition(call.table, partition, columns))
    return build_index(call, _partition(call, partition, columns))


def refresh_index(call: ServiceCall, partition: str) -> BuiltIndex:
    """Build an index again. It is dropped first, but for its definition. Errors: see `Indexes.refresh`."""
    call = call.reloaded()
    check_writable(call.table)
    _check_maintained(partition, kind_of_partition(partition))
    drop_index(call, partition, keeps_definition=True)
    return build_again(call, partition)


def build_again(call: ServiceCall, partition: str) -> BuiltIndex:
    """Build an index that was dropped but for its definition. Raises as `build_index`."""
    call = call.reloaded()
    definition = load_index_definitions(call.table).get(partition)
    if definition is not None and kind_of_partition(partition) not in ONE_OF_A_TABLE:
        return _build_defined(call, definition)
    columns = () if definition is None else definition.source_columns
    return build_index(call, _partition(call, partition, columns))


def _build_defined(call: ServiceCall, definition: IndexDefinition) -> BuiltIndex:
    """Build an index that its definition describes."""
    partition: MetadataPartition
    if kind_of_partition(definition.name) is IndexKind.EXPRESSION:
        partition = expression_index_of(definition, call.table)
    else:
        partition = secondary_index_of(definition, sizing_of(call.config.record_index))
    return build_index(call, partition, definition)


def _partition(call: ServiceCall, name: str, columns: tuple[str, ...]) -> MetadataPartition:
    """What builds the partition, with the sizes that the options of the call give it."""
    options = replace(call.config.metadata_table, enabled=True, column_stats=True, partition_stats=True)
    options = replace(options, bloom_filters=True)
    if own := tuple(column for column in columns if column not in META_COLUMNS):
        options = replace(options, indexed_columns=own)
    by_partition = call.config.record_index.by_partition or (name == RECORD_INDEX and is_by_partition(call.table))
    record_index = replace(call.config.record_index, enabled=not by_partition, by_partition=by_partition)
    by_options = {index.name: index for index in asked_indexes(options, record_index)}
    partition = by_options.get(name) or maintained_partition(name, call.table)
    if not can_be_built(partition, call.table):
        raise InvalidRequestError(
            "a table without partitions, of table version 6, or that was bootstrapped, has no such index", index=name
        )
    return partition


def _check_maintained(partition: str, kind: IndexKind | None) -> None:
    if kind is None or not is_maintained(partition):
        raise UnsupportedFeatureError(
            "this release does not maintain indexes of this kind, and an index that is not maintained would give wrong "
            "answers",
            index=partition,
            kind=None if kind is None else kind.value,
        )


def _check_columns(table: TableState, kind: IndexKind, columns: tuple[str, ...]) -> None:
    schema = load_table_schema(table)
    if schema is None:
        raise InvalidRequestError("the table has no rows and no schema yet: write rows into it first")
    unknown = [name for name in columns if name.partition(".")[0] not in schema.arrow.names]
    if unknown:
        raise ConfigError("the table has no such column", unknown=unknown, columns=schema.arrow.names)
    keys = table.config.record_key_fields
    if kind is IndexKind.RECORD and columns and columns != keys:
        raise ConfigError(
            "the record index is over the record key: leave the columns out, or make an index of the kind secondary",
            columns=columns,
            record_key=keys,
        )


@contextmanager
def keeping_indexes(call: ServiceCall) -> Iterator[None]:
    """Build indexes again that the block drops, if it leaves the metadata table.

    One that cannot be built stays dropped, with a warning; one over a column that is gone loses its definition, too.
    Cost: two reads of the properties, and of each index that of `build_index`.
    """
    before = call.reloaded().table.config.metadata_partitions
    yield
    table = call.reloaded().table
    after = table.config.metadata_partitions
    gone = {*before} - {*after}
    if FILES not in after or not gone:
        return
    aimless = _without_columns(table)
    for name in sorted(gone, key=lambda name: (name != RECORD_INDEX, name)):
        try:
            if name in aimless:
                _log.warning("%s is dropped: the table no longer has its column", name)
                drop_index(call, name)
            else:
                build_again(call, name)
        except HudiError as error:
            _log.warning("%s is not built again, ask `table.indexes` for it: %s", name, error)


def _without_columns(table: TableState) -> frozenset[str]:
    """The indexes over columns that the table does not have."""
    schema = load_table_schema(table)
    return frozenset(
        name
        for name, definition in indexed_columns(table).items()
        if schema is None or len(types_at(schema.arrow, definition.source_columns)) < len(definition.source_columns)
    )
