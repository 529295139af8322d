"""The same round trip where executors are other processes, and through Spark Connect: each in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.programs import told_by

PROGRAM = Path(__file__).with_name("round_trip_program.py")
PROGRAM_SECONDS_MAX = 500
STATEMENTS = {
    "rows": [
        *([1, 1.5, None], [2, 3.0, None], [3, 104.5, None], [5, 7.5, None], [6, 9.0, None], [7, 10.5, None]),
        *([8, 12.0, None], [9, 13.5, None], [12, 12.0, None]),
    ],
    "copied": [3, 9],
    "made": [3, 9],
    "changes": ["d"] * 2 + ["i"] * 11 + ["u"],
    "commits": 5,
    "changed by queries": [[0, 0.0], [3, 1.0], [4, -1.0]],
    "refused": "at 18",
    "refused views": True,
}
FOLLOWED = {
    "changes": 15,
    "rows": [
        list(row) for row in zip((1, 2, 3, 5, 6, 7, 8, 9, 12), (1.5, 3, 104.5, 7.5, 9, -7, 12, 13.5, 12), strict=True)
    ],
}
ROWS = {"rows": 1000, "changed": 100, "cities": ["c0", "c1"]}


@pytest.mark.timeout(PROGRAM_SECONDS_MAX + 30)
@pytest.mark.parametrize(("kind", "executors"), [("cluster", 2), ("connect", 1)])
def test_round_trip_gives_the_same_rows_and_errors(kind: str, executors: int, tmp_path: Path) -> None:
    if kind == "connect":
        pytest.importorskip("pyspark.sql.classic", reason="Spark Connect needs PySpark 4.0")
        pytest.importorskip("grpc")
    found = told_by(PROGRAM, kind, str(tmp_path), folder=tmp_path, seconds_max=PROGRAM_SECONDS_MAX)

    assert found == {
        "copy on write": ROWS,
        "merge on read": {**ROWS, "changed without logs": 0, "changed when compacted": 101},
        "in stages of Spark": {
            **ROWS,
            "evaluated once": 100,
            "exchanged": [[0, [10, 20, 30]], [2, [11, 21, 31]]],
            "exchanged elsewhere": True,
        },
        "streamed": {"rows": 1000, "changed": 100} if kind == "connect" else None,
        "SQL": STATEMENTS if kind == "connect" else None,
        "followed": FOLLOWED if kind == "connect" else None,
        "ingested": {"rows": [[1, 2, "x"], [2, 4, None]], "refused": "2.json"},
        "odd folders": ["{x}", "{x,y}", "[x]", "[!a]", "{", "[", "a*b", "a?b", "a1b", "a b", "x"],
        "refused": "RecordKeyError",
        "parallelism": 2,
        "elsewhere": True,
        "executors": executors,
    }
