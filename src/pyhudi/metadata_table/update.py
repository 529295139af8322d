"""One delta commit of the metadata table: what an action did, for all partitions that are maintained.

The metadata table is committed before the table, under the table lock: `apply_change`, then the completed instant of
the table. Between the two, readers ignore the delta commit, since the table has no completed instant of its time. What
dies there is undone with the instant of the table (`undo.py`); what retries finds the delta commit, undoes it and
writes it again, so that it counts once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from pyhudi.engine.protocol import Engine
from pyhudi.environment import Environment
from pyhudi.errors import CorruptDataError
from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.metadata.commit import CommitMetadata, WriteStat, encode_commit_metadata
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.metadata_table.schema import KEY
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime, advanced
from pyhudi.metadata_table.change import Change
from pyhudi.metadata_table.delta_commit import CheckHeld, completed_after, delta_commit_metadata
from pyhudi.metadata_table.file_group import GroupTarget, by_file_group, file_ids, write_log
from pyhudi.metadata_table.folders import inner_version, partition_folder
from pyhudi.metadata_table.maintained import maintained_partition
from pyhudi.metadata_table.partition import MetadataPartition, Source
from pyhudi.metadata_table.undo import undo_delta_commit
from pyhudi.table.metadata_partitions import FILES, Upkeep, with_upkeep
from pyhudi.table.metadata_table import drop_partitions
from pyhudi.table.state import TableState
from pyhudi.table.timeline import instant_path, load_timeline

_log = logging.getLogger("pyhudi")

DRIVER_TASK: Final = "0-0-1"
"""The write token of logs that the driver writes: of one instant there is one log for each file group."""

_NO_FILES: Final = CommitMetadata(operation=WriteOperation.UPSERT_PREPPED, stats_by_partition={})

NOTHING_AHEAD: Final[Mapping[str, tuple[WriteStat, ...]]] = MappingProxyType({})


def apply_change(
    table: TableState,
    change: Change,
    environment: Environment,
    check_held: CheckHeld,
    *,
    engine: Engine | None = None,
    ahead: Mapping[str, tuple[WriteStat, ...]] = NOTHING_AHEAD,
) -> None:
    """Commit what an action did to the metadata table, under the table lock, right before the action completes.

    Nothing happens where the table has none. Partitions that are not maintained, and those that cannot follow the
    change, are dropped first. `ahead`: stats of the logs that `LargePartition.write_ahead` wrote, by partition.

    Raises `LockLostError` where the lock is gone, and `StorageError`: then the action must not complete. Cost: one
    listing and four puts; one more listing and one put for each further partition, and in table version 6 a listing for
    `files`, too.
    """
    partitions = kept_partitions(table)
    lost = [partition.name for partition in partitions if not partition.follows(change)]
    if lost:
        _log.warning("%s cannot follow %s and is dropped: build it again", ", ".join(lost), change.instant_time)
        check_held()
        drop_partitions(table, lost)
        partitions = tuple(partition for partition in partitions if partition.name not in lost)
    if not partitions:
        return
    storage, version = table.storage, inner_version(table.version)
    timeline = load_timeline(storage, version)
    if any(one.requested_time == change.instant_time for one in timeline.instants):
        undo_delta_commit(table, change.instant_time, change.instant_time, besides=frozenset(_paths(ahead)))
    source = Source(table, environment, engine)
    requested = Instant(InstantTime(change.instant_time), Action.DELTA_COMMIT, InstantState.REQUESTED)
    inflight = advanced(requested, InstantState.INFLIGHT)
    check_held()
    storage.put(instant_path(requested, version), b"")
    storage.put(instant_path(inflight, version), encode_commit_metadata(_NO_FILES, version))
    stats: list[WriteStat] = []
    for partition in partitions:
        if partition.name in ahead:
            stats += ahead[partition.name]
        else:
            stats += _write_logs(partition, change, source)
    completed = completed_after(inflight, timeline, table, environment)
    check_held()
    storage.put(
        instant_path(completed, version),
        encode_commit_metadata(delta_commit_metadata(table.version, WriteOperation.UPSERT_PREPPED, stats), version),
    )


def kept_partitions(table: TableState) -> tuple[MetadataPartition, ...]:
    """What maintains the partitions of the table's metadata table, `files` first; empty where it has none."""
    names = with_upkeep(table.config.metadata_partitions, Upkeep.MAINTAINED)
    if FILES not in names:
        return ()
    return tuple(maintained_partition(name, table) for name in sorted(names, key=lambda name: (name != FILES, name)))


def group_target(table: TableState, partition: MetadataPartition, instant_time: str, created_ms: int) -> GroupTarget:
    """Where the logs of a partition go under an instant. Cost: a listing, but for `files` from version 8 on none."""
    by_slice = not table.version.has_completion_times
    slices: dict[str, tuple[str, int]] = {}
    if partition.name == FILES and not by_slice:
        ids = file_ids(partition.file_id_prefix, 1)
    else:
        names = table.storage.list_names(partition_folder(partition.name))
        slices = newest_slices(names, partition.file_id_prefix)
        ids = tuple(sorted(slices))
        if ids != file_ids(partition.file_id_prefix, len(ids)) or not ids:
            raise CorruptDataError(
                "a partition of the metadata table lacks file groups; drop the metadata table with "
                "hoodie.metadata.enable=false",
                path=partition_folder(partition.name),
                file_groups=len(ids),
            )
    return GroupTarget(
        storage=table.storage.spec,
        partition=partition.name,
        file_ids=ids,
        instant_time=instant_time,
        version=table.version,
        names_slice=slices if by_slice else {},
        created_ms=created_ms,
    )


def newest_slices(names: Iterable[str], prefix: str) -> dict[str, tuple[str, int]]:
    """By file id the instant of its newest slice and the number of the slice's next log, as version 6 names them."""
    found: dict[str, tuple[str, int]] = {}
    for name in map(parse_data_file, names):
        if name is None or not name.file_id.startswith(prefix):
            continue
        number = name.version if isinstance(name, LogFileName) else 0
        instant_time, next_number = found.get(name.file_id, ("", 1))
        if name.instant_time > instant_time:
            found[name.file_id] = (name.instant_time, number + 1)
        elif name.instant_time == instant_time:
            found[name.file_id] = (instant_time, max(next_number, number + 1))
    return found


def _write_logs(partition: MetadataPartition, change: Change, source: Source) -> list[WriteStat]:
    batches = [batch for batch in partition.records_of(change, source) if batch.num_rows]
    if not batches:
        return []
    records = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    target = group_target(source.table, partition, change.instant_time, source.environment.clock.now_ms())
    return [
        write_log(source.storage, target, group, part, DRIVER_TASK)
        for group, part in by_file_group(partition.hashed(records.column(KEY)), records, len(target.file_ids))
    ]


def _paths(ahead: Mapping[str, tuple[WriteStat, ...]]) -> Iterator[str]:
    return (stat.path for stats in ahead.values() for stat in stats)
