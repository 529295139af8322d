"""Selects the index that the options ask for. The simple index is the lookup that all of them share."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from pyhudi.config.enums import IndexType
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.protocol import Engine
from pyhudi.errors import CorruptDataError, NotFoundError
from pyhudi.index.bloom import BloomIndex
from pyhudi.index.key_value.in_memory import locations_of_process
from pyhudi.index.key_value.index import RememberingIndex
from pyhudi.index.key_value.stores.open import locations_in_store, locations_of_class
from pyhudi.index.protocol import Index, KeyScope, Lookup, Tagged
from pyhudi.index.record_index import RecordIndex
from pyhudi.index.search import search, to_search
from pyhudi.metadata_table.partitions.bloom_filters import FilterReader
from pyhudi.metadata_table.partitions.maintained import is_by_partition
from pyhudi.metadata_table.read_checks import problem_for_reads, warn_of_index, warn_of_metadata_table
from pyhudi.metadata_table.record_locations import location_reader
from pyhudi.metadata_table.state import MetadataState, load_metadata_state
from pyhudi.table.file_slice import FileSlice
from pyhudi.table.metadata_partitions import BLOOM_FILTERS, RECORD_INDEX
from pyhudi.table.state import TableState

_log = logging.getLogger("pyhudi")


@dataclass(frozen=True, slots=True)
class SimpleIndex:
    """SIMPLE, and GLOBAL_SIMPLE with a table-wide lookup. Cost: see `search`, of every slice."""

    def tag(self, engine: Engine, lookup: Lookup, slices: Sequence[FileSlice]) -> Tagged:
        """See `Index.tag`."""
        searched = [to_search(lookup, number, file_slice) for number, file_slice in enumerate(slices)]
        return search(engine, lookup, slices, searched, range(len(slices)))


def index_of(config: WriteConfig, table: TableState) -> Index:
    """The index of a write to this table.

    Cost: of the record index two listings and a read; of the others a read where the table has a record index.
    """
    options, table_uri = config.index, table.storage.uri
    _warn_of_repeated_keys(options.index_type, table)
    if options.index_class is not None:
        return RememberingIndex(locations_of_class(options.index_class, table_uri))
    if options.index_type is IndexType.HBASE and options.store is not None:
        return RememberingIndex(locations_in_store(options, table))
    if options.index_type is IndexType.INMEMORY:
        return RememberingIndex(locations_of_process(table_uri))
    if options.index_type.is_in_metadata_table:
        return _record_index(table, options.index_type)
    if options.index_type.uses_bloom_filters:
        filters = _filters_of_metadata(table) if options.bloom_filters_of_metadata else None
        return BloomIndex(prune_by_ranges=options.prune_by_ranges, filters=filters)
    return SimpleIndex()


def _warn_of_repeated_keys(asked: IndexType, table: TableState) -> None:
    """Warn where two partitions may have one key, of which the record index keeps one location, as in JVM Hudi."""
    if asked.is_global or RECORD_INDEX not in table.config.metadata_partitions or not table.config.partition_fields:
        return
    if not is_by_partition(table):
        _log.warning(
            "%s looks for keys in their partitions alone, and the record index of the table has each key once: reads "
            "by key find one record of a key that is in two partitions. Write with hoodie.index.type=RECORD_INDEX, or "
            "drop the index",
            asked.value,
        )


def scope_of(config: WriteConfig, *, may_move: bool) -> KeyScope:
    """Where keys are unique. `may_move`: the write inserts rows, so that records can move to their partitions."""
    if not config.index.index_type.is_global:
        return KeyScope.PARTITION
    moves = may_move and config.moves_partition
    return KeyScope.TABLE_MOVES if moves else KeyScope.TABLE_UPDATES_IN_PLACE


def _filters_of_metadata(table: TableState) -> FilterReader | None:
    """The filters in the metadata table, if it has valid ones."""
    state = _believed(table, BLOOM_FILTERS, "footers are read instead")
    try:
        return None if state is None else FilterReader(state.slices(BLOOM_FILTERS))
    except (CorruptDataError, NotFoundError) as error:
        warn_of_index(table.storage, BLOOM_FILTERS, f"{error}; footers are read instead")
        return None


def _record_index(table: TableState, asked: IndexType) -> Index:
    """The record index; where the table has no valid one, files are searched, as in JVM Hudi."""
    instead = f"files are searched as by {'GLOBAL_SIMPLE' if asked.is_global else 'SIMPLE'}"
    state = _believed(table, RECORD_INDEX, instead)
    if state is None:
        return SimpleIndex()
    try:
        reader = location_reader(state)
    except (CorruptDataError, NotFoundError) as error:
        warn_of_index(table.storage, RECORD_INDEX, f"{error}; {instead}")
        return SimpleIndex()
    if reader.is_by_partition is not asked.is_global:
        return RecordIndex(reader, fallback=SimpleIndex())
    kind = f"that of the table is {'' if asked.is_global else 'not '}by partition"
    _log.warning("%s cannot be used: %s; %s", asked.value, kind, instead)
    return SimpleIndex()


def _believed(table: TableState, index: str, instead: str) -> MetadataState | None:
    """The metadata table, if it has the index and is valid; otherwise a warning tells what is done instead."""
    if index not in table.config.metadata_partitions:
        warn_of_index(table.storage, index, f"the table has none; {instead}", is_there=False)
        return None
    try:
        state = load_metadata_state(table)
        reason = problem_for_reads(state)
    except (CorruptDataError, NotFoundError) as error:
        reason = str(error)
    if reason is not None:
        warn_of_metadata_table(table.storage, f"{reason}; {instead}")
        return None
    return state
