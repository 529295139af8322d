"""The timeline as lanes, one for each kind of action: what is drawn does not grow with the number of instants."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final

from pyhudi.format.timeline.instant import Action, Instant, InstantState, format_instant_time, parse_instant_time

PLACES: Final = 250
"""A lane has so many places; instants that begin in one are drawn as one."""
_LANES: Final = (
    ("writes", (Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT)),
    ("compactions", (Action.COMPACTION, Action.LOG_COMPACTION)),
    ("clusterings", (Action.CLUSTERING,)),
    ("cleans", (Action.CLEAN,)),
    ("rollbacks and restores", (Action.ROLLBACK, Action.RESTORE)),
    ("savepoints", (Action.SAVEPOINT,)),
    ("index builds", (Action.INDEXING,)),
)
_LANE_OF: Final = {action: name for name, actions in _LANES for action in actions}


@dataclass(frozen=True, slots=True)
class Mark:
    """Instants of a lane that begin in the same place, from the `first` to the `last`.

    `begin_ms` and `end_ms` are in milliseconds since the epoch; `end_ms` is that of the one which completed last.
    """

    first: Instant
    last: Instant
    count: int
    is_completed: bool
    begin_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class Lane:
    """What happened of one kind: how many instants, how many of them are pending, and what is drawn."""

    name: str
    instants: int
    pending: int
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of a timeline, and the moments that its first instant began at and its last one ended at."""

    begin_ms: int
    end_ms: int
    lanes: tuple[Lane, ...]


def lanes_of(instants: Sequence[Instant], zone: tzinfo | None, *, is_merge_on_read: bool) -> Lanes:
    """The lanes of these instants, which are sorted by time. The commits of a merge-on-read table are its compactions.

    Times are compared as text, and only those of what is drawn are taken apart.
    """
    times = (parse_instant_time(instant.requested_time, zone) for instant in instants)
    begin = next((time for time in times if time is not None), 0)  # that of a bootstrap is no time
    newest = max((instant.completion_time or instant.requested_time for instant in instants), default="")
    end = max(begin, parse_instant_time(newest, zone) or 0)
    ends_of_places = [
        format_instant_time(begin + (end - begin) * place // PLACES, zone) for place in range(1, PLACES + 1)
    ]
    lanes = {**_LANE_OF, Action.COMMIT: "compactions"} if is_merge_on_read else _LANE_OF
    together: defaultdict[tuple[str, int, bool], list[Instant]] = defaultdict(list)
    for instant in instants:
        place = bisect_right(ends_of_places, instant.requested_time)
        together[lanes[instant.action], place, instant.state is InstantState.COMPLETED].append(instant)
    marks: defaultdict[str, list[Mark]] = defaultdict(list)
    for (name, _, is_completed), group in sorted(together.items(), key=lambda item: item[0]):
        marks[name].append(_mark(group, zone, is_completed=is_completed))
    return Lanes(begin, end, tuple(_lane(name, tuple(marks[name])) for name, _ in _LANES if name in marks))


def _mark(group: Sequence[Instant], zone: tzinfo | None, *, is_completed: bool) -> Mark:
    ended = max(instant.completion_time or instant.requested_time for instant in group)
    begin_ms, end_ms = (parse_instant_time(time, zone) or 0 for time in (group[0].requested_time, ended))
    return Mark(group[0], group[-1], len(group), is_completed, begin_ms, end_ms)


def _lane(name: str, marks: tuple[Mark, ...]) -> Lane:
    pending = sum(mark.count for mark in marks if not mark.is_completed)
    return Lane(name, sum(mark.count for mark in marks), pending, marks)
