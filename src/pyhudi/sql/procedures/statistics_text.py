"""Bounds of column statistics as texts, and as values that can be compared."""

from __future__ import annotations

from typing import Any


def bound_of(wrapped: Any) -> Any:
    """The value in the union of a bound, whatever its type; None where there is none."""
    if not isinstance(wrapped, dict):
        return None
    for member in wrapped.values():
        if isinstance(member, dict) and member.get("value") is not None:
            return member["value"]
    return None


def bound_text(value: Any) -> str | None:
    """A bound as JVM Hudi shows it: truth values in lower case, dates and times by their numbers."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
