"""Thin writes: writes whose data files hold a few keys and values as JSON instead of Parquet.

Only the content of the data files is simulated, which makes a write of one row ten times as fast. All code that makes a
write safe is the code that users run: transactions and rollbacks, the timeline, the view of file slices, file names,
markers, commit metadata, conflict checks. A key is a text whose first letter is its partition path.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyhudi.engine.local import LocalEngine
from pyhudi.engine.protocol import TaskContext
from pyhudi.errors import HudiError
from pyhudi.format.file_names import BaseFileName, file_id
from pyhudi.format.log.blocks import BlockHeader, BlockType, encode_block
from pyhudi.format.markers import Marker, MarkerKind, marker_path
from pyhudi.format.metadata.commit import NO_PREVIOUS_COMMIT, CommitMetadata, WriteStat
from pyhudi.format.metadata.replace import encode_requested_replace_metadata, requested_replace
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.instant import Action
from pyhudi.io.log.block_filter import BlockFilter
from pyhudi.io.log.records import read_log_contents
from pyhudi.services.rollback.orphans import remove_orphans
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage
from pyhudi.table.archive.writes import block_filter, with_archive
from pyhudi.table.file_slice import FileSlice, slice_files
from pyhudi.table.file_system_view import FileSystemView, load_view
from pyhudi.table.state import TableState
from pyhudi.table.timeline import Timeline, position_of
from pyhudi.tasks.cluster import ClusterTask
from pyhudi.tasks.compact import CompactTask
from pyhudi.tasks.data_file import WriteTarget, check_write_is_running
from pyhudi.tasks.log_writer import slice_to_append
from pyhudi.testing.simulation.computed_writes import Computed
from pyhudi.transaction.conflicts.check import check_rows_read
from pyhudi.transaction.conflicts.footprint import Reads
from pyhudi.transaction.idempotence import BATCH_ID_METADATA, find_batch
from pyhudi.transaction.markers.announcing import DIRECT_MARKERS
from pyhudi.transaction.transaction import mark_inflight
from pyhudi.write.finish import committed, write_transaction
from pyhudi.write.job import WriteJob
from pyhudi.write.result import WriteResult, result_of

_CONTEXT = TaskContext(partition=0, stage=0, attempt=0)

Values = Mapping[str, str | None]
"""Keys and their new values; None deletes the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One write that an actor requests.

    Attributes:
        operation: the operation.
        values: the keys with their new values.
        replaces: the partitions whose rows the values replace (insert overwrite, delete partition).
        batch: the batch id, if the write has one.
        loses_attempt: whether its tasks write base files twice, as tasks of Spark may, and only one attempt counts.
        is_outlived: whether other attempts of its tasks run in other processes for any time, see `Attempt`.
        is_abandoned: whether, in addition, the write loses its own attempts, and fails.
        is_preferred: whether clusterings give way to it, and not the other way round.
        computed: how the values are computed from the rows of the table, if they are.
    """

    operation: WriteOperation
    values: Values = field(default_factory=dict)
    replaces: tuple[str, ...] = ()
    batch: str | None = None
    loses_attempt: bool = False
    is_outlived: bool = False
    is_abandoned: bool = False
    is_preferred: bool = False
    computed: Computed | None = None

    @property
    def partition_paths(self) -> frozenset[str]:
        """The partitions that the write changes."""
        if self.computed is not None:
            return self.computed.partition_paths
        return frozenset({*(key[0] for key in self.values), *self.replaces})

    def apply_to(self, rows: Mapping[str, str]) -> dict[str, str]:
        """The rows of a table after the write, from those before it: the oracle of all checks."""
        kept = {key: value for key, value in rows.items() if key[0] not in self.replaces}
        values = self.values if self.computed is None else self.computed.values(rows)
        for key, value in values.items():
            if value is not None:
                kept[key] = value
            else:
                kept.pop(key, None)
        return kept


STRAY = "stray"
"""The value of all keys in the files of attempts that do not count. No reader may ever see it."""

Attempt = Callable[[Storage], None]
"""An attempt of a task for which its write does not wait. It runs with the store of another process."""


class TaskLostError(HudiError):
    """The engine lost the tasks of a write, because the request of the simulation asked for it."""


def write_thinly(job: WriteJob, request: Request, attempts: list[Attempt]) -> WriteResult:
    """Run the write: see `pyhudi.write.staged.write_staged`.

    `attempts` collects the attempts that other processes run, if the request is outlived.

    Raises:
        HudiError: the write failed, and nothing of it is visible.
    """
    if request.batch is not None and (done := find_batch(job.table, request.batch)) is not None:
        instant, metadata = done
        return result_of(metadata, instant.requested_time, position_of(instant), 0.0)
    is_replace = bool(request.replaces)
    read: Reads = frozenset()
    if request.computed is not None:
        request = replace(request, values=request.computed.values(dict(read_thinly(job.table, None))))
        read = request.computed.read(request.values) if request.computed else read
    action = Action.REPLACE_COMMIT if is_replace else job.action
    requested = encode_requested_replace_metadata(requested_replace(request.operation)) if is_replace else b""
    with write_transaction(job, action, requested) as transaction:
        storage, base = transaction.storage, transaction.base
        if read != frozenset():
            check_rows_read(base.timeline, job.table.timeline, storage, own=transaction.instant_time, read=read)
        view = load_view(storage, base.timeline, request.partition_paths)
        remove_orphans(view)
        slices = [file_slice for path in sorted(request.partition_paths) for file_slice in view.latest.get(path, ())]
        found = (
            {} if is_replace else {file_slice: rows_of_slice(view, base.timeline, file_slice) for file_slice in slices}
        )
        updates, inserts = _placed(request, found)
        mark_inflight(transaction, _profile(request.operation, updates, inserts))
        target = job.target(transaction.instant_time, DIRECT_MARKERS)
        if request.is_outlived:
            attempts.append(_attempt(job, target, view, updates, inserts))
        if request.is_abandoned:
            raise TaskLostError("the engine lost a task: the simulation's request asked for it")
        if request.loses_attempt:
            for file_slice, values in updates.items():
                _rewrite(storage, target, file_slice, _merged(found[file_slice], values), replace(_CONTEXT, attempt=1))
        stats = [
            _append(storage, target, view, file_slice, values, _CONTEXT)
            if job.is_merge_on_read
            else _rewrite(storage, target, file_slice, rows)
            for file_slice, values in updates.items()
            for rows in [_merged(found[file_slice], values)]
        ]
        stats += [
            _write_base(storage, target, path, file_id(job.environment.ids.uuid(), 0), None, rows, inserts=len(rows))
            for path, rows in inserts.items()
        ]
        replaced = {
            path: tuple(file_slice.file_id for file_slice in view.latest.get(path, ())) for path in request.replaces
        }
        return committed(job, transaction, request.operation, stats, replaced if is_replace else None, read=read)


def _attempt(
    job: WriteJob,
    target: WriteTarget,
    view: FileSystemView,
    updates: Mapping[FileSlice, Values],
    inserts: Mapping[str, Values],
) -> Attempt:
    """Second attempts of all tasks of a write, one after the other."""
    groups = {path: file_id(job.environment.ids.uuid(), 0) for path in inserts}
    context = replace(_CONTEXT, attempt=1)

    def run(storage: Storage) -> None:
        for file_slice, values in updates.items():
            if job.is_merge_on_read:
                _append(storage, target, view, file_slice, dict.fromkeys(values, STRAY), context)
            else:
                _rewrite(storage, target, file_slice, dict.fromkeys(values, STRAY), context)
        for path, rows in inserts.items():
            stray = dict.fromkeys(rows, STRAY)
            _write_base(storage, target, path, groups[path], None, stray, inserts=len(rows), context=context)

    return run


def read_thinly(table: TableState, as_of: str | None) -> list[tuple[str, str]]:
    """All keys and values of a table, now or as of an instant time, sorted. A key in two file groups is there twice."""
    timeline = table.timeline
    view = load_view(table.storage, timeline)
    latest = view.latest if as_of is None else view.latest_until(as_of)
    seen = timeline if as_of is None else timeline.until(as_of)
    return sorted(
        row
        for slices in latest.values()
        for file_slice in slices
        for row in rows_of_slice(view, seen, file_slice).items()
    )


def rows_of_slice(view: FileSystemView, timeline: Timeline, file_slice: FileSlice) -> dict[str, str]:
    """The rows of a slice: those of its base file, merged with its logs."""
    rows: dict[str, str] = {} if file_slice.base is None else json.loads(view.storage.read(file_slice.base.path))
    files = slice_files(file_slice.base, file_slice.logs)
    blocks = with_archive(block_filter(timeline, timeline.completed_times), view.archived)
    return _with_logs(view.storage, rows, files.logs, files.judged_by(blocks))


def _with_logs(storage: Storage, rows: dict[str, str], paths: Sequence[str], blocks: BlockFilter) -> dict[str, str]:
    for content in read_log_contents(storage, paths, blocks):
        rows = _merged(rows, json.loads(content.data.to_pybytes()))
    return rows


def _merged(rows: Mapping[str, str], values: Values) -> dict[str, str]:
    merged = {**rows, **values}
    return {key: value for key, value in merged.items() if value is not None}


def _placed(
    request: Request, found: Mapping[FileSlice, Mapping[str, str]]
) -> tuple[dict[FileSlice, dict[str, str | None]], dict[str, dict[str, str]]]:
    """The updates and deletions by the slice that has the key, and the inserts by partition path."""
    updates: dict[FileSlice, dict[str, str | None]] = defaultdict(dict)
    inserts: dict[str, dict[str, str]] = defaultdict(dict)
    for key, value in request.values.items():
        file_slice = next((file_slice for file_slice, rows in found.items() if key in rows), None)
        if file_slice is not None:
            updates[file_slice][key] = value
        elif value is not None:
            inserts[key[0]][key] = value
    return dict(updates), dict(inserts)


def _profile(
    operation: WriteOperation, updates: Mapping[FileSlice, Values], inserts: Mapping[str, Mapping[str, str]]
) -> CommitMetadata:
    stats: dict[str, list[WriteStat]] = defaultdict(list)
    for file_slice, values in updates.items():
        stat = WriteStat(file_id=file_slice.file_id, prev_commit=file_slice.instant_time, num_update_writes=len(values))
        stats[file_slice.partition_path].append(stat)
    for path, rows in inserts.items():
        stats[path].append(WriteStat(file_id="", num_inserts=len(rows)))
    return CommitMetadata(operation=operation, stats_by_partition={path: tuple(group) for path, group in stats.items()})


def _rewrite(
    storage: Storage,
    target: WriteTarget,
    file_slice: FileSlice,
    rows: Mapping[str, str],
    context: TaskContext = _CONTEXT,
) -> WriteStat:
    return _write_base(
        storage, target, file_slice.partition_path, file_slice.file_id, file_slice, rows, inserts=0, context=context
    )


def _write_base(
    storage: Storage,
    target: WriteTarget,
    partition_path: str,
    group: str,
    previous: FileSlice | None,
    rows: Mapping[str, str],
    *,
    inserts: int,
    context: TaskContext = _CONTEXT,
) -> WriteStat:
    name = BaseFileName(group, context.write_token, target.instant_time)
    kind = MarkerKind.CREATE if previous is None else MarkerKind.MERGE
    body = json.dumps(rows).encode()
    _put_file(storage, target, f"{partition_path}/{name}", kind, body)
    return WriteStat(
        file_id=group,
        path=f"{partition_path}/{name}",
        partition_path=partition_path,
        prev_commit=NO_PREVIOUS_COMMIT if previous is None else previous.instant_time,
        prev_base_file=str(previous.base.name) if previous is not None and previous.base is not None else None,
        num_writes=len(rows),
        num_inserts=inserts,
        num_update_writes=len(rows) - inserts,
        total_write_bytes=len(body),
        file_size_in_bytes=len(body),
    )


def _append(
    storage: Storage,
    target: WriteTarget,
    view: FileSystemView,
    file_slice: FileSlice,
    values: Values,
    context: TaskContext,
) -> WriteStat:
    to = slice_to_append(view, file_slice, target.instant_time)
    name = to.log_name(to.first_version, context)
    headers = {BlockHeader.INSTANT_TIME: target.instant_time, BlockHeader.SCHEMA: target.files.avro_schema}
    body = b"".join(encode_block(BlockType.AVRO_DATA, headers, json.dumps(values).encode()))
    _put_file(storage, target, f"{to.partition_path}/{name}", to.marker, body)
    return WriteStat(
        file_id=to.file_id,
        path=f"{to.partition_path}/{name}",
        partition_path=to.partition_path,
        prev_commit=to.prev_commit,
        num_writes=len(values),
        num_update_writes=len(values),
        total_write_bytes=len(body),
        file_size_in_bytes=len(body),
        log_version=to.first_version,
        log_offset=0,
        base_file=to.base_file,
        log_files=(*to.known_logs, str(name)),
    )


def _put_file(storage: Storage, target: WriteTarget, path: str, kind: MarkerKind, body: bytes) -> None:
    """Write a data file after its marker, and then check that its write is still running."""
    marker = Marker(path, kind)
    storage.put(marker_path(target.instant_time, marker), b"", durable=False)
    with storage.open_output(path) as output:
        output.write(body)
    check_write_is_running(storage, target, marker, is_of_slice=kind is MarkerKind.APPEND)


@dataclass(frozen=True)
class ThinEngine(LocalEngine):
    """Compacts and clusters files of thin writes by functions of its own, and runs the tasks of a clean unchanged."""

    parallelism: int = 1

    def map(self, function: Any, tasks: Sequence[Any], **how: Any) -> list[Any]:
        """See `Engine.map`."""
        if tasks and isinstance(tasks[0], CompactTask):
            return [_compact(task) for task in tasks]
        if tasks and isinstance(tasks[0], ClusterTask):
            return [_cluster(task) for task in tasks]
        return super().map(function, tasks, **how)


def _compact(task: CompactTask) -> WriteStat:
    storage, previous = open_spec(task.target.storage), task.previous
    base: dict[str, str] = {} if task.files.base is None else json.loads(storage.read(task.files.base))
    rows = _with_logs(storage, base, task.files.logs, task.files.judged_by(task.merging.blocks))
    name = BaseFileName(task.file_id, replace(_CONTEXT, stage=task.run).write_token, task.target.instant_time)
    body = json.dumps(rows).encode()
    _put_file(storage, task.target, f"{task.partition_path}/{name}", MarkerKind.MERGE, body)
    return WriteStat(
        file_id=task.file_id,
        path=f"{task.partition_path}/{name}",
        partition_path=task.partition_path,
        prev_commit=previous.instant_time if previous else NO_PREVIOUS_COMMIT,
        prev_base_file=previous.file_name if previous else None,
        num_writes=len(rows),
        num_update_writes=len(rows),
        total_write_bytes=len(body),
        file_size_in_bytes=len(body),
    )


def _cluster(task: ClusterTask) -> tuple[WriteStat, ...]:
    storage = open_spec(task.target.storage)
    rows: dict[str, str] = {}
    for files in task.slices:
        base: dict[str, str] = {} if files.base is None else json.loads(storage.read(files.base))
        rows |= _with_logs(storage, base, files.logs, files.judged_by(task.merging.blocks))
    if not rows:
        return ()
    context = replace(_CONTEXT, stage=task.run)
    group = file_id(task.seed, 0)
    path = task.partition_path
    return (_write_base(storage, task.target, path, group, None, rows, inserts=len(rows), context=context),)


def with_writer(job: WriteJob, writer: str, batch: str | None) -> WriteJob:
    """The job with its batch id, and with the writer's name in its commit metadata, for the checks."""
    named = {} if batch is None else {BATCH_ID_METADATA: batch}
    return replace(job, extra_metadata={**job.extra_metadata, **named, WRITER: writer})


WRITER = "_pyhudi_testing_writer"
"""The key in the extra metadata of a simulated commit for the name of its actor."""
