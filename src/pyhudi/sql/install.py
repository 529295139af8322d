"""The wrapper of `SparkSession.sql`, through which statements on Hudi tables reach pyhudi."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

from pyspark.sql import SparkSession

from pyhudi.spark.enable import Original, wrap

_SQL = "sql"


def install(spark: SparkSession) -> None:
    """Wrap `sql` of this session's class. A second call has no effect; `unwrap` of `spark.enable` undoes it."""
    wrap(type(spark), {_SQL: _sql})


@cache
def can_parse() -> bool:
    """Whether sqlglot is installed, without which all statements go to Spark."""
    return find_spec("sqlglot") is not None


def _sql(original: Original) -> Original:
    def sql(self: Any, sqlQuery: Any, args: Any = None, **kwargs: Any) -> Any:  # noqa: N803 - Spark's own name
        if not isinstance(sqlQuery, str) or not can_parse():
            return original(self, sqlQuery, args, **kwargs)
        # Loaded with the first statement: sqlglot's dialect takes a tenth of a second.
        from pyhudi.sql.run import run  # noqa: PLC0415

        return run(self, sqlQuery, args, kwargs, original)

    return sql
