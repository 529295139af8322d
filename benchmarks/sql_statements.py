"""What a statement of SQL costs before anything runs: `make bench-sql`, or `python benchmarks/sql_statements.py`.

For statements that are not about Hudi tables: the decision that they are Spark's, with Spark itself left out. For
statements on a Hudi table: all until the statement is understood and its table known, with Spark's session catalog.
It is CPU time, so that other programs on the machine change it little: that of this process, and that of the JVM.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

import pyhudi
from pyhudi.sql.dispatch import statement_of
from pyhudi.sql.run import run
from pyhudi.sql.text.tokens import tokens_of

OF_SPARK = {
    "SELECT without a table": "SELECT 1",
    "SET": "SET spark.sql.shuffle.partitions",
    "CREATE VIEW": "CREATE OR REPLACE VIEW v AS SELECT id FROM plain WHERE id > 3",
    "SELECT of a Parquet table": "SELECT id, count(*) FROM plain WHERE id > 3 AND name LIKE 'a%' GROUP BY id",
    "join of Parquet tables": "SELECT a.id FROM plain a JOIN plain b ON a.id = b.id WHERE b.name = 'x' ORDER BY 1",
    "INSERT into a Parquet table": "INSERT INTO plain VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    "CREATE TABLE of Parquet": "CREATE TABLE other (id INT, name STRING) USING parquet",
}
OF_HUDI = {
    "INSERT": "INSERT INTO trips VALUES (1, 9.5, 1, 'oslo'), (2, 4.0, 1, 'rome')",
    "UPDATE": "UPDATE trips SET fare = fare * 2, ts = ts + 1 WHERE city = 'oslo' AND id IN (1, 2, 3)",
    "DELETE": "DELETE FROM trips WHERE city = 'oslo' AND id IN (1, 2, 3)",
    "MERGE": """MERGE INTO trips t USING (SELECT 1 AS id, 9.5 AS fare, 2L AS ts, 'oslo' AS city, 'U' AS op) s
        ON t.id = s.id AND t.city = s.city WHEN MATCHED AND s.op = 'D' THEN DELETE
        WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""",
    "ALTER TABLE": "ALTER TABLE trips ADD COLUMNS (tip DOUBLE)",
    "CALL": "CALL show_commits(table => 'trips', limit => 3)",
    "SHOW PARTITIONS": "SHOW PARTITIONS trips",
}


def prepare(folder: Path) -> Any:
    """A session with a Hudi table and a Parquet table."""
    spark = pyhudi.spark_session(master="local[1]", config={"spark.sql.warehouse.dir": str(folder)})
    spark.sql("CREATE TABLE plain (id INT, name STRING) USING parquet")
    spark.sql(
        "CREATE TABLE trips (id INT, fare DOUBLE, ts BIGINT, city STRING) USING hudi PARTITIONED BY (city) "
        "TBLPROPERTIES (primaryKey = 'id', orderingFields = 'ts')"
    )
    return spark


def cpu_ms(work: Callable[[], Any], repetitions: int) -> tuple[float, float]:
    """CPU milliseconds of one call: in this process, and in the JVM. The median of five parts of the repetitions."""
    jvm = next(one for one in psutil.Process().children(recursive=True) if one.name() == "java")
    found: list[tuple[float, float]] = []
    each = repetitions // 5
    for _ in range(5):
        gc.collect()
        before, began = jvm.cpu_times(), time.process_time()
        for _ in range(each):
            tokens_of.cache_clear()  # a program seldom says the same twice
            work()
        own, after = time.process_time() - began, jvm.cpu_times()
        other = after.user + after.system - before.user - before.system
        found.append((own / each * 1000, other / each * 1000))
    return statistics.median(one for one, _ in found), statistics.median(two for _, two in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=200)
    repetitions = parser.parse_args().repetitions
    with tempfile.TemporaryDirectory() as folder:
        spark = prepare(Path(folder))
        print("| statement | Python, ms | JVM, ms |\n|---|---|---|")
        kinds: tuple[tuple[dict[str, str], Callable[[str], Any]], ...] = (
            (OF_SPARK, lambda text: run(spark, text, None, {}, lambda *_, **__: None)),
            (OF_HUDI, lambda text: statement_of(spark, text)),
        )
        for statements, work in kinds:
            for name, text in statements.items():
                for _ in range(repetitions // 5):
                    work(text)
                own, other = cpu_ms(lambda text=text, work=work: work(text), repetitions)  # type: ignore[misc]
                print(f"| {name} | {own:.2f} | {other:.2f} |", flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
