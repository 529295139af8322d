"""Control columns, which accompany versions of records while they are merged. They are never stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

DELETED: Final = "#deleted"
"""Control column, bool: the version deletes its record. Absent or null means false."""
BY_COMMIT_TIME: Final = "#by_commit_time"
"""Control column, bool: the version is a delete without an ordering value, so a barrier."""
COLUMNS: Final = "#columns"
"""Control column, int32: the columns that the row declares, null for all. A number from 0 is an index into the
accompanying `column_sets`; a negative one is a union of the sets whose bits are set in its complement
(`declared_columns`)."""
FRESH: Final = "#fresh"
"""Control column of merged rows, bool: a barrier was merged, so earlier versions do not count."""
HIDES: Final = "#hides"
"""Control column of merged rows, struct of the ordering fields: the ordering values of a delete below this version, or
null. Earlier versions with at most these values do not show through."""
CONTROL_COLUMNS: Final = (DELETED, BY_COMMIT_TIME, COLUMNS, FRESH, HIDES)


def declared_columns(number: int, column_sets: Sequence[frozenset[str]]) -> frozenset[str]:
    """The columns that a number in the control column `COLUMNS` refers to."""
    if number >= 0:
        return column_sets[number]
    bits = ~number
    distinct = dict.fromkeys(column_sets)
    return frozenset().union(*(columns for bit, columns in enumerate(distinct) if bits >> bit & 1))
