"""The part of a delta commit that is written before the table lock is taken: the records of large partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pyhudi.format.file_names import parse_data_file
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.metadata_table.file_changes import Change
from pyhudi.metadata_table.file_group import GroupTarget
from pyhudi.metadata_table.folders import partition_folder
from pyhudi.metadata_table.groups import group_target, newest_slices
from pyhudi.metadata_table.partitions.maintained import kept_partitions
from pyhudi.metadata_table.partitions.protocol import (
    LargePartition,
    MetadataPartition,
    PlacedPartition,
    Source,
)
from pyhudi.storage.protocol import Storage


@dataclass(frozen=True, slots=True)
class Ahead:
    """Logs of one partition of the metadata table: where they were written, and their stats."""

    target: GroupTarget
    stats: tuple[WriteStat, ...]


NOTHING_AHEAD: Final[Mapping[str, Ahead]] = MappingProxyType({})


def write_ahead(source: Source, change: Change) -> Mapping[str, Ahead]:
    """Let large partitions write what a change means for them, without the lock; by partition.

    Nothing is written in table version 6, where the name of a log does not show its write. Cost: a listing for each
    large partition, and its tasks.
    """
    table = source.table
    if source.engine is None or not table.version.has_completion_times:
        return NOTHING_AHEAD
    now_ms = source.environment.clock.now_ms()
    written: dict[str, Ahead] = {}
    for partition in kept_partitions(table):
        if isinstance(partition, LargePartition):
            target = group_target(table, partition, change.instant_time, now_ms)
            if isinstance(partition, PlacedPartition):
                target = partition.with_groups(change, source, target)
            written[partition.name] = Ahead(target, partition.write_ahead(change, source, target))
    return written


def is_complete(storage: Storage, partition: MetadataPartition, ahead: Ahead) -> bool:
    """Whether logs that were written ahead are what the commit needs, under the lock. Cost: one listing, deletes.

    Not where the partition was built again meanwhile, with another number of file groups, or a log is gone; then what
    is left of them is deleted. Logs of lost task attempts are deleted in any case: readers would count them.
    """
    target, folder = ahead.target, partition_folder(ahead.target.partition)
    names = storage.list_names(folder)
    counted = {stat.path.rpartition("/")[2] for stat in ahead.stats}
    is_whole = counted <= {*names} and _has_same_groups(newest_slices(names, partition.file_id_prefix), ahead)
    for name in names:
        parsed = parse_data_file(name)
        is_own = parsed is not None and parsed.instant_time == target.instant_time
        if is_own and not (is_whole and name in counted):
            storage.delete(f"{folder}/{name}")
    return is_whole


def _has_same_groups(found: Iterable[str], ahead: Ahead) -> bool:
    """Whether the numbers of file groups by which the records were placed still hold."""
    touched = {_series_of(stat.file_id) for stat in ahead.stats}
    now, then = (
        sorted(file_id for file_id in ids if _series_of(file_id) in touched) for ids in (found, ahead.target.file_ids)
    )
    return now == then


def _series_of(file_id: str) -> str:
    """What the file groups have in common among which the hash of a key chooses."""
    return file_id.rsplit("-", 2)[0]
