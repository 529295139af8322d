"""SQL that pyhudi itself gives to Spark: it passes the wrapper and the parser of `enable` unchanged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import cast

from pyspark.sql import DataFrame, SparkSession

from pyhudi.spark.enable import original_of
from pyhudi.spark.weak_session import session_id

_lock = Lock()
_passing: Counter[tuple[str, str]] = Counter()
"""By session and text: the same text may be about other tables in another session."""


def plain_sql(spark: SparkSession, text: str) -> DataFrame:
    """What Spark makes of a statement without pyhudi."""
    with passing(spark, text):
        return cast("DataFrame", original_of(type(spark), "sql")(spark, text))


@contextmanager
def passing(spark: SparkSession, text: str) -> Iterator[None]:
    """Leave this text to Spark's parser in this session during a `with` block, whichever thread asks for it."""
    key = (session_id(spark), text)
    with _lock:
        _passing[key] += 1
    try:
        yield
    finally:
        with _lock:
            _passing[key] -= 1
            if not _passing[key]:
                del _passing[key]


def passes(session: str, text: str) -> bool:
    """Whether a text is to be parsed by Spark alone now, in the session of this id."""
    return (session, text) in _passing
