"""Plans a clean: the earliest retained write, the partitions to visit, and the files to delete."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo

from pyhudi.config.enums import TableType
from pyhudi.config.java_patterns import java_pattern
from pyhudi.config.options_cleaning import CleaningOptions
from pyhudi.engine.protocol import Engine
from pyhudi.errors import NotFoundError
from pyhudi.format.avro.container import CONTAINER_BYTES_MAX
from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.metadata.clean import CleaningPolicy, CleanMetadata, CleanPlan, decode_clean_metadata
from pyhudi.format.safe_paths import is_metadata_folder
from pyhudi.format.timeline.instant import Action, Instant, InstantState, format_instant_time
from pyhudi.services.cleaning.policy import Retention, SliceDecision, decide
from pyhudi.storage.bounded import read_decoded
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.archive.history import has_archive
from pyhudi.table.committed_files import WritesOfTimeline, load_writes
from pyhudi.table.file_slice import FileGroupId
from pyhudi.table.file_system_view import FileSystemView, view_of
from pyhudi.table.lister import EngineLister, listings
from pyhudi.table.pending_clusterings import clustered_groups, instants_of_clusterings
from pyhudi.table.remembered_files import remembered_files
from pyhudi.table.savepoints import load_savepoints
from pyhudi.table.state import TableState
from pyhudi.table.timeline import Timeline, instant_path, load_compaction_plan, position_of
from pyhudi.table.written_files import load_written_files

FILES_AT_ONCE = 50_000
"""After so many files the slices of a plan are decided on, and forgotten."""
_FOLDERS_AT_ONCE = 5_000
"""So many partitions are listed by one job of the engine, so that a plan has the files of a part of them in memory."""
METADATA_PART = "/.hoodie/"
"""What a path has in it that belongs to a table in a folder of this one."""
COMMITS_WITHOUT_CLEAN_MAX = 10
"""A clean that has nothing to delete is put on the timeline once it has passed so many commits, so that the next one
need not look at them again."""
SAVEPOINTS_NOTE = "savepointed_timestamps"
"""Under this key a clean says which savepoints it spared, separated by commas: JVM Hudi's name for it."""
COMPLETE_NOTE = "pyhudi.versions.complete"
"""Under this key a clean by KEEP_LATEST_FILE_VERSIONS says how many slices of each file group it left, if it left no
others: then only later writes make work for the next one."""


@dataclass(frozen=True, slots=True)
class PlannedClean:
    """What a clean would do: a decision for each file slice that was examined, and the plan; None for nothing to do.

    `counted`: requested times of the completed writes that the plan relies on.
    """

    plan: CleanPlan | None
    decisions: tuple[SliceDecision, ...] = ()
    counted: frozenset[str] = frozenset()


