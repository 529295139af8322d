"""The wrappers of `df.writeTo(name)`: what is said to the writer is noted, and what ends it goes to pyhudi or Spark."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pyspark.sql import SparkSession

from pyhudi.spark.enable import (
    OPTION_NOTES,
    Notes,
    Original,
    notes_of,
    noting,
    noting_as,
    unsupported,
    wrap,
    written_rows,
)
from pyhudi.spark.frames import frame_class
from pyhudi.sql.can_parse import can_parse

_TABLE = "_pyhudi_table"


def install_write_to(spark: SparkSession) -> None:
    """Wrap them in this session's classes. A second call has no effect."""
    wrap(frame_class(spark), {"writeTo": _write_to})
    module = import_module(type(spark).__module__.removesuffix("session") + "readwriter")
    noted = {
        "using": noting_as("source"),
        "tableProperty": noting(_note_property),
        "clusterBy": unsupported("clusterBy"),
    }
    wrap(module.DataFrameWriterV2, {**OPTION_NOTES, **noted, "partitionedBy": noting(_note_columns)})
    ends = ("create", "replace", "createOrReplace", "append", "overwrite", "overwritePartitions")
    wrap(module.DataFrameWriterV2, {verb: _ending(verb) for verb in ends})


def _write_to(original: Original) -> Original:
    def write_to(self: Any, table: Any) -> Any:
        writer = original(self, table)
        writer.__dict__[_TABLE] = table
        return writer

    return write_to


def _note_property(notes: Notes, property: str, value: str) -> None:  # noqa: A002 - Spark's own argument name
    notes.properties[property] = value


def _note_columns(notes: Notes, col: Any, *cols: Any) -> None:
    notes.partition_by = (col, *cols)


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
