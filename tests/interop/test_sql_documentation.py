"""What Hudi's documentation shows of SQL, in statements and data of our own: one script, run by JVM Hudi and by us.

The pages are the quick start, SQL DDL, SQL DML and SQL queries. Each table is asked after each statement on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.support.oracle import Oracle
from tests.support.spark import spark

import pyhudi

__all__ = ["spark"]

TABLES = {
    # the table, its columns without those of Hudi, and the statements that make it; {at} is a folder
    "doc_plain": "id, name, price",
    "doc_days": "id, name, dt, hh",
    "doc_cow": "id, name, price, ts, dt, hh",
    "doc_mor": "id, name, price, ts",
    "doc_query": "id, name, price, dt",
    "doc_source": "id, name, price, ts, flag",
}
SCRIPT = """
    CREATE TABLE IF NOT EXISTS doc_plain (id INT, name STRING, price DOUBLE) USING hudi LOCATION '{at}/doc_plain';
    INSERT INTO doc_plain SELECT 1, 'bolt', 20;
    INSERT INTO doc_plain VALUES (2, 'nut', 0.5), (3, 'washer', 7.25);
    UPDATE doc_plain SET price = price * 2 WHERE name <> 'bolt';
    DELETE FROM doc_plain WHERE id % 2 = 0;
    CREATE TABLE IF NOT EXISTS doc_days (id BIGINT, name STRING, dt STRING, hh STRING) USING hudi
      TBLPROPERTIES (type = 'cow') PARTITIONED BY (dt, hh) LOCATION '{at}/doc_days';
    INSERT INTO doc_days PARTITION (dt = '2025-03-01', hh = '10') SELECT 1, 'one';
    INSERT INTO doc_days PARTITION (dt, hh) SELECT 2 AS id, 'two' AS name, '2025-03-01' AS dt, '11' AS hh;
    INSERT INTO doc_days PARTITION (dt = '2025-03-02', hh) SELECT 3, 'three', '12';
    INSERT INTO doc_days SELECT 4, 'four', '2025-03-03', '10';
    ALTER TABLE doc_days DROP PARTITION (dt = '2025-03-01', hh = '10');
    INSERT OVERWRITE doc_days PARTITION (dt = '2025-03-02', hh = '12') SELECT 5, 'five';
    SHOW PARTITIONS doc_days;
    SHOW PARTITIONS doc_days PARTITION (dt = '2025-03-01');
    CREATE TABLE IF NOT EXISTS doc_cow (id BIGINT, name STRING, price DECIMAL(10, 2), ts BIGINT, dt STRING, hh STRING)
      USING hudi TBLPROPERTIES (type = 'cow', primaryKey = 'id', preCombineField = 'ts') PARTITIONED BY (dt, hh)
      COMMENT 'prices' LOCATION '{at}/doc_cow';
    INSERT INTO doc_cow PARTITION (dt = '2025-03-01', hh = '11') SELECT 1, 'one', 10.5, 1000;
    INSERT INTO doc_cow PARTITION (dt, hh) SELECT 2, 'two', 0, 1000, '2025-03-01', '10';
    SET hoodie.spark.sql.insert.into.operation = upsert;
    INSERT INTO doc_cow SELECT 1, 'one again', 11.5, 1001, '2025-03-01', '11';
    INSERT INTO doc_cow SELECT 1, 'too late', 12.5, 999, '2025-03-01', '11';
    SET hoodie.spark.sql.insert.into.operation = bulk_insert;
    INSERT INTO doc_cow SELECT 3, 'three', 3, 1000, '2025-03-02', '10';
    RESET hoodie.spark.sql.insert.into.operation;
    ALTER TABLE doc_cow ADD COLUMNS (remark STRING COMMENT 'what was said');
    INSERT INTO doc_cow VALUES (4, 'four', 4.25, 1000, 'new', '2025-03-02', '11');
    ALTER TABLE doc_cow SET TBLPROPERTIES ('hoodie.keep.max.commits' = '40');
    UPDATE doc_cow SET price = price * 2, ts = 1111 WHERE id = 1;
    UPDATE doc_cow SET name = concat(name, '?'), ts = ts + 1, remark = NULL WHERE dt = '2025-03-02' AND price > 1.5;
    CREATE TABLE doc_source (id BIGINT, name STRING, price DOUBLE, ts BIGINT, flag STRING) USING hudi
      TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts') LOCATION '{at}/doc_source';
    INSERT INTO doc_source VALUES (1, 'old', 22.22, 900, 'delete'), (2, 'new', 33.33, 2000, 'update'),
      (3, 'newer', 44.44, 2000, 'delete'), (9, 'insert', 99.99, 2000, 'insert');
    CREATE TABLE doc_mor (id BIGINT, name STRING, price DOUBLE, ts BIGINT) USING hudi
      TBLPROPERTIES (type = 'mor', primaryKey = 'id', preCombineField = 'ts') LOCATION '{at}/doc_mor';
    INSERT INTO doc_mor SELECT 1, 'one', 20, 1000;
    INSERT INTO doc_mor VALUES (2, 'two', 20, 1000), (3, 'three', 30, 1000);
    MERGE INTO doc_mor AS target USING (SELECT id, name, price, ts, flag FROM doc_source) source
      ON target.id = source.id
      WHEN MATCHED AND source.flag <> 'delete' THEN UPDATE SET *
      WHEN MATCHED AND source.flag = 'delete' THEN DELETE
      WHEN NOT MATCHED THEN INSERT *;
    MERGE INTO doc_mor AS target USING (SELECT * FROM doc_source WHERE flag <> 'delete') source
      ON target.id = source.id
      WHEN MATCHED THEN UPDATE SET price = source.price + 1, ts = source.ts + 1;
    MERGE INTO doc_cow AS target
      USING (SELECT 1L AS id, 'merged' AS name, 7.5 AS price, 3000L AS ts, '2025-03-01' AS dt, '11' AS hh
             UNION ALL SELECT 8, 'eight', 8, 3000, '2025-03-08', '08') source
      ON source.id = target.id AND target.dt = source.dt AND target.hh = source.hh
      WHEN MATCHED THEN UPDATE SET name = source.name, ts = source.ts, target.price = source.price
      WHEN NOT MATCHED THEN INSERT (id, name, price, ts, dt, hh)
        VALUES (source.id, source.name, source.price, source.ts, source.dt, source.hh);
    DELETE FROM doc_cow WHERE id = 8;
    DELETE FROM doc_mor WHERE price > 90;
    CALL run_compaction(op => 'run', table => 'doc_mor');
    CREATE TABLE doc_query USING hudi TBLPROPERTIES (type = 'cow', primaryKey = 'id') PARTITIONED BY (dt)
      LOCATION '{at}/doc_query' AS SELECT 1 AS id, 'one' AS name, 10.5D AS price, '2025-03-01' AS dt
      UNION ALL SELECT 2, 'two', 20.5D, '2025-03-02';
    INSERT OVERWRITE TABLE doc_query SELECT 3, 'three', 30.5D, '2025-03-03';
    INSERT OVERWRITE doc_query PARTITION (dt) SELECT 4 AS id, 'four' AS name, 40.5D AS price, '2025-03-04' AS dt;
    SELECT id, name FROM doc_query TIMESTAMP AS OF '2099-01-01';
    SELECT id, name FROM doc_query TIMESTAMP AS OF '2000-01-01 00:00:00';
    SELECT id, count(*) FROM hudi_table_changes('doc_cow', 'latest_state', 'earliest') GROUP BY id;
    SELECT Action, count(*) FROM hudi_query_timeline('doc_mor', 'true') GROUP BY Action;
    SET hoodie.schema.on.read.enable = true;
    ALTER TABLE doc_plain ALTER COLUMN id TYPE BIGINT;
    INSERT INTO doc_plain VALUES (30000000000, 'four', 4);
    RESET hoodie.schema.on.read.enable;
    TRUNCATE TABLE doc_source;
    DROP TABLE doc_source;
