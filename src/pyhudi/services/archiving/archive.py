"""Archiving: completed instants leave the active timeline for the archived one, of table versions 8 and 9.

The order of the steps lets a reader find each instant at any time, in one of the two or in both: a history file, the
manifest that names it, the version file that names the manifest, and only then the deletion of the instants' files,
oldest first. A run that dies leaves instants in both; the next one finds them in the archive, and only deletes their
files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from pyhudi.config.enums import TableType
from pyhudi.errors import NotFoundError, UnsupportedFeatureError
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.timeline.instant import (
    Action,
    Instant,
    InstantState,
    InstantTime,
    completed_action,
    parse_instant_file_name,
)
from pyhudi.format.timeline.lsm_history import (
    HISTORY_BYTES_MAX,
    VERSION_FILE,
    HistoryFile,
    HistoryRow,
    encode_history_file,
    encode_manifest,
    encode_version_file,
    history_file_name,
    manifest_name,
    merge_history_files,
    parse_manifest_name,
)
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.services.archiving.bounds import Needed, archivable
from pyhudi.services.call import ServiceCall
from pyhudi.services.cleaning.plan import earliest_retained, last_clean
from pyhudi.services.compaction.schedule import newest_compaction
from pyhudi.services.due import Due
from pyhudi.storage.bounded import read_at_most
from pyhudi.storage.protocol import Storage
from pyhudi.table.features import check_writable
from pyhudi.table.history import current_manifest, history_files, times_in
from pyhudi.table.instant_times import table_zone
from pyhudi.table.metadata_table import has_metadata_table
from pyhudi.table.state import TableState
from pyhudi.table.timeline import instant_path
from pyhudi.table.written_files import load_written_files
from pyhudi.transaction.conflicts.check import check_nothing_exclusive
from pyhudi.transaction.conflicts.table import Own
from pyhudi.transaction.locks.table_lock import table_lock

_HAVE_PLANS = frozenset(
    {Action.CLEAN, Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING, Action.REPLACE_COMMIT}
)
"""Actions whose requested file says what they are going to do; it goes into the archive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """What an archiving did: how many instants left the active timeline, and the oldest and newest of them."""

    instants: int
    first: InstantTime
    last: InstantTime


def planned_archiving(call: ServiceCall) -> tuple[Instant, ...]:
    """The instants that would be archived now, oldest first.

    Cost: one read for the last clean and per replacement that this process does not know; in a merge-on-read table one
    per commit since the newest compaction; a listing of each partition in which an older write replaced file groups.
    """
    return archivable(call.table.timeline, call.config.archiving, _needed(call))


