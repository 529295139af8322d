"""What `pyhudi.spark_session()` chooses for its sessions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest

from pyhudi.errors import ConfigError
from pyhudi.spark.capabilities import IS_4
from pyhudi.spark.settings import settings_of
from pyhudi.sql.session import prepare_process


@pytest.mark.skipif(
    pyspark.__version__.startswith(("3.5.", "4.0.")), reason="PySpark before 4.1 talks to its workers by TCP alone"
)
def test_spark_and_its_workers_on_one_machine_do_not_talk_by_tcp(spark: Any) -> None:
    def connections(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import psutil

        worker = psutil.Process()
        of_jvm = {connection.laddr.port for connection in worker.parents()[1].net_connections("inet")}
        # A worker that has run other tests may still be connected to their object store.
        connected = [connection.raddr.port for connection in worker.net_connections("inet") if connection.raddr]
        for _ in batches:
            yield pa.record_batch({"count": [sum(port in of_jvm for port in connected)]})

    assert [row["count"] for row in spark.range(0, 1, 1, 1).mapInArrow(connections, "count long").collect()] == [0]


def test_settings_of_a_session_are_those_that_spark_gives_one_by_one(spark: Any) -> None:
    session = spark.newSession()
    session.conf.set("hoodie.odd", "a -> b\n\nc, (d) ü\x1e")
    session.conf.set("hoodie.empty", "")

    given = session.conf.getAll if IS_4 else dict(session.sql("SET").collect())
    assert settings_of(session) == given
    assert settings_of(session)["hoodie.odd"] == "a -> b\n\nc, (d) ü\x1e"


def test_spark_home_of_another_version_is_refused_by_both_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jars").mkdir()
    core = tmp_path / "jars" / f"spark-core_2.13-{pyspark.__version__}.jar"
    core.touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", os.environ.get("JAVA_HOME", ""))
    prepare_process()

    core.rename(core.with_name("spark-core_2.12-3.4.1.jar"))
    with pytest.raises(ConfigError, match="SPARK_HOME names a Spark of another version") as raised:
        prepare_process()
    assert raised.value.context == {
        "spark_home": str(tmp_path),
        "spark": "3.4.1",
        "pyspark": pyspark.__version__,
    }
