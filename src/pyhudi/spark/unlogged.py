"""Questions to Spark whose answer may be an error, which PySpark then does not log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pyhudi.spark.capabilities import logger_of_queries

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Those in which PySpark writes errors with a query, when they are made."""
_asks: ContextVar[bool] = ContextVar("pyhudi_asks_spark", default=False)


class _NoAnswers(logging.Filter):
    """Leaves errors out that are answers to our questions."""

    def filter(self, record: logging.LogRecord) -> bool:
        del record
        return not _asks.get()


_NO_ANSWERS = _NoAnswers()


@contextmanager
def unlogged() -> Iterator[None]:
    """Leave errors of queries out of the log during a `with` block of this thread."""
    for name in _LOGGERS:
        logger_of_queries(name).addFilter(_NO_ANSWERS)  # once: a logger keeps a filter once
    token = _asks.set(True)
    try:
        yield
    finally:
        _asks.reset(token)
