"""Pictures of a table in SVG. They have no text but titles: words stand beside them, at their full size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from pyhudi.api.display import bytes_text
from pyhudi.inspector.lanes import PLACES, Lane, Lanes
from pyhudi.inspector.writes import Column, GroupEvent, amplification
from pyhudi.markup import Html, joined, tag

_WIDTH: Final = 1000
_WINDOW: Final = 20
"""The write amplification is drawn over so many columns."""


def lanes(timeline: Lanes) -> Html:
    """The timeline: a lane for each kind of mark that there is, with pending instants of their own colour."""
    place = _places(timeline.begin_ms, timeline.end_ms)
    return joined(_lane(lane, place) for lane in timeline.lanes)


def _lane(lane: Lane, place: Callable[[int], float]) -> Html:
    words = f"{lane.name}: {lane.instants:,}" + (f", {lane.pending:,} pending" if lane.pending else "")
    least = _WIDTH / PLACES - 1
    drawn = [
        _rect(
            begin := place(mark.begin_ms) * (1 - 1 / PLACES),
            2,
            max(least, place(mark.end_ms) - begin),
            16,
            mark.kind,
            mark.words,
        )
        for mark in lane.marks
    ]
    return tag("div", tag("span", words), _svg(drawn, 20, words), class_="lane")


def rows_over_time(columns: Sequence[Column]) -> Html:
    """Rows that writes inserted, updated and deleted, one on the other."""
    most = max((column.inserted + column.updated + column.deleted for column in columns), default=0)
    drawn = []
    for at, column in enumerate(columns):
        top = 100.0
        counts = (("inserted", column.inserted), ("updated", column.updated), ("deleted", column.deleted))
        title = f"{column.writes}: " + ", ".join(f"{count:,} {kind}" for kind, count in counts)
        for kind, count in counts:
            height = 100 * count / most if most else 0
            top -= height
            if count:
                drawn.append(_rect(*_column(at, len(columns), top), height, kind, title))
    return _with_words(drawn, f"rows, at most {most:,} in one column")


def bytes_over_time(columns: Sequence[Column]) -> Html:
    """The bytes that writes wrote, and in front of them those that they changed."""
    most = max((column.bytes_written for column in columns), default=0)
    drawn = []
    for at, column in enumerate(columns):
        title = f"{column.writes}: {bytes_text(column.bytes_written)} for {bytes_text(column.bytes_changed)}"
        for kind, size in (("written", column.bytes_written), ("changed", column.bytes_changed)):
            height = 100 * min(size, most) / most if most else 0
            drawn.append(_rect(*_column(at, len(columns), 100 - height), height, kind, title))
    return _with_words(drawn, f"bytes, at most {bytes_text(most)} in one column")


def amplification_over_time(columns: Sequence[Column]) -> Html:
    """The write amplification of each column and the 19 before it, which a compaction among them belongs to."""
    ratios = [amplification(columns[max(0, at - _WINDOW + 1) : at + 1]) for at in range(len(columns))]
    most = max((ratio for ratio in ratios if ratio is not None), default=0.0)
    drawn = []
    for at, (column, ratio) in enumerate(zip(columns, ratios, strict=True)):
        if ratio is not None:
            height = 100 * ratio / most
            title = f"until {column.writes}: {ratio:,.1f}"
            drawn.append(_rect(*_column(at, len(columns), 100 - height), height, "ratio", title))
    return _with_words(drawn, f"write amplification of each column with the 19 before it, at most {most:,.1f}")


def _with_words(drawn: Sequence[Html], words: str) -> Html:
    """A picture of columns, and what its height is."""
    return joined([_svg(drawn, 100, words), tag("p", f"{words[0].upper()}{words[1:]}.", class_="soft")])


def life(events: Sequence[GroupEvent], first: int, last: int) -> Html:
    """The life of a file group: base files, logs, and what replaced it."""
    place, drawn = _places(first, last), []
    for event in events:
        title = f"{event.kind} {event.instant}" + (f", {bytes_text(event.bytes)}" if event.bytes else "")
        kind = event.kind.replace(" ", "-")
        drawn.append(_rect(place(event.begin_ms) * 0.99, *_LIFE[event.kind], kind, title))
    counts = Counter(event.kind for event in events)
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
