"""Pictures of a table in SVG. They have no text but titles: words stand beside them, at their full size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from pyhudi.api.display import bytes_text
from pyhudi.inspector.facts import GroupEvent, Moment, Write
from pyhudi.markup import Html, joined, tag

_WIDTH: Final = 1000
_CELLS: Final = 250
"""A lane has so many places; instants that fall on one are drawn as one."""
_LANES: Final = (
    ("writes", ("commit", "deltacommit", "replacecommit")),
    ("compactions", ("compaction", "logcompaction")),
    ("clusterings", ("clustering",)),
    ("cleans", ("clean",)),
    ("rollbacks and restores", ("rollback", "restore")),
    ("savepoints", ("savepoint",)),
    ("index builds", ("indexing",)),
)


def lanes(moments: Sequence[Moment], *, is_merge_on_read: bool) -> Html:
    """The timeline: a lane for each kind of action that there is, with pending instants of their own colour.

    The commits of a merge-on-read table are its compactions.
    """
    if not moments:
        return tag("p", "There is no instant yet.")
    first = min(one.begin_ms for one in moments)
    last = max(max(one.begin_ms, one.end_ms or 0) for one in moments)
    place = _places(first, last)
    rows = []
    for name, actions in _LANES:
        inside = [one for one in moments if _action_of_lane(one, is_merge_on_read) in actions]
        if inside:
            pending = sum(one.state != "completed" for one in inside)
            words = f"{name}: {len(inside):,}" + (f", {pending:,} pending" if pending else "")
            rows.append(tag("div", tag("span", words), _lane(inside, place, words), class_="lane"))
    return joined(rows)


def _action_of_lane(one: Moment, is_merge_on_read: bool) -> str:
    return "compaction" if is_merge_on_read and one.action == "commit" else one.action


def _lane(moments: Sequence[Moment], place: Callable[[int], float], words: str) -> Html:
    cells: dict[tuple[int, bool], list[Moment]] = {}
    for one in moments:
        cell = int(place(one.begin_ms) / _WIDTH * (_CELLS - 1))
        cells.setdefault((cell, one.state == "completed"), []).append(one)
    drawn = []
    for (cell, completed), group in sorted(cells.items()):
        begin = cell * _WIDTH / _CELLS
        end = max(place(one.end_ms or one.begin_ms) for one in group)
        width = max(_WIDTH / _CELLS - 1, end - begin)
        title = _title_of(group)
        drawn.append(_rect(begin, 2, width, 16, "done" if completed else "pending", title))
    return _svg(drawn, 20, words)


def _title_of(group: Sequence[Moment]) -> str:
    one = group[0]
    if len(group) > 1:
        return f"{len(group):,} instants from {one.instant} to {group[-1].instant}"
    took = "" if one.end_ms is None else f", {max(0, one.end_ms - one.begin_ms) / 1000:,.1f} s"
    return f"{one.action} {one.instant}, {one.state}{took}"


def rows_over_time(writes: Sequence[Write]) -> Html:
    """A bar for each write: rows that it inserted, updated and deleted, one on the other."""
    most = max((one.inserted + one.updated + one.deleted for one in writes), default=0)
    drawn = []
    for at, one in enumerate(writes):
        top = 100.0
        counts = (("inserted", one.inserted), ("updated", one.updated), ("deleted", one.deleted))
        title = f"{one.operation} {one.instant}: " + ", ".join(f"{count:,} {kind}" for kind, count in counts)
        for kind, count in counts:
            height = 100 * count / most if most else 0
            top -= height
            if count:
                drawn.append(_rect(*_column(at, len(writes), top), height, kind, title))
    return _svg(drawn, 100, f"rows of {len(writes)} writes, at most {most:,} in one")


def bytes_over_time(writes: Sequence[Write]) -> Html:
    """A bar for each write: the bytes that it wrote, and in front of them those that it changed."""
    most = max((one.bytes_written for one in writes), default=0)
    drawn = []
    for at, one in enumerate(writes):
        title = f"{one.operation} {one.instant}: {bytes_text(one.bytes_written)} for {bytes_text(one.bytes_changed)}"
        for kind, size in (("written", one.bytes_written), ("changed", one.bytes_changed)):
            height = 100 * min(size, most) / most if most else 0
            drawn.append(_rect(*_column(at, len(writes), 100 - height), height, kind, title))
    return _svg(drawn, 100, f"bytes of {len(writes)} writes, at most {bytes_text(most)} in one")


def life(events: Sequence[GroupEvent], first: int, last: int) -> Html:
    """The life of a file group: base files, logs, and what replaced it."""
    place, drawn = _places(first, last), []
    for one in events:
        title = f"{one.kind} {one.instant}" + (f", {bytes_text(one.bytes)}" if one.bytes else "")
        kind = one.kind.replace(" ", "-")
        drawn.append(_rect(place(one.begin_ms) * 0.99, *_LIFE[one.kind], kind, title))
    counts = Counter(one.kind for one in events)
    return _svg(drawn, 20, ", ".join(f"{count} {kind}" for kind, count in counts.items()))


_LIFE: Final = {"base file": (2, 10, 16), "log": (8, 6, 10), "replaced": (0, 4, 20)}
"""Of each event of a file group: where it begins from above, its width and its height."""


def _places(first: int, last: int) -> Callable[[int], float]:
    span = max(1, last - first)
    return lambda ms: max(0.0, min(1.0, (ms - first) / span)) * _WIDTH


def _column(at: int, count: int, top: float) -> tuple[float, float, float]:
    width = _WIDTH / max(1, count)
    return at * width, top, min(width * 0.8, 24)


def _rect(x: float, y: float, width: float, height: float, kind: str, title: str) -> Html:
    where = {"x": f"{x:.1f}", "y": f"{y:.1f}", "width": f"{width:.1f}", "height": f"{height:.1f}"}
    return tag("rect", tag("title", title), class_=kind, **where)


def _svg(drawn: Sequence[Html], height: int, label: str) -> Html:
    view = f"0 0 {_WIDTH} {height}"
    return tag(
        "svg", *drawn, viewBox=view, preserveAspectRatio="none", role="img", aria_label=label, class_=f"high{height}"
    )
