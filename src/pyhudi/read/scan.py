"""Planning a read: which files, which of their rows, and under which schema. On the driver, without Spark."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from pyhudi.config.enums import QueryType
from pyhudi.config.read_config import EARLIEST, ReadConfig
from pyhudi.engine.spilled_rows import spill_settings
from pyhudi.errors import ConfigError, HistoryNotRetainedError, HistoryNotSettledError, UnsupportedFeatureError
from pyhudi.format.keys.generator import key_generator_from_table, partition_field_names
from pyhudi.format.schema.meta_columns import with_meta_columns, without_meta_columns
from pyhudi.format.timeline.instant import instant_time_from_user
from pyhudi.io.base_file import read_footer
from pyhudi.io.log.block_filter import BlockFilter
from pyhudi.io.slices.files import SliceFiles
from pyhudi.io.slices.merged import MergeSettings
from pyhudi.merge.rules import Merger
from pyhudi.merge.table_rules import TableRules, check_defaults, mergers_of, table_rules_of
from pyhudi.metadata_table.lister import load_read_view
from pyhudi.read.partition_columns import (
    folder_columns,
    plain_fields,
    slashed_dates,
    texts_of_numbers,
    values_of_path,
)
from pyhudi.read.skipping.expressions import IndexedExpression, indexed_expressions
from pyhudi.storage.naming import naming
from pyhudi.storage.protocol import StorageSpec
from pyhudi.table.archive.history import archived_metadata
from pyhudi.table.archive.writes import block_filter, load_archived_writes, with_archive
from pyhudi.table.file_slice import FileSlice, slice_files
from pyhudi.table.file_system_view import FileSystemView, SlicesByPartition, with_names_of
from pyhudi.table.instant_times import table_zone
from pyhudi.table.lister import list_data_files
from pyhudi.table.pending_clusterings import is_clustering_plan
from pyhudi.table.retention import Cleaned, load_cleaned
from pyhudi.table.savepoints import completed_write, view_after
from pyhudi.table.schema import TableSchema, load_table_schema
from pyhudi.table.state import TableState
from pyhudi.table.timeline import Timeline, position_of
from pyhudi.telemetry.tracing import span


@dataclass(frozen=True, slots=True)
class ScanSlice:
    """A file slice to read: its base file and logs, their size in bytes, and its partition's values as (column, text).

    `earlier`: of a range of time, the base file of a slice with logs if it is older than the range: see `read_changed`.
    `log_size`: the size of the logs. `modified_ms`: when the base file was last modified, 0 if that is not known.

    Only values of columns whose text in the path is their value, or which are only in the path: the text of a timestamp
    in a path differs from the timestamp.
    """

    files: SliceFiles
    size: int
    partition_path: str
    partition_values: tuple[tuple[str, str | None], ...] = ()
    log_size: int = 0
    modified_ms: int = field(default=0, compare=False)
    earlier: SliceFiles | None = None


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """A resolved read.

    `schema` has the meta columns first, if the table has them. `commit_times`: keep only rows whose
    `_hoodie_commit_time` is among them (None: all). `path_columns`: columns whose values are those of the partition
    path: the files lack them, or have others. `merging`: how slices with logs are read. `texts_of_numbers`: columns of
    text that some files hold as numbers, which not all readers of Parquet turn into text; slices are then read as if
    they had logs, as all are `in_tasks`, where the engine itself cannot read them. `data_skipping`: the indexes of the
    metadata table may be asked which files to leave out. `moment`: of which newest state it is, see `moment_of`; None
    for a state of the past, and a range. `leaves_out_logs`: there are logs, whose changes
    are not read. `expressions`:
    those that the table has indexes of. `folder_columns`: partition columns whose values in the files are those of the
    partition path, if that tells them exactly (`values_of_folders`).
    """

    storage: StorageSpec
    uri: str
    slices: tuple[ScanSlice, ...]
    schema: pa.Schema
    commit_times: frozenset[str] | None
    path_columns: tuple[str, ...]
    merging: MergeSettings
    texts_of_numbers: tuple[str, ...] = ()
    data_skipping: bool = True
    in_tasks: bool = False
    moment: str | None = None
    leaves_out_logs: bool = False
    expressions: tuple[IndexedExpression, ...] = ()
    folder_columns: tuple[str, ...] = ()

    @property
    def plain(self) -> tuple[ScanSlice, ...]:
        """The slices whose rows are those of one Parquet file, which any reader of Parquet can read."""
        if self.texts_of_numbers or self.in_tasks:
            return ()
        return tuple(file_slice for file_slice in self.slices if file_slice.files.is_plain)

    @property
    def merged(self) -> tuple[ScanSlice, ...]:
        """The other slices."""
        if self.texts_of_numbers or self.in_tasks:
            return self.slices
        return tuple(file_slice for file_slice in self.slices if not file_slice.files.is_plain)


def plan_table_scan(table: TableState, config: ReadConfig, mergers: Sequence[Merger] = ()) -> ScanPlan:
    """Resolve a read against a loaded table. `mergers`: those among which that of a CUSTOM table is found.

    Raises `ConfigError` for a time that cannot be parsed or an incremental range that ends before it begins,
    `UnsupportedFeatureError` for a table whose record merger the call does not give, `HistoryNotRetainedError` if
    cleaners have deleted files that the read needs, and `HistoryNotSettledError` while a write is running whose rows
    belong to the result.

    Cost: see `load_read_view`; no data file is opened.
    """
    with naming(table.storage), span("plan read", table=table.config.name):
        plan = _plan_of(table, config, mergers)
        return replace(plan, expressions=indexed_expressions(table, plan.schema)) if plan.data_skipping else plan


def _plan_of(table: TableState, config: ReadConfig, mergers: Sequence[Merger]) -> ScanPlan:
    if config.change_data:
        raise UnsupportedFeatureError(
            "change data (hoodie.datasource.query.incremental.format=cdc) is not a scan of rows: ask for changes()"
        )
    if config.query_type is QueryType.INCREMENTAL:
        return _plan_incremental(table, config, mergers)
    if config.as_of is not None and config.is_savepoint:
        return _plan_savepoint(table, config, mergers, config.as_of)
    if config.as_of is not None:
        return _plan_as_of(table, config, mergers, instant_time_from_user(config.as_of, table_zone(table.config)))
    view = load_read_view(table, wanted=config.metadata_table, skips_damaged=config.skip_damaged_files)
    _check_newest(load_cleaned(table.storage, view), table.timeline)
    newest = _plan(table, config, mergers, view.latest, _blocks(view))
    return replace(newest, moment=moment_of(table.timeline))


def plan_of_file_groups(
    table: TableState, config: ReadConfig, mergers: Sequence[Merger], groups: Collection[tuple[str, str]]
) -> ScanPlan:
    """A read of the newest state of some file groups, by partition path and file id. Raises as `plan_table_scan`.

    Cost: see `load_read_view`, for their partitions.
    """
    paths = {path for path, _ in groups}
    view = load_read_view(table, paths, wanted=config.metadata_table, skips_damaged=config.skip_damaged_files)
    _check_newest(load_cleaned(table.storage, view), table.timeline)
    latest = {
        path: tuple(file_slice for file_slice in view.latest.get(path, ()) if (path, file_slice.file_id) in groups)
        for path in paths
    }
    return _plan(table, config, mergers, latest, _blocks(view))


def moment_of(timeline: Timeline) -> str:
    """A text that differs between the newest states of a table: the completed writes. Pure."""
    writes = "\n".join(f"{write.requested_time} {position_of(write)}" for write in timeline.completed_writes)
    return hashlib.sha256(writes.encode()).hexdigest()


def _blocks(view: FileSystemView) -> BlockFilter:
    """The blocks of the completed writes, active and archived."""
    return with_archive(block_filter(view.timeline, view.timeline.completed_times), view.archived)


def _check_newest(cleaned: Cleaned, timeline: Timeline) -> None:
    if lost := cleaned.lost_at(lambda write: _was_completed(timeline, write)):
        raise HistoryNotRetainedError(
            "files of the table as it was opened have been cleaned since: refresh() the table",
            path=min(lost.values()),
        )


def _was_completed(timeline: Timeline, write: str) -> bool:
    """Whether a write of a deleted file counts: not if a restore has removed it."""
    return timeline.is_committed(write) or timeline.starts_after(write)


def _plan_as_of(table: TableState, config: ReadConfig, mergers: Sequence[Merger], as_of: str) -> ScanPlan:
    """The rows of the writes that were requested until `as_of`, of which none may still be running."""
    check_settled(table, as_of)
    view = load_read_view(table, wanted=config.metadata_table, skips_damaged=config.skip_damaged_files)
    cleaned = load_cleaned(table.storage, view, since=as_of)
    if lost := cleaned.lost_at(lambda write: write <= as_of and _was_completed(table.timeline, write)):
        raise HistoryNotRetainedError(
            "the state of the table at this time can no longer be read: cleaners have deleted files of it",
            as_of=as_of,
            earliest=cleaned.needless_from,
            path=min(lost.values()),
        )
    past = table.with_timeline(table.timeline.until(as_of))
    # Blocks are filtered by the whole timeline: its start must not depend on the requested time.
    blocks = replace(_blocks(view), until=as_of)
    schema = None if past.timeline.completed_writes else _archived_schema(table, as_of)
    latest = with_names_of(view, as_of).latest_until(as_of)
    return _plan(past, config, mergers, latest, blocks, schema=schema)


def _plan_savepoint(table: TableState, config: ReadConfig, mergers: Sequence[Merger], instant_time: str) -> ScanPlan:
    """The state that a restore to the savepoint brings back: what was completed when its write was.

    Writes that began before it and were completed later do not belong to it, nor do they keep it from being read.
    """
    write = completed_write(table.timeline, instant_time)
    view = view_after(table.storage, table.timeline, write, list_data_files(table.storage))
    cleaned = load_cleaned(table.storage, view, since=write.requested_time)
    if lost := cleaned.lost_at(lambda time: _was_completed(view.timeline, time)):
        raise HistoryNotRetainedError(
            "the state of this savepoint can no longer be read: cleaners have deleted files of it",
            savepoint=instant_time,
            earliest=cleaned.needless_from,
            path=min(lost.values()),
        )
    return _plan(table.with_timeline(view.timeline), config, mergers, view.latest, _blocks(view))


def _archived_schema(table: TableState, as_of: str) -> pa.Schema | None:
    """The schema in the newest archived write until a time, if one has a schema. Cost: see `archived_metadata`."""
    for write, metadata in archived_metadata(table.storage, table.version):
        if write.requested_time <= as_of and metadata.schema is not None:
            source = f"{table.storage.uri}: archived commit {write.requested_time}"
            return TableSchema.from_avro(metadata.schema, source=source).arrow
    return None


def check_settled(table: TableState, until: str, *, after: str = "") -> None:
    """Refuse a range of instant times in which a write is pending: its rows would appear there later.

    Clusterings change no rows. Cost: in version 6 a read per pending replace commit, which may be clusterings.
    """
    for pending in table.timeline.pending_writes:
        if not after < pending.requested_time <= until:
            continue
        if not is_clustering_plan(table.storage, table.version, pending):
            raise HistoryNotSettledError(
                "a write that began at or before this time has not ended: its rows would appear in the result later; "
                "read again when it has ended, or read an earlier time",
                time=until,
                running=pending.requested_time,
            )


def _plan_incremental(table: TableState, config: ReadConfig, mergers: Sequence[Merger]) -> ScanPlan:
    """Rows last written in (begin, end], in their version as of end: the state at `end`, as far as the range wrote it.

    Versions 8 and 9 go by completion time, version 6 by instant time. A change in a log that lost against an older row
    is not in the result. (JVM Hudi merges the log blocks of the range alone, and shows it.)
    """
    if not table.config.populate_meta_fields:
        raise UnsupportedFeatureError(
            "incremental queries need the column _hoodie_commit_time, which this table does not keep "
            "(hoodie.populate.meta.fields=false): read it as a whole, or up to a moment",
            path=table.config.path,
        )
    zone = table_zone(table.config)
    begin = EARLIEST if config.begin == EARLIEST else instant_time_from_user(config.begin, zone)
    end = instant_time_from_user(config.end, zone) if config.end is not None else None
    if end is not None and end < begin:
        raise ConfigError("the incremental range ends before it begins", begin=begin, end=end)
    positions = timeline_positions(table, begin)
    written = frozenset(write for write, position in positions.items() if in_range(position, begin, end))
    if not table.version.has_completion_times:
        check_settled(table, max(written, default="") if end is None else end, after=begin)
    if not written:
        return _plan(table, config, mergers, {}, BlockFilter(committed=written), written)
    ended = frozenset(write for write, position in positions.items() if in_range(position, "", end))

    def has_ended(write: str) -> bool:
        return write in ended or (write not in positions and table.timeline.starts_after(write))

    view = load_read_view(table, wanted=config.metadata_table, skips_damaged=config.skip_damaged_files)
    cleaned = load_cleaned(table.storage, view, since=end)
    # Not "the newest until the last of them": a write that began earlier than it may have ended after `end`.
    if lost := cleaned.lost_at(has_ended, of=written):
        if config.fall_back_to_full_scan:
            return _plan_full_scan(table, config, mergers, view, cleaned, written)
        earliest = cleaned.needless_from
        raise HistoryNotRetainedError(
            "rows of this range can no longer be read as of its end: cleaners have deleted files of it. Read it "
            "without an end, or to a later one; or, to read those of its rows that no later write has changed, "
            "set hoodie.datasource.read.incr.fallback.fulltablescan.enable",
            end=end,
            earliest=earliest and positions.get(earliest, earliest),
            path=min(lost.values()),
        )
    touched = view.latest_of(has_ended, written=written)
    parts = {path: tuple(_part_of(file_slice, written) for file_slice in slices) for path, slices in touched.items()}
    if table.version.has_completion_times:
        blocks = BlockFilter(committed=ended, archived_before=min(positions, default=""))
    else:
        blocks = replace(_blocks(view), until=max(written))
    # Under the newest schema, not that of `end`, as in JVM Hudi.
    plan = _plan(table, config, mergers, parts, blocks, written)
    earlier = (_earlier_base(file_slice, written) for slices in touched.values() for file_slice in slices)
    pairs = zip(plan.slices, earlier, strict=True)
    return replace(plan, slices=tuple(replace(file_slice, earlier=base) for file_slice, base in pairs))


def plan_slices(
    table: TableState,
    config: ReadConfig,
    mergers: Sequence[Merger],
    slices: Sequence[FileSlice],
    blocks: BlockFilter,
) -> tuple[ScanPlan, list[ScanSlice]]:
    """How rows of some slices are read, and the slices in the form for tasks, in their order."""
    by_partition: dict[str, list[FileSlice]] = {}
    for file_slice in slices:
        by_partition.setdefault(file_slice.partition_path, []).append(file_slice)
    plan = _plan(table, config, mergers, {path: tuple(group) for path, group in by_partition.items()}, blocks)
    found = {
        path: iter([file_slice for file_slice in plan.slices if file_slice.partition_path == path])
        for path in by_partition
    }
    return plan, [next(found[file_slice.partition_path]) for file_slice in slices]


def _plan_full_scan(
    table: TableState,
    config: ReadConfig,
    mergers: Sequence[Merger],
    view: FileSystemView,
    cleaned: Cleaned,
    written: frozenset[str],
) -> ScanPlan:
    """The rows of the newest state that these writes wrote, without rows that later writes changed or deleted."""
    _check_newest(cleaned, table.timeline)
    plan = _plan(table, config, mergers, view.latest, _blocks(view), written)
    return replace(plan, merging=replace(plan.merging, commit_times=None))


def timeline_positions(table: TableState, begin: str) -> dict[str, str]:
    """The positions of the completed writes, by requested time; archived ones too if the range may contain them.

    With completion times it always may: a write that began before the active timeline may have completed late.
    """
    active = table.timeline.completion_times
    if not table.version.has_completion_times and not table.timeline.starts_after(begin):
        return active
    return {**load_archived_writes(table.storage, table.version).completed, **active}


def _part_of(file_slice: FileSlice, written: Collection[str]) -> FileSlice:
    """The slice without a base file that is older than the writes: it has none of their rows."""
    if file_slice.base is None or file_slice.base.instant_time in written:
        return file_slice
    return replace(file_slice, base=None)


def _earlier_base(file_slice: FileSlice, written: Collection[str]) -> SliceFiles | None:
    """The base file of a slice with logs, if it is older than the writes: rows of the logs may lose against its own."""
    if file_slice.base is None or not file_slice.logs or file_slice.base.instant_time in written:
        return None
    return slice_files(file_slice.base, ())


def in_range(position: str, begin: str, end: str | None) -> bool:
    """Whether a position is after `begin` and not after `end`."""
    return begin < position and (end is None or position <= end)


def _plan(
    table: TableState,
    config: ReadConfig,
    mergers: Sequence[Merger],
    latest: SlicesByPartition,
    blocks: BlockFilter,
    commit_times: frozenset[str] | None = None,
    schema: pa.Schema | None = None,
) -> ScanPlan:
    schema = schema or _schema(table, latest)
    fields = partition_field_names(table.config.values)
    path_columns: tuple[str, ...] = ()
    if table.config.drop_partition_columns:
        path_columns = tuple(name for name in fields if name not in schema.names)
        schema = pa.schema([*schema, *(pa.field(name, pa.string()) for name in path_columns)])
    path_columns += slashed_dates(table.config, fields, schema, latest)
    plain = plain_fields(table.config, fields)
    base_files_only = config.query_type is QueryType.READ_OPTIMIZED
    slices = tuple(
        ScanSlice(
            slice_files(file_slice.base, () if base_files_only else file_slice.logs),
            file_slice.size,
            partition_path,
            values,
            sum(log.size for log in file_slice.logs),
            0 if file_slice.base is None else file_slice.base.modified_ms,
        )
        for partition_path, group in latest.items()
        for values in [values_of_path(table.config, fields, partition_path, plain, path_columns)]
        for file_slice in group
        if file_slice.base is not None or not base_files_only
    )
    has_meta_columns = table.config.populate_meta_fields
    # A table without logs can be read with any merger.
    has_logs = any(scan_slice.files.logs for scan_slice in slices)
    rules = table_rules_of(table.config, (*mergers, *mergers_of(config.merging))) if has_logs else TableRules()
    if has_logs:
        check_defaults(table.config, table.newest_writes.schema or "")
    merging = MergeSettings(
        schema=with_meta_columns(schema),
        rules=rules,
        blocks=replace(blocks, skips_damaged=config.skip_damaged_files),
        commit_times=commit_times,
        spill=spill_settings(config.memory),
        keys=key_generator_from_table(table.config.values, table.config.version, {})
        if has_logs and not has_meta_columns
        else None,
    )
    shown = merging.schema if has_meta_columns else schema
    numbers = texts_of_numbers(table.config, fields, schema) if has_meta_columns else ()
    return ScanPlan(
        table.storage.spec,
        table.storage.uri,
        slices,
        shown,
        commit_times,
        path_columns,
        merging,
        numbers,
        config.data_skipping,
        leaves_out_logs=base_files_only and any(file_slice.logs for group in latest.values() for file_slice in group),
        folder_columns=folder_columns(table.config, fields, schema),
    )


def _schema(table: TableState, latest: SlicesByPartition) -> pa.Schema:
    """The schema in the newest commit, or, if no commit has one, that of a data file."""
    if (schema := load_table_schema(table)) is not None:
        return schema.arrow
    for slices in latest.values():
        for file_slice in slices:
            if file_slice.base is not None:
                return without_meta_columns(read_footer(table.storage, file_slice.base.path).schema)
    return pa.schema([])
