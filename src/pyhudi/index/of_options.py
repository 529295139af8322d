"""Selects the index that the options ask for."""

from __future__ import annotations

from pyhudi.config.enums import IndexType
from pyhudi.config.write_config import WriteConfig
from pyhudi.index.bloom import BloomIndex
from pyhudi.index.in_memory import locations_of_process
from pyhudi.index.protocol import Index, KeyScope
from pyhudi.index.remembering import RememberingIndex
from pyhudi.index.simple import SimpleIndex
from pyhudi.index.stores.open import locations_in_store, locations_of_class


def index_of(config: WriteConfig, table_uri: str) -> Index:
    """The index of a write to the table at this URI."""
    options = config.index
    if options.index_class is not None:
        return RememberingIndex(locations_of_class(options.index_class, table_uri))
    if options.index_type is IndexType.HBASE and options.store is not None:
        return RememberingIndex(locations_in_store(options.store, table_uri))
    if options.index_type is IndexType.INMEMORY:
        return RememberingIndex(locations_of_process(table_uri))
    if options.index_type.uses_bloom_filters:
        return BloomIndex(prune_by_ranges=options.prune_by_ranges)
    return SimpleIndex()


def scope_of(config: WriteConfig, *, may_move: bool) -> KeyScope:
    """Where keys are unique. `may_move`: the write inserts rows, so that records can move to their partitions."""
    if not config.index.index_type.is_global:
        return KeyScope.PARTITION
    moves = may_move and config.moves_partition
    return KeyScope.TABLE_MOVES if moves else KeyScope.TABLE_UPDATES_IN_PLACE
