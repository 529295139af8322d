"""Run by `test_hive_metastore.py`: `hive_program.py <folder> <make or go on>`, on a session with a Hive metastore.

Makes tables, or goes on with those of an earlier process; its last line says in JSON what it saw.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

FARES = "SELECT id, city, fare FROM trips ORDER BY id"


def session(folder: str) -> Any:
    import pyhudi

    return pyhudi.spark_session(
        master="local[2]",
        config={
            "spark.sql.catalogImplementation": "hive",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
        },
    )


def make(spark: Any) -> dict[str, Any]:
    for statement in (
        """CREATE TABLE trips (id INT, fare DOUBLE, ts BIGINT, city STRING) USING hudi PARTITIONED BY (city)
           TBLPROPERTIES (primaryKey = 'id', orderingFields = 'ts')""",
        "INSERT INTO trips VALUES (1, 1.5, 1, 'oslo'), (2, 2.5, 1, 'rome')",
        "CREATE TABLE dear USING hudi TBLPROPERTIES (primaryKey = 'id') AS SELECT * FROM trips WHERE fare > 2",
        "CREATE TABLE plain STORED AS PARQUET AS SELECT 1 AS one",
    ):
        spark.sql(statement)
    rows = spark.sql("SELECT id, city FROM dear")
    rows.write.format("hudi").option("hoodie.datasource.write.recordkey.field", "id").saveAsTable("saved")
    return {"trips": told(spark.sql(FARES)), "saved": told(spark.table("saved").select("id", "city"))}


def go_on(spark: Any) -> dict[str, Any]:
    tables = sorted(row.tableName for row in spark.sql("SHOW TABLES").collect())
    for statement in (
        """MERGE INTO trips t USING (SELECT 1 id, 9.5D fare, 2L ts, 'oslo' city UNION ALL SELECT 3, 3.5D, 2L, 'bonn') s
           ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""",
        "ALTER TABLE trips ADD COLUMNS (tip DOUBLE)",
        "UPDATE trips SET tip = 1 WHERE id = 2",
        "INSERT INTO plain VALUES (2)",
        "DROP TABLE dear",
    ):
        spark.sql(statement)
    return {
        "tables": tables,
        "trips": told(spark.sql("SELECT id, city, fare, tip FROM trips ORDER BY id")),
        "partitions": told(spark.sql("SHOW PARTITIONS trips")),
        "plain": told(spark.sql("SELECT one FROM plain ORDER BY one")),
        "left": sorted(row.tableName for row in spark.sql("SHOW TABLES").collect()),
    }


def told(rows: Any) -> list[list[Any]]:
    return [list(row) for row in rows.collect()]


def main(folder: str, what: str) -> None:
    warnings.filterwarnings("ignore", category=FutureWarning)
    os.chdir(folder)  # where Derby puts its log
    spark = session(folder)
    seen = make(spark) if what == "make" else go_on(spark)
    sys.stdout.write(json.dumps(seen) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
