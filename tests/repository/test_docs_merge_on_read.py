"""The example of docs/merge_on_read.md does what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "merge_on_read.md"


def fares(table: Any, **how: Any) -> dict[int, float]:
    return {row["id"]: row["fare"] for row in table.to_arrow(columns=["id", "fare"], **how).to_pylist()}


def test_the_example_of_the_page_on_merge_on_read_does_what_it_says(tmp_path: Path) -> None:
    (example,) = re.findall(r"<!-- tested by .*? -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    before, compact = example.replace("/tmp/mor-trips", str(tmp_path / "trips")).split("trips.compact()")
    names: dict[str, Any] = {}

    exec(before, names)

    trips = names["trips"]
    assert fares(trips) == {1: 9.5, 2: 8.0}
    assert fares(trips, query_type="read_optimized") == {1: 9.5, 2: 7.0}
    assert sum(trips.files()["log_size"].to_pylist()) < 4_000

    exec(f"trips.compact(){compact}", names)

    assert fares(trips.refresh(), query_type="read_optimized") == {1: 9.5, 2: 8.0}
    assert fares(trips) == {1: 9.5, 2: 8.0}
