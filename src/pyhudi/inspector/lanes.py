"""The timeline as lanes, one for each kind of action: what is drawn does not grow with the number of instants."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Final

from pyhudi.format.timeline.instant import Action, Instant, InstantState, format_instant_time, parse_instant_time
from pyhudi.inspector.attempts import Overlap, RolledBack

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
_OVERLAPS: Final = "writers at the same time"
_ROLLED_BACK: Final = "writes that were rolled back"
_NAMES: Final = ("writes", _OVERLAPS, _ROLLED_BACK, *(name for name, _ in _LANES[1:]))


@dataclass(frozen=True, slots=True)
class Mark:
    """Instants of a lane that begin in the same place: how many, and what they are in words.

    `kind` is "done", "pending", "rolled-back" or "overlap". `begin_ms` and `end_ms` are in milliseconds since the
    epoch; `end_ms` is that of the one which ended last.
    """

    kind: str
    words: str
    count: int
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
    """The lanes of a timeline, and the moments that its first instant began at and its last one ended at.

    `begin` and `end` are these moments in words.
    """

    begin: str
    end: str
    begin_ms: int
    end_ms: int
    lanes: tuple[Lane, ...]


@dataclass(frozen=True, slots=True)
class _Span:
    """Something that is drawn in a lane: from one time of the timeline to another, and what it is."""

    lane: str
    kind: str
    begin: str
    end: str
    what: Instant | RolledBack | Overlap


def lanes_of(
    instants: Sequence[Instant],
    zone: tzinfo | None,
    rolled_back: Sequence[RolledBack] = (),
    overlaps: Sequence[Overlap] = (),
    *,
    is_merge_on_read: bool,
) -> Lanes:
    """The lanes of these instants, which are sorted by time. The commits of a merge-on-read table are its compactions.

    Times are compared as text, and only those of what is drawn are taken apart.
    """
    lanes = {**_LANE_OF, Action.COMMIT: "compactions"} if is_merge_on_read else _LANE_OF
    spans = [_span_of(lanes[instant.action], instant) for instant in instants]
    spans += [_span_of_attempt(attempt) for attempt in rolled_back]
    spans += [_Span(_OVERLAPS, "overlap", overlap.write.requested_time, overlap.until, overlap) for overlap in overlaps]
    spans.sort(key=lambda span: span.begin)
    times = (parse_instant_time(span.begin, zone) for span in spans)
    begin = next((time for time in times if time is not None), 0)  # that of a bootstrap is no time
    end = max(begin, parse_instant_time(max((span.end for span in spans), default=""), zone) or 0)
    ends_of_places = [
        format_instant_time(begin + (end - begin) * place // PLACES, zone) for place in range(1, PLACES + 1)
    ]
    together: defaultdict[tuple[str, int, str], list[_Span]] = defaultdict(list)
    for span in spans:
        together[span.lane, bisect_right(ends_of_places, span.begin), span.kind].append(span)
    marks: defaultdict[str, list[Mark]] = defaultdict(list)
    for (name, _, _), group in sorted(together.items(), key=lambda item: item[0]):
        marks[name].append(_mark(group, zone))
    drawn = tuple(_lane(name, tuple(marks[name])) for name in _NAMES if name in marks)
    return Lanes(_moment(begin, zone), _moment(end, zone), begin, end, drawn)


def _span_of(lane: str, instant: Instant) -> _Span:
    kind = "done" if instant.state is InstantState.COMPLETED else "pending"
    return _Span(lane, kind, instant.requested_time, instant.completion_time or instant.requested_time, instant)


def _span_of_attempt(attempt: RolledBack) -> _Span:
    ended = max(attempt.instant, attempt.rollback.requested_time)
    return _Span(_ROLLED_BACK, "rolled-back", attempt.instant, ended, attempt)


def _words(what: Instant | RolledBack | Overlap) -> str:
    match what:
        case Instant():
            return f"{what.action} {what.requested_time}, {what.state.name.lower()}"
        case RolledBack():
            return f"{what.action} {what.instant}, rolled back by {what.rollback.requested_time}"
    return f"{what.write.requested_time} began while {what.earlier.requested_time} was written"


def _mark(group: Sequence[_Span], zone: tzinfo | None) -> Mark:
    first, last = group[0], group[-1]
    begin_ms, end_ms = (parse_instant_time(time, zone) or 0 for time in (first.begin, max(span.end for span in group)))
    if len(group) > 1:
        words = f"{len(group):,} from {first.begin} to {last.begin}"
    else:
        words = _words(first.what) + (f", {(end_ms - begin_ms) / 1000:,.1f} s" if end_ms > begin_ms else "")
    return Mark(first.kind, words, len(group), begin_ms, end_ms)


def _lane(name: str, marks: tuple[Mark, ...]) -> Lane:
    pending = sum(mark.count for mark in marks if mark.kind == "pending")
    return Lane(name, sum(mark.count for mark in marks), pending, marks)


def _moment(ms: int, zone: tzinfo | None) -> str:
    """A moment for eyes, in the zone of the table."""
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S") if ms else ""
