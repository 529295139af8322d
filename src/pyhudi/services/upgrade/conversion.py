"""The active and the archived timeline in the layout of another version, a file at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from pyhudi.format.avro.container import MAGIC, decode_container
from pyhudi.format.metadata.avro_schemas import COMMIT_METADATA, REPLACE_COMMIT_METADATA
from pyhudi.format.metadata.commit import commit_record, decode_commit_metadata, encode_commit_metadata
from pyhudi.format.metadata.replace import decode_requested_replace_metadata
from pyhudi.format.timeline.archived_log import ARCHIVE_BYTES_MAX, is_archive_file, parse_archive_file
from pyhudi.format.timeline.archived_log_writing import (
    ArchivedState,
    archive_file_name,
    archived_state,
    content_of,
    encode_archive_file,
    encode_values,
    parse_archived_states,
)
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime, completed_action
from pyhudi.format.timeline.lsm_history import (
    HAVE_PLANS,
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
from pyhudi.format.timeline.table_version import MetadataEncoding, TableVersion
from pyhudi.storage.bounded import read_at_most
from pyhudi.storage.protocol import Storage
from pyhudi.table.archive.history import history_files
from pyhudi.table.timeline import WRITE_ACTIONS

_PLANNED_AS: Final = {
    Action.COMMIT: Action.COMPACTION,
    Action.DELTA_COMMIT: Action.LOG_COMPACTION,
    Action.REPLACE_COMMIT: Action.REPLACE_COMMIT,
    Action.CLEAN: Action.CLEAN,
}
"""The action of version 6 whose plan a completed action has."""
_NO_VERSION: Final[Mapping[str, None]] = {"version": None}
"""As in the records of JVM Hudi, where the field is null."""


@dataclass(frozen=True, slots=True)
class InstantFile:
    """A file of the active timeline. `reached` is when it was put, as an instant time."""

    instant: Instant
    data: bytes = field(repr=False)
    reached: InstantTime
    path: str


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
        elif instant.state is InstantState.REQUESTED and instant.action in HAVE_PLANS:
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


def in_other_layout(
    files: Iterable[InstantFile], target: TableVersion, bounds: Mapping[str, str]
) -> tuple[tuple[Instant, bytes], ...]:
    """The instants and contents that the files of one requested time have in the target version.

    `bounds`: by the requested time of a completed write that of the next one (`completion_in_version_8`).

    Raises:
        CorruptDataError: the content of a file is damaged.
    """
    files = tuple(files)
    clusters = target.has_clustering_action and any(map(_plans_clustering, files))
    return tuple((_instant_in(file, target, bounds, clusters=clusters), _body_in(file, target)) for file in files)


def _plans_clustering(file: InstantFile) -> bool:
    instant = file.instant
    if instant.state is not InstantState.REQUESTED or instant.action is not Action.REPLACE_COMMIT or not file.data:
        return False
    return decode_requested_replace_metadata(file.data, path=file.path).clustered is not None


def _instant_in(file: InstantFile, target: TableVersion, bounds: Mapping[str, str], *, clusters: bool) -> Instant:
    instant = file.instant
    if instant.state is InstantState.COMPLETED:
        has_time = target.has_completion_times
        completion = completion_in_version_8(instant, file.reached, bounds) if has_time else None
        return replace(instant, completion_time=completion)
    if clusters and instant.action is Action.REPLACE_COMMIT:
        return replace(instant, action=Action.CLUSTERING)
    return instant


def completion_in_version_8(instant: Instant, reached: str, bounds: Mapping[str, str]) -> InstantTime:
    """The completion time of an instant of version 6: when its completed file was put, as in JVM Hudi.

    From version 8 on completion times order the writes, and decide to which slice a log belongs. In version 6 instant
    times do. A copied table has files that are all younger than its writes; so a time that would not lie between the
    write and the next one is not taken, but the instant time itself.
    """
    own = instant.requested_time
    bound = bounds.get(own) if instant.action in WRITE_ACTIONS else None
    return InstantTime(reached) if own < reached and (bound is None or reached < bound) else own


def _body_in(file: InstantFile, target: TableVersion) -> bytes:
    instant, data = file.instant, file.data
    if instant.action not in WRITE_ACTIONS or instant.state is InstantState.REQUESTED or not data:
        return data
    if target.metadata_encoding is MetadataEncoding.JSON:
        metadata = decode_commit_metadata(data, path=file.path)
        if instant.state is not InstantState.COMPLETED or instant.action is not Action.REPLACE_COMMIT:
            metadata = replace(metadata, replaced_file_ids=None)
        return encode_commit_metadata(metadata, target)
    if data.startswith(MAGIC):
        return data
    decode_commit_metadata(data, path=file.path)  # checks the types and the paths
    is_replacement = instant.action is Action.REPLACE_COMMIT and instant.state is InstantState.COMPLETED
    schema = REPLACE_COMMIT_METADATA if is_replacement else COMMIT_METADATA
    values = {**commit_record(data, path=file.path).values, **_NO_VERSION}
    if is_replacement and values.get("partitionToReplaceFileIds") is None:
        values["partitionToReplaceFileIds"] = {}
    return encode_values(schema, values, path=file.path)


def write_bounds(times: Iterable[str]) -> dict[str, str]:
    """By the requested time of each write that of the next one."""
    ordered = sorted(set(times))
    return dict(pairwise(ordered))
