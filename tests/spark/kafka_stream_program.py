"""Streams topics into a table by Spark's own Kafka reader, until nothing is new; says in JSON what the table has."""

from __future__ import annotations

import json
import sys
from pathlib import Path

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
OPTIONS = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.table.ordering.fields": "updated_at",
}


def main(jars: str, servers: str, pattern: str, table: str, checkpoint: str) -> None:
    builder = SparkSession.builder.master("local[2]")
    for name, value in {**SESSION, "spark.jars": ",".join(map(str, Path(jars).glob("*.jar")))}.items():
        builder = builder.config(name, value)
    spark = pyhudi.enable(builder.getOrCreate())
    messages = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    orders = (
        messages.option("subscribePattern", pattern)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("from_json(cast(value AS string), 'id long, city string, updated_at long') AS found", "topic")
        .select("found.*", "topic")
    )
    query = orders.writeStream.format("hudi").options(**OPTIONS).option("checkpointLocation", checkpoint)
    query.trigger(availableNow=True).start(table).awaitTermination()
    spark.stop()
    found = pyhudi.HudiTable.for_path(table)
    rows = found.scan(["id", "city", "topic"]).to_arrow().sort_by("id").to_pylist()
    sys.stdout.write(json.dumps({"rows": rows, "commits": found.inspect.history().num_rows}) + "\n")


main(*sys.argv[1:])
