"""The wrappers of `SparkSession.sql` and `DataFrame.mergeInto`, through which Hudi tables reach pyhudi."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from pyspark.sql import SparkSession

from pyhudi.spark.enable import Original, wrap
from pyhudi.spark.settings import is_connect

_SQL, _MERGE_INTO = "sql", "mergeInto"


def install(spark: SparkSession) -> None:
    """Wrap `sql` of this session's class. A second call has no effect; `unwrap` of `spark.enable` undoes it."""
    wrap(type(spark), {_SQL: _sql})
    frames = import_module(f"pyspark.sql.{'connect' if is_connect(spark) else 'classic'}.dataframe")
    wrap(frames.DataFrame, {_MERGE_INTO: _merge_into})


@cache
def can_parse() -> bool:
    """Whether sqlglot is installed, without which all statements go to Spark."""
    return find_spec("sqlglot") is not None


def _merge_into(original: Original) -> Original:
    def merge_into(self: Any, table: str, condition: Any) -> Any:
        if not can_parse():
            return original(self, table, condition)
        from pyhudi.sql.merge_into import writer_of  # noqa: PLC0415 - loaded when it is needed

        return writer_of(self, table, condition) or original(self, table, condition)

    return merge_into


def _sql(original: Original) -> Original:
    def sql(self: Any, sqlQuery: Any, args: Any = None, **kwargs: Any) -> Any:  # noqa: N803 - Spark's own name
        if not isinstance(sqlQuery, str) or not can_parse():
            return original(self, sqlQuery, args, **kwargs)
        # Loaded with the first statement: sqlglot's dialect takes a tenth of a second.
        from pyhudi.sql.run import run  # noqa: PLC0415

        return run(self, sqlQuery, args, kwargs, original)

    return sql
