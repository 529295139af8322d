"""Savepoints of the active timeline: the states of the table that services must leave readable."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from pyhudi.errors import HistoryNotRetainedError, InvalidRequestError
from pyhudi.format.avro.container import CONTAINER_BYTES_MAX
from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.metadata.savepoint import SavepointMetadata, decode_savepoint_metadata
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.storage.bounded import read_decoded
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.archive.writes import load_archived_writes
from pyhudi.table.file_system_view import FileSystemView, view_of
from pyhudi.table.timeline import WRITE_ACTIONS, Timeline, instant_path, position_of

_PLANS = frozenset({Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING})


def load_savepoints(storage: Storage, timeline: Timeline) -> Mapping[str, SavepointMetadata]:
    """The completed savepoints by the requested time of the write that each keeps.

    Cost: one read per savepoint. Raises `CorruptDataError` naming a damaged one.
    """
    return {
        instant.requested_time: read_decoded(
            storage, instant_path(instant, timeline.version), CONTAINER_BYTES_MAX, decode_savepoint_metadata
        )
        for instant in timeline.instants
        if instant.action is Action.SAVEPOINT and instant.state is InstantState.COMPLETED
    }


def savepoint_named(savepoints: Mapping[str, SavepointMetadata], name: str) -> str | None:
    """The instant time of the savepoint with this name; None if no savepoint has it. Pure."""
    return next((instant_time for instant_time, savepoint in savepoints.items() if savepoint.name == name), None)


def completed_write(timeline: Timeline, instant_time: str) -> Instant:
    """The completed write of the active timeline with this time. Raises `InvalidRequestError` where there is none."""
    for instant in timeline.completed_writes:
        if instant.requested_time == instant_time:
            return instant
    known = {instant.state for instant in timeline.instants if instant.requested_time == instant_time}
    if known:
        reason = "the write of this instant is not completed, or it is no write"
    elif timeline.starts_after(instant_time):
        reason = "this instant is older than the active timeline: it was archived, or never was"
    else:
        reason = "no write of the table has this instant time, and no savepoint this name"
    raise InvalidRequestError(f"{reason}; nothing was changed", instant=instant_time, earliest=timeline.first_time)


def newest_write(timeline: Timeline) -> InstantTime | None:
    """The requested time of the write that completed last; None in a table without writes."""
    newest = max(timeline.completed_writes, key=position_of, default=None)
    return None if newest is None else newest.requested_time


def state_after(timeline: Timeline, write: Instant) -> Timeline:
    """The timeline as it was when a write had completed: without what came later."""
    kept = tuple(instant for instant in timeline.instants if not comes_after(instant, write))
    return Timeline(timeline.version, kept, timeline.foreign)


def view_after(storage: Storage, timeline: Timeline, write: Instant, files: Iterable[FileInfo]) -> FileSystemView:
    """The view of these data files of the whole table as it was when a write had completed.

    Raises `HistoryNotRetainedError` for logs of table version 6 where later writes are archived: their names do not
    tell whose rows they have. Cost: as `view_of`, and the archive, once per process.
    """
    archived, listed = archived_after(storage, timeline, write), tuple(files)
    if archived and not timeline.version.has_completion_times:
        log = next((info for info in listed if isinstance(parse_data_file(info.name), LogFileName)), None)
        if log is not None:
            raise HistoryNotRetainedError(
                "later writes are archived, so that the state after this one can no longer be told from theirs",
                instant=write.requested_time,
                archived=min(archived),
                path=log.path,
            )
    later = archived | {instant.requested_time for instant in timeline.instants if comes_after(instant, write)}
    return view_of(storage, state_after(timeline, write), (info for info in listed if not _is_of(info, later)))


def archived_after(storage: Storage, timeline: Timeline, write: Instant) -> frozenset[str]:
    """The archived writes that completed after a write of the active timeline: they may have begun long before it.

    Cost: the archive, once per process.
    """
    active = {instant.requested_time for instant in timeline.instants}
    completed = load_archived_writes(storage, timeline.version).completed
    late = (time for time, position in completed.items() if position > position_of(write))
    return frozenset(late) - active


def _is_of(info: FileInfo, instant_times: Collection[str]) -> bool:
    name = parse_data_file(info.name)
    return name is not None and name.instant_time in instant_times


def comes_after(instant: Instant, write: Instant) -> bool:
    """Whether a write or a plan came after a completed write: not completed by then, or not planned before it.

    A write that is pending now was pending then, too, if it had begun. In table version 6, which has no completion
    times, requested times take their place, as for all readers of that version. False for all other actions.
    """
    if instant.action in _PLANS:
        return instant.requested_time > write.requested_time
    if instant.action not in WRITE_ACTIONS:
        return False
    return instant.state is not InstantState.COMPLETED or position_of(instant) > position_of(write)
