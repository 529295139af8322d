"""What `kill_driver` runs in a process of its own: `killed_driver_program.py <master> <calls> <JSON of settings>`.

Upserts rows by Spark. The driver is killed when so many calls of its engine have ended: between two stages. Prints the
calls.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any

warnings.filterwarnings("ignore", category=FutureWarning)


def main(master: str, calls: int, settings: dict[str, Any]) -> None:
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
    spark = pyhudi.spark_session(master=master, config=settings["config"])
    rows = spark.range(0, 40, 1, 2).selectExpr("id", "concat('c', id % 4) city", "2L ts", "-1L fare")
    rows.write.format("hudi").options(**settings["store"]).mode("append").save(settings["uri"])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]))
