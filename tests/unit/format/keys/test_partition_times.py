"""The end of the hour, day or month that a partition is for."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from pyhudi.format.keys.partition_times import partition_end


@pytest.mark.parametrize(
    ("path", "end"),
    [
        ("2026-11-22/09", datetime(2026, 11, 22, 10, tzinfo=UTC)),
        ("2026-11-22-23", datetime(2026, 11, 23, tzinfo=UTC)),
        ("2026/12/31", datetime(2027, 1, 1, tzinfo=UTC)),
        ("20261122", datetime(2026, 11, 23, tzinfo=UTC)),
        ("2026112209", datetime(2026, 11, 22, 10, tzinfo=UTC)),
        ("day=2026-11-22/hour=09", datetime(2026, 11, 22, 10, tzinfo=UTC)),
        ("year=2026/month=02/day=28", datetime(2026, 3, 1, tzinfo=UTC)),
        ("2026-12", datetime(2027, 1, 1, tzinfo=UTC)),
        ("2026-13-01", None),
        ("2026-11-22/24", None),
        ("city=oslo", None),
        ("city=oslo/2026-11-22", None),
        ("", None),
        ("9999-12-31", None),
    ],
)
def test_end_of_a_partition_is_that_of_its_span(path: str, end: datetime | None):
    assert partition_end(path) == end


def test_end_of_a_day_is_that_of_its_zone():
    berlin = ZoneInfo("Europe/Berlin")
    assert partition_end("2026-11-22", berlin) == datetime(2026, 11, 22, 23, tzinfo=UTC)
    assert partition_end("2026-10-25/02", berlin) == datetime(2026, 10, 25, 2, tzinfo=UTC)
