"""Reads a table in a session that pyhudi did not make and that nobody showed pyhudi to; says in JSON what it found."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

SMALL_SESSION = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def main(table: str, elsewhere: str) -> None:
    builder = SparkSession.builder.master("local[2]")
    for name, value in SMALL_SESSION.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    found: dict[str, Any] = {"read": ids(spark.read.format("hudi").load(table))}
    spark.sql(f"CREATE TEMPORARY VIEW by_name USING hudi OPTIONS (path '{table}')")
    found["sql"] = ids(spark.sql("SELECT * FROM by_name"))
    rows = spark.createDataFrame([(1,)], "id int")
    found["written"] = told_by(lambda: rows.write.format("hudi").mode("append").save(elsewhere))
    found["imported"] = "pyhudi" in sys.modules

    import pyhudi

    pyhudi.enable(pyhudi.enable(spark))
    spark.sql(f"CREATE TEMPORARY VIEW by_package USING org.apache.hudi OPTIONS (path '{table}')")
    found["by package"] = ids(spark.sql("SELECT * FROM by_package"))
    sys.stdout.write(json.dumps(found) + "\n")
    spark.stop()


def ids(rows: Any) -> list[int]:
    return sorted(row.id for row in rows.select("id").collect())


def told_by(action: Callable[[], object]) -> str:
    """The error of an action that has to fail."""
    try:
        action()
    except Exception as error:  # noqa: BLE001 - Spark's own kinds of error around ours
        return str(error)
    return "nothing"


main(*sys.argv[1:])
