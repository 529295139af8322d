"""Tables by name in a Hive metastore (an embedded one): made in one process, and gone on with in another one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.oracle import ORACLE_HOME, jar_of, missing_oracle
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


JVM_HUDI: Final = "1.2.0"
TURN_SECONDS_MAX: Final = 400
MERGE: Final = """MERGE INTO {} t
    USING (SELECT 1 id, 9.5D fare, 2L ts, 'oslo' city UNION ALL SELECT 3, 3.5D, 2L, 'bonn') s
    ON t.id = s.id AND t.city = s.city WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
MERGED: Final = [[1, 9.5, "oslo"], [2, 2.5, "rome"], [3, 3.5, "bonn"]]
Turn = tuple[tuple[str, list[list[Any]] | None], ...]
"""Statements of one process, each with what it is to say, if that matters."""


def done(*statements: str) -> Turn:
    return tuple((statement, None) for statement in statements)


def made(prefix: str) -> Turn:
    """A table of each kind, and one from a query."""
    by_id = "TBLPROPERTIES (primaryKey = 'id', orderingFields = 'ts'"
    fares = f"{prefix}cow (id INT, fare DOUBLE, ts BIGINT, city STRING)"
    return done(
        f"CREATE TABLE {fares} USING hudi PARTITIONED BY (city) {by_id})",
        f"INSERT INTO {prefix}cow VALUES (1, 1.5, 1, 'oslo'), (2, 2.5, 1, 'rome')",
        f"CREATE TABLE {prefix}mor (id INT, name STRING, ts BIGINT) USING hudi {by_id}, type = 'mor')",
        f"INSERT INTO {prefix}mor VALUES (1, 'a', 1), (2, 'b', 1)",
        f"CREATE TABLE {prefix}ctas USING hudi TBLPROPERTIES (primaryKey = 'id') AS SELECT id, fare FROM {prefix}cow",
    )


def fares(name: str) -> str:
    return f"SELECT id, fare, city FROM {name} ORDER BY id"


def names(table: str) -> str:
    return f"SELECT id, name, ts, extra FROM {table} ORDER BY id"


def tables(*names: str) -> Turn:
    return (("SHOW TABLES", [["default", name, False] for name in sorted(names)]),)


def changed(of: str) -> Turn:
    """What either does with the tables of the other one."""
    return (
        *done(MERGE.format(f"{of}cow")),
        (fares(f"{of}cow"), MERGED),
        (f"SHOW PARTITIONS {of}cow", [["city=bonn"], ["city=oslo"], ["city=rome"]]),
        *done(
            f"UPDATE {of}mor SET name = 'z', ts = 2 WHERE id = 2",
            f"ALTER TABLE {of}mor ADD COLUMNS (extra STRING)",
            f"INSERT INTO {of}mor VALUES (3, 'c', 1, 'x')",
        ),
        (names(f"{of}mor"), [[1, "a", 1, None], [2, "z", 2, None], [3, "c", 1, "x"]]),
        (f"SELECT id, fare FROM {of}ctas ORDER BY id", [[1, 1.5], [2, 2.5]]),
        *done(f"DROP TABLE {of}ctas"),
    )


def seen(of: str) -> Turn:
    """What each finds of its tables that the other one has changed, and goes on with."""
    return (
        (fares(f"{of}cow"), MERGED),
        (names(f"{of}mor"), [[1, "a", 1, None], [2, "z", 2, None], [3, "c", 1, "x"]]),
        *done(
            f"UPDATE {of}mor SET extra = 'e', ts = 3 WHERE id = 1",
            f"ALTER TABLE {of}cow DROP PARTITION (city = 'rome')",
        ),
        (fares(f"{of}cow"), [MERGED[0], MERGED[2]]),
        (names(f"{of}mor") + " LIMIT 1", [[1, "a", 3, "e"]]),
    )


@pytest.mark.timeout(4 * TURN_SECONDS_MAX)
def test_tables_of_pyhudi_and_jvm_hudi_in_one_metastore_are_changed_by_both(tmp_path: Path) -> None:
    reason = missing_oracle(JVM_HUDI)
    if reason is not None:
        pytest.skip(reason)
    jvm_hudi = str(jar_of(JVM_HUDI))
    # JVM Hudi begins: the older Derby of its Spark cannot open what a newer one has made.
    _run(tmp_path, jvm_hudi, (*made("j"), *tables("jcow", "jctas", "jmor", "jmor_ro", "jmor_rt")))
    _run(tmp_path, "", (*changed("j"), *made("p")))
    left = tables("jcow", "jmor", "jmor_ro", "jmor_rt", "pcow", "pmor", "pmor_ro", "pmor_rt")
    _run(tmp_path, jvm_hudi, (*seen("j"), *changed("p"), *left))
    _run(tmp_path, "", (*seen("p"), (fares("jcow"), [MERGED[0], MERGED[2]])))


def _run(folder: Path, jar: str, turn: Turn) -> None:
    python = str(ORACLE_HOME / "venv" / "bin" / "python") if jar else sys.executable
    given = str(folder), json.dumps([statement for statement, _ in turn]), jar
    found = told_by(PROGRAM, *given, folder=folder, seconds_max=TURN_SECONDS_MAX, python=python)
    for (statement, expected), rows in zip(turn, found, strict=True):
        assert expected is None or rows == expected, statement
