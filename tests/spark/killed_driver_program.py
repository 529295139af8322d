"""What `test_killed_driver.py` runs in a process of its own: `killed_driver_program.py <folder> <calls>`.

Upserts rows by Spark. The driver is killed when so many calls of its engine have ended: between two stages.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any

warnings.filterwarnings("ignore", category=FutureWarning)

CONFIG = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.python.authenticate.socketTimeout": "120s",
}


def main(folder: str, calls: int) -> None:
    import pyhudi
    from pyhudi.spark import engine

    ended = 0

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **named: Any) -> Any:
            nonlocal ended
            result = call(*args, **named)
            ended += 1
            sys.stdout.write(f"{call.__name__}\n")
            sys.stdout.flush()
            if ended == calls:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return run

    engine.IN_PROCESS_BYTES_MAX = 0  # each stage is one of Spark
    for name in ("map_splits", "map", "exchange"):
        setattr(engine.SparkEngine, name, counted(getattr(engine.SparkEngine, name)))
    spark = pyhudi.spark_session(master="local[2]", config=CONFIG)
    rows = spark.range(0, 40, 1, 2).selectExpr("id", "concat('c', id % 4) city", "2L ts", "-1L fare")
    rows.write.format("hudi").mode("append").save(folder)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
