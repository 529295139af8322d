"""One text of `spark.sql`: run by pyhudi if it is a statement on a Hudi table, else by Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from pyhudi.spark.enable import Original
from pyhudi.spark.reads.callbacks import original_errors
from pyhudi.sql.arguments import bound, with_frames
from pyhudi.sql.dispatch import may_be_ours, statement_of
from pyhudi.sql.functions.table_functions import calls_functions, with_table_functions
from pyhudi.sql.plain import passing
from pyhudi.sql.text.tokens import is_cut_into_words
from pyhudi.sql.with_tables import with_hudi_tables


def run(spark: SparkSession, text: str, args: Any, frames: Mapping[str, Any], original: Original) -> Any:
    """What `spark.sql(text, args, **frames)` gives; `original` is the method of Spark."""
    rows = _run_if_ours(spark, text, args, frames)
    if rows is not None:
        return rows
    if calls_functions(text) and is_cut_into_words(text):
        called = with_table_functions(spark, bound(text, args), is_format=bool(frames))
        if called is not None:
            text, args, frames = called.text, None, {**frames, **called.frames}
    found = with_hudi_tables(spark, text, frames)
    if found is not None:
        text, frames = found.text, {**frames, **found.frames}
    with passing(spark, text), original_errors():
        return original(spark, text, args, **frames)


def _run_if_ours(spark: SparkSession, text: str, args: Any, frames: Mapping[str, Any]) -> DataFrame | None:
    """The rows of a statement on a Hudi table; None if the statement is Spark's, and nothing was done."""
    if not may_be_ours(text) or not is_cut_into_words(text):
        return None
    with with_frames(spark, text, frames) as written:
        statement = statement_of(spark, bound(written, args))
        return None if statement is None else statement.run(spark)
