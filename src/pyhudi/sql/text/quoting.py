"""The quoting of names and values that pyhudi puts into texts of SQL, and of columns under their table's full name."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.sql.text.tokens import Slice, Token, tokens_of

_CONTROL = {0: "\\0", 10: "\\n", 13: "\\r", 9: "\\t", 26: "\\Z", 8: "\\b"}
FullNames = Mapping[tuple[str, ...], str]
"""Names of several parts in lower case, each with the alias of the rows."""


def quoted_name(*parts: str) -> str:
    """A name of one or several parts, in backticks."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def quoted_text(value: str) -> str:
    """A text as a literal. Backslashes and quotes cannot end it, whatever the text holds."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + "".join(_CONTROL.get(ord(sign), sign) for sign in escaped) + "'"


def literal(value: Any) -> str:
    """A Python value as a literal of Spark SQL.

    Raises:
        UnsupportedFeatureError: the value has a type that has no literal.
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return quoted_text(value)
    for kind, written in _LITERALS.items():
        if isinstance(value, kind):
            return written(value)
    raise UnsupportedFeatureError(
        f"a value of the type {type(value).__name__} cannot be an argument of this statement: write it as SQL",
        type=type(value).__name__,
    )


def _timestamp(value: dt.datetime) -> str:
    """A time without a zone is one of the session's zone, as for `pyspark.sql.functions.lit`."""
    return f"TIMESTAMP {quoted_text(value.isoformat(sep=' '))}"


def _float(value: float) -> str:
    return f"{value!r}D" if math.isfinite(value) else f"DOUBLE({quoted_text(str(value))})"


def _integer(value: int) -> str:
    return str(value) if -(2**31) <= value < 2**31 else f"{value}L" if -(2**63) < value < 2**63 else f"{value}BD"


_LITERALS: dict[type, Callable[[Any], str]] = {
    int: _integer,
    float: _float,
    Decimal: lambda value: f"{value:f}BD",
    bytes: lambda value: f"X'{value.hex()}'",
    dt.datetime: _timestamp,
    dt.date: lambda value: f"DATE {quoted_text(value.isoformat())}",
}


def qualifiers(tokens: Sequence[Token], called: FullNames) -> Iterator[tuple[int, int, str]]:
    """The places of full names that a dot and a column follow: start, end, and what stands for the name there."""
    done = 0
    for at, token in enumerate(tokens):
        if token.start < done or (at and tokens[at - 1].is_word(".")):
            continue
        for parts in sorted(called, key=len, reverse=True):
            these = tokens[at : at + 2 * len(parts)]
            if (
                len(these) == 2 * len(parts)
                and all(sign.is_word(".") for sign in these[1::2])
                and tuple("" if name.is_text else name.value.lower() for name in these[::2]) == parts
            ):
                done = these[-2].end
                yield token.start, done, quoted_name(called[parts])
                break


def with_aliases(called: FullNames, part: Slice) -> Slice:
    """An expression with the aliases of tables in the place of their full names."""
    if not called or part.text.count(".") < 2:
        return part
    pieces, done = list[str](), 0
    for start, end, alias in qualifiers(tokens_of(part.text), called):
        pieces += [part.text[done:start], alias]
        done = end
    return Slice("".join([*pieces, part.text[done:]]), part.start)
