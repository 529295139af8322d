"""Procedures that show the timeline, or copy it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from pyhudi.errors import ConfigError
from pyhudi.format.avro.container import MAGIC, decode_container
from pyhudi.format.metadata.rollback import decode_rollback_metadata
from pyhudi.format.timeline.instant import (
    Action,
    Instant,
    InstantState,
    completed_action,
    instant_file_name,
    parse_instant_time,
)
from pyhudi.sql.procedures.call_context import CallContext, Given
from pyhudi.sql.procedures.declared import (
    FILTER,
    TABLE,
    TABLE_OR_PATH,
    Rows,
    flag,
    needed,
    number,
    procedure,
    text,
)
from pyhudi.sql.procedures.looks import StateTimes, body_of, completed, state_times
from pyhudi.table.archive.actions import archived_bodies, archived_instants
from pyhudi.table.instant_times import table_zone
from pyhudi.table.state import TableState

_EXPORTED = "clean,commit,deltacommit,rollback,savepoint,restore"


@procedure(
    *TABLE_OR_PATH,
    number("limit", 20),
    flag("showArchived", False),
    FILTER,
    text("startTime", ""),
    text("endTime", ""),
    answer="instant_time string, action string, state string, requested_time string, inflight_time string, "
    "completed_time string, timeline_type string, rollback_info string",
    limits_rows=lambda given: not (given.text("startTime") and given.text("endTime")),
)
def show_timeline(context: CallContext, given: Given) -> Rows:
    """The instants of the timeline, newest first, and when they were requested, began and ended."""
    table = context.table(given).handle.state
    first, last = given.text("startTime").strip(), given.text("endTime").strip()
    times, undone = state_times(table), _rolled_back(table)
    active = [(instant, "ACTIVE") for instant in reversed(table.timeline.instants)]
    archived = [(instant, "ARCHIVED") for instant in archived_instants(table)] if given.flag("showArchived") else []
    known = {(instant.requested_time, instant.action) for instant, _ in active}
    both = [
        *active,
        *((instant, kind) for instant, kind in archived if (instant.requested_time, instant.action) not in known),
    ]
    rows = sorted(both, key=lambda row: (row[0].requested_time, row[0].state), reverse=True)
    within = [row for row in rows if row[0].requested_time >= first and (not last or row[0].requested_time <= last)]
    for instant, kind in within:
        yield (
            instant.requested_time,
            instant.action.value,
            instant.state.name,
            *_state_texts(table, instant, times),
            kind,
            (", ".join(undone[instant.requested_time]) if instant.requested_time in undone else None),
        )


def _state_texts(table: TableState, instant: Instant, times: StateTimes) -> tuple[str, str, str]:
    """When the instant was requested, began and was completed: by its files; by its name, where these are archived."""
    made = times.get((instant.requested_time, completed_action(instant.action)))
    if made is not None:
        return tuple(_shown(made.get(state)) for state in InstantState)  # type: ignore[return-value]
    zone = table_zone(table.config)
    began = _shown(parse_instant_time(instant.requested_time, zone))
    ended = None if instant.completion_time is None else parse_instant_time(instant.completion_time, zone)
    return began, "-", _shown(ended)


def _shown(ms: int | None) -> str:
    return "-" if ms is None else datetime.fromtimestamp(ms / 1000).astimezone().strftime("%m-%d %H:%M:%S")


def _rolled_back(table: TableState) -> Mapping[str, list[str]]:
    """The rollbacks of each instant, and under the rollback's own time what it rolled back."""
    found: dict[str, list[str]] = defaultdict(list)
    for rollback in completed(table, Action.ROLLBACK):
        data, path = body_of(table, rollback)
        undone = decode_rollback_metadata(data, path=path).instant_time
        found[rollback.requested_time].append(f"Rolled back: {undone}")
        found[undone].append(f"Rolled back by: {rollback.requested_time}")
    return found


@procedure(
    TABLE,
    needed("local_folder"),
    number("limit", -1),
    text("actions", _EXPORTED),
    flag("desc", False),
    answer="export_detail string",
)
def export_instants(context: CallContext, given: Given) -> Rows:
    """Copies the metadata of completed instants to a folder, as JSON; a plain path is one of the driver."""
    table = context.table(given).handle.state
    folder = given.text("local_folder")
    target = context.storage(folder)
    actions = {_action(word) for word in given.words("actions")}
    limit = given.number("limit")
    found = list(_bodies(table, actions))
    found.sort(key=lambda row: row[0].requested_time, reverse=given.flag("desc"))
    chosen = found if limit < 0 else found[:limit]
    for instant, data, path in chosen:
        target.put(instant_file_name(instant, table.version), _as_json(data, path))
    yield (f"Exported {len(chosen)} Instants to {folder}",)


def _bodies(table: TableState, actions: set[Action]) -> Iterator[tuple[Instant, bytes, str]]:
    for action in sorted(actions):
        for instant in completed(table, action):
            yield instant, *body_of(table, instant)
        if table.version.has_completion_times:
            active = {instant.requested_time for instant in completed(table, action)}
            for archived in archived_bodies(table, action):
                if archived[0].requested_time not in active:
                    yield archived


def _action(word: str) -> Action:
    if word not in {action.value for action in Action}:
        raise ConfigError(f"actions must be some of {', '.join(action.value for action in Action)}", action=word)
    return Action(word)


def _as_json(data: bytes, path: str) -> bytes:
    if not data.startswith(MAGIC):
        return data
    return json.dumps(decode_container(data, path=path).values, default=_json_value, indent=2).encode()


def _json_value(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
