"""The forms that all statements have in common: a frozen value that runs on a session, and the parser that makes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from pyhudi.sql.catalog.names import Names
from pyhudi.sql.text.tokens import Cursor


class Statement(Protocol):
    """One statement on a Hudi table, understood and checked against the catalog. Only `run` has an effect."""

    def run(self, spark: SparkSession) -> DataFrame:
        """Do what the statement says, and give its rows."""
        ...


Parser: TypeAlias = Callable[[Cursor, Names], Statement]
"""Parses a statement from its first word on.

Raises:
    NotHudi: the statement is about something else than a Hudi table, and goes to Spark.
    SqlStatementError: it is about one, and not understood.
"""


@dataclass(frozen=True, slots=True)
class Verb:
    """The first words of a statement, and its parser."""

    words: tuple[str, ...]
    parse: Parser


def no_rows(spark: SparkSession) -> DataFrame:
    """The result of a statement that gives nothing: no rows, no columns."""
    return spark.range(0).select()  # `createDataFrame` of no rows takes some thirty calls to the driver's JVM


def texts(spark: SparkSession, columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> DataFrame:
    """Rows of texts as the result of a statement."""
    return spark.createDataFrame(
        [tuple(row) for row in rows], StructType([StructField(name, StringType()) for name in columns])
    )
