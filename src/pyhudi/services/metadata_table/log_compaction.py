"""Log compaction of the metadata table: the logs of a slice become one, without a new base file, under the table lock.

A lookup reads each log of a slice. To join them costs what is in them; a compaction also writes the base file again.
The joined log names the instants whose logs it replaces; readers skip these. Nothing waits for a log compaction: one
that died is withdrawn (`undo.py`), and the next one takes its logs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pyhudi.engine.protocol import TaskContext
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.format.metadata.compaction import LOG_COMPACTOR, CompactionPlan, encode_compaction_plan
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.metadata_table.records import as_written_by
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.metadata_table.delta_commit import CheckHeld
from pyhudi.metadata_table.file_group import GroupSlice, write_log
from pyhudi.metadata_table.groups import group_target
from pyhudi.metadata_table.lookup import counting_writes, joined_logs
from pyhudi.metadata_table.partitions.maintained import kept_partitions
from pyhudi.metadata_table.partitions.protocol import MetadataPartition
from pyhudi.metadata_table.state import MetadataState, load_metadata_state
from pyhudi.metadata_table.update import write_token
from pyhudi.services.frame.service import ServiceCall
from pyhudi.services.metadata_table.compaction import GroupTask, complete, newest_compaction, next_time, operation_of
from pyhudi.storage.open import open_spec
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path, position_of

_LOG_COMPACTION: Final = "005"
"""What ends the instants of log compactions in table version 6."""

Joinable = Sequence[tuple[MetadataPartition, tuple[GroupSlice, ...]]]
"""Slices by their partition."""


def join_group(_: TaskContext, task: GroupTask) -> WriteStat:
    """Join the logs of one slice. Cost: its logs, one put, and loading the table. Memory: four times the records."""
    storage = open_spec(task.storage)
    state = load_metadata_state(load_table(storage))
    joined, instants = joined_logs(state, task.group, task.payload)
    (batch,) = as_written_by(joined.records, task.target.version, task.payload).combine_chunks().to_batches()
    number = task.target.file_ids.index(task.group.file_id)
    stat = write_log(
        storage,
        task.target,
        number,
        batch,
        write_token(task.target),
        instead_of=instants,
        cleared=joined.cleared,
    )
    return replace(
        stat, total_log_files_compacted=len(task.group.logs), total_log_size_compacted=sum(task.group.log_sizes)
    )


def logs_may_be_due(state: MetadataState, threshold: int) -> bool:
    """Whether a slice may have so many logs: one of each delta commit since they were joined, and that log. Pure."""
    compacted = newest_compaction(state.timeline) or ""
    joined = max(state.log_compactions & state.timeline.completed_times, default="")
    since = max(compacted, joined)
    later = sum(
        write.action is Action.DELTA_COMMIT
        and write.requested_time not in state.log_compactions
        and position_of(write) > since
        for write in state.timeline.completed_writes
    )
    return later + (joined > compacted) >= threshold


def joinable_groups(state: MetadataState, threshold: int) -> Joinable:
    """The slices with so many logs that count, by partition.

    Cost: a listing per partition, and of each slice with enough logs the headers of logs that log compactions wrote; in
    table version 6 of all of them.
    """
    found = []
    for partition in kept_partitions(state.table):
        groups = tuple(
            group
            for group in state.slices(partition.name)
            if len(group.logs) >= threshold and counting_writes(state.storage, group) >= threshold
        )
        if groups:
            found.append((partition, groups))
    return found


def join_logs(call: ServiceCall, check_held: CheckHeld) -> InstantTime | None:
    """Join the logs of slices that have many, under the table lock; None where there are none.

    Cost: that of `joinable_groups`, four puts, and in tasks the logs of these slices and a put for each.
    """
    state = load_metadata_state(call.table)
    joinable = joinable_groups(state, call.config.metadata_table.join_logs_at)
    time = next_time(call.table, state.timeline, _LOG_COMPACTION)
    if not joinable or time is None or time in state.timeline.completed_times:
        return None
    storage, version = state.storage, state.timeline.version
    plan = CompactionPlan(
        operations=tuple(operation_of(partition.name, group) for partition, groups in joinable for group in groups),
        compactor_class=LOG_COMPACTOR,
        preserve_meta=True,
    )
    requested = Instant(time, Action.LOG_COMPACTION, InstantState.REQUESTED)
    inflight = replace(requested, state=InstantState.INFLIGHT)
    tasks = _tasks(call, joinable, time)
    check_held()
    storage.put(instant_path(requested, version), encode_compaction_plan(plan))
    check_held()
    storage.put(instant_path(inflight, version), b"")
    size = sum(sum(task.group.log_sizes) for task in tasks)
    stats = call.engine.map(join_group, tasks, size_bytes=size, description="join logs of the metadata table")
    complete(call, state, inflight, WriteOperation.LOG_COMPACT, stats, check_held)
    return time


def _tasks(call: ServiceCall, joinable: Joinable, time: InstantTime) -> list[GroupTask]:
    now_ms = call.environment.clock.now_ms()
    found = []
    for partition, groups in joinable:
        target = group_target(call.table, partition, time, now_ms)
        found += [
            GroupTask(storage=call.table.storage.spec, payload=partition.payload, group=group, target=target)
            for group in groups
        ]
    return found
