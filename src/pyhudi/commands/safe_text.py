"""Texts of a table that are safe to write to a terminal."""

from __future__ import annotations

import unicodedata

_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Control characters, formats (which turn the direction of a line, or are not seen), lone surrogates, line ends."""


def safe_text(text: str, *, keeps_lines: bool = False) -> str:
    r"""A text with `\x1b` for what would move the cursor, colour the screen, turn or hide what is written.

    `keeps_lines`: line feeds stay as they are.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if _is_safe(char) or (keeps_lines and char == "\n") else _escaped(char) for char in text)


def _is_safe(char: str) -> bool:
    return unicodedata.category(char) not in _UNSAFE


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def columns_of(text: str) -> int:
    """How many columns of a terminal a safe text takes."""
    if text.isascii():
        return len(text)
    return sum(_width(char) for char in text)


def _width(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1
