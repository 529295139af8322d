"""The stream of one peer in one process: `python stream_worker.py '<json>'`, started by `streams.py`.

The last line on stdout is a JSON list: the seconds of each micro-batch.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

ROWS = 100
KEYS = 10_000
OPTIONS = {
    "hoodie.table.name": "numbers",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.metadata.enable": "false",
}


def seconds_of_batches(spark: Any, work: Path, table_type: str, batches: int) -> list[float]:
    """Run the query for so many micro-batches."""
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", str(2 * batches))
    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load()
    rows = numbers.selectExpr(f"value % {KEYS} AS id", "concat('text ', value) AS text", "value AS ts")
    writer = rows.writeStream.format("hudi").options(**OPTIONS)
    writer = writer.option("hoodie.datasource.write.table.type", table_type)
    query = writer.option("checkpointLocation", str(work / "checkpoint")).start(str(work / "table"))
    while (query.lastProgress or {"batchId": 0})["batchId"] < batches:
        time.sleep(0.5)
        if (error := query.exception()) is not None:
            raise error
    query.stop()
    progress = sorted(query.recentProgress, key=lambda each: each["batchId"])
    return [each["durationMs"]["triggerExecution"] / 1000 for each in progress][:batches]


def main() -> None:
    request = json.loads(sys.argv[1])
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    module, _, name = request["peer"].partition(":")
    work = Path(request["work"])
    peer = getattr(importlib.import_module(module), name)(work, request["jars"])
    peer.start()
    seconds = seconds_of_batches(peer.spark, work, request["type"], request["batches"])
    peer.stop()
    print(json.dumps(seconds), file=out, flush=True)


if __name__ == "__main__":
    main()