"""


def statements() -> list[str]:
    return [part.strip() for part in SCRIPT.split(";\n") if part.strip()]


def _texts(rows: Any) -> list[tuple[str | None, ...]]:
    def text(value: Any) -> str | None:
        return None if value is None else f"{value:f}" if isinstance(value, Decimal) else str(value)

    return sorted((tuple(text(value) for value in row) for row in rows), key=str)


@pytest.fixture
def ours(spark: Any) -> Iterator[Callable[[str], Any]]:
    pyhudi.enable(spark)
    yield lambda text: _texts(spark.sql(text).collect())
    for table in TABLES:
        spark.sql(f"DROP TABLE IF EXISTS {table}")


def test_what_the_documentation_shows_gives_the_same_rows_in_both_engines(
    tmp_path: Path, oracle_of: Callable[[str], Oracle], ours: Callable[[str], Any]
) -> None:
    oracle = oracle_of("1.2.0")

    def theirs(text: str) -> Any:
        return _texts(tuple(row.values()) for row in oracle.sql(text))

    made: set[str] = set()
    for statement in statements():
        expected, found = (
            run(statement.replace("{at}", str(tmp_path / side))) for side, run in (("theirs", theirs), ("ours", ours))
        )
        words = statement.split()
        if words[0] in ("SELECT", "SHOW"):
            assert found == expected, statement
        named = {table for table in TABLES if table in words or f"{table}," in words}
        made = (made | named) - ({words[2]} if words[0] == "DROP" else set())
        for table in named & made:
            query = f"SELECT {TABLES[table]} FROM {table}"
            assert ours(query) == theirs(query), f"{statement}\n{query}"
    for table in sorted(made):
        oracle.sql(f"DROP TABLE {table}")
