"""The rows of a Hudi table that a statement names, and which tables were read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import TimestampType

from pyhudi.format.timeline.instant import format_instant_time
from pyhudi.spark.options import table_options
from pyhudi.spark.reads.reader import load_table
from pyhudi.sql.catalog.names import NamedTable
from pyhudi.sql.plain import plain_sql
from pyhudi.sql.text.tokens import Slice
from pyhudi.storage.open import open_storage
from pyhudi.table.instant_times import table_zone

_AS_OF = "as.of.instant"
_LITERAL = re.compile(r"'[^'\\]*'|\d+")
_lock = Lock()
_watching: list[set[str]] = []


@contextmanager
def tables_read_now() -> Iterator[set[str]]:
    """The URIs of the tables that queries read in their newest state during the block, by names or through views.

    The set grows during the block. Tables that other threads read meanwhile are among them: the JVM asks for tables in
    any thread.
    """
    uris: set[str] = set()
    with _lock:
        _watching.append(uris)
    try:
        yield uris
    finally:
        with _lock:
            _watching[:] = [watching for watching in _watching if watching is not uris]


def table_rows(
    spark: SparkSession, table: NamedTable, moment: Slice | None = None, options: Mapping[str, Any] | None = None
) -> DataFrame:
    """The rows of a table as of now, or of a moment, with the options of a reader.

    Cost: that of planning a read; of a moment that is an expression, also a load of the table.
    """
    given = dict(table_options(options or {}))
    if moment is not None:
        given[_AS_OF] = _instant_of(spark, table, moment)
    elif _watching:
        uri = open_storage(table.location, table.options(spark)).uri
        with _lock:
            for uris in _watching:
                uris.add(uri)
    return load_table(spark, table.location, table.options(spark, given))


def _instant_of(spark: SparkSession, table: NamedTable, moment: Slice) -> str:
    """The time or instant of an expression, as text in the table's time zone."""
    written = str(moment)
    if _LITERAL.fullmatch(written):
        return written.strip("'")
    value = plain_sql(spark, f"SELECT {written} AS moment")
    if isinstance(value.schema.fields[0].dataType, TimestampType):
        [row] = value.select(sql.unix_millis("moment")).collect()
        config = table.open(spark).handle.state.config
        return str(row[0]) if row[0] is None else format_instant_time(row[0], table_zone(config))
    [row] = value.select(sql.col("moment").cast("string")).collect()
    return str(row[0])
