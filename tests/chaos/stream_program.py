"""Run by `streams.py`, which kills it: a stream from one Hudi table into another, one commit at a time.

`stream_program.py <folder> <options of the sink, in JSON> <"once" to stop where nothing is left>`. It says `ready` when
the query runs.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import warnings
from pathlib import Path
from typing import Any

CONFIG = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.python.authenticate.socketTimeout": "120s",
}


def main(folder: Path, options: dict[str, str], *, once: bool) -> None:
    """Follow the table until there is nothing left, or until somebody kills this process."""
    warnings.filterwarnings("ignore", category=FutureWarning)
    from pyhudi.sql.session import spark_session

    spark = spark_session(master="local[2]", config=CONFIG)
    follow(spark, folder, options, once=once)
    spark.stop()


def limits() -> dict[str, str]:
    """One commit to a micro-batch; none where PySpark (4.0, 4.1) has no limits: a micro-batch then has all there is."""
    has_limits = importlib.util.find_spec("pyspark.sql.streaming.datasource") is not None
    return {"maxCommitsPerTrigger": "1"} if has_limits else {}


def follow(spark: Any, folder: Path, options: dict[str, str], *, once: bool) -> None:
    """Stream from the folder's table `source` into `copy`, on this session."""
    source = spark.readStream.format("hudi").options(**limits()).load(str(folder / "source"))
    writer = source.select("id", "city", "n").writeStream.format("hudi").options(**options)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")
    # Without limits Spark runs one micro-batch: the one that a killed query had begun, if there is one.
    for _ in range(2 if once and not limits() else 1):
        query = writer.start(str(folder / "copy"))
        print("ready", flush=True)  # noqa: T201
        query.awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), once=sys.argv[3:] == ["once"])
