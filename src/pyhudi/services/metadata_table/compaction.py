"""Compaction of the metadata table: the logs of its file groups are merged into base files, under the table lock.

Under the lock no delta commit can come in between, and readers are not in the way: they read the previous slices until
the completed instant is there. A compaction that died is withdrawn (`undo.py`), and the next one merges its logs. In
table version 6 it is executed again from its plan: there the logs of later delta commits are named after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyhudi.engine.protocol import TaskContext
from pyhudi.format.file_names import instant_in_name
from pyhudi.format.metadata.commit import WriteStat, encode_commit_metadata
from pyhudi.format.metadata.compaction import CompactionOperation, CompactionPlan, encode_compaction_plan
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.metadata_table.records import as_written_by
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.metadata_table.delta_commit import CheckHeld, completed_after, delta_commit_metadata
from pyhudi.metadata_table.file_group import FIRST_TASK, GroupSlice, GroupTarget, write_base_of_pieces
from pyhudi.metadata_table.folders import partition_folder
from pyhudi.metadata_table.merged_pieces import merged_in_pieces
from pyhudi.metadata_table.partitions.maintained import kept_partitions, maintained_partition
from pyhudi.metadata_table.state import MetadataState, load_metadata_state
from pyhudi.services.frame.service import ServiceCall
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import StorageSpec
from pyhudi.table.state import TableState, load_table
from pyhudi.table.timeline import Timeline, instant_path, load_compaction_plan, position_of


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTask:
    """Write a file of one file group of the metadata table from its slice. `target` has the group."""

    storage: StorageSpec
    payload: str
    group: GroupSlice
    target: GroupTarget


def merge_group(_: TaskContext, task: GroupTask) -> WriteStat:
    """Merge one slice; the target has its group alone.

    Cost: its files, one put, and loading the table. Memory: twice the new file, which is compressed, and four times a
    piece (`merged_in_pieces`).
    """
    storage = open_spec(task.storage)
    state = load_metadata_state(load_table(storage))
    pieces = (
        batch
        for merged in merged_in_pieces(state, task.group, task.payload)
        # Merged records are of the newest version, whatever the table's is.
        for batch in as_written_by(merged, task.target.version, task.payload).combine_chunks().to_batches()
    )
    previous = None if task.group.base is None else task.group.base.rpartition("/")[2]
    return write_base_of_pieces(storage, task.target, 0, pieces, _TASK, previous)


_FIRST_LOG_BYTES_MAX = 100
"""It has 80 bytes; one with records has the schema of thousands."""
_COMPACTION = "001"
"""What ends the instants of compactions in table version 6."""
_TASK = "0-0-2"
"""The write token of base files: an attempt that died wrote the same file."""


def delta_commits_since_compaction(inner: Timeline) -> int:
    """How many delta commits of the metadata table a compaction would merge, with those that built it. Pure."""
    newest = newest_compaction(inner) or ""
    return sum(write.action is Action.DELTA_COMMIT and position_of(write) > newest for write in inner.completed_writes)


def newest_compaction(inner: Timeline) -> InstantTime | None:
    """The instant of the newest completed compaction of the metadata table. Pure."""
    return max(
        (write.requested_time for write in inner.completed_writes if write.action is Action.COMMIT), default=None
    )


def in_the_way(table: TableState, inner: Timeline) -> str | None:
    """The pending action of the table that a compaction waits for; None if all delta commits stand for good. Pure.

    A delta commit whose action is pending in the table may be undone, which is impossible once it is merged. In version
    6 an earlier write that is pending will have an instant below the compaction's.
    """
    pending = {
        instant.requested_time for instant in table.timeline.instants if instant.state is not InstantState.COMPLETED
    }
    known = {instant.requested_time for instant in inner.instants if instant.action is Action.DELTA_COMMIT}
    if not inner.version.has_completion_times:
        newest = max(known, default="")
        return min((time for time in pending if time <= newest), default=None)
    return min(pending & known, default=None)


def finish_compactions(call: ServiceCall, check_held: CheckHeld) -> int:
    """Execute the compactions of the metadata table that were planned and not completed; how many. Under the lock."""
    state = load_metadata_state(call.table)
    pending = [
        compaction for compaction in state.timeline.pending_compactions if compaction.action is Action.COMPACTION
    ]
    for instant in pending:
        plan = load_compaction_plan(state.storage, instant, state.timeline.version)
        _execute(call, state, instant, plan, check_held)
    return len(pending)


def compact(call: ServiceCall, check_held: CheckHeld) -> InstantTime | None:
    """Merge all logs of the metadata table into base files, under the table lock; None where there is nothing yet.

    Cost: a listing per partition, four puts, and in tasks the files of the newest slices and a put per file group.
    """
    state = load_metadata_state(call.table)
    plan = CompactionPlan(operations=_operations(state))
    if not plan.operations:
        return None
    time = next_time(call.table, state.timeline)
    if time is None:
        return None
    instant = Instant(time, Action.COMPACTION, InstantState.REQUESTED)
    check_held()
    state.storage.put(instant_path(instant, state.timeline.version), encode_compaction_plan(plan))
    _execute(call, state, instant, plan, check_held)
    return time


def next_time(table: TableState, inner: Timeline, suffix: str = _COMPACTION) -> InstantTime | None:
    """Above all delta commits that are completed, below the completion of the next one, and of no action of the table.

    From version 8 on it is the time at which the newest action of the table completed, which no other instant has or
    will have. It has as many digits as completion times: JVM Hudi puts a log whose completion time has another number
    of them than a base file into a slice by the time at which its write began, and loses what writes say that began
    before the compaction and end after it. None where the metadata table has something newer: the next write brings a
    time. In version 6 it has three digits more, the suffix, as JVM Hudi's.
    """
    if not inner.version.has_completion_times:
        return InstantTime(f"{max(write.requested_time for write in inner.completed_writes)[:17]}{suffix}")
    completed = max(
        (instant.completion_time for instant in table.timeline.instants if instant.completion_time), default=None
    )
    newest = max(position_of(write) for write in inner.completed_writes)
    return completed if completed is not None and completed > newest else None


def operation_of(partition: str, group: GroupSlice) -> CompactionOperation:
    """The operation over a slice with all of its logs."""
    return CompactionOperation(
        file_id=group.file_id,
        partition_path=partition,
        base_instant_time=group.base_instant or instant_in_name(group.logs[0]),
        delta_files=tuple(_name(path) for path in group.logs),
        data_file=None if group.base is None else _name(group.base),
    )


def _operations(state: MetadataState) -> tuple[CompactionOperation, ...]:
    return tuple(
        operation_of(partition.name, group)
        for partition in kept_partitions(state.table)
        for group in state.slices(partition.name)
        if any(not _is_first_log(path, size) for path, size in zip(group.logs, group.log_sizes, strict=True))
    )


def _is_first_log(path: str, size: int) -> bool:
    """Whether a log only makes the group exist. The first task of an engine gives its logs the same write token."""
    return _name(path).endswith(f"_{FIRST_TASK}") and size <= _FIRST_LOG_BYTES_MAX


def _execute(
    call: ServiceCall, state: MetadataState, instant: Instant, plan: CompactionPlan, check_held: CheckHeld
) -> None:
    storage, version = state.storage, state.timeline.version
    inflight = replace(instant, state=InstantState.INFLIGHT)
    check_held()
    storage.put(instant_path(inflight, version), b"")
    tasks = [_task(call, state, instant, operation) for operation in plan.operations]
    size = sum(task.group.base_size + sum(task.group.log_sizes) for task in tasks)
    stats = call.engine.map(merge_group, tasks, size_bytes=size, description="compact the metadata table")
    complete(call, state, inflight, WriteOperation.COMPACT, stats, check_held)


def complete(
    call: ServiceCall,
    state: MetadataState,
    inflight: Instant,
    operation: WriteOperation,
    stats: Sequence[WriteStat],
    check_held: CheckHeld,
) -> None:
    """Complete a compaction, or one of logs, whose files are written. Cost: one put."""
    version = state.timeline.version
    completed = completed_after(inflight, state.timeline, state.table, call.environment)
    metadata = delta_commit_metadata(state.table.version, operation, stats, compacted=True)
    check_held()
    state.storage.put(instant_path(completed, version), encode_commit_metadata(metadata, version))


def _task(call: ServiceCall, state: MetadataState, instant: Instant, operation: CompactionOperation) -> GroupTask:
    folder = partition_folder(operation.partition_path)
    known = {group.file_id: group for group in state.slices(operation.partition_path)}
    group = replace(
        known[operation.file_id],
        base=None if operation.data_file is None else f"{folder}/{operation.data_file}",
        base_instant=operation.base_instant_time,
        logs=tuple(f"{folder}/{name}" for name in operation.delta_files),
    )
    target = GroupTarget(
        storage=state.storage.spec,
        partition=operation.partition_path,
        file_ids=(operation.file_id,),
        instant_time=instant.requested_time,
        version=state.table.version,
        created_ms=call.environment.clock.now_ms(),
    )
    payload = maintained_partition(operation.partition_path, state.table).payload
    return GroupTask(storage=state.storage.spec, payload=payload, group=group, target=target)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