def plan_clean(
    table: TableState,
    options: CleaningOptions,
    engine: Engine,
    *,
    now_ms: int,
    zone: tzinfo | None,
    explains: bool = True,
    spares_readers: bool = True,
) -> PlannedClean:
    """The clean that a policy asks for now. `explains`: whether it has the decision for each slice, which take memory.

    `spares_readers`: see `Retention`.

    Cost: one read for the last clean, one per savepoint, per pending compaction, and per completed write since the last
    clean that this process does not know yet; a listing of each partition that these writes have changed, or of the
    whole table where there was no clean, a savepoint was deleted, or under KEEP_LATEST_FILE_VERSIONS the last clean
    left something over (for a reader, a savepoint or a plan) or was JVM Hudi's.
    """
    storage, timeline = table.storage, table.timeline
    last = last_clean(storage, timeline)
    earliest = earliest_retained(table, options, last, now_ms=now_ms, zone=zone)
    by_versions = options.policy is CleaningPolicy.KEEP_LATEST_FILE_VERSIONS
    if not timeline.completed_writes or (earliest is None and not by_versions):
        return PlannedClean(None)
    savepoints = load_savepoints(storage, timeline)
    partitions = partitions_to_visit(table, options, last, earliest, savepoints)
    partitions = _selected(partitions, options)
    savepointed = frozenset[str]().union(*(savepoint.paths for savepoint in savepoints.values()))
    retention = _retention(table, options, earliest, savepointed, spares_readers=spares_readers)
    decisions: list[SliceDecision] = []
    deleted: dict[str, list[str]] = defaultdict(list)
    sources: dict[str, list[str]] = defaultdict(list)
    emptied: list[str] = []
    complete: list[bool] = []
    writes: WritesOfTimeline | None = None
    for paths, files in _in_pieces(_files(table, partitions, options, engine)):
        gone: dict[str, list[str]] = defaultdict(list)
        writes = writes or load_writes(storage, timeline)  # they may be more than the process remembers
        view = view_of(storage, timeline, files, paths, writes=writes)
        decided = tuple(decide(view, _change_data(view), retention))
        for decision in decided:
            if decision.deletes:
                gone[decision.file_slice.partition_path].extend(decision.paths)
                base = decision.file_slice.base
                if options.deletes_sources and base is not None and base.source is not None:
                    sources[decision.file_slice.partition_path].append(base.source.uri)
        complete.append(is_complete(options, retention, view, decided))
        decisions.extend(decided if explains else ())
        emptied.extend(_emptied(files, gone))
        deleted.update(gone)
    plan = CleanPlan(
        policy=options.policy.value,
        earliest=None if earliest is None else (earliest.requested_time, earliest.action.value),
        last_completed=timeline.completed_writes[-1].requested_time,
        files={partition: tuple(paths) for partition, paths in sorted(deleted.items())},
        sources={partition: tuple(uris) for partition, uris in sorted(sources.items())},
        partitions_to_delete=tuple(emptied),
        extra={
            **({SAVEPOINTS_NOTE: ",".join(sorted(savepoints))} if savepoints else {}),
            **({COMPLETE_NOTE: str(options.versions_retained)} if complete and all(complete) else {}),
        },
    )
    if options.partitions is not None or options.partition_regex is not None:
        # Other partitions were not examined, so the next clean must begin where this one did.
        begun_at = (last.earliest, Action.COMMIT.value) if last is not None and last.earliest else None
        plan = replace(plan, earliest=begun_at)
    does_something = bool(deleted) or _passes_many(plan, timeline, last)
    return PlannedClean(plan if does_something else None, tuple(decisions), frozenset(timeline.completed_times))


def _retention(
    table: TableState,
    options: CleaningOptions,
    earliest: Instant | None,
    savepointed: frozenset[str],
    *,
    spares_readers: bool,
) -> Retention:
    timeline = table.timeline
    return Retention(
        options.policy,
        earliest,
        timeline.completed_writes[-1],
        versions=options.versions_retained,
        savepointed=savepointed,
        planned=_planned(table),
        reading_since=min(
            (instant.requested_time for instant in timeline.instants if _holds_back(instant)), default=None
        ),
        spares_readers=spares_readers,
    )


def last_clean(storage: Storage, timeline: Timeline) -> CleanMetadata | None:
    """What the newest completed clean of the active timeline did; None where there is none. Cost: one read."""
    cleans = [
        instant
        for instant in timeline.instants
        if instant.action is Action.CLEAN and instant.state is InstantState.COMPLETED
    ]
    if not cleans:
        return None
    try:
        return read_decoded(
            storage, instant_path(cleans[-1], timeline.version), CONTAINER_BYTES_MAX, decode_clean_metadata
        )
    except NotFoundError:
        return None


def commits_since_clean(timeline: Timeline) -> int:
    """How many writes began after the newest clean on the active timeline, whether it has completed or not."""
    cleans = [instant.requested_time for instant in timeline.instants if instant.action is Action.CLEAN]
    newest = max(cleans, default="")
    return sum(write.requested_time > newest for write in timeline.completed_writes)


