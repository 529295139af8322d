"""One text of `spark.sql`, run by pyhudi if it is about a Hudi table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from pyhudi.sql.arguments import bound, with_frames
from pyhudi.sql.dispatch import may_be_ours, statement_of


def run_if_ours(spark: SparkSession, text: str, args: Any, frames: Mapping[str, Any]) -> DataFrame | None:
    """The rows of a statement on a Hudi table; None if the statement is Spark's, and nothing was done."""
    if not may_be_ours(text):
        return None
    with with_frames(spark, text, frames) as written:
        statement = statement_of(spark, bound(written, args))
        return None if statement is None else statement.run(spark)
