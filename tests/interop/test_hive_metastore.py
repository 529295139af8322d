"""Tables by name in a Hive metastore (an embedded one): made in one process, and gone on with in another one."""

from __future__ import annotations

import json
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
Turn = dict[str, list[list[Any]] | None]
"""Statements of one process, and what those say that are to say something."""


def made(prefix: str) -> Turn:
    """A table of each kind, and one from a query."""
    table, by_id = f"{prefix}{{}} USING hudi", "TBLPROPERTIES (primaryKey = 'id', orderingFields = 'ts'"
    return {
        f"CREATE TABLE {table.format('cow (id INT, fare DOUBLE, ts BIGINT, city STRING)')} "
        f"PARTITIONED BY (city) {by_id})": None,
        f"INSERT INTO {prefix}cow VALUES (1, 1.5, 1, 'oslo'), (2, 2.5, 1, 'rome')": None,
        f"CREATE TABLE {table.format('mor (id INT, name STRING, ts BIGINT)')} {by_id}, type = 'mor')": None,
        f"INSERT INTO {prefix}mor VALUES (1, 'a', 1), (2, 'b', 1)": None,
        f"CREATE TABLE {table.format('ctas')} TBLPROPERTIES (primaryKey = 'id') AS "
        f"SELECT id, fare FROM {prefix}cow": None,
    }


def fares(name: str) -> str:
    return f"SELECT id, fare, city FROM {name} ORDER BY id"


def names(table: str) -> str:
    return f"SELECT id, name, ts, extra FROM {table} ORDER BY id"


def tables(*names: str) -> list[list[Any]]:
    return [["default", name, False] for name in sorted(names)]


def changed(of: str) -> Turn:
    """What either does with the tables of the other one."""
    return {
        MERGE.format(f"{of}cow"): None,
        fares(f"{of}cow"): MERGED,
        f"SHOW PARTITIONS {of}cow": [["city=bonn"], ["city=oslo"], ["city=rome"]],
        f"UPDATE {of}mor SET name = 'z', ts = 2 WHERE id = 2": None,
        f"ALTER TABLE {of}mor ADD COLUMNS (extra STRING)": None,
        f"INSERT INTO {of}mor VALUES (3, 'c', 1, 'x')": None,
        names(f"{of}mor"): [[1, "a", 1, None], [2, "z", 2, None], [3, "c", 1, "x"]],
        f"SELECT id, fare FROM {of}ctas ORDER BY id": [[1, 1.5], [2, 2.5]],
        f"DROP TABLE {of}ctas": None,
    }


def seen(of: str) -> Turn:
    """What each finds of its tables that the other one has changed, and goes on with."""
    return {
        fares(f"{of}cow"): MERGED,
        names(f"{of}mor"): [[1, "a", 1, None], [2, "z", 2, None], [3, "c", 1, "x"]],
        f"UPDATE {of}mor SET extra = 'e', ts = 3 WHERE id = 1": None,
        f"ALTER TABLE {of}cow DROP PARTITION (city = 'rome')": None,
        fares(f"{of}cow"): [MERGED[0], MERGED[2]],
        names(f"{of}mor") + " LIMIT 1": [[1, "a", 3, "e"]],
    }


@pytest.mark.timeout(4 * TURN_SECONDS_MAX)
def test_tables_of_pyhudi_and_jvm_hudi_in_one_metastore_are_changed_by_both(tmp_path: Path) -> None:
    reason = missing_oracle(JVM_HUDI)
    if reason is not None:
        pytest.skip(reason)
    both = ["jcow", "jmor", "jmor_ro", "jmor_rt", "pcow", "pmor"]
    _run(tmp_path, "", {**made("p"), "SHOW TABLES": tables("pcow", "pctas", "pmor")})
    _run(tmp_path, str(jar_of(JVM_HUDI)), {**changed("p"), **made("j")})
    _run(tmp_path, "", {**seen("p"), **changed("j"), "SHOW TABLES": tables(*both, "pmor_ro", "pmor_rt")})
    _run(tmp_path, str(jar_of(JVM_HUDI)), {**seen("j"), fares("pcow"): [MERGED[0], MERGED[2]]})


def _run(folder: Path, jar: str, turn: Turn) -> None:
    python = {"python": ORACLE_HOME / "venv" / "bin" / "python"} if jar else {}
    given = json.dumps([*turn]), *([jar] if jar else [])
    found = told_by(PROGRAM, str(folder), *given, folder=folder, seconds_max=TURN_SECONDS_MAX, **python)
    for (statement, expected), rows in zip(turn.items(), found, strict=True):
        assert expected is None or rows == expected, statement
