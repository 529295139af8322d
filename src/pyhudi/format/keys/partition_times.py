"""The span of event time that a partition is for, by its path."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

_NAMES: Final = re.compile(r"(^|/)[^/=]+=")
_DAY: Final = r"(\d{4})[-/]?(\d{2})[-/]?(\d{2})"
_HOUR: Final = re.compile(rf"{_DAY}[-/ T]?(\d{{2}})")
_WHOLE_DAY: Final = re.compile(_DAY)
_MONTH: Final = re.compile(r"(\d{4})[-/]?(\d{2})")


def partition_end(path: str, zone: tzinfo = UTC) -> datetime | None:
    """The first moment after the hour, day or month of a partition path; None for a path that is none of them.

    Such paths are `2026-11-22/09`, `2026/11/22`, `20261122`, `day=2026-11-22/hour=09`, and `2026-11`.
    """
    text = _NAMES.sub(r"\1", path)
    try:
        if match := _HOUR.fullmatch(text):
            year, month, day, hour = map(int, match.groups())
            return _after(datetime(year, month, day, hour), timedelta(hours=1), zone)  # noqa: DTZ001 - zone follows
        if match := _WHOLE_DAY.fullmatch(text):
            year, month, day = map(int, match.groups())
            return _after(datetime(year, month, day), timedelta(days=1), zone)  # noqa: DTZ001 - zone follows
        if match := _MONTH.fullmatch(text):
            year, month = map(int, match.groups())
            return datetime(year + month // 12, month % 12 + 1, 1, tzinfo=zone) if 1 <= month <= 12 else None
    except (ValueError, OverflowError):
        return None
    return None


def _after(begin: datetime, span: timedelta, zone: tzinfo) -> datetime:
    """The end of a span of the wall clock. Of an hour that clocks repeat in autumn it is the later one."""
    return (begin + span).replace(tzinfo=zone, fold=1)
