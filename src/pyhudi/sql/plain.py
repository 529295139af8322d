"""SQL that pyhudi itself gives to Spark: it passes the wrapper and the parser of `enable` unchanged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import cast

from pyspark.sql import DataFrame, SparkSession

from pyhudi.spark.enable import original_of

_lock = Lock()
_passing: Counter[str] = Counter()


def plain_sql(spark: SparkSession, text: str) -> DataFrame:
    """What Spark makes of a statement without pyhudi."""
    with passing(text):
        return cast("DataFrame", original_of(type(spark), "sql")(spark, text))


@contextmanager
def passing(text: str) -> Iterator[None]:
    """Leave this text to Spark's parser during a `with` block, whichever thread asks for it."""
    with _lock:
        _passing[text] += 1
    try:
        yield
    finally:
        with _lock:
            _passing[text] -= 1
            if not _passing[text]:
                del _passing[text]


def passes(text: str) -> bool:
    """Whether a text is to be parsed by Spark alone now."""
    return _passing[text] > 0
