"""Run by `test_catalog_sync.py`: writes of JVM Hudi that sync, in the Python of the judges, and queries by name.

Its argument is JSON: the jar, which is null for a session of pyhudi, the metastore's address, and steps. Its last line
says in JSON what each step gave.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any


def main(text: str) -> None:
    given = json.loads(text)
    os.chdir(given["folder"])
    spark = session(given)
    answers = [run(spark, step) for step in given["steps"]]
    sys.stdout.write(json.dumps(answers) + "\n")
    spark.stop()


def session(given: dict[str, Any]) -> Any:
    own = {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.uris": given["uri"],
        "spark.sql.warehouse.dir": f"{given['folder']}/warehouse",
    }
    if given["jar"] is None:
        import pyhudi

        return pyhudi.spark_session(master="local[2]", config=own)
    from pyspark.sql import SparkSession

    sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "oracle"))
    settings = importlib.import_module("server").SESSION_SETTINGS
    builder = SparkSession.builder.master("local[2]").config("spark.driver.extraClassPath", given["jar"])
    for key, value in {**settings, **own}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def run(spark: Any, step: dict[str, Any]) -> Any:
    if "query" in step:
        return [list(row) for row in spark.sql(step["query"]).collect()]
    rows = spark.read.parquet(step["rows"])
    rows.write.format("hudi").options(**step["options"]).mode("append").save(step["write"])
    return None


if __name__ == "__main__":
    main(sys.argv[1])