def earliest_retained(
    table: TableState, options: CleaningOptions, last: CleanMetadata | None, *, now_ms: int, zone: tzinfo | None
) -> Instant | None:
    """The oldest write whose state stays readable; None where every state does, or the policy knows no such write.

    It does not pass the earliest pending write: that one may be reading the files that were current when it began. A
    pending clustering stops no clean: its input is spared group by group. Cost: in version 6 a read per pending replace
    commit.
    """
    timeline = table.timeline
    completed = timeline.completed_writes
    if not completed or options.policy is CleaningPolicy.KEEP_LATEST_FILE_VERSIONS:
        return None
    if options.policy is CleaningPolicy.KEEP_LATEST_COMMITS:
        if len(completed) <= options.commits_retained:
            return None
        at = len(completed) - options.commits_retained
    else:
        oldest = format_instant_time(now_ms - options.hours_retained * 3_600_000, zone)
        at = next((n for n, write in enumerate(completed) if write.requested_time >= oldest), len(completed) - 1)
    clusterings = instants_of_clusterings(table.storage, timeline)
    pending = [
        instant.requested_time
        for instant in timeline.instants
        if _holds_back(instant) and instant.requested_time not in clusterings
    ]
    if pending and completed[at].requested_time > min(pending):
        at = sum(write.requested_time < min(pending) for write in completed) - 1
    previous = sum(write.requested_time < last.earliest for write in completed) if last is not None else 0
    at = min(at, previous + options.max_commits)
    return completed[at] if at >= 0 else None


def _holds_back(instant: Instant) -> bool:
    """Whether a pending instant, if it is no clustering, keeps the states from before it readable.

    A savepoint that is being made is about to name the files of its state.
    """
    if instant.state is InstantState.COMPLETED:
        return False
    return instant.action in {Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT, Action.SAVEPOINT}


def _selected(partitions: frozenset[str] | None, options: CleaningOptions) -> frozenset[str] | None:
    if options.partitions is not None:
        chosen = frozenset(options.partitions)
        partitions = chosen if partitions is None else partitions & chosen
    if options.partition_regex is not None and partitions is not None:
        partitions = frozenset(filter(java_pattern(options.partition_regex).fullmatch, partitions))
    return partitions


def _files(
    table: TableState, partitions: frozenset[str] | None, options: CleaningOptions, engine: Engine
) -> Iterator[tuple[str, Sequence[FileInfo]]]:
    """The files of these partitions, or of the whole table, by partition; not those of another table in a folder."""
    storage = table.storage
    if partitions is not None:
        remembered = remembered_files(storage, table.timeline)
        paths = sorted(partitions)
        for start in range(0, len(paths), _FOLDERS_AT_ONCE):
            part = paths[start : start + _FOLDERS_AT_ONCE]
            unknown = [path for path in part if path not in remembered]
            listed = dict(zip(unknown, listings(storage, engine, unknown), strict=True))
            for partition in part:
                if partition in remembered:
                    yield partition, tuple(remembered[partition].values())
                elif not partition or not any(map(is_metadata_folder, listed[partition].folders)):
                    yield partition, listed[partition].files
        return
    files = EngineLister(storage, engine).table()
    others = tuple({f"{info.path.partition(METADATA_PART)[0]}/" for info in files if METADATA_PART in info.path})
    by_partition: dict[str, list[FileInfo]] = defaultdict(list)
    matches = java_pattern(options.partition_regex or ".*").fullmatch
    for info in files:
        if not info.path.startswith(others) and matches(_folder(info.path)):
            by_partition[_folder(info.path)].append(info)
    yield from sorted(by_partition.items())


def _in_pieces(
    found: Iterable[tuple[str, Sequence[FileInfo]]],
) -> Iterator[tuple[frozenset[str], list[FileInfo]]]:
    """Some partitions at a time with all of their files, so that a plan holds the slices of a few of them in memory."""
    paths: set[str] = set()
    files: list[FileInfo] = []
    for partition, of_partition in found:
        paths.add(partition)
        files.extend(of_partition)
        if len(files) >= FILES_AT_ONCE:
            yield frozenset(paths), files
            paths, files = set(), []
    if paths:
        yield frozenset(paths), files


def _planned(table: TableState) -> dict[FileGroupId, str]:
    """By group, the instant of the oldest slice that a pending plan may read; all of the group for a clustering."""
    needed: dict[FileGroupId, str] = {}
    for instant in table.timeline.pending_compactions:
        for operation in load_compaction_plan(table.storage, instant, table.version).operations:
            group = FileGroupId(operation.partition_path, operation.file_id)
            base = operation.base_instant_time or ""
            needed[group] = min(base, needed.get(group, base))
    return needed | dict.fromkeys(clustered_groups(table.storage, table.timeline), "")


def _change_data(view: FileSystemView) -> dict[FileGroupId, list[tuple[str, LogFileName]]]:
    found: dict[FileGroupId, list[tuple[str, LogFileName]]] = defaultdict(list)
    for path in sorted(view.change_logs):
        name = parse_data_file(path.rpartition("/")[2])
        if isinstance(name, LogFileName):
            found[FileGroupId(_folder(path), name.file_id)].append((path, name))
    return found


