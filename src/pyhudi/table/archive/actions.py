"""The archived actions of one kind with their metadata, for who looks at the history of cleans and rollbacks."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.format.timeline.lsm_history import HISTORY_BYTES_MAX, parse_history_file
from pyhudi.storage.bounded import read_at_most
from pyhudi.table.archive.history import history_files, times_in
from pyhudi.table.archive.logs import logged_instants
from pyhudi.table.state import TableState

_ACTIONS = frozenset(action.value for action in Action)


def archived_bodies(table: TableState, action: Action) -> Iterator[tuple[Instant, bytes, str]]:
    """The archived instants of an action, newest first: each with the bytes of its file, and where these are.

    Cost: three reads, and one per archive file as far as the caller iterates. Raises `CorruptDataError` naming a
    damaged file, and `UnsupportedFeatureError` in table version 6, whose archive keeps no such bytes.
    """
    storage, version = table.storage, table.version
    if not version.has_completion_times:
        raise UnsupportedFeatureError(
            f"the archive of table version {version.number} does not keep the metadata of a {action.value} as they "
            "were: upgrade the table (CALL upgrade_table), or look at the active timeline only",
            path=storage.uri,
        )
    for file in sorted(history_files(storage, version), key=attrgetter("max_time"), reverse=True):
        path = f"{version.history_folder}/{file.name}"
        entries = parse_history_file(read_at_most(storage, path, HISTORY_BYTES_MAX), path=path)
        for entry in reversed(list(entries)):
            if entry.action == action.value and entry.metadata:
                yield _completed(entry.instant_time, action.value, entry.completion_time), entry.metadata, path


def archived_instants(table: TableState, *, since: str = "") -> list[Instant]:
    """The archived instants, newest first; older ones than `since` only where they are in a file with newer ones.

    Cost: as `archived_bodies`, without metadata; once per process and file.
    """
    storage, version = table.storage, table.version
    if version.has_completion_times:
        files = (file for file in history_files(storage, version) if file.max_time >= since)
        times = [time for file in files for time in times_in(storage, version, file)]
    else:
        times = [(instant.instant_time, None, instant.action) for instant in logged_instants(storage, version)]
    known = {(time, completed, action) for time, completed, action in times if action in _ACTIONS}
    found = [_completed(time, action, completed) for time, completed, action in known]
    return sorted(found, key=lambda action: (action.requested_time, action.action), reverse=True)


def _completed(time: str, action: str, completed: str | None) -> Instant:
    return Instant(
        InstantTime(time), Action(action), InstantState.COMPLETED, None if completed is None else InstantTime(completed)
    )
