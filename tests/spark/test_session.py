"""What `pyhudi.spark_session()` chooses for its sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyspark
import pytest

from pyhudi.spark.capabilities import IS_4
from pyhudi.spark.settings import settings_of


@pytest.mark.skipif(
    pyspark.__version__.startswith(("3.5.", "4.0.")), reason="PySpark before 4.1 talks to its workers by TCP alone"
)
def test_spark_and_its_workers_on_one_machine_do_not_talk_by_tcp(spark: Any) -> None:
    def connections(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import psutil  # the worker's own

        for _ in batches:
            yield pa.record_batch({"count": [len(psutil.Process().net_connections("inet"))]})

    assert [row["count"] for row in spark.range(0, 1, 1, 1).mapInArrow(connections, "count long").collect()] == [0]


def test_settings_of_a_session_are_those_that_spark_gives_one_by_one(spark: Any) -> None:
    session = spark.newSession()
    session.conf.set("hoodie.odd", "a -> b\n\nc, (d) ü\x1e")
    session.conf.set("hoodie.empty", "")

    given = session.conf.getAll if IS_4 else dict(session.sql("SET").collect())
    assert settings_of(session) == given
    assert settings_of(session)["hoodie.odd"] == "a -> b\n\nc, (d) ü\x1e"
