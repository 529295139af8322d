"""Hudi's options among the settings of a session: `SET hoodie.index.type = BLOOM`."""

from __future__ import annotations

from pyspark.sql import SparkSession

_PREFIXES = ("hoodie.", "spark.hoodie.")


def session_options(spark: SparkSession) -> dict[str, str]:
    """The settings of a session whose names begin with `hoodie.`, or `spark.hoodie.`, which means the same."""
    settings = spark.conf.getAll
    found = {name: value for name, value in settings.items() if name.lower().startswith(_PREFIXES)}
    longer = {name.removeprefix("spark."): value for name, value in found.items() if name.startswith("spark.")}
    return {**longer, **{name: value for name, value in found.items() if not name.startswith("spark.")}}
