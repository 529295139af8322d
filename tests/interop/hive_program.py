"""Run by `test_hive_metastore.py`: `hive_program.py <folder> <what> [<jar>]`, on a session with a Hive metastore.

Makes tables (`make`), goes on with those of an earlier process (`go on`), or runs a JSON list of statements; with a jar
by JVM Hudi, in the Python of the judges. Its last line says in JSON what it saw.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

FARES = "SELECT id, city, fare FROM trips ORDER BY id"


def session(folder: str, jar: str) -> Any:
    config = {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        # JVM Hudi writes the columns of a table in another form into its entry than Spark does.
        "spark.hadoop.hive.metastore.disallow.incompatible.col.type.changes": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    if not jar:
        import pyhudi

        return pyhudi.spark_session(master="local[2]", config=config)
    from pyspark.sql import SparkSession

    sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "oracle"))
    settings = importlib.import_module("server").SESSION_SETTINGS
    builder = SparkSession.builder.master("local[2]").config("spark.driver.extraClassPath", jar)
    for key, value in {**settings, **config}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


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


def main(folder: str, what: str, jar: str = "") -> None:
    warnings.filterwarnings("ignore", category=FutureWarning)
    os.chdir(folder)  # where Derby puts its log
    spark = session(folder, jar)
    acts = {"make": make, "go on": go_on}
    seen = acts[what](spark) if what in acts else [told(spark.sql(statement)) for statement in json.loads(what)]
    sys.stdout.write(json.dumps(seen) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
