"""Errors of Spark and pyhudi about a part of a statement, with their place in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.errors import AnalysisException, ParseException

from pyhudi.errors import ConfigError
from pyhudi.sql.text.tokens import Slice, error_at


@contextmanager
def pointing(
    text: str, names: Sequence[tuple[str, int]], slices: Sequence[tuple[Slice, Callable[[str], Any]]]
) -> Iterator[None]:
    """Raise errors of Spark and pyhudi about a part of the statement with its place.

    `names`: columns with their places. `slices`: parts that Spark resolves, each with what lets Spark resolve it alone.
    """
    try:
        yield
    except ConfigError as error:
        column = str(error.context.get("column", "")).lower()
        for name, place in names:
            if name.lower() == column:
                raise error_at(text, place, error.message) from error
        raise
    except (AnalysisException, ParseException) as error:
        for part, resolve in slices:
            try:
                resolve(part.text)
            except (AnalysisException, ParseException) as cause:
                raise error_at(text, part.start + _place_in(part.text, str(cause)), _first_line(cause)) from error
        raise


_PLACE = re.compile(r"line (\d+),? pos (\d+)")


def _place_in(part: str, message: str) -> int:
    """Where in a part Spark saw the error; its beginning if Spark does not say."""
    found = _PLACE.search(message)
    if found is None:
        return 0
    before = part.splitlines(keepends=True)[: int(found.group(1)) - 1]
    place = sum(map(len, before)) + int(found.group(2))
    return place if place < len(part) else 0


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
