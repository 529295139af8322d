"""Tables by name in a Hive metastore (an embedded one): made in one process, and gone on with in another one."""

from __future__ import annotations

from pathlib import Path

from tests.support.programs import told_by

PROGRAM = Path(__file__).with_name("hive_program.py")
SECONDS_MAX = 800


def test_tables_in_a_hive_metastore_are_there_for_the_next_session(tmp_path: Path) -> None:
    made = told_by(PROGRAM, str(tmp_path), "make", folder=tmp_path, seconds_max=SECONDS_MAX)
    assert made == {"trips": [[1, "oslo", 1.5], [2, "rome", 2.5]], "saved": [[2, "rome"]]}

    seen = told_by(PROGRAM, str(tmp_path), "go on", folder=tmp_path, seconds_max=SECONDS_MAX)

    assert seen == {
        "tables": ["dear", "plain", "saved", "trips"],
        "trips": [[1, "oslo", 9.5, None], [2, "rome", 2.5, 1.0], [3, "bonn", 3.5, None]],
        "partitions": [["city=bonn"], ["city=oslo"], ["city=rome"]],
        "plain": [[1], [2]],
        "left": ["plain", "saved", "trips"],
    }
