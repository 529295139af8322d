"""A writer that writes through a real Spark session, beside those without: `run_spark_writer`."""

from __future__ import annotations

from tests.chaos.beside import calls_until_stopped
from tests.chaos.journal import Journal
from tests.chaos.setting import CALL_METADATA, Setting

from pyhudi.errors import HudiError, TransactionError
from pyhudi.sql.session import spark_session
from pyhudi.testing.isolation import Ending

_CONFIG = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def run_spark_writer(setting: Setting, name: str) -> None:
    """Upsert new keys in several partitions by Spark until told to stop (SIGTERM)."""
    journal = Journal(setting.folder, name)
    calls = calls_until_stopped(setting, journal)
    spark = spark_session(master="local[1]", config=_CONFIG)
    for call, rows in calls:
        try:
            result = setting.open().upsert(spark.createDataFrame(rows), hudi_options={CALL_METADATA: call})
        except TransactionError as error:
            journal.end(call, Ending.FAILED, error=type(error).__name__, why=str(error))
        except HudiError as error:
            journal.end(call, Ending.UNKNOWN, error=type(error).__name__, why=str(error))
        else:
            journal.end(call, Ending.OK, result=result.instant)
    spark.stop()
