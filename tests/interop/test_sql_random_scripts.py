"""Random scripts of SQL, each run by JVM Hudi and by us on a table of its own: the same rows after every statement.

Compared are all columns, keys and paths, and which statement wrote a row last. Then each engine reads both tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.interop.compare import WRITER_META, assert_same_rows
from tests.interop.random_scripts import OPTION_OF_INSERTS, script_of
from tests.support.oracle import Oracle
from tests.support.spark import spark

import pyhudi

__all__ = ["spark"]

STATEMENTS = 12
_WRITE = re.compile(r"(\d+)(?:_\d+)?\.(?:commit|deltacommit|replacecommit)")


@pytest.fixture
def session(spark: Any) -> Iterator[Any]:
    """Without ANSI mode, as Spark 3.5 of JVM Hudi has it."""
    pyhudi.enable(spark)
    previous = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    yield spark
    spark.conf.set("spark.sql.ansi.enabled", previous)
    spark.conf.unset(OPTION_OF_INSERTS)


class Side:
    """One engine with its table. `last_writes`: the last completed write after each statement."""

    def __init__(self, run: Callable[[str], Any], read: Callable[[Path], pa.Table], name: str, path: Path) -> None:
        self._run, self._read, self._name, self.path = run, read, name, path
        self._last_writes: list[str] = []

    def run(self, statement: str) -> None:
        for part in statement.split(";; "):
            self._run(part.replace("@", self._name))
        found = map(_WRITE.fullmatch, (file.name for file in (self.path / ".hoodie" / "timeline").iterdir()))
        self._last_writes.append(max((write.group(1) for write in found if write), default=""))

    def rows(self) -> pa.Table:
        """The rows, with the number of the statement that wrote each last in the place of its commit time."""
        rows = self._read(self.path)
        writes = rows.column("_hoodie_commit_time").to_pylist()
        numbers = [next(number for number, last in enumerate(self._last_writes) if write <= last) for write in writes]
        return rows.drop_columns(["_hoodie_commit_time"]).append_column("statement", pa.array(numbers, pa.int64()))


def _ours(path: Path) -> pa.Table:
    return pyhudi.HudiTable.for_path(path).scan().to_arrow()


@pytest.mark.parametrize(
    "seed",
    [pytest.param(1, marks=pytest.mark.quick), 4, *(pytest.param(n, marks=pytest.mark.thorough) for n in range(8, 24))],
)
def test_random_statements_give_the_same_rows_in_both_engines(
    seed: int, tmp_path: Path, oracle_of: Callable[[str], Oracle], session: Any
) -> None:
    oracle, script = oracle_of("1.2.0"), script_of(seed)
    theirs = Side(oracle.sql, oracle.read, f"random_{seed}", tmp_path / "theirs")
    ours = Side(lambda text: session.sql(text).collect(), _ours, f"random_{seed}", tmp_path / "ours")
    oracle.sql(script.shape.create(f"random_{seed}", str(theirs.path)))
    session.sql(script.shape.create(f"random_{seed}", str(ours.path)))
    rows: list[Mapping[str, Any]] = []
    ignored = WRITER_META if script.shape.has_key else (*WRITER_META, "_hoodie_record_key")
    try:
        for number in range(STATEMENTS):
            statement = script.next(rows)
            theirs.run(statement)
            ours.run(statement)
            found = ours.rows()
            assert_same_rows(theirs.rows(), found, ignore=ignored, hint=f"seed {seed}, {number}: {statement}")
            rows = sorted(found.to_pylist(), key=lambda row: (str(row["k"]), str(row.get("p"))))
        for path in (theirs.path, ours.path):
            assert_same_rows(oracle.read(path), _ours(path), hint=f"seed {seed}, both read {path.name}")
            read = session.sql(f"SELECT * FROM hudi.`{path}`").toArrow()
            assert_same_rows(_ours(path), read, hint=f"seed {seed}, Spark reads {path.name}")
    finally:
        session.sql(f"DROP TABLE random_{seed}")
        oracle.sql(f"DROP TABLE random_{seed}")
