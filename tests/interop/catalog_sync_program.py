"""Run by `test_catalog_sync.py` in the Python of the judges: writes of JVM Hudi that sync, and queries by name.

Its argument is JSON: the jar, the metastore's address, and steps. Its last line says in JSON what each step gave.
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
    from pyspark.sql import SparkSession

    sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "oracle"))
    settings = importlib.import_module("server").SESSION_SETTINGS
    builder = SparkSession.builder.master("local[2]").config("spark.driver.extraClassPath", given["jar"])
    own = {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.uris": given["uri"],
        "spark.sql.warehouse.dir": f"{given['folder']}/warehouse",
    }
    for key, value in {**settings, **own}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    answers = [run(spark, step) for step in given["steps"]]
    sys.stdout.write(json.dumps(answers) + "\n")
    spark.stop()


def run(spark: Any, step: dict[str, Any]) -> Any:
    if "query" in step:
        return [list(row) for row in spark.sql(step["query"]).collect()]
    rows = spark.read.parquet(step["rows"])
    rows.write.format("hudi").options(**step["options"]).mode("append").save(step["write"])
    return None


if __name__ == "__main__":
    main(sys.argv[1])
