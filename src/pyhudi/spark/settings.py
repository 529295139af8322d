"""Access to the settings of a Spark session, and settings for the time of one call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def temporarily(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Apply settings to the session during a `with` block, and restore the old ones afterwards."""
    before = {key: spark.conf.get(key, None) for key in settings}
    changed = {key: value for key, value in settings.items() if before[key] != value}
    for key, value in changed.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in changed:
            former = before[key]
            if former is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, former)


def setting(spark: SparkSession, name: str) -> str | None:
    """The value of a session option as text, or None if it is not set and has no default."""
    value = spark.conf.get(name, None)
    return None if value is None else str(value)


def is_connect(spark: SparkSession) -> bool:
    """Whether this is a session of Spark Connect. Its driver is another process."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def runs_here(spark: SparkSession) -> bool:
    """Whether this process is the driver and the executors run on this machine."""
    return not is_connect(spark) and (setting(spark, "spark.master") or "").startswith("local")
