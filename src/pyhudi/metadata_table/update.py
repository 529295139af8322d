"""One delta commit of the metadata table: what an action did, for all partitions that are maintained.

The metadata table is committed before the table, under the table lock: `apply_change`, then the completed instant of
the table. Between the two, readers ignore the delta commit, since the table has no completed instant of its time. What
dies there is undone with the instant of the table (`undo.py`); what retries finds the delta commit, undoes it and
writes it again, so that it counts once.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa

from pyhudi.format.metadata.commit import CommitMetadata, WriteStat, encode_commit_metadata
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.metadata_table.schema import KEY
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime, advanced
from pyhudi.metadata_table.delta_commit import CheckHeld, completed_after, delta_commit_metadata
from pyhudi.metadata_table.early_records import NOTHING_AHEAD, Ahead, is_complete
from pyhudi.metadata_table.file_changes import Change
from pyhudi.metadata_table.file_group import GroupTarget, by_file_group, write_log
from pyhudi.metadata_table.folders import inner_version
from pyhudi.metadata_table.groups import group_target
from pyhudi.metadata_table.partitions.maintained import kept_partitions
from pyhudi.metadata_table.partitions.protocol import MetadataPartition, PlacedPartition, Source
from pyhudi.metadata_table.undo import undo_delta_commit
from pyhudi.table.index_definitions import remembering_definitions
from pyhudi.table.metadata_table import has_metadata_table
from pyhudi.table.timeline import Timeline, instant_path, load_timeline

DRIVER_TASK: Final = "0-0-1"
"""The write token of logs that the driver writes: of one instant there is one log for each file group."""

_NO_FILES: Final = CommitMetadata(operation=WriteOperation.UPSERT_PREPPED, stats_by_partition={})


def apply_change(
    source: Source,
    change: Change,
    check_held: CheckHeld,
    *,
    ahead: Mapping[str, Ahead] = NOTHING_AHEAD,
    inner: Timeline | None = None,
) -> str:
    """Commit what an action did to the metadata table, under the table lock, right before the action completes.

    Returns the completion time, which that of the action must be above; an empty string where there is none. Nothing
    happens where the table has no metadata table. `ahead`: what `write_ahead` gave. `inner`: the timeline of the
    metadata table, where the caller knows it (`checked_timeline`).

    Raises `LockLostError` where the lock is gone, and `StorageError`: then the action must not complete. Cost: one
    listing, a read of the definitions of indexes, and four puts; one more listing and one put for each further
    partition, and in table version 6 a listing for `files`, too.
    """
    table = source.table
    if not has_metadata_table(table):
        return ""
    table = remembering_definitions(table)
    partitions = kept_partitions(table)
    if not partitions:
        return ""
    storage, version = table.storage, inner_version(table.version)
    timeline = load_timeline(storage, version) if inner is None else inner
    if any(
        (instant.requested_time, instant.action) == (change.instant_time, Action.DELTA_COMMIT)
        for instant in timeline.instants
    ):
        undo_delta_commit(table, change.instant_time, change.instant_time)
        ahead = NOTHING_AHEAD
    source = replace(source, table=table)
    requested = Instant(InstantTime(change.instant_time), Action.DELTA_COMMIT, InstantState.REQUESTED)
    inflight = advanced(requested, InstantState.INFLIGHT)
    check_held()
    # Only JVM Hudi looks at these, to find what died; a power failure may take them.
    storage.put(instant_path(requested, version), b"", durable=False)
    storage.put(instant_path(inflight, version), encode_commit_metadata(_NO_FILES, version), durable=False)
    stats: list[WriteStat] = []
    for partition in partitions:
        before = ahead.get(partition.name)
        if before is not None and is_complete(storage, partition, before):
            stats += before.stats
        else:
            stats += _write_logs(partition, change, source)
    completed = completed_after(inflight, timeline, table, source.environment)
    check_held()
    storage.put(
        instant_path(completed, version),
        encode_commit_metadata(delta_commit_metadata(table.version, WriteOperation.UPSERT_PREPPED, stats), version),
    )
    return completed.completion_time or ""


def write_token(target: GroupTarget) -> str:
    """A token of its own for each instant in version 6, where logs of several have one name but for it and a number.

    Without it, a writer that lost the table lock could put its log in the place of another's.
    """
    if not target.names_slice:
        return DRIVER_TASK
    return f"0-{zlib.crc32(target.instant_time.encode()) & 0x7FFFFFFF}-1"


def _write_logs(partition: MetadataPartition, change: Change, source: Source) -> list[WriteStat]:
    if isinstance(partition, PlacedPartition):
        target = group_target(source.table, partition, change.instant_time, source.environment.clock.now_ms())
        return list(partition.write_on_driver(change, source, partition.with_groups(change, source, target)))
    batches = [batch for batch in partition.records_of(change, source) if batch.num_rows]
    if not batches:
        return []
    records = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    target = group_target(source.table, partition, change.instant_time, source.environment.clock.now_ms())
    return [
        write_log(source.storage, target, group, part, write_token(target))
        for group, part in by_file_group(partition.hashed(records.column(KEY)), records, len(target.file_ids))
    ]
