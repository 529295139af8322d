"""Runs scripts of SQL in a session of Spark and says what each statement gave, in JSON.

    spark_script_program.py plain|enabled SCRIPT…

With `enabled` the session has `pyhudi.enable`. Numbers that Spark gives anew in each session are left out.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import pyhudi

_TEXT_MAX = 500
"""Characters of an answer that are compared: beyond them are traces of the JVM."""

_OF_THE_SESSION = re.compile(
    r"#\d+L?|plan_id=\d+|file:\S+|\$\$Lambda\S+|\bo\d+\.|Created Time.*|\w{3} \w{3} \d\d \d\d:\d\d:\d\d \w+ \d{4}"
    r"|created_time\":\"[^\"]*|Last Access.*|\(TID.*"
)


def main(kind: str, scripts: list[str]) -> None:
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    if kind == "enabled":
        pyhudi.enable(spark)
    said = {Path(script).stem: _said_of(spark, Path(script).read_text()) for script in scripts}
    sys.stdout.write(json.dumps(said) + "\n")


def _said_of(spark: SparkSession, script: str) -> list[tuple[str, str]]:
    """What each statement gave, in a database of its own."""
    spark.range(1, 101).selectExpr("int(id) AS key", "string(id) AS value").createOrReplaceTempView("testdata")
    for database in spark.catalog.listDatabases():
        if database.name != "default":
            spark.sql(f"DROP DATABASE `{database.name}` CASCADE")
    spark.sql("CREATE DATABASE script")
    spark.sql("USE script")
    try:
        return [(statement, _answer(spark, statement)) for statement in _statements(script)]
    finally:
        spark.sql("RESET")
        spark.sql("USE spark_catalog.default")


def _answer(spark: SparkSession, statement: str) -> str:
    try:
        frame = spark.sql(statement)
        rows: Any = (frame.schema.simpleString(), sorted(str(row) for row in frame.collect()))
    except Exception as error:  # noqa: BLE001 - what Spark says is the answer
        rows = (type(error).__name__, str(error))
    return _OF_THE_SESSION.sub("", str(rows))[:_TEXT_MAX]


def _statements(script: str) -> Iterator[str]:
    """The statements of a script. One ends with a line that ends with `;`, or between two marks that say so."""
    lines: list[str] = []
    is_whole = False
    for line in [*script.splitlines(), ";"]:
        if line.startswith("--QUERY-DELIMITER-"):
            is_whole = line.startswith("--QUERY-DELIMITER-START")
        elif line.lstrip().startswith("--"):
            continue
        else:
            lines.append(line)
        if not is_whole and lines and lines[-1].rstrip().endswith(";"):
            statement = "\n".join(lines).strip().rstrip(";")
            lines.clear()
            if statement:
                yield statement


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
