"""A statement of Spark's as Spark can run it on Hudi tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.sql.catalog.names import NamedTable
from pyhudi.sql.reads import table_rows
from pyhudi.sql.rewriting import makes_view, with_calls, with_queries
from pyhudi.sql.sessions import serve
from pyhudi.sql.text.relations import Relation


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
