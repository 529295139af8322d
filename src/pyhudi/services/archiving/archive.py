"""Archiving: completed instants leave the active timeline for the archived one.

The order of the steps lets a reader find each instant at any time, in one of the two or in both: first the archive, and
only then the deletion of the instants' files, oldest first, the completed file of each last. A run that dies leaves
instants in both; the next one finds them in the archive, and only deletes their files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from pyhudi.config.enums import TableType
from pyhudi.config.options_cleaning import ArchivingOptions
from pyhudi.errors import CorruptDataError, NotFoundError
from pyhudi.events import InstantsArchived
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.markers import MARKERS_ROOT, marker_folder
from pyhudi.format.metadata.clean import CleaningPolicy
from pyhudi.format.timeline.instant import (
    Action,
    Instant,
    InstantState,
    InstantTime,
    completed_action,
    parse_instant_file_name,
)
from pyhudi.markup import Shown
from pyhudi.metadata_table.complete_indexes import note_before_archiving
from pyhudi.metadata_table.folders import inner_version
from pyhudi.services.archiving.bounds import Needed, Verdict, archivable, verdicts
from pyhudi.services.archiving.into_history import add_to_history, tidy_history
from pyhudi.services.archiving.into_logs import add_to_logs, finish_merge, merge_logs
from pyhudi.services.cleaning.execute import load_clean_plan
from pyhudi.services.cleaning.plan import earliest_retained, last_clean
from pyhudi.services.compaction.schedule import newest_compaction
from pyhudi.services.frame.service import Due, ServiceCall
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.features import check_writable
from pyhudi.table.instant_times import table_zone
from pyhudi.table.lister import listings
from pyhudi.table.metadata_table import has_metadata_table
from pyhudi.table.pending_clusterings import load_clustering_plan, possible_clusterings
from pyhudi.table.remembered_files import hand_on_past_archiving
from pyhudi.table.state import TableState
from pyhudi.table.timeline import WRITE_ACTIONS, load_timeline, position_of
from pyhudi.table.written_files import load_written_files
from pyhudi.transaction.conflicts.check import check_nothing_exclusive
from pyhudi.transaction.conflicts.table import Own
from pyhudi.transaction.locks.table_lock import table_lock

FILE_TIMES_DIFFER_MS = 60_000
"""By how much the times of two files of one store may be wrong against each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived(Shown):
    """What an archiving did: how many instants left the active timeline, and the oldest and newest of them."""

    instants: int
    first: InstantTime
    last: InstantTime


def planned_archiving(call: ServiceCall) -> tuple[Instant, ...]:
    """The instants that would be archived now, oldest first.

    Cost: one read for the last clean and per replacement that this process does not know; in a merge-on-read table one
    per commit since the newest compaction; a listing of each partition in which an older write replaced file groups.
    """
    return archivable(call.table.timeline, _limits(call), _needed(call))


def judged_instants(call: ServiceCall) -> tuple[Verdict, ...]:
    """All instants of the active timeline, with whether `archive` would move them, and why. Cost: as above."""
    return verdicts(call.table.timeline, _limits(call), _needed(call))


