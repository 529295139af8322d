"""Resolution of SQL texts: whether Spark resolves them beside some rows. A "no" is not logged as an error."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Those in which PySpark writes errors with a query, when they are made."""
_asks: ContextVar[bool] = ContextVar("pyhudi_asks_spark", default=False)


class _NoAnswers(logging.Filter):
    """Leaves errors out that are answers to our questions."""

    def filter(self, record: logging.LogRecord) -> bool:
        del record
        return not _asks.get()


_NO_ANSWERS = _NoAnswers()


def resolves(rows: DataFrame, texts: Sequence[str]) -> bool:
    """Whether Spark resolves SQL expressions with the columns of these rows. Cost: one analysis, no job."""
    try:
        with _unlogged():
            _ = rows.select(*map(sql.expr, texts)).schema
    except PySparkException:
        return False
    return True


@contextmanager
def _unlogged() -> Iterator[None]:
    for name in _LOGGERS:
        PySparkLogger.getLogger(name).addFilter(_NO_ANSWERS)  # once: a logger keeps a filter once
    token = _asks.set(True)
    try:
        yield
    finally:
        _asks.reset(token)
