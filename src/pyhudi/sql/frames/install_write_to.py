"""The wrappers of `df.writeTo(name)`: what is said to the writer is noted, and what ends it goes to pyhudi or Spark."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pyspark.sql import SparkSession

from pyhudi.spark.enable import Original, notes_of, wrap, written_rows
from pyhudi.spark.settings import is_connect
from pyhudi.sql.can_parse import can_parse

_TABLE = "_pyhudi_table"


def install_write_to(spark: SparkSession) -> None:
    """Wrap them in this session's classes. A second call has no effect."""
    frames = import_module(f"pyspark.sql.{'connect' if is_connect(spark) else 'classic'}.dataframe")
    wrap(frames.DataFrame, {"writeTo": _write_to})
    module = import_module(type(spark).__module__.removesuffix("session") + "readwriter")
    noted = {"using": _using, "option": _option, "options": _options, "tableProperty": _table_property}
    wrap(module.DataFrameWriterV2, {**noted, "partitionedBy": _partitioned_by, "clusterBy": _cluster_by})
    ends = ("create", "replace", "createOrReplace", "append", "overwrite", "overwritePartitions")
    wrap(module.DataFrameWriterV2, {verb: _ending(verb) for verb in ends if hasattr(module.DataFrameWriterV2, verb)})


def _write_to(original: Original) -> Original:
    def write_to(self: Any, table: Any) -> Any:
        writer = original(self, table)
        writer.__dict__[_TABLE] = table
        return writer

    return write_to


def _using(original: Original) -> Original:
    def using(self: Any, provider: str) -> Any:
        notes_of(self).source = provider
        return original(self, provider)

    return using


def _option(original: Original) -> Original:
    def option(self: Any, key: str, value: Any) -> Any:
        notes_of(self).add_options({key: value})
        return original(self, key, value)

    return option


def _options(original: Original) -> Original:
    def options(self: Any, **values: Any) -> Any:
        notes_of(self).add_options(values)
        return original(self, **values)

    return options


def _table_property(original: Original) -> Original:
    def table_property(self: Any, property: str, value: str) -> Any:  # noqa: A002 - Spark's own argument name
        notes_of(self).properties[property] = value
        return original(self, property, value)

    return table_property


def _partitioned_by(original: Original) -> Original:
    def partitioned_by(self: Any, col: Any, *cols: Any) -> Any:
        notes_of(self).partition_by = (col, *cols)
        return original(self, col, *cols)

    return partitioned_by


def _cluster_by(original: Original) -> Original:
    def cluster_by(self: Any, col: str, *cols: str) -> Any:
        notes_of(self).unsupported.append("clusterBy")
        return original(self, col, *cols)

    return cluster_by


def _ending(verb: str) -> Any:
    """The wrapper of a method that writes."""

    def wrapper(original: Original) -> Original:
        def ending(self: Any, *args: Any) -> None:
            table = self.__dict__.get(_TABLE)
            if isinstance(table, str) and can_parse():
                from pyhudi.sql.frames import write_to  # noqa: PLC0415 - with sqlglot

                if write_to.run(verb, written_rows(self), table, notes_of(self), *args):
                    return
            original(self, *args)

        return ending

    return wrapper
