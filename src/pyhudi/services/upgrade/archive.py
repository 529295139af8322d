"""The archived timeline in the other layout, a file at a time: archive logs of version 6, history files from 8 on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pyhudi.format.avro.container import decode_container
from pyhudi.format.metadata.avro_schemas import COMMIT_METADATA
from pyhudi.format.timeline.archived_log import ARCHIVE_BYTES_MAX, is_archive_file, parse_archive_file
from pyhudi.format.timeline.archived_log_writing import (
    ArchivedState,
    archive_file_name,
    archived_state,
    content_of,
    encode_archive_file,
    parse_archived_states,
)
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime, completed_action
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
    parse_history_rows,
)
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.services.upgrade.layout import completion_in_version_8
from pyhudi.storage.bounded import read_at_most
from pyhudi.storage.protocol import Storage
from pyhudi.table.archive.history import history_files
from pyhudi.table.timeline import WRITE_ACTIONS

_HAVE_PLANS: Final = frozenset(
    {Action.CLEAN, Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING, Action.REPLACE_COMMIT}
)
_PLANNED_AS: Final = {
    Action.COMMIT: Action.COMPACTION,
    Action.DELTA_COMMIT: Action.LOG_COMPACTION,
    Action.REPLACE_COMMIT: Action.REPLACE_COMMIT,
    Action.CLEAN: Action.CLEAN,
}
"""The action of version 6 whose plan a completed action has."""


def archive_logs(storage: Storage, version: TableVersion) -> tuple[str, ...]:
    """The paths of the archive logs of version 6, in the order of their numbers."""
    names = [name for name in storage.list_names(version.history_folder) if is_archive_file(name)]
    return tuple(f"{version.history_folder}/{name}" for name in sorted(names, key=lambda name: (len(name), name)))


def archived_write_times(storage: Storage, version: TableVersion) -> set[str]:
    """The requested times of the writes in the archive of version 6. Cost: a read per archive log."""
    actions = {action.value for action in WRITE_ACTIONS}
    return {
        instant.instant_time
        for path in archive_logs(storage, version)
        for instant in parse_archive_file(read_at_most(storage, path, ARCHIVE_BYTES_MAX), path=path)
        if instant.action in actions
    }


def put_history(storage: Storage, origin: TableVersion, target: TableVersion, bounds: Mapping[str, str]) -> None:
    """Put the history of version 8 with what the archive of version 6 has. What the archive repeats is taken once.

    Cost: a read and a put per archive log, and two puts.
    """
    known: set[tuple[InstantTime, Action]] = set()
    files: dict[str, HistoryFile] = {}
    for path in archive_logs(storage, origin):
        data = read_at_most(storage, path, ARCHIVE_BYTES_MAX)
        rows = tuple(_rows_of(parse_archived_states(data, path=path), known, bounds))
        if not rows:
            continue
        level = 0
        while (name := history_file_name((row.instant_time for row in rows), level)) in files:
            level += 1
        content = encode_history_file(rows)
        storage.put(f"{target.history_folder}/{name}", content)
        times = [InstantTime(row.instant_time) for row in rows]
        files[name] = HistoryFile(name, len(content), min(times), max(times), level)
    if files:
        storage.put(f"{target.history_folder}/{manifest_name(1)}", encode_manifest(files.values()))
        storage.put(f"{target.history_folder}/{VERSION_FILE}", encode_version_file(1))


def _rows_of(
    states: Iterable[ArchivedState], known: set[tuple[InstantTime, Action]], bounds: Mapping[str, str]
) -> Iterator[HistoryRow]:
    """The completed instants among the states of one file, each with its plan; those that are new."""
    plans: dict[tuple[InstantTime, Action], ArchivedState] = {}
    completed: dict[tuple[InstantTime, Action], ArchivedState] = {}
    for state in states:
        instant = state.instant
        key = (instant.requested_time, completed_action(instant.action))
        if instant.state is InstantState.COMPLETED:
            completed.setdefault(key, state)
        elif instant.state is InstantState.REQUESTED and instant.action in _HAVE_PLANS:
            plans.setdefault(key, state)
    for key, state in completed.items():
        if key in known:
            continue
        known.add(key)
        plan = plans.get(key)
        yield HistoryRow(
            instant_time=key[0],
            completion_time=completion_in_version_8(state.instant, state.reached, bounds),
            action=key[1].value,
            metadata=content_of(state),
            plan=(content_of(plan) or None) if plan is not None else None,
        )


def put_archive_logs(storage: Storage, origin: TableVersion, target: TableVersion) -> None:
    """Put the archive of version 6 with what the history has, one archive log per history file, oldest first.

    Cost: two reads, and a read and a put per history file.
    """
    files = sorted(history_files(storage, origin), key=lambda file: (file.min_time, file.name))
    for number, file in enumerate(files, 1):
        path = f"{origin.history_folder}/{file.name}"
        rows = parse_history_rows(read_at_most(storage, path, HISTORY_BYTES_MAX), path=path)
        states = [state for row in rows for state in _states_of(row, path)]
        name = f"{target.history_folder}/{archive_file_name(number)}"
        storage.put(name, encode_archive_file(states, path=name))


def _states_of(row: HistoryRow, path: str) -> Iterator[ArchivedState]:
    time, action = InstantTime(row.instant_time), Action(row.action)
    if row.plan is not None and action in _PLANNED_AS:
        # Of an overwrite, JVM Hudi keeps the workload profile of the inflight instant in the place of a plan.
        is_profile = decode_container(row.plan, path=path).name == COMMIT_METADATA["name"]
        state = InstantState.INFLIGHT if is_profile else InstantState.REQUESTED
        yield archived_state(Instant(time, _PLANNED_AS[action], state), row.plan, row.instant_time, path=path)
    completed = Instant(time, action, InstantState.COMPLETED)
    yield archived_state(completed, row.metadata, row.completion_time, path=path)
