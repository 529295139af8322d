"""Regular expressions of options, which are Java's: translated, or refused where Python would read them otherwise."""

from __future__ import annotations

import functools
import re
import warnings
from typing import Final

_CLASSES: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Space": r" \t\n\x0b\f\r",
    "XDigit": "0-9a-fA-F",
    "ASCII": r"\x00-\x7f",
}
"""Java's classes of ASCII characters, as a set has them."""
_CLASS: Final = re.compile(r"\\([pP])\{(\w+)\}")
_NAMED_GROUP: Final = re.compile(r"\(\?<([A-Za-z][A-Za-z0-9]*)>")
_SAME_GROUP: Final = re.compile(r"\(\?(?::|=|!|<=|<!|>)")
_COUNT: Final = re.compile(r"\{\d+(,\d*)?\}")
_FLAGS: Final = "(?i)"
_OF_JAVA_ALONE: Final = frozenset("pPQERXhHvVGzZkNce0bB")
"""Letters after a backslash that mean something else for Java, or nothing for one of the two. The bounds of words (`b`)
depend on its release."""


@functools.lru_cache(maxsize=64)
def java_pattern(text: str) -> re.Pattern[str]:
    r"""The pattern of a regular expression of Java. `\w`, `\d`, `\s` and `(?i)` mean ASCII, as there.

    Named groups and the classes of ASCII characters (`\p{Alpha}`) are translated.

    Raises:
        ValueError: it is none, or has what Java reads in another way: sets in sets and `&&`, other classes of
            characters, bounds of words, quoting by `\Q`, flags but `(?i)` at the beginning.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Python warns of sets that it may read otherwise one day
            return re.compile(_translated(text), re.ASCII)
    except (re.error, FutureWarning, RecursionError, OverflowError) as error:
        raise ValueError(text) from error


def _translated(text: str) -> str:
    at = len(_FLAGS) if text.startswith(_FLAGS) else 0
    parts = [text[:at]]
    set_began: int | None = None
    while at < len(text):
        sign, rest = text[at], text[at : at + 2]
        if sign == "\\":
            part, length = _escape(text, at, in_set=set_began is not None)
        elif set_began is not None:
            if sign == "[" or rest == "&&":
                raise ValueError(text)
            if sign == "]" and text[set_began:at] not in ("[", "[^"):
                set_began = None
            part, length = sign, 1
        elif rest == "(?":
            part, length = _group(text, at)
        elif sign == "{" and _COUNT.match(text, at) is None:  # itself for Python, and an error for Java
            raise ValueError(text)
        else:
            set_began = at if sign == "[" else None
            part, length = sign, 1
        parts.append(part)
        at += length
    return "".join(parts)


def _escape(text: str, at: int, *, in_set: bool) -> tuple[str, int]:
    """What stands for an escape, and the length of the escape."""
    named = _CLASS.match(text, at)
    if named is not None and named[2] in _CLASSES and not (in_set and named[1] == "P"):
        signs = _CLASSES[named[2]]
        part = signs if in_set else f"[{'^' if named[1] == 'P' else ''}{signs}]"
        return part, len(named[0])
    letter = text[at + 1 : at + 2]
    if letter in _OF_JAVA_ALONE or (in_set and letter.isdigit()):
        raise ValueError(text)
    return text[at : at + 2], 2


def _group(text: str, at: int) -> tuple[str, int]:
    """What stands for the beginning of a group with a `?`, and the length of it."""
    if (named := _NAMED_GROUP.match(text, at)) is not None:
        return f"(?P<{named[1]}>", len(named[0])
    if (same := _SAME_GROUP.match(text, at)) is not None:
        return same[0], len(same[0])
    raise ValueError(text)
