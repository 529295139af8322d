"""The quoting of names and values that pyhudi puts into texts of SQL."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pyhudi.errors import UnsupportedFeatureError

_CONTROL = {0: "\\0", 10: "\\n", 13: "\\r", 9: "\\t", 26: "\\Z", 8: "\\b"}


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
