"""Parsers that turn the text of an option into its value and describe the legal values."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pyhudi.config.java_patterns import java_pattern
from pyhudi.errors import UnsupportedFeatureError

NOT_BUILT = "is not built yet in this release"
"""The end of a sentence in the reason of a refused value."""

T = TypeVar("T")
E = TypeVar("E", bound=enum.Enum)


@dataclass(frozen=True, slots=True)
class Parser(Generic[T]):
    """How the text of an option becomes a value.

    `read` raises ValueError for illegal text, and `UnsupportedFeatureError` for values that only JVM Hudi supports.
    `legal` describes the legal values. Blanks around the text are removed first, unless the parser `sees_blanks`.
    """

    read: Callable[[str], T]
    legal: str
    sees_blanks: bool = False


def text(legal: str = "text") -> Parser[str]:
    """Non-empty text."""
    return Parser(_not_empty, legal)


def python_name() -> Parser[str]:
    """Something that can be imported, as `module:Name`; a dot before the name is read, too."""
    return Parser(_python_name, "an importable Python name, as package.module:Name")


def any_text() -> Parser[str]:
    """Text, possibly empty."""
    return Parser(str, "text")


def boolean(*, refused: Mapping[str, str] | None = None) -> Parser[bool]:
    """`true` or `false`, in any case."""
    legal = [choice for choice in ("true", "false") if choice.upper() not in (refused or {})]
    return Parser(_refusing(_boolean, refused or {}), " or ".join(legal))


_LONG_MAX = 2**63 - 1
"""The largest number that JVM Hudi and the storage libraries accept."""


def integer(*, minimum: int, unit: str = "") -> Parser[int]:
    """A decimal integer of at least `minimum`; `unit` only appears in the description."""

    def read(value: str) -> int:
        number = int(value)
        if not minimum <= number <= _LONG_MAX:
            raise ValueError(value)
        return number

    return Parser(read, f"a whole number{' of ' + unit if unit else ''}, at least {minimum}")


def fraction(*, up_to_one: bool = True) -> Parser[float]:
    """A number above 0, and below or at 1 if `up_to_one`."""

    def read(value: str) -> float:
        number = float(value)
        if not math.isfinite(number) or number <= 0 or (up_to_one and number > 1):
            raise ValueError(value)
        return number

    return Parser(read, "a number above 0 and up to 1" if up_to_one else "a number above 0")


def column_names(*, may_be_empty: bool = False) -> Parser[tuple[str, ...]]:
    """Distinct names, separated by commas, in order."""

    def read(value: str) -> tuple[str, ...]:
        if not value and may_be_empty:
            return ()
        names = tuple(name.strip() for name in value.split(","))
        if not all(names) or len(set(names)) != len(names):
            raise ValueError(value)
        return names

    empty = ", or empty for none" if may_be_empty else ""
    return Parser(read, f"column names separated by commas, each once{empty}")


def partition_paths() -> Parser[tuple[str, ...]]:
    """Partition paths separated by commas; `*` in them matches any characters.

    Blanks around a path are illegal, because they could be part of the path or of the list.
    """

    def read(value: str) -> tuple[str, ...]:
        names = tuple(value.split(","))
        if not all(names) or len(set(names)) != len(names) or any(name != name.strip() for name in names):
            raise ValueError(value)
        return names

    return Parser(read, "partition paths separated by commas, each once, without blanks around them", sees_blanks=True)


def regular_expression() -> Parser[str]:
    """A pattern for `java_pattern`, kept as text."""

    def read(value: str) -> str:
        java_pattern(_not_empty(value))
        return value

    return Parser(read, "a regular expression, without sets in sets and flags")


def one_of(choices: Iterable[E], *, refused: Mapping[str, str] | None = None) -> Parser[E]:
    """A member of an enumeration, by its value in any case; `refused` maps values of JVM Hudi to reasons."""
    choices = tuple(choices)
    by_text = {str(member.value).upper(): member for member in choices}

    def read(value: str) -> E:
        member = by_text.get(value.upper())
        if member is None:
            raise ValueError(value)
        return member

    legal = [str(member.value) for member in choices if str(member.value).upper() not in (refused or {})]
    return Parser(_refusing(read, refused or {}), "one of " + ", ".join(legal))


def parser_of_default(default: Any) -> Parser[Any]:
    """The parser of an option that has a truth value, or a member of an enumeration, as its default."""
    if isinstance(default, bool):
        return boolean()
    if isinstance(default, enum.Enum):
        return one_of(type(default))
    raise TypeError("an option needs a parser, if its default is no truth value and no member of an enumeration")


def fixed(value: str, *, refused: Mapping[str, str]) -> Parser[str]:
    """Exactly one value, in any case; `refused` maps values of JVM Hudi to reasons."""

    def read(given: str) -> str:
        if given.lower() != value:
            raise ValueError(given)
        return value

    return Parser(_refusing(read, refused), value)


def _refusing(read: Callable[[str], T], refused: Mapping[str, str]) -> Callable[[str], T]:
    """Wrap `read` so that refused texts (in upper case) raise an error with their reason."""
    if any(text != text.upper() for text in refused):
        raise ValueError(f"refused texts are declared in upper case: {', '.join(refused)}")

    def refuse_or_read(value: str) -> T:
        if (reason := refused.get(value.upper())) is not None:
            raise UnsupportedFeatureError(reason)
        return read(value)

    return refuse_or_read


def _not_empty(value: str) -> str:
    if not value:
        raise ValueError(value)
    return value


def _boolean(value: str) -> bool:
    lower = value.lower()
    if lower not in {"true", "false"}:
        raise ValueError(value)
    return lower == "true"


_PYTHON_NAME = re.compile(r"((?:[^\W\d]\w*\.)*[^\W\d]\w*)[:.]([^\W\d]\w*)")


def _python_name(value: str) -> str:
    found = _PYTHON_NAME.fullmatch(value)
    if found is None or value.startswith("org.apache."):
        raise ValueError(value)
    return f"{found.group(1)}:{found.group(2)}"
