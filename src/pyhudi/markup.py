"""Markup that is made of tags alone: what is text stays text, wherever it comes from."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_ITEMS_MAX = 20
_EMPTY_TAGS = frozenset({"meta", "input", "rect", "circle", "line"})


class Html(str):
    """Text that is markup, made by `tag`. All other text is escaped."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """An element. Children and values of attributes are escaped, unless they are `Html`; None leaves an attribute out.

    An underscore at the end of an attribute's name goes (`class_`), others become hyphens.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _EMPTY_TAGS and not children:
        return Html(f"<{name}{given}/>")
    return Html(f"<{name}{given}>{joined(children)}</{name}>")


def joined(parts: Iterable[object]) -> Html:
    """Parts one after the other."""
    return Html("".join(part if isinstance(part, Html) else escaped(part) for part in parts))


def escaped(value: object) -> str:
    """Text in which no character is markup, controls a terminal or turns the direction of writing."""
    return html.escape(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(value)), quote=True)


def table(caption: str, head: Iterable[object], rows: Iterable[Iterable[object]]) -> Html:
    """A table that scrolls sideways where it is too wide, by keys, too."""
    header = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in head)))
    body = tag("tbody", *(tag("tr", *(tag("td", cell) for cell in row)) for row in rows))
    inner = tag("table", tag("caption", caption), header, body)
    return tag("div", inner, class_="wide", tabindex="0", role="region", aria_label=caption)


def facts(title: str, rows: Iterable[tuple[str, object]]) -> Html:
    """Names and their values as a table, as notebooks show one thing."""
    lines = (tag("tr", tag("th", name), tag("td", _words(value))) for name, value in rows)
    return tag("table", tag("caption", title), tag("tbody", *lines))


def _words(value: object) -> object:
    """A value for eyes. Markup stays what it is."""
    match value:
        case None:
            return "none"
        case bool() | str():
            return value
        case int():
            return f"{value:,}"
        case tuple() | list():
            more = f" and {len(value) - _ITEMS_MAX:,} more" if len(value) > _ITEMS_MAX else ""
            return (", ".join(map(str, value[:_ITEMS_MAX])) or "none") + more
    return value


class Shown:
    """A dataclass of results, which notebooks show as a table of its values."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        values: Any = self
        rows = [(field.name.strip("_").replace("_", " "), getattr(self, field.name)) for field in fields(values)]
        return facts(type(self).__name__, rows)


def bar(part: float, whole: float, label: str) -> Html:
    """A bar that is `part` of `whole`, with its words."""
    share = 0.0 if not whole else min(1.0, part / whole)
    filled = tag("rect", x="0", y="0", width=f"{share * 100:.2f}", height="10", class_="part", fill="#0969da")
    drawn = tag(
        *("svg", filled), viewBox="0 0 100 10", preserveAspectRatio="none", class_="bar", width="128", height="11",
        role="img", aria_label=label,
    )  # fmt: skip
    return tag("span", drawn, label, class_="barred")
