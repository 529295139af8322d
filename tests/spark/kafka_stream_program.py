"""Runs an example of Spark's own Kafka reader until nothing is new, and says in JSON what its table has."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import pyhudi

SESSION = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def main(jars: str, example: str, table: str) -> None:
    builder = SparkSession.builder.master("local[2]")
    for name, value in {**SESSION, "spark.jars": ",".join(map(str, Path(jars).glob("*.jar")))}.items():
        builder = builder.config(name, value)
    spark = pyhudi.enable(builder.getOrCreate())
    names: dict[str, Any] = {"spark": spark}
    exec(example, names)
    names["query"].processAllAvailable()
    names["query"].stop()
    spark.stop()
    found = pyhudi.HudiTable.for_path(table)
    rows = found.scan(["id", "city", "topic"]).to_arrow().sort_by("id").to_pylist()
    sys.stdout.write(json.dumps({"rows": rows, "commits": found.inspect.history().num_rows}) + "\n")


main(*sys.argv[1:])
