"""One text of `spark.sql`: run by pyhudi if it is a statement on a Hudi table, else by Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from pyhudi.spark.enable import Original
from pyhudi.spark.settings import is_connect
from pyhudi.sql.arguments import bound, with_frames
from pyhudi.sql.dispatch import may_be_ours, statement_of
from pyhudi.sql.functions.table_functions import calls_functions, with_table_functions
from pyhudi.sql.plain import passes, passing
from pyhudi.sql.reads import with_hudi_tables
from pyhudi.sql.text.tokens import is_cut_into_words


def run(spark: SparkSession, text: str, args: Any, frames: Mapping[str, Any], original: Original) -> Any:
    """What `spark.sql(text, args, **frames)` gives; `original` is the method of Spark."""
    if passes(text) or not is_cut_into_words(text):
        return _by_spark(original, spark, text, args, frames)
    rows = _run_if_ours(spark, text, args, frames)
    if rows is not None:
        return rows
    if calls_functions(text):
        called = with_table_functions(spark, bound(text, args), is_format=bool(frames))
        if called is not None:
            text, args, frames = called.text, None, {**frames, **called.frames}
    found = with_hudi_tables(spark, text, frames)
    if found is None:
        with passing(text):
            return _by_spark(original, spark, text, args, frames)
    with passing(found.text):
        return _by_spark(original, spark, found.text, args, {**frames, **found.frames})


def _by_spark(original: Original, spark: SparkSession, text: str, args: Any, frames: Mapping[str, Any]) -> Any:
    try:
        return original(spark, text, args, **frames)
    except Exception as error:
        if is_connect(spark):
            raise
        from pyhudi.sql.parser import as_spark_raises  # noqa: PLC0415 - py4j is not everywhere

        told = as_spark_raises(error)
        if told is error:
            raise
        raise told from None


def _run_if_ours(spark: SparkSession, text: str, args: Any, frames: Mapping[str, Any]) -> DataFrame | None:
    """The rows of a statement on a Hudi table; None if the statement is Spark's, and nothing was done."""
    if not may_be_ours(text):
        return None
    with with_frames(spark, text, frames) as written:
        statement = statement_of(spark, bound(written, args))
        return None if statement is None else statement.run(spark)