def archive(call: ServiceCall) -> Archived | None:
    """Archive what may leave the active timeline; None where nothing may.

    Raises `CorruptDataError` for an instant of a table of version 6 whose file cannot be decoded; nothing is archived.
    Cost: one or two reads and two or three deletes per instant, three puts, a listing, and the table lock; in version 6
    a read per file of an instant, one put, a read of the newest archive file, and what `merge_logs` says.
    """
    clock = call.environment.clock
    started = clock.monotonic()
    call = call.reloaded()
    check_writable(call.table)
    # Without the lock another archiver may take an instant away while it is read; then the lock decides.
    with suppress(NotFoundError):
        if not planned_archiving(call):
            return None
    storage = call.table.storage
    with table_lock(storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        call = call.reloaded()
        check_nothing_exclusive(call.table.timeline, Own.ARCHIVING)
        instants = planned_archiving(call)
        if not instants:
            return None
        files = files_of_instants(call.table, instants)
        lock.check_held()
        note_before_archiving(call.table)
        if call.table.version.has_completion_times:
            add_to_history(call.table, files)
        else:
            finish_merge(storage, call.table.version.history_folder, lock)
            add_to_logs(call.table, files)
        for instant in instants:
            lock.check_held()
            for info in files[instant]:
                storage.delete(info.path)
        hand_on_past_archiving(storage, call.table.timeline, instants)
        _remove_left_markers(storage, instants)
        if call.table.version.has_completion_times:
            tidy_history(call)
        else:
            merge_logs(call, lock)
    call.environment.observe(InstantsArchived(instants=len(instants), seconds=clock.monotonic() - started))
    return Archived(instants=len(instants), first=instants[0].requested_time, last=instants[-1].requested_time)


def _remove_left_markers(storage: Storage, archived: Iterable[Instant]) -> None:
    """Remove the markers of tasks that outlived these actions, and died. Cost: a listing."""
    left = {folder.rpartition("/")[2] for folder in storage.list_folder(MARKERS_ROOT).folders}
    for instant in archived:
        if instant.requested_time in left:
            storage.delete_folder(marker_folder(instant.requested_time))


def archiving_due(call: ServiceCall) -> Due:
    """Whether the active timeline is longer than the options say. Cost: nothing."""
    completed, allowed = len(call.table.timeline.completed_writes), _limits(call).max_commits
    return Due(
        completed > allowed, f"{completed} completed commits on the active timeline; more than {allowed} are too many"
    )


def _limits(call: ServiceCall) -> ArchivingOptions:
    """The options, with room for the commits that cleaning retains.

    A clean counts the commits of the active timeline. If archiving left fewer of them than are retained, no clean would
    ever find one to pass.
    """
    options, cleaning = call.config.archiving, call.config.cleaning
    if cleaning.policy is not CleaningPolicy.KEEP_LATEST_COMMITS:
        return options
    more = max(0, cleaning.commits_retained - options.min_commits)
    return replace(options, min_commits=options.min_commits + more, max_commits=options.max_commits + more)


def _needed(call: ServiceCall) -> Needed:
    table = call.table
    cleans = [instant for instant in table.timeline.instants if instant.action is Action.CLEAN]
    retained = earliest_retained(
        table,
        call.config.cleaning,
        last_clean(table.storage, table.timeline),
        now_ms=call.environment.clock.now_ms(),
        zone=table_zone(table.config),
    )
    dead_plans = _dead_plans(table)
    return Needed(
        earliest_retained=None if retained is None else retained.requested_time,
        replacement=_first_replacement(call, _limits(call).min_commits),
        compaction=_compaction_to_count_from(call),
        beside_pending=_beside_pending(table, dead_plans),
        dead_plans=dead_plans,
        unmerged=first_unmerged_write(table),
        last_clean=max(
            (clean.requested_time for clean in cleans if clean.state is InstantState.COMPLETED), default=None
        ),
    )


def _dead_plans(table: TableState) -> frozenset[str]:
    """Planned cleans, and clusterings that no process has begun, that are damaged. Cost: a read per plan."""
    found = set()
    for instant in table.timeline.instants:
        try:
            if instant.action is Action.CLEAN and instant.state is not InstantState.COMPLETED:
                load_clean_plan(table.storage, instant, table)
            elif instant.state is InstantState.REQUESTED and instant in possible_clusterings(table.timeline):
                load_clustering_plan(table.storage, table.version, instant)
        except CorruptDataError:
            found.add(instant.requested_time)
    return frozenset(found)


def _first_replacement(call: ServiceCall, kept: int) -> str | None:
    """The oldest replacement before the newest `kept` writes of whose file groups there are still files.

    The files themselves are asked for: what a clean has passed it may have spared, for a savepoint or for a plan. Cost:
    a listing of each partition of these replacements, up to the one that is found.
    """
    table = call.table
    older = [instant for instant in table.timeline.completed_writes[:-kept] if instant.action is Action.REPLACE_COMMIT]
    listed: dict[str, set[str]] = {}
    for write, files in sorted(
        load_written_files(table.storage, table.version, older).items(), key=lambda found: found[0].requested_time
    ):
        unknown = [partition for partition in files.replaced if partition not in listed]
        for partition, listing in zip(unknown, listings(table.storage, call.engine, unknown), strict=True):
            names = (parse_data_file(info.name) for info in listing.files)
            listed[partition] = {name.file_id for name in names if name is not None}
        if any(not listed[partition].isdisjoint(replaced) for partition, replaced in files.replaced.items()):
            return write.requested_time
    return None


def _compaction_to_count_from(call: ServiceCall) -> str | None:
    """The newest compaction, unless so many delta commits follow it that the next one is due anyway."""
    table = call.table
    newest = newest_compaction(table) if table.config.table_type is TableType.MERGE_ON_READ else None
    if newest is None:
        return None
    writes = table.timeline.completed_writes
    follow = sum(write.action is Action.DELTA_COMMIT and write.requested_time > newest for write in writes)
    return newest if follow < call.config.compaction.max_delta_commits else None


def _beside_pending(table: TableState, dead_plans: Collection[str]) -> str | None:
    """In table version 6, the oldest write that may have completed since the oldest pending instant began.

    Names of version 6 do not tell, and times of files do: those of one store, so clocks need not agree. Cost: a listing
    while something is pending.
    """
    pending = {
        (instant.requested_time, instant.action)
        for instant in table.timeline.instants
        if instant.state is not InstantState.COMPLETED and instant.requested_time not in dead_plans
    }
    if table.version.has_completion_times or not pending:
        return None
    found = _state_files(table)
    began = min(
        (info.modified_ms for instant, info in found if (instant.requested_time, instant.action) in pending), default=0
    )
    late = (
        instant.requested_time
        for instant, info in found
        if instant.state is InstantState.COMPLETED
        and instant.action in WRITE_ACTIONS
        and info.modified_ms >= began - FILE_TIMES_DIFFER_MS
    )
    return min(late, default=None)


def files_of_instants(table: TableState, instants: Iterable[Instant]) -> dict[Instant, list[FileInfo]]:
    """The files of each instant in the order in which they may go: the completed one last."""
    wanted = {(instant.requested_time, instant.action): instant for instant in instants}
    files: dict[Instant, list[FileInfo]] = {instant: [] for instant in wanted.values()}
    for state, info in sorted(_state_files(table), key=lambda found: (found[0].state, found[1].name)):
        instant = wanted.get((state.requested_time, completed_action(state.action)))
        if instant is not None:
            files[instant].append(info)
    return files


def _state_files(table: TableState) -> list[tuple[Instant, FileInfo]]:
    """The files of the active timeline, each with the state of an instant that it is."""
    files = table.storage.list_folder(table.version.timeline_folder).files
    named = ((parse_instant_file_name(info.name, table.version), info) for info in files)
    return [(state, info) for state, info in named if state is not None]


def first_unmerged_write(table: TableState) -> str | None:
    """The oldest write that has to stay on the timeline for the metadata table; None where it needs none.

    As in JVM Hudi: the first that was completed since the newest compaction of the metadata table, and without one the
    first of all. Cost: a listing, where the table has a metadata table.
    """
    if not has_metadata_table(table):
        return None
    inner = load_timeline(table.storage, inner_version(table.version))
    newest = max(
        (write.requested_time for write in inner.completed_writes if write.action is Action.COMMIT), default=""
    )
    return min(
        (write.requested_time for write in table.timeline.completed_writes if position_of(write) >= newest),
        default=None,
    )
