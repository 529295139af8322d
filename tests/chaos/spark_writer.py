"""A writer that writes through a real Spark session, beside those without: `run_spark_writer`."""

from __future__ import annotations

import signal
import threading

from tests.chaos.journal import Journal, Work
from tests.chaos.setting import CALL_METADATA, ONCE_AREAS, ONCE_ROWS, Setting, rows_of

from pyhudi.errors import HudiError, TransactionError
from pyhudi.spark.session import spark_session
from pyhudi.testing.isolation import Ending

_CONFIG = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def run_spark_writer(setting: Setting, name: str) -> None:
    """Upsert new keys in several partitions by Spark until told to stop (SIGTERM)."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    spark = spark_session(master="local[1]", config=_CONFIG)
    journal = Journal(setting.folder, name)
    while not stop.is_set():
        call = journal.begin(Work.ONCE, rows=ONCE_ROWS)
        rows = rows_of(call, {(f"{call}/{n}", ONCE_AREAS[n % len(ONCE_AREAS)]): None for n in range(ONCE_ROWS)})
        try:
            result = setting.open().upsert(spark.createDataFrame(rows), **{CALL_METADATA: call})
        except TransactionError as error:
            journal.end(call, Ending.FAILED, error=type(error).__name__, why=str(error))
        except HudiError as error:
            journal.end(call, Ending.UNKNOWN, error=type(error).__name__, why=str(error))
        else:
            journal.end(call, Ending.OK, result=result.instant)
    spark.stop()
