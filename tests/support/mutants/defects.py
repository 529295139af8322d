"""The defects: each a small change of one function that the protocol relies on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tests.support.mutants.tools import always, patched, stale

from pyhudi.errors import CommitOutcomeUnknownError, LockLostError, UnavailableError
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.markers import Marker, marker_folder
from pyhudi.format.timeline.archived_log_writing import MERGE_PLAN_FILE
from pyhudi.format.timeline.instant import (
    Instant,
    InstantState,
    InstantTime,
    next_instant_time,
    parse_instant_file_name,
)
from pyhudi.format.timeline.lsm_history import (
    VERSION_FILE,
    HistoryFile,
    encode_manifest,
    encode_version_file,
    manifest_name,
)
from pyhudi.format.timeline.table_version import TableVersion, table_version
from pyhudi.read.cdc import planning
from pyhudi.services.archiving import archive as archiving
from pyhudi.services.archiving import into_logs
from pyhudi.services.restore.plan import PastState
from pyhudi.services.rollback import rollback
from pyhudi.services.rollback.execute import RolledBack
from pyhudi.services.rollback.plan import Leftovers
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table import file_system_view, instant_times, remembered_files
from pyhudi.table.archive.history import current_manifest
from pyhudi.table.committed_files import CommittedFiles, committed_files
from pyhudi.table.file_slice import FileSlice
from pyhudi.table.file_system_view import FileSystemView, view_of
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import TableState, load_table
from pyhudi.table.timeline import Timeline, instant_path
from pyhudi.tasks.data_file import check_write_is_running
from pyhudi.testing.simulation import key_value_writes as thin
from pyhudi.testing.simulation import scenarios
from pyhudi.testing.simulation.simulated import SimStorage
from pyhudi.transaction import intents, tidying, transaction
from pyhudi.transaction.conflicts import check as conflict_check
from pyhudi.transaction.conflicts import footprint
from pyhudi.transaction.conflicts.footprint import Footprint
from pyhudi.transaction.conflicts.footprint import footprint_of as footprint_as_it_is
from pyhudi.transaction.conflicts.table import Ground, Other, Own
from pyhudi.transaction.heartbeat import Heartbeat, heartbeat_path

grounds_as_they_are = footprint.conflict_grounds
counts_until_as_it_is = planning._Planner._counts_until
commit_as_it_is = transaction.commit
put_completed_as_it_is = transaction.put_completed
check_conflicts_as_it_is = transaction.check_conflicts
find_leftovers_as_it_is = rollback.find_leftovers
run_rollback_as_it_is = rollback.run_rollback
put_if_absent_as_it_is = SimStorage.put_if_absent
files_of_as_it_is = archiving.files_of_instants
create_as_it_is = into_logs.create
recover_as_it_is = scenarios.roll_back_failed_writes


# The check for conflicts.


def commit_that_checks_before_it_has_the_lock(begun: Any, metadata: Any, **promises: Any) -> str:
    base = begun.base
    mine = transaction.footprint_of(metadata, promises["unique_keys"])
    check_conflicts_as_it_is(
        base.reload().timeline,
        base.timeline,
        begun.storage,
        own=begun.instant_time,
        mine=mine,
        base_schema=promises["base_schema"],
    )
    return commit_as_it_is(begun, metadata, **promises)


def check_of_the_beginning(_timeline: Timeline, base: Timeline, *rest: Any, **more: Any) -> None:
    check_conflicts_as_it_is(base, base, *rest, **more)


def check_that_takes_pending_writes_for_known(timeline: Timeline, base: Timeline, *rest: Any, **more: Any) -> None:
    ended = tuple(replace(one, state=InstantState.COMPLETED) for one in base.instants)
    check_conflicts_as_it_is(timeline, replace(base, instants=ended), *rest, **more)


def check_that_looks_at_younger_writes_only(timeline: Timeline, base: Timeline, *rest: Any, **more: Any) -> None:
    younger = tuple(one for one in timeline.instants if one.requested_time >= more["own"])
    check_conflicts_as_it_is(replace(timeline, instants=younger), base, *rest, **more)


def footprint_without_promise(metadata: Any, *_: Any) -> Footprint:
    return footprint_as_it_is(metadata)


def footprint_without_replaced_groups(*arguments: Any) -> Footprint:
    return replace(footprint_as_it_is(*arguments), replaced=frozenset())


def footprint_without_replaced_partitions(*arguments: Any) -> Footprint:
    return replace(footprint_as_it_is(*arguments), replaced_partitions=frozenset())


def footprint_without_new_rows(*arguments: Any) -> Footprint:
    return replace(footprint_as_it_is(*arguments), inserted_partitions=frozenset())


def footprint_without_rewritten_groups(*arguments: Any) -> Footprint:
    return replace(footprint_as_it_is(*arguments), rewritten=frozenset())


def footprint_without_base_files(*arguments: Any) -> Footprint:
    return replace(footprint_as_it_is(*arguments), rebased=frozenset())


# Instant times.


def time_of_the_clock(_timeline: Timeline, config: Any, clock: Any, **_: str) -> str:
    return instant_times.format_instant_time(clock.now_ms(), instant_times.table_zone(config))


def completed_right_after_its_beginning(instant: Any, *arguments: Any, **more: str) -> Any:
    completed = instant_times.completed_now(instant, *arguments, **more)
    if completed.completion_time is None:
        return completed
    return replace(completed, completion_time=next_instant_time(instant.requested_time))


# Exclusive creation.


def put_over(state: InstantState) -> Any:
    def put(storage: SimStorage, path: str, data: bytes) -> None:
        folder, _, name = path.rpartition("/")
        instant = parse_instant_file_name(name, table_version(8 if folder.endswith("timeline") else 6))
        if instant is not None and instant.state is state:
            storage.put(path, data)
        else:
            put_if_absent_as_it_is(storage, path, data)

    return put


def put_whatever_is_there(storage: SimStorage, path: str, data: bytes, *, etag: str) -> str:
    del etag
    return str(storage._change("put_if_match", path, data, None))


# Intents.


class IntentsReadLate:
    """The intents that stand when somebody goes through them, instead of those that stood before."""

    def __init__(self, storage: Storage, *, besides: str) -> None:
        self._storage, self._besides = storage, besides

    def __iter__(self) -> Iterator[Any]:
        return iter(intents.standing_intents(self._storage, besides=self._besides))


def put_completed_without_intent(storage: Storage, version: Any, completed: Any, *rest: Any) -> None:
    intents.withdraw(storage, completed.requested_time)
    put_completed_as_it_is(storage, version, completed, *rest)


# The last put.


def put_completed_after_tidying_up(storage: Storage, version: Any, completed: Any, *rest: Any) -> None:
    tidying.tidy_up(storage, completed.requested_time)
    put_completed_as_it_is(storage, version, completed, *rest)


def put_completed_that_is_sure_it_failed(*arguments: Any) -> None:
    try:
        put_completed_as_it_is(*arguments)
    except CommitOutcomeUnknownError as error:
        raise UnavailableError("the commit failed") from error


def put_completed_that_is_sure_it_succeeded(*arguments: Any) -> None:
    with suppress(CommitOutcomeUnknownError):
        put_completed_as_it_is(*arguments)


def put_completed_twice(storage: Storage, version: Any, completed: Any, *rest: Any) -> None:
    try:
        put_completed_as_it_is(storage, version, completed, *rest)
    except CommitOutcomeUnknownError:
        later = completed.completion_time and next_instant_time(completed.completion_time)
        put_completed_as_it_is(storage, version, replace(completed, completion_time=later), *rest)


def delete_every_attempt(write: transaction.Transaction, _metadata: Any) -> None:
    for path in sorted(transaction.load_markers(write.storage, write.instant_time)):
        write.storage.delete(path)


# Heartbeats.


def start_without_a_first_beat(self: Heartbeat) -> None:
    interval = self._settings.interval_ms / 1000
    self._timer = self._timers.every(interval, self._beat_again, name="heartbeat")


def beat_again_in_vain(_self: Heartbeat) -> bool:
    return True


def stop_and_be_forgotten(self: Heartbeat) -> None:
    if self._timer is not None:
        self._timer.stop()
    self._storage.delete(self._path)


# Rollback.


def recover_without_looking_again(table: Any, *rest: Any, **more: Any) -> Any:
    return recover_as_it_is(stale(table), *rest, **more)


def leftovers_without_the_first_file(*arguments: Any) -> Leftovers:
    found = find_leftovers_as_it_is(*arguments)
    return replace(found, files=found.files[1:])


def leftovers_of_all_pending_writes(table: Any, instant: Any) -> Leftovers:
    mine = find_leftovers_as_it_is(table, instant)
    others = [find_leftovers_as_it_is(table, one) for one in table.timeline.pending_writes if one != instant]
    for path in (path for other in others for path in other.files):
        table.storage.delete(path)
    return mine


def leftovers_deleted_before_the_plan(table: Any, instant: Any) -> Leftovers:
    found = find_leftovers_as_it_is(table, instant)
    for path in found.files:
        table.storage.delete(path)
    return found


def leftovers_after_the_instant(table: Any, instant: Any) -> Leftovers:
    found = find_leftovers_as_it_is(table, instant)
    for state in (InstantState.INFLIGHT, InstantState.REQUESTED):
        table.storage.delete(instant_path(replace(instant, state=state), table.version))
    return found


def run_that_leaves_the_files(table: Any, undo: Any, plan: Any, *rest: Any, **more: Any) -> Any:
    return run_rollback_as_it_is(table, undo, replace(plan, requests=()), *rest, **more)


def removes_only_the_markers(call: Any, run: Any, _left: Any) -> None:
    call.table.storage.delete_folder(marker_folder(run.instant.requested_time))


def tidy_up_but_for_markers(storage: Storage, instant_time: str) -> None:
    intents.withdraw(storage, instant_time)
    storage.delete(heartbeat_path(instant_time))


def tidy_up_but_for_the_heartbeat(storage: Storage, instant_time: str) -> None:
    storage.delete_folder(marker_folder(instant_time))
    intents.withdraw(storage, instant_time)


def delete_pending_last(storage: Storage, path: str | None) -> None:
    """Of an instant that is rolled back only the completed file goes."""
    if path is not None and not path.endswith((".inflight", ".requested")):
        storage.delete(path)


# Attempts that outlive their writes, and what sweeps of later writes do about their files.

put_file_as_it_is = thin._put_file


def put_file_after_the_look(storage: Storage, target: Any, *rest: Any) -> None:
    if storage.info(heartbeat_path(target.instant_time)) is None:
        raise LockLostError("the write has ended")
    put_file_as_it_is(storage, target, *rest)


def check_that_removes_logs_of_slices(storage: Storage, target: Any, marker: Marker, **_: Any) -> None:
    check_write_is_running(storage, target, marker)


def sweep_of_pending_writes_too(view: FileSystemView) -> None:
    for info in list_data_files(view.storage):
        name = parse_data_file(info.name)
        if name is not None and not view.timeline.is_committed(name.instant_time):
            view.storage.delete(info.path)


def sweep_by_the_timeline_of_the_beginning(view: FileSystemView) -> None:
    known = {instant.requested_time for instant in view.timeline.instants}
    for info in list_data_files(view.storage):
        name = parse_data_file(info.name)
        if name is not None and name.instant_time not in known:
            view.storage.delete(info.path)


# Readers.

LISTED: dict[int, Any] = {}


def load_after_listing(storage: Storage) -> Any:
    LISTED[id(storage)] = list_data_files(storage)
    return load_table(storage)


def committed_files_that_replace_nothing(*call: Any, **named: Any) -> CommittedFiles:
    return replace(committed_files(*call, **named), replaced={})


def view_of_what_was_listed_before(storage: Storage, timeline: Timeline, *rest: Any) -> Any:
    files = LISTED.pop(id(storage), None)
    if files is None:
        return file_system_view.load_view(storage, timeline, *rest)
    return view_of(storage, timeline, files)


# Compaction.


def appends_to_the_newest_base_file(_self: Any, one: Any) -> str:
    return str(one.instant_time)


def logs_by_their_beginning(self: Timeline) -> dict[str, str]:
    return {one.requested_time: one.requested_time for one in self.completed_writes}


def footprint_of_nothing(_plan: Any) -> Footprint:
    return Footprint(kind=Other.COMPACTION_PLAN)


def reasons_to_keep_nothing(_: object, slices: Sequence[FileSlice], *__: object) -> list[str]:
    """Of a clean that keeps no slice of a group."""
    return ["" for _ in slices]


# Archiving.


def files_of_the_youngest_first(table: TableState, instants: Iterable[Instant]) -> dict[Instant, list[FileInfo]]:
    """The files of each instant under the instant that is archived at the other end."""
    found = files_of_as_it_is(table, instants)
    return dict(zip(found, reversed(list(found.values())), strict=True))


def completed_files_first(table: TableState, instants: Iterable[Instant]) -> dict[Instant, list[FileInfo]]:
    """The files of each instant in the wrong order."""
    return {instant: files[::-1] for instant, files in files_of_as_it_is(table, instants).items()}


def put_manifest_last(storage: Storage, version: TableVersion, files: Iterable[HistoryFile]) -> None:
    number = (current_manifest(storage, version) or 0) + 1
    storage.put(f"{version.history_folder}/{VERSION_FILE}", encode_version_file(number))
    storage.put(f"{version.history_folder}/{manifest_name(number)}", encode_manifest(files))


# Restores.


def rollback_of_nothing(*_args: Any, **_options: Any) -> RolledBack:
    return RolledBack(InstantTime("20260101000000000"), 0)


def audit_of_nothing(table: TableState, *_args: Any, **_options: Any) -> PastState:
    return PastState({}, tuple(list_data_files(table.storage)))


def create_plan_only(storage: Storage, path: str, data: bytes) -> None:
    """Put the plan of a merging, and not the merged file."""
    if path.endswith(MERGE_PLAN_FILE):
        create_as_it_is(storage, path, data)


def with_all_partitions(table: TableState, *_: Any, **__: Any) -> TableState:
    """A metadata table that nobody checks."""
    return table


def grounds_without_rows_read(other: Other, own: Own, version: TableVersion) -> frozenset[Ground]:
    return grounds_as_they_are(other, own, version) - {Ground.READ}


def slice_before_a_write_with_it(planner: Any, until: str, *, inclusive: bool) -> Any:
    del inclusive
    return counts_until_as_it_is(planner, until, inclusive=True)


def check_without_columns(*args: Any, **kwargs: Any) -> None:
    with patched((conflict_check, conflict_check.schemas_clash, always(False))):
        check_conflicts_as_it_is(*args, **kwargs)


def range_with_its_begin(position: str, begin: str, end: str | None) -> bool:
    return begin <= position and (end is None or position <= end)


# What one process remembers of its listings, while others write.

hand_on_as_it_is = remembered_files.hand_on_files


def remembered_under_any_timeline(storage: Storage, timeline: Timeline) -> Any:
    kept = remembered_files._kept.get(remembered_files.itself(storage))
    return None if kept is None else replace(kept, timeline=timeline)


def handed_on_from_any_timeline(storage: Storage, timeline: Timeline, completed: Instant, **files: Any) -> None:
    if (kept := remembered_under_any_timeline(storage, timeline)) is not None:
        remembered_files._keep(storage, kept)
    hand_on_as_it_is(storage, timeline, completed, **files)


def handed_on_without_own_files(storage: Storage, timeline: Timeline, completed: Instant, **_: Any) -> None:
    hand_on_as_it_is(storage, timeline, completed, added={}, removed={})
