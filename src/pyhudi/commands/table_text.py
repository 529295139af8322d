"""Rows as a table for eyes: columns side by side, or one line for each value where the terminal is too narrow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from pyhudi.commands.safe_text import columns_of, safe_text

_GAP = "  "
_SHORTEST_COLUMN = 12
"""A column is not shortened below so many characters; before that, each row becomes a block of lines."""


def cell_text(value: Any) -> str:
    """A value in one line, safe for a terminal; `null` where there is none."""
    match value:
        case None:
            return "null"
        case bool():
            text = "true" if value else "false"
        case bytes():
            text = value.hex()
        case list() | dict() | tuple():
            text = json.dumps(value, default=json_value, ensure_ascii=False, separators=(",", ":"))
        case _:
            text = str(value)
    return safe_text(text)


def json_value(value: Any) -> Any:
    """What stands in JSON for a value of another type: ISO texts of times, hexadecimal text of bytes, exact decimals.

    Raises `TypeError` for a type that no column has.
    """
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes():
            return value.hex()
        case Decimal():
            return str(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def table_lines(
    names: Sequence[str], rows: Sequence[Sequence[Any]], *, width: int | None, dots: str = "…"
) -> Iterator[str]:
    """The lines of a table: its names, and the rows below them; numbers stand on the right.

    Values that are too long for the terminal are shortened in their middle. Where that is not enough, each row becomes
    a block with a line for each value, which loses nothing. `width`: the columns of the terminal; None: any number.
    """
    titles = [safe_text(name) for name in names]
    cells = [[cell_text(value) for value in row] for row in rows]
    widths = [max(map(columns_of, column)) for column in zip(titles, *cells, strict=True)]
    fitted = _fitted(widths, width)
    if fitted is None:
        yield from _blocks(titles, cells)
        return
    on_right = [
        any(_is_number(row[place]) for row in rows)
        and all(row[place] is None or _is_number(row[place]) for row in rows)
        for place in range(len(names))
    ]
    for line in (titles, *cells):
        placed = [
            _padded(_shortened(cell, size, dots), size, on_right=right)
            for cell, size, right in zip(line, fitted, on_right, strict=True)
        ]
        yield _GAP.join(placed).rstrip()


def record_lines(values: dict[str, Any]) -> Iterator[str]:
    """A line for each name and its value."""
    size = max((columns_of(safe_text(name)) for name in values), default=0)
    for name, value in values.items():
        yield f"{_padded(safe_text(name), size, on_right=False)}{_GAP}{cell_text(value)}".rstrip()


def _fitted(widths: list[int], width: int | None) -> list[int] | None:
    """The widths of the columns within that of the terminal, the widest ones shortened; None where it is too narrow."""
    if width is None:
        return widths
    room = width - len(_GAP) * (len(widths) - 1)
    if sum(min(size, _SHORTEST_COLUMN) for size in widths) > room:
        return None
    limit = max(widths, default=0)
    while sum(min(size, limit) for size in widths) > room:
        limit -= 1
    return [min(size, limit) for size in widths]


def _blocks(titles: Sequence[str], cells: Sequence[Sequence[str]]) -> Iterator[str]:
    size = max(map(columns_of, titles))
    for number, row in enumerate(cells, start=1):
        yield f"-- {number} --"
        for title, cell in zip(titles, row, strict=True):
            yield f"{_padded(title, size, on_right=False)}{_GAP}{cell}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _padded(text: str, size: int, *, on_right: bool) -> str:
    room = " " * (size - columns_of(text))
    return f"{room}{text}" if on_right else f"{text}{room}"


def _shortened(text: str, size: int, dots: str) -> str:
    """The text with dots in its middle, if it is longer than `size`: both ends of a file's name tell something."""
    if columns_of(text) <= size:
        return text
    room = size - len(dots)
    begin = _taken(text, room - room // 2)
    end = _taken(text[::-1], room // 2)[::-1]
    return f"{begin}{dots}{end}"


def _taken(text: str, size: int) -> str:
    """As much of the text's begin as fits into `size` columns."""
    taken = 0
    for place, char in enumerate(text):
        taken += columns_of(char)
        if taken > size:
            return text[:place]
    return text
