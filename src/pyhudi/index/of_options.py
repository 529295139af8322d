"""Selects the index that the options ask for."""

from __future__ import annotations

from pyhudi.config.write_config import WriteConfig
from pyhudi.index.bloom import BloomIndex
from pyhudi.index.protocol import Index, KeyScope
from pyhudi.index.simple import SimpleIndex


def index_of(config: WriteConfig) -> Index:
    """The index of a write."""
    if config.index.index_type.uses_bloom_filters:
        return BloomIndex(prune_by_ranges=config.index.prune_by_ranges)
    return SimpleIndex()


def scope_of(config: WriteConfig, *, may_move: bool) -> KeyScope:
    """Where keys are unique. `may_move`: the write inserts rows, so that records can move to their partitions."""
    if not config.index.index_type.is_global:
        return KeyScope.PARTITION
    moves = may_move and config.moves_partition
    return KeyScope.TABLE_MOVES if moves else KeyScope.TABLE_UPDATES_IN_PLACE