def _emptied(files: Iterable[FileInfo], deleted: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The partitions of which no data file would be left."""
    gone = {path for paths in deleted.values() for path in paths}
    emptied = {path for path in deleted if path}
    for info in files:
        if _folder(info.path) in emptied and info.path not in gone and parse_data_file(info.name) is not None:
            emptied.remove(_folder(info.path))
    return tuple(sorted(emptied))


def _passes_many(plan: CleanPlan, timeline: Timeline, last: CleanMetadata | None) -> bool:
    """Whether there are so many writes that the next clean should not look at again."""
    if plan.earliest is not None:
        begin = last.earliest if last is not None else ""
        passed = (begin <= write.requested_time < plan.earliest[0] for write in timeline.completed_writes)
    else:
        begin = last.last_completed if last is not None else ""
        passed = (COMPLETE_NOTE in plan.extra and write.requested_time > begin for write in timeline.completed_writes)
    return sum(passed) >= COMMITS_WITHOUT_CLEAN_MAX


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def partitions_to_visit(
    table: TableState,
    options: CleaningOptions,
    last: CleanMetadata | None,
    earliest: Instant | None,
    savepoints: Mapping[str, object],
) -> frozenset[str] | None:
    """The partitions in which slices may have lost their last reader since the last clean; None for all of the table.

    A slice loses it when a later slice of its group, or a replacement of the group, falls behind the earliest retained
    write. So the writes between the last clean's earliest and this one's say where, and those that began before and
    were completed since: a clustering may be planned long before it is executed.
    """
    timeline = table.timeline
    if not options.incremental:
        return None
    if earliest is None:
        return _since_complete(table, options, last)
    begin = last.earliest if last is not None else ""
    if last is None and has_archive(table.storage, table.version):
        return None
    if last is not None and (not begin or timeline.starts_after(begin)):
        return None
    spared = set(filter(None, last.extra.get(SAVEPOINTS_NOTE, "").split(","))) if last is not None else set()
    if not spared <= set(savepoints):
        return None
    until = earliest.requested_time
    passed = [
        write for write in timeline.completed_writes if begin <= position_of(write) and write.requested_time < until
    ]
    return frozenset(_changed_partitions(table, passed))


def _since_complete(table: TableState, options: CleaningOptions, last: CleanMetadata | None) -> frozenset[str] | None:
    """The partitions that writes since the last clean have changed, if that one left nothing over; None for all."""
    if last is None or last.extra.get(COMPLETE_NOTE) != str(options.versions_retained):
        return None
    if table.timeline.starts_after(last.last_completed):
        return None
    later = [write for write in table.timeline.completed_writes if write.requested_time > last.last_completed]
    return frozenset(_changed_partitions(table, later))


def is_complete(
    options: CleaningOptions, retention: Retention, view: FileSystemView, decisions: Iterable[SliceDecision]
) -> bool:
    """Whether a clean by KEEP_LATEST_FILE_VERSIONS leaves only the slices that are to stay, all over the table.

    What stays for a reader, a savepoint or a plan goes later, without any write, so it has to be looked for again.
    """
    if options.policy is not CleaningPolicy.KEEP_LATEST_FILE_VERSIONS:
        return False
    if options.partitions is not None or options.partition_regex is not None:
        return False
    if retention.savepointed or retention.planned or retention.reading_since is not None:
        return False
    return all(decision.deletes or decision.file_slice.group not in view.replaced for decision in decisions)


def _changed_partitions(table: TableState, writes: Sequence[Instant]) -> Iterator[str]:
    """The partitions in which one of these writes made a new slice of an older group, or replaced groups."""
    for write, files in load_written_files(table.storage, table.version, writes).items():
        # Compactions, which are commits of merge-on-read tables, do not always say that there were logs before.
        compacts = write.action is Action.COMMIT and table.config.table_type is TableType.MERGE_ON_READ
        yield from (partition for partition, replaced in files.replaced.items() if replaced)
        for partition, written in files.written.items():
            if any(not file.is_log and (compacts or file.has_predecessor) for file in written):
                yield partition
