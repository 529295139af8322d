"""`CACHE TABLE` and `UNCACHE TABLE` of a Hudi table: Spark's cache cannot hold one, as each read plans it anew.

It holds the rows of a query, which are those of the plan that the query has now.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.spark.settings import is_connect
from pyhudi.sql.catalog.names import Names, NotHudi
from pyhudi.sql.plain import plain_sql
from pyhudi.sql.reads import tables_read_now
from pyhudi.sql.statements.alter_table import Nothing
from pyhudi.sql.statements.protocol import Statement
from pyhudi.sql.text.quoting import quoted_name
from pyhudi.sql.text.tokens import Cursor


@dataclass(frozen=True)
class CacheQuery:
    """`CACHE [LAZY] TABLE name [OPTIONS (…)] AS query`.

    Attributes:
        name: the view that the statement makes.
        caching: the statement up to the query, by which Spark caches a view.
        rows: what the query reads.
    """

    name: str
    caching: str
    rows: DataFrame = field(repr=False)

    def run(self, spark: SparkSession) -> DataFrame:
        """Make the view, of the plan and not of the text, which Spark would analyze anew; and have Spark cache it."""
        self.rows.createTempView(self.name)
        return plain_sql(spark, self.caching)


def parse_cache(cursor: Cursor, names: Names) -> Statement:
    """`CACHE [LAZY] TABLE name [OPTIONS (…)] [[AS] query]`; without a query it is refused.

    Raises `UnsupportedFeatureError`.
    """
    start = cursor.place
    cursor.expect("CACHE")
    cursor.accept("LAZY")
    cursor.expect("TABLE")
    name = cursor.name()
    if cursor.accept("OPTIONS"):
        cursor.parenthesised()
    caching = cursor.text[start : cursor.place]
    if cursor.token is not None and not cursor.peek(";"):
        cursor.accept("AS")
        return CacheQuery(quoted_name(*name.parts), caching, _rows_read(names.spark, str(cursor.until())))
    table = names.table(name)
    raise UnsupportedFeatureError(
        "each read of a Hudi table sees its newest state, so Spark's cache cannot hold one under its own name: cache a "
        "query, CACHE TABLE other_name AS SELECT * FROM the table, which keeps the rows of now",
        table=str(table.name),
    )


def _rows_read(spark: SparkSession, query: str) -> DataFrame:
    """The rows of a query that reads Hudi tables in a classic session; other queries are Spark's."""
    if is_connect(spark):
        raise NotHudi  # the plans of the tables travel with the statement
    try:
        with tables_read_now() as read:
            rows = spark.sql(f"SELECT * FROM ({query})")  # noqa: S608 - the user's own words
    except PySparkException:  # Spark says what is wrong with it
        raise NotHudi from None
    if not read:
        raise NotHudi
    return rows


def parse_uncache(cursor: Cursor, names: Names) -> Nothing:
    """`UNCACHE TABLE [IF EXISTS] name`: nothing of a Hudi table is in the cache."""
    cursor.expect("UNCACHE", "TABLE")
    cursor.accept("IF", "EXISTS")
    table = names.table(cursor.name())
    cursor.end()
    return Nothing(table)
