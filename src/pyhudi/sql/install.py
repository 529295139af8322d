"""The wrappers of `sql`, `mergeInto` and `toTable` of Spark's classes, through which Hudi tables reach pyhudi."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.spark.enable import Original, notes_of, stream_writer_class, tell_partitions, wrap
from pyhudi.spark.frames import frame_class
from pyhudi.spark.settings import is_connect
from pyhudi.sql.can_parse import can_parse
from pyhudi.sql.frames.install_names import install_names
from pyhudi.sql.frames.install_write_to import install_write_to

_SQL, _MERGE_INTO = "sql", "mergeInto"


def install(spark: SparkSession) -> None:
    """Wrap methods of this session's classes, and have a classic session resolve names. A second call has no effect."""
    wrap(type(spark), {_SQL: _sql})
    wrap(frame_class(spark), {_MERGE_INTO: _merge_into})
    wrap(stream_writer_class(spark), {"toTable": _to_table})
    install_names(spark)
    install_write_to(spark)
    if not is_connect(spark) and can_parse():
        from pyhudi.sql.sessions import serve_all  # noqa: PLC0415 - with sqlglot, and py4j is not everywhere

        serve_all(spark)


def uninstall() -> None:
    """Put parsers and caches of Spark back. The wrappers go with all others (`spark/enable.py`)."""
    if can_parse():
        from pyhudi.sql.sessions import release  # noqa: PLC0415 - with sqlglot

        release()


def _merge_into(original: Original) -> Original:
    def merge_into(self: Any, table: str, condition: Any) -> Any:
        if not can_parse():
            return original(self, table, condition)
        from pyhudi.sql.frames.merge_into import writer_of  # noqa: PLC0415 - loaded when it is needed

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


def _to_table(original: Original) -> Original:
    def to_table(
        self: Any,
        tableName: str,  # noqa: N803 - Spark's own argument name
        format: str | None = None,  # noqa: A002
        outputMode: str | None = None,  # noqa: N803
        partitionBy: Any = None,  # noqa: N803
        queryName: str | None = None,  # noqa: N803
        **options: Any,
    ) -> Any:
        if format is not None:
            self.format(format)
        notes = notes_of(self)
        if not notes.is_hudi and (notes.source is not None or not can_parse()):
            tell_partitions(self)
            return original(self, tableName, None, outputMode, partitionBy, queryName, **options)
        if not can_parse():
            raise UnsupportedFeatureError("tables by name need sqlglot: install pyhudi[spark]", table=tableName)
        from pyhudi.sql.frames.to_table import start_into_table  # noqa: PLC0415 - as above

        return start_into_table(self, original, tableName, outputMode, partitionBy, queryName, options)

    return to_table
