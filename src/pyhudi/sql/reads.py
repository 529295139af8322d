"""Hudi tables in statements of Spark's: reads as DataFrames, as classic sessions and Spark Connect take them.

In a classic session a name becomes the call of a table-valued function, whose plan comes from this process: so it works
in every place where a table may stand, and in temporary views. On Spark Connect, DataFrames travel with the statement.
All names of a table in one statement read the same state of it.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from pyhudi.config.read_config import ReadConfig
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.read.scan import ScanPlan
from pyhudi.read.table_of_path import plan_of_path
from pyhudi.spark.options import table_options
from pyhudi.spark.reads.reader import scan_frame
from pyhudi.spark.settings import is_connect
from pyhudi.sql.catalog.names import NamedTable, Names
from pyhudi.sql.functions.jvm_functions import register
from pyhudi.sql.rewriting import Read, makes_view, rewritten
from pyhudi.sql.text.quoting import literal
from pyhudi.sql.text.tokens import Name
from pyhudi.storage.open import open_storage

_FUNCTION = "pyhudi_table"
_AS_OF = "as.of.instant"
_KEPT = 64
_numbers = itertools.count(1)
_plans: OrderedDict[tuple[str, str | None, tuple[str, ...]], ScanPlan] = OrderedDict()
_lock = Lock()
_registered: WeakKeyDictionary[SparkSession, bool] = WeakKeyDictionary()
_watching: list[set[str]] = []


@dataclass(frozen=True)
class Rewritten:
    """A statement of Spark's with its Hudi tables replaced, and the DataFrames that travel with it."""

    text: str
    frames: Mapping[str, DataFrame] = field(default_factory=dict)


@contextmanager
def tables_read_now() -> Iterator[set[str]]:
    """The URIs of the tables that queries read in their newest state during the block, by names or through views.

    The set grows during the block. Tables that other threads read meanwhile are among them: the JVM asks for tables in
    any thread.
    """
    found: set[str] = set()
    with _lock:
        _watching.append(found)
    try:
        yield found
    finally:
        with _lock:
            _watching[:] = [one for one in _watching if one is not found]


def _note(spark: SparkSession, table: NamedTable, as_of: str | None) -> None:
    if as_of is None and _watching:
        uri = open_storage(table.location, table.options(spark)).uri
        with _lock:
            for found in _watching:
                found.add(uri)


def with_hudi_tables(spark: SparkSession, text: str, frames: Mapping[str, Any]) -> Rewritten | None:
    """The statement as Spark can run it fast; None where it reads no Hudi table, or Spark cannot.

    Raises:
        TableNotFoundError: the catalog knows a Hudi table, and there is none in its folder.
        HistoryNotRetainedError: a moment is asked for whose files are gone.
        UnsupportedFeatureError: the statement makes a temporary view over a Hudi table, on Spark Connect.
    """
    if is_connect(spark):
        return _for_connect(spark, text, frames)
    statement = None if makes_view(text) else str(next(_numbers))

    def call(read: Read) -> str:
        _note(spark, read.table, read.as_of)
        if not _can_register(spark):
            raise _NoCallback
        if statement is not None:
            _planned(spark, read.table, read.as_of, statement)
        values = [statement, read.as_of, *_address(read.table)]
        written = f"{_FUNCTION}({', '.join(map(literal, values))})"
        return written.replace("{", "{{").replace("}", "}}") if frames else written

    try:
        found = rewritten(spark, text, call)
    except _NoCallback:
        return None
    return None if found is None else Rewritten(found)


class _NoCallback(Exception):  # noqa: N818 - a way out, not an error
    """The JVM cannot call this process."""


def _for_connect(spark: SparkSession, text: str, frames: Mapping[str, Any]) -> Rewritten | None:
    added: dict[str, DataFrame] = {}
    known: dict[tuple[Any, ...], str] = {}

    def frame(read: Read) -> str:
        _note(spark, read.table, read.as_of)
        key = (_address(read.table), read.as_of)
        if key not in known:
            known[key] = f"pyhudi_{len(known)}"
            added[known[key]] = table_rows(spark, read.table, read.as_of)
        return "{" + known[key] + "}"

    if makes_view(text):
        if rewritten(spark, text, str) is not None:
            raise UnsupportedFeatureError(
                "on Spark Connect a temporary view cannot read a Hudi table anew each time: make one of a DataFrame, "
                "df.createOrReplaceTempView(name), which has the rows of now"
            )
        return None
    written = text if frames else text.replace("{", "{{").replace("}", "}}")
    found = rewritten(spark, written, frame)
    return None if found is None else Rewritten(found, added)


def table_rows(spark: SparkSession, table: NamedTable, as_of: str | None = None) -> DataFrame:
    """The rows of a table as of now, or of a moment."""
    return scan_frame(spark, _plan(spark, table, as_of))


def _plan(spark: SparkSession, table: NamedTable, as_of: str | None) -> ScanPlan:
    moment = {} if as_of is None else {_AS_OF: as_of}
    options = table_options(table.options(spark, moment))
    return plan_of_path(table.location, options, ReadConfig.from_options(options))[1]


def _planned(spark: SparkSession, table: NamedTable, as_of: str | None, statement: str) -> ScanPlan:
    """The plan of a table's read, the same for all reads of one statement."""
    key = (statement, as_of, _address(table))
    with _lock:
        found = _plans.get(key)
    if found is None:
        found = _plan(spark, table, as_of)
        with _lock:
            _plans[key] = found
            while len(_plans) > _KEPT:
                _plans.popitem(last=False)
    return found


def _address(table: NamedTable) -> tuple[str, ...]:
    """How the function finds the table again: by its full name in the session catalog, or by its path."""
    if table.entry is None:
        return ("hudi", table.location)
    return ("spark_catalog", table.entry.database, table.entry.table)


def _rows_of_call(spark: SparkSession, statement: str | None, as_of: str | None, *address: str) -> DataFrame:
    table = Names(spark).table(Name(address, 0, 0))
    _note(spark, table, as_of)
    if statement is None:
        return table_rows(spark, table, as_of)
    return scan_frame(spark, _planned(spark, table, as_of, statement))


def _can_register(spark: SparkSession) -> bool:
    if spark not in _registered:
        _registered[spark] = register(spark, _FUNCTION, _rows_of_call)
    return _registered[spark]
