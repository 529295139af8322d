"""The rows of a batch as a DataFrame, whose tasks read the source where they write the table."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.protocol import Engine, TaskContext
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.streamer.batch import Batch, keys_of, without_columns
from pyhudi.streamer.error_table import ERROR_ROWS, ErrorTable
from pyhudi.streamer.parts_apart import PartReading, bad_rows, columns_of_rows, good_rows, told_parts
from pyhudi.streamer.settings import Settings
from pyhudi.streamer.sources.protocol import Part, Parts, Pull
from pyhudi.table.schema import load_table_schema
from pyhudi.table.state import TableState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyhudi.spark.engine import SparkEngine

R = TypeVar("R")


def spark_engine(spark: SparkSession, settings: Settings) -> SparkEngine:
    """The engine of a streamer on Spark. Raises `UnsupportedFeatureError` for what it does not do there. Cost: none."""
    from pyhudi.spark.engine import SparkEngine  # noqa: PLC0415 - PySpark is an extra
    from pyhudi.spark.settings import is_connect  # noqa: PLC0415 - as above

    if is_connect(spark):
        raise _refused("a session of Spark Connect", "give a classic session")
    if settings.changes is not None:
        raise _refused("change data of databases", "leave spark out")
    if settings.transforms:
        raise _refused("transformers", "leave spark or transformer_class out")
    return SparkEngine(spark)


def batch_on_spark(
    engine: SparkEngine,
    pull: Pull | None,
    settings: Settings,
    table: TableState | None,
    config: WriteConfig,
    errors: ErrorTable | None,
) -> Batch | None:
    """See `batch_of`. Cost: a read of the table's schema, and where nothing says the columns a read of the source."""
    _check(settings, table, config)
    schema = None if table is None else load_table_schema(table)
    stored, wanted = None if schema is None else schema.arrow, settings.schema
    tasks: tuple[Part, ...] = ()
    columns: pa.Schema | None = None
    if pull is not None and pull.items:
        if pull.parts is None:
            raise _refused("this source, whose rows tasks cannot read in parts,", "leave spark out", settings)
        if errors is not None:
            return _batch_apart(engine, pull.parts, settings, table, config, errors)
        tasks = tuple(pull.parts.tasks)
        columns = pull.parts.columns(functools.partial(_told, engine, tasks), wanted, stored)
    if columns is None or not columns.names:
        tasks, columns = (), stored if stored is not None else wanted
    if columns is None:
        return None
    read = operator.methodcaller("batches", columns, wanted, stored)
    return Batch(rows=_frame(engine, read, tasks, columns))


def _batch_apart(
    engine: SparkEngine,
    parts: Parts,
    settings: Settings,
    table: TableState | None,
    config: WriteConfig,
    errors: ErrorTable,
) -> Batch | None:
    """The rows of a batch, and those of the error table: see `parts_apart.py`. Cost: that of `told_parts`."""
    schema = None if table is None else load_table_schema(table)
    stored = None if schema is None else schema.arrow
    reading = PartReading(
        wanted=settings.schema,
        stored=stored,
        fits=errors.settings.checks_types,
        keys=keys_of(settings, table, config) if errors.settings.checks_rows else None,
        table=stored,
    )
    tasks = tuple(parts.tasks)
    reading, told, columns = told_parts(reading, parts, functools.partial(_told, engine, tasks))
    failed = sum(part.failed or 0 for part in told)
    kept = columns_of_rows(reading, columns) if columns.names else stored if stored is not None else settings.schema
    if kept is None:
        if failed:
            raise without_columns(next(part.reason for part in told if part.reason is not None), failed)
        return None
    good = functools.partial(good_rows, reading, columns)
    bad = functools.partial(bad_rows, reading, columns, errors.target)
    failing = tuple(part for part, said in zip(tasks, told, strict=True) if said.failed)
    return Batch(
        rows=_frame(engine, good, tasks if columns.names else (), kept),
        errors=_frame(engine, bad, failing, ERROR_ROWS),
        failed=failed,
    )


def _frame(
    engine: SparkEngine,
    read: Callable[[Part], Iterator[pa.RecordBatch]],
    parts: tuple[Part, ...],
    columns: pa.Schema,
) -> DataFrame:
    """See `frame_of_parts`."""
    from pyhudi.spark.parts import frame_of_parts  # noqa: PLC0415 - PySpark is an extra

    return frame_of_parts(engine, read, parts, [part.size_bytes for part in parts], columns)


def _check(settings: Settings, table: TableState | None, config: WriteConfig) -> None:
    if config.input.tracks_event_time and settings.reads_kafka:
        raise _refused("the watermark of a topic", "leave spark or hoodie.write.track.event.time.watermark out")
    ordering = config.table.ordering_fields or (() if table is None else table.config.ordering_fields)
    if config.operation is WriteOperation.UPSERT and not ordering:
        raise _refused(
            "an upsert without ordering fields, as tasks do not know which of two rows of a record came later,",
            "give source_ordering_fields, use another op, or leave spark out",
        )


def _refused(what: str, instead: str, settings: Settings | None = None) -> UnsupportedFeatureError:
    context = {} if settings is None else {"source_class": settings.source_class}
    return UnsupportedFeatureError(f"{what} is not built for a streamer on Spark: {instead}", **context)


def _told(engine: Engine, tasks: tuple[Part, ...], function: Callable[[Any], R]) -> list[R]:
    """See `Tell`. Cost: a job of Spark; none where little is read, which this process does then."""
    size = sum(part.size_bytes for part in tasks)
    run = functools.partial(_told_by, function)
    return engine.map(run, tasks, size_bytes=size, description="read the columns of a batch")


def _told_by(function: Callable[[Any], R], context: TaskContext, part: Part) -> R:
    del context
    return function(part)
