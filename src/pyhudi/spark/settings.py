"""Access to the settings of a Spark session."""

from __future__ import annotations

import uuid

from pyspark.sql import SparkSession


def setting(spark: SparkSession, name: str) -> str | None:
    """The value of a session option as text, or None if it is not set and has no default."""
    value = spark.conf.get(name, None)
    return None if value is None else str(value)


def settings_of(spark: SparkSession) -> dict[str, str]:
    """All settings of a session that are set, by name. Cost: on classic sessions three calls to the driver's JVM.

    `spark.conf.getAll` makes several calls for each setting: tens of milliseconds, which each statement would take.
    """
    if is_connect(spark):
        return dict(spark.conf.getAll)
    between = f"\n{uuid.uuid4()}\n"  # which no value has
    text = str(spark._jsparkSession.conf().getAll().mkString(between))
    return dict(entry.split(" -> ", 1) for entry in text.split(between)) if text else {}


def is_connect(spark: SparkSession) -> bool:
    """Whether this is a session of Spark Connect. Its driver is another process."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def runs_here(spark: SparkSession) -> bool:
    """Whether this process is the driver and the executors run on this machine."""
    return not is_connect(spark) and (setting(spark, "spark.master") or "").startswith("local")
