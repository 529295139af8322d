"""One Spark session for all tests of a run, and a few ways to make rows on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import py4j
import pyspark
import pytest

SMALL_SESSION: Mapping[str, str] = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "4",
    "spark.default.parallelism": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Spark's default of 15 seconds is too short for workers that start on a busy machine.
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.sql.scripting.enabled": "true",  # the default since Spark 4.1
    # Not UTC, so that instants that lose or gain an offset are seen.
    "spark.sql.session.timeZone": "America/New_York",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session of `pyhudi.spark_session()` with two cores, shared by the run: leave its options as they were."""
    from pyhudi.sql.session import spark_session

    config = {**SMALL_SESSION, "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_HOME", str(_unpacked_spark(tmp_path_factory.mktemp("spark"))))
        session = spark_session(master="local[2]", config=config)
    _remember_class_that_tells_errors_apart(session._jvm)
    yield session
    session.stop()


def _unpacked_spark(home: Path) -> Path:
    """A home of Spark in which PySpark is a folder, made of links: of its zip file each worker compiles it again."""
    installed = Path(pyspark.__file__).parent
    for entry in installed.iterdir():
        if entry.name != "python":
            (home / entry.name).symlink_to(entry)
    for archive in (installed / "python" / "lib").iterdir():
        package = Path(py4j.__file__).parent if archive.name.startswith("py4j") else installed
        path = home / "python" / "lib" / archive.name
        path.mkdir(parents=True)
        (path / package.name).symlink_to(package)
    return home


def _remember_class_that_tells_errors_apart(jvm: Any) -> None:
    """PySpark looks `py4j.reflection.TypeUtil` up some twenty times for an error, and each time in all jars.

    That was a third of the JVM's time in tests of errors.
    """
    jvm.py4j = jvm.py4j
    jvm.py4j.reflection = jvm.py4j.reflection
    jvm.py4j.reflection.TypeUtil = jvm.py4j.reflection.TypeUtil


@contextmanager
def temporarily(session: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session during a `with` block."""
    before = {name: session.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            session.conf.unset(name) if value is None else session.conf.set(name, value)


@contextmanager
def results_at_most(session: Any, size: str) -> Iterator[None]:
    """A limit of what a job of Spark sends to the driver (`spark.driver.maxResultSize`) during a `with` block."""
    conf = session.sparkContext._jsc.sc().conf()
    conf.set("spark.driver.maxResultSize", size)
    try:
        yield
    finally:
        conf.remove("spark.driver.maxResultSize")


def trip_options(**more: str) -> dict[str, str]:
    """Hudi's options for a table of trips: keys `uuid`, partitions `city`, the greatest `ts` wins."""
    return {
        "hoodie.table.name": "trips",
        "hoodie.datasource.write.recordkey.field": "uuid",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.operation": "upsert",
        **more,
    }