def archive(call: ServiceCall) -> Archived | None:
    """Archive what may leave the active timeline; None where nothing may.

    Raises `UnsupportedFeatureError` for a table of version 6, whose archive this release reads and does not write.
    Cost: one or two reads and two or three deletes per instant, three puts, and the table lock.
    """
    call = call.reloaded()
    if not call.table.version.has_completion_times:
        raise UnsupportedFeatureError(
            "archives of table version 6 are read and not written: archive with JVM Hudi, or upgrade the table",
            table=call.table.config.name,
        )
    check_writable(call.table)
    if not planned_archiving(call):
        return None
    storage = call.table.storage
    with table_lock(storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        call = call.reloaded()
        check_nothing_exclusive(call.table.timeline, Own.ARCHIVING)
        instants = planned_archiving(call)
        if not instants or has_metadata_table(call.table):
            return None
        files = _files_of(call.table, instants)
        known = _archived_already(storage, call.table.version, instants)
        new = [one for one in instants if (one.requested_time, one.action.value) not in known]
        lock.check_held()
        if new:
            _publish(storage, call.table.version, [_row(storage, one, files[one], call.table.version) for one in new])
        for instant in instants:
            lock.check_held()
            for path in files[instant]:
                storage.delete(path)
        _merge(call)
        _forget_manifests(call)
    return Archived(instants=len(instants), first=instants[0].requested_time, last=instants[-1].requested_time)


def archiving_due(call: ServiceCall) -> Due:
    """Whether the active timeline is longer than the options say. Cost: nothing."""
    if not call.table.version.has_completion_times:
        return Due(False, "archives of table version 6 are read and not written")
    completed, allowed = len(call.table.timeline.completed_writes), call.config.archiving.max_commits
    return Due(
        completed > allowed, f"{completed} completed commits on the active timeline; more than {allowed} are too many"
    )


def _needed(call: ServiceCall) -> Needed:
    table = call.table
    cleans = [one for one in table.timeline.instants if one.action is Action.CLEAN]
    retained = earliest_retained(
        table.timeline,
        call.config.cleaning,
        last_clean(table.storage, table.timeline),
        now_ms=call.environment.clock.now_ms(),
        zone=table_zone(table.config),
    )
    return Needed(
        earliest_retained=None if retained is None else retained.requested_time,
        replacement=_first_replacement(table, call.config.archiving.min_commits),
        compaction=_compaction_to_count_from(call),
        last_clean=max((one.requested_time for one in cleans if one.state is InstantState.COMPLETED), default=None),
    )


def _first_replacement(table: TableState, kept: int) -> str | None:
    """The oldest replacement before the newest `kept` writes of whose file groups there are still files.

    The files themselves are asked for: what a clean has passed it may have spared, for a savepoint or for a plan.
    """
    older = [one for one in table.timeline.completed_writes[:-kept] if one.action is Action.REPLACE_COMMIT]
    listed: dict[str, set[str]] = {}
    for write, files in sorted(
        load_written_files(table.storage, table.version, older).items(), key=lambda found: found[0].requested_time
    ):
        for partition, replaced in files.replaced.items():
            if partition not in listed:
                names = (parse_data_file(info.name) for info in table.storage.list_folder(partition).files)
                listed[partition] = {name.file_id for name in names if name is not None}
            if not listed[partition].isdisjoint(replaced):
                return write.requested_time
    return None


def _compaction_to_count_from(call: ServiceCall) -> str | None:
    """The newest compaction, unless so many delta commits follow it that the next one is due anyway."""
    table = call.table
    newest = newest_compaction(table) if table.config.table_type is TableType.MERGE_ON_READ else None
    if newest is None:
        return None
    writes = table.timeline.completed_writes
    follow = sum(one.action is Action.DELTA_COMMIT and one.requested_time > newest for one in writes)
    return newest if follow < call.config.compaction.max_delta_commits else None


def _files_of(table: TableState, instants: Iterable[Instant]) -> dict[Instant, list[str]]:
    """The files of each instant in the order in which they may go: the completed one last."""
    wanted = {(one.requested_time, one.action): one for one in instants}
    found: dict[Instant, list[tuple[InstantState, str]]] = defaultdict(list)
    for name in table.storage.list_names(table.version.timeline_folder):
        parsed = parse_instant_file_name(name, table.version)
        if parsed is not None:
            instant = wanted.get((parsed.requested_time, completed_action(parsed.action)))
            if instant is not None:
                found[instant].append((parsed.state, f"{table.version.timeline_folder}/{name}"))
    return {instant: [path for _, path in sorted(found[instant])] for instant in wanted.values()}


def _row(storage: Storage, instant: Instant, files: list[str], version: TableVersion) -> HistoryRow:
    plan = None
    for path in files:
        parsed = parse_instant_file_name(path.rpartition("/")[2], version)
        if parsed is not None and parsed.state is InstantState.REQUESTED and parsed.action in _HAVE_PLANS:
            plan = storage.read(path) or None
    metadata = storage.read(instant_path(instant, version))
    return HistoryRow(instant.requested_time, instant.completion_time or "", instant.action.value, metadata, plan)


def _archived_already(storage: Storage, version: TableVersion, instants: tuple[Instant, ...]) -> set[tuple[str, str]]:
    """Which of these instants a run that died has archived before it could delete their files."""
    first, last = instants[0].requested_time, instants[-1].requested_time
    spanning = [file for file in history_files(storage, version) if file.min_time <= last and file.max_time >= first]
    return {(time, action) for file in spanning for time, _, action in times_in(storage, version, file)}


def _publish(storage: Storage, version: TableVersion, rows: list[HistoryRow]) -> None:
    """Add a history file to the archived timeline."""
    name = history_file_name((row.instant_time for row in rows), 0)
    data = encode_history_file(rows)
    storage.put(f"{version.history_folder}/{name}", data)
    _put_manifest(storage, version, [*history_files(storage, version), _history_file(name, data, rows, 0)])


def _history_file(name: str, data: bytes, rows: list[HistoryRow], level: int) -> HistoryFile:
    times = [InstantTime(row.instant_time) for row in rows]
    return HistoryFile(name, len(data), min(times), max(times), level)


def _put_manifest(storage: Storage, version: TableVersion, files: Iterable[HistoryFile]) -> None:
    """Make these files the archived timeline: readers find them once the version file names their manifest."""
    number = (current_manifest(storage, version) or 0) + 1
    storage.put(f"{version.history_folder}/{manifest_name(number)}", encode_manifest(files))
    storage.put(f"{version.history_folder}/{VERSION_FILE}", encode_version_file(number))


def _merge(call: ServiceCall) -> None:
    """Merge the files of a level into one of the next where there are enough, so that their number stays small."""
    storage, version, batch = call.table.storage, call.table.version, call.config.archiving.merge_batch
    files = history_files(storage, version)
    for level in _levels(files):
        of_level = sorted((one for one in files if one.level == level), key=lambda one: one.min_time)
        if len(of_level) < batch:
            continue
        chosen = of_level[:batch]
        contents = (read_at_most(storage, f"{version.history_folder}/{one.name}", HISTORY_BYTES_MAX) for one in chosen)
        data, times = merge_history_files(contents, path=version.history_folder)
        name = history_file_name(times, level + 1)
        storage.put(f"{version.history_folder}/{name}", data)
        merged = HistoryFile(name, len(data), InstantTime(min(times)), InstantTime(max(times)), level + 1)
        files = (*(one for one in files if one not in chosen), merged)
        _put_manifest(storage, version, files)


def _levels(files: Iterable[HistoryFile]) -> Iterator[int]:
    level = 0
    while level <= max((file.level for file in files), default=-1):
        yield level
        level += 1


def _forget_manifests(call: ServiceCall) -> None:
    """Delete manifests that no reader opens any more, and the history files that only they name."""
    storage, version = call.table.storage, call.table.version
    current = current_manifest(storage, version)
    if current is None:
        return
    numbers = [parse_manifest_name(name) for name in storage.list_names(version.history_folder)]
    old = sorted(n for n in numbers if n is not None and n <= current - call.config.archiving.manifests_retained)
    if not old:
        return
    kept = _named_by(storage, version, (n for n in numbers if n is not None and n not in old))
    for file in _named_by(storage, version, old) - kept:
        storage.delete(f"{version.history_folder}/{file}")
    for number in old:
        storage.delete(f"{version.history_folder}/{manifest_name(number)}")


def _named_by(storage: Storage, version: TableVersion, manifests: Iterable[int]) -> set[str]:
    names: set[str] = set()
    for number in manifests:
        with suppress(NotFoundError):
            names |= {file.name for file in history_files(storage, version, manifest=number)}
    return names
