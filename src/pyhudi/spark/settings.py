"""Settings of a Spark session that hold for one call only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def temporarily(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Run a block under these settings, and leave the session as it was."""
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
