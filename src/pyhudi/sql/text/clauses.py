"""Clauses that several statements have: lists of properties, texts, partitions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyhudi.sql.text.tokens import Cursor, Slice, Token

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def text_value(cursor: Cursor, *, is_single: bool = False) -> str:
    """Take a text in quotes, and give its value by Spark's rules: texts side by side are one, unless it `is_single`."""
    token = cursor.token
    if token is None or not token.is_text:
        cursor.fail("a text in quotes is expected")
    parts: list[str] = []
    end = None
    while (token := cursor.token) is not None and token.is_text and not (is_single and end not in (None, token.start)):
        if end == token.start:  # 'it''s'
            parts.append(cursor.text[token.start])
        parts.append(_unescaped(cursor.text, token))
        end = token.end
        cursor.position += 1
    return "".join(parts)


def _unescaped(text: str, token: Token) -> str:
    written = text[token.start : token.end]
    if written[0] in "rR":
        return written[2:-1]
    return _ESCAPE.sub(_escaped, written[1:-1])


def _escaped(found: re.Match[str]) -> str:
    short, long, octal, sign = found.groups()
    if sign is not None:
        return _ESCAPED.get(sign, sign)
    return chr(int(octal, 8)) if octal else chr(int(short or long, 16))


def properties(cursor: Cursor) -> dict[str, str]:
    """Take `(name = 'value', …)`. Names are words with dots or texts; values are texts, numbers, or single words."""
    return dict(_pairs(cursor.parenthesised()))


def _pairs(inner: Cursor) -> Iterator[tuple[str, str]]:
    for pair in inner.listed():
        name = property_name(pair)
        pair.accept("=")
        yield name, property_value(pair)
        pair.end()


def property_name(cursor: Cursor) -> str:
    """Take the name of a property: a text, or words with dots."""
    if cursor.token is not None and cursor.token.is_text:
        return text_value(cursor, is_single=True)  # the value may follow without a sign between
    return str(cursor.name())


def property_value(cursor: Cursor) -> str:
    """Take the value of a property."""
    token = cursor.token
    if token is not None and token.is_text:
        return text_value(cursor)
    written = cursor.until()
    if not written:
        cursor.fail("a value is expected")
    lowered = written.text.lower()
    return lowered if lowered in ("true", "false") else written.text


def column_names(cursor: Cursor) -> tuple[str, ...]:
    """Take `(a, b, …)`: names of columns."""
    names = []
    for part in cursor.parenthesised().listed():
        names.append(part.identifier())
        part.end()
    return tuple(names)


def partition_spec(cursor: Cursor) -> tuple[tuple[str, Slice | None], ...]:
    """Take `(a = 1, b)`: columns, each with the expression of its value, if it has one."""
    spec: list[tuple[str, Slice | None]] = []
    inner = cursor.parenthesised()
    if inner.token is None:
        inner.fail("a partition column is expected")
    for part in inner.listed():
        name = part.identifier()
        spec.append((name, part.until() if part.accept("=") else None))
        part.end()
    return tuple(spec)


def partition_values(cursor: Cursor) -> tuple[tuple[str, Slice | None], ...]:
    """Take `(a = 1, b = 2)`: columns with the expressions of their values, which name partitions that are there."""
    spec = partition_spec(cursor)
    for name, value in spec:
        if not value:
            cursor.fail(f"the partition column {name!r} has no value: write {name} = …")
    return spec
