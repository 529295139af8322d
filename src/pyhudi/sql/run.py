"""One text of `spark.sql`: run by pyhudi if it is a statement on a Hudi table, else by Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.spark.enable import Original
from pyhudi.spark.reads.callbacks import original_errors
from pyhudi.sql.arguments import bound, with_frames
from pyhudi.sql.catalog.names import NamedTable
from pyhudi.sql.dispatch import may_be_ours, statement_of
from pyhudi.sql.functions.table_functions import calls_functions, with_table_functions
from pyhudi.sql.plain import passing
from pyhudi.sql.reads import table_rows
from pyhudi.sql.rewriting import makes_view, with_calls, with_queries
from pyhudi.sql.sessions import serve
from pyhudi.sql.text.relations import Relation
from pyhudi.sql.text.tokens import is_cut_into_words


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


@dataclass(frozen=True)
class Rewritten:
    """A statement of Spark's with its Hudi tables replaced, and the DataFrames that travel with it."""

    text: str
    frames: Mapping[str, DataFrame] = field(default_factory=dict)


def with_hudi_tables(spark: SparkSession, text: str, frames: Mapping[str, Any]) -> Rewritten | None:
    """The statement with what Spark cannot resolve itself replaced; None where there is nothing of it.

    Raises:
        TableNotFoundError: the catalog knows a Hudi table, and there is none in its folder.
        HistoryNotRetainedError: a moment is asked for whose files are gone.
        UnsupportedFeatureError: the statement makes a temporary view over a Hudi table, on Spark Connect.
    """
    if serve(spark):
        written = with_calls(spark, text)
        return None if written is None else Rewritten(written)
    return _with_frames(spark, text, frames)


def _with_frames(spark: SparkSession, text: str, frames: Mapping[str, Any]) -> Rewritten | None:
    added: dict[str, DataFrame] = {}
    known: dict[tuple[Any, ...], str] = {}

    def frame(table: NamedTable, relation: Relation) -> str:
        key = (table.full_name, relation.clause, *sorted(relation.options.items()))
        if key not in known:
            known[key] = f"pyhudi_{len(known)}"
            added[known[key]] = table_rows(spark, table, relation.moment, relation.options)
        return "{" + known[key] + "}"

    if makes_view(text):
        if with_queries(spark, text, frame) is not None:
            raise UnsupportedFeatureError(
                "on Spark Connect, and with PYSPARK_PIN_THREAD=false, a temporary view cannot read a Hudi table anew "
                "each time: make one of a DataFrame, df.createOrReplaceTempView(name), which has the rows of now"
            )
        return None
    written = text if frames else text.replace("{", "{{").replace("}", "}}")
    found = with_queries(spark, written, frame)
    return None if found is None else Rewritten(found, added)
