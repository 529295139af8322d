"""The check that statements can be parsed here."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec


@cache
def can_parse() -> bool:
    """Whether sqlglot is installed, without which all statements go to Spark."""
    return find_spec("sqlglot") is not None
