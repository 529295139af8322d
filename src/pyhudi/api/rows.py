"""The rows that users hand over: what they may be, and which engine works on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pyarrow as pa

from pyhudi.engine.local import LocalEngine
from pyhudi.engine.protocol import Engine
from pyhudi.errors import ConfigError, SchemaMismatchError, UnsupportedFeatureError
from pyhudi.table.state import TableState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ArrowStream(Protocol):
    """Rows that can be read as a stream of Arrow: the Arrow PyCapsule interface.

    pyarrow tables and readers, polars and pandas (2.2 or newer) frames, and duckdb relations have it.
    """

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A capsule of an `ArrowArrayStream`."""
        ...


class SparkRows(Protocol):
    """Rows of Spark: a `pyspark.sql.DataFrame`, classic or of Spark Connect."""

    @property
    def sparkSession(self) -> Any:  # noqa: N802 - the name is Spark's
        """The session that runs the tasks of the write."""
        ...


RowsLike: TypeAlias = ArrowStream | SparkRows
"""Rows to write: Arrow of any library, or a Spark DataFrame, which is written by the tasks of its Spark session."""


def engine_of_session(spark: SparkSession) -> Engine:
    """The engine that runs tasks on a Spark session. The one place where the public face loads pyspark to write."""
    from pyhudi.spark.engine import SparkEngine  # noqa: PLC0415 - only what runs on Spark needs pyspark

    return SparkEngine(spark)


def engine_for(rows: Any) -> Engine:
    """The engine for rows: this process for Arrow, the rows' own session for Spark.

    Raises `UnsupportedFeatureError` for rows that are neither.
    """
    local = LocalEngine()
    if rows is None or local.accepts(rows):
        return local
    if not type(rows).__module__.startswith("pyspark."):
        raise UnsupportedFeatureError(
            "rows must be a Spark DataFrame, or speak Arrow (pyarrow, polars, pandas >= 2.2, duckdb)",
            given=type(rows).__name__,
        )
    return engine_of_session(rows.sparkSession)


def rows_of_keys(state: TableState, keys: RowsLike | Sequence[object] | set[Any]) -> RowsLike:
    """Keys as rows: those given as a list become a column, where one column says which record is meant.

    Raises:
        ConfigError: a list of keys, for a table that has several key columns, or partitions.
        SchemaMismatchError: the keys of a list have no common type.
    """
    fields = state.config.record_key_fields
    if not isinstance(keys, list | tuple | set):
        return keys  # type: ignore[return-value] # other sequences are refused as rows
    if len(fields) != 1 or state.config.partition_fields:
        raise ConfigError(
            "a list of keys is enough only for a table of one key column and no partitions: give rows with the key "
            "and partition columns, or delete by a condition (delete_where)",
            record_key_fields=fields,
            partition_fields=state.config.partition_fields,
        )
    try:
        rows: RowsLike = pa.table({fields[0]: list(keys)})
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as cause:
        raise SchemaMismatchError(f"these keys have no common type: {cause}", column=fields[0]) from cause
    return rows
