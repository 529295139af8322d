"""The rows of a batch as a DataFrame, whose tasks read the source where they write the table."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from pyhudi.config.options_streamer import KafkaOptions
from pyhudi.config.payloads import rule_of_payload
from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.streamer.batch import Batch, keys_of, without_columns
from pyhudi.streamer.checked_on_spark import (
    RowCheck,
    frame_of,
    lost_by_part,
    lost_rows,
    mapped,
    numbered_parts,
    numbered_rows,
    without_record,
)
from pyhudi.streamer.error_table import ERROR_ROWS, ErrorTable
from pyhudi.streamer.parts_apart import (
    PartReading,
    PartToRead,
    ToldPart,
    bad_rows,
    columns_of_rows,
    good_rows,
    parts_to_read,
    reading_of,
    told_parts,
)
from pyhudi.streamer.settings import Settings
from pyhudi.streamer.sources.apart import RECORD
from pyhudi.streamer.sources.protocol import Part, Parts, Pull, Source
from pyhudi.streamer.sources.routed import RoutedSource
from pyhudi.streamer.tasks_on_spark import BatchTasks
from pyhudi.streamer.transformers import MadeWithout, RowWise, Transform, derived_columns
from pyhudi.streamer.transformers_on_spark import no_batches, rows_of_batch
from pyhudi.table.schema import load_table_schema
from pyhudi.table.state import TableState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyhudi.spark.engine import SparkEngine
    from pyhudi.spark.kept import KeptRows
    from pyhudi.streamer.sources.routed_in_parts import Divide
    from pyhudi.streamer.sources.topic_parts import TopicPart

Batches: TypeAlias = Callable[[Any], Iterator[pa.RecordBatch]]
"""Reads the rows of a part."""
_WITHOUT: Final = "leave spark out"
_OF_TRANSFORMERS: Final = {"spark.sql.session.timeZone": "UTC"}
"""The settings of the session of transformers: hours and days are those of a run without Spark."""


def spark_engine(spark: SparkSession, settings: Settings) -> SparkEngine:
    """The engine of a streamer on Spark. Raises `UnsupportedFeatureError` for what it does not do there. Cost: none."""
    from pyhudi.spark.engine import SparkEngine  # noqa: PLC0415 - PySpark is an extra
    from pyhudi.spark.frames import session_of_its_own  # noqa: PLC0415 - as above
    from pyhudi.spark.settings import is_connect  # noqa: PLC0415 - as above

    if settings.transforms:
        if is_connect(spark) and settings.group(KafkaOptions).route_values is not None:
            raise _refused(
                "over Spark Connect a topic for many tables with transformers, as sessions do not share rows there,",
                "give a classic session, or leave transformers out",
            )
        spark = session_of_its_own(spark, _OF_TRANSFORMERS)
    return SparkEngine(spark)


def source_on_spark(spark: SparkSession, source: Source) -> Source:
    """The source as a streamer on Spark asks it: tasks read a topic for many tables once for all. Cost: none."""
    from pyhudi.spark.engine import SparkEngine  # noqa: PLC0415 - PySpark is an extra

    if not isinstance(source, RoutedSource):
        return source
    from pyhudi.streamer.sources.routed_in_parts import read_in_parts  # noqa: PLC0415 - Kafka's client is an extra

    read = functools.partial(read_in_parts, functools.partial(_kept, SparkEngine(spark)))
    return replace(source, read_parts=read, place=(*source.place, spark))


def _kept(engine: SparkEngine, parts: Sequence[TopicPart], divide: Divide) -> KeptRows:
    """See `Keep`."""
    from pyhudi.spark.kept import kept_rows  # noqa: PLC0415 - PySpark is an extra
    from pyhudi.spark.parcels import readers_of_parts  # noqa: PLC0415 - as above

    reader_of = readers_of_parts([part.size_bytes for part in parts], engine.parallelism)
    return kept_rows(engine.spark, parts, reader_of, divide, "read a topic for many tables")


def batch_on_spark(
    engine: SparkEngine,
    made_without: MadeWithout,
    pull: Pull | None,
    settings: Settings,
    table: TableState | None,
    config: WriteConfig,
    errors: ErrorTable | None,
) -> Batch | None:
    """See `batch_of`. Cost: a read of the table's schema.

    Where nothing says the columns, tasks read the source; and once more for transformers, until they have seen a value
    in each column of the table.
    """
    _check(settings, table, config)
    schema = None if table is None else load_table_schema(table)
    stored, wanted = None if schema is None else schema.arrow, settings.schema
    tasks = BatchTasks(engine)
    columns: pa.Schema | None = None
    read: Batches = no_batches
    if pull is not None and pull.items:
        if pull.parts is None:
            raise _refused("this source, whose rows tasks cannot read in parts,", _WITHOUT, settings)
        if errors is not None:
            return _batch_apart(engine, made_without, pull.parts, settings, table, config, errors, stored)
        if settings.changes is not None:
            reading, _, of_parts, tasks = _told_apart(engine, pull.parts, settings, table, config, errors, stored)
            read = functools.partial(good_rows, reading, of_parts)
            columns = columns_of_rows(reading, of_parts) if of_parts.names else None
        else:
            tasks = BatchTasks.of(engine, pull.parts)
            columns = pull.parts.columns(tasks.tell, wanted, stored)
            read = operator.methodcaller("batches", columns, wanted, stored)
    transforms = settings.transforms
    if columns is None or not columns.names:
        tasks, columns = BatchTasks(engine), stored if stored is not None else wanted
        transforms = transforms if stored is None else ()
    if columns is None:
        return None
    given = _given_columns(tasks, read, columns, transforms, stored, made_without)
    return Batch(rows=rows_of_batch(tasks, read, given, transforms))


def _given_columns(
    tasks: BatchTasks,
    read: Batches,
    columns: pa.Schema,
    transforms: Sequence[Transform],
    stored: pa.Schema | None,
    made_without: MadeWithout,
) -> pa.Schema:
    """The columns without those that transformers made themselves in earlier batches. Cost: a read of the parts."""
    if not transforms or stored is None:
        return columns
    both = [name for name in columns.names if name in stored.names]
    with_values = set[str]().union(*tasks.tell(functools.partial(_with_values, read, both)))
    filled = [name for name in both if name not in with_values]
    derived = derived_columns(columns, filled, transforms, made_without)
    return pa.schema([field for field in columns if field.name not in derived])


def _batch_apart(
    engine: SparkEngine,
    made_without: MadeWithout,
    parts: Parts,
    settings: Settings,
    table: TableState | None,
    config: WriteConfig,
    errors: ErrorTable,
    stored: pa.Schema | None,
) -> Batch | None:
    """The rows of a batch, and those of the error table: see `parts_apart.py`.

    Cost: that of `_told_apart`; with transformers that of `_given_columns`, and a job that finds rows without a key.
    """
    reading, told, columns, tasks = _told_apart(engine, parts, settings, table, config, errors, stored)
    failed = sum(part.failed or 0 for part in told)
    bad = functools.partial(bad_rows, reading, columns, errors.target)
    failing = [part for part, said in zip(tasks.parts, told, strict=True) if said.failed]
    errors_of_parts = tasks.with_parts(failing).rows(bad, ERROR_ROWS)
    if not columns.names:
        kept = stored if stored is not None else settings.schema
        if kept is None:
            if failed:
                raise without_columns(next(part.reason for part in told if part.reason is not None), failed)
            return None
        rows = rows_of_batch(BatchTasks(engine), no_batches, kept, settings.transforms if stored is None else ())
        return Batch(rows=rows, errors=errors_of_parts, failed=failed)
    if not settings.transforms:
        good = functools.partial(good_rows, reading, columns)
        return Batch(rows=tasks.rows(good, columns_of_rows(reading, columns)), errors=errors_of_parts, failed=failed)
    numbered = tasks.with_parts(numbered_parts(tasks.parts))
    read = functools.partial(numbered_rows, reading, columns)
    given = _given_columns(numbered, read, columns, settings.transforms, stored, made_without)
    made = rows_of_batch(numbered, read, given, settings.transforms)
    of_made = engine.schema_of(made)
    if RECORD not in of_made.names:  # then nothing says where a row comes from, and all stay
        return Batch(rows=made, errors=errors_of_parts, failed=failed)
    if not errors.settings.checks_rows:
        rest = pa.schema([field for field in of_made if field.name != RECORD])
        return Batch(rows=mapped(made, without_record, rest), errors=errors_of_parts, failed=failed)
    check = RowCheck(keys_of(settings, table, config), stored if settings.changes is None else None)
    lost = lost_by_part(numbered, made, check)
    found = errors_of_parts
    if lost:
        found = lost_rows(numbered, reading, made, check, set(lost), errors.target)
        if failing:
            found = found.unionAll(frame_of(engine, errors_of_parts))
    rows = mapped(made, check.good, check.columns(of_made))
    return Batch(rows=rows, errors=found, failed=failed + sum(lost.values()))


def _told_apart(
    engine: SparkEngine,
    parts: Parts,
    settings: Settings,
    table: TableState | None,
    config: WriteConfig,
    errors: ErrorTable | None,
    stored: pa.Schema | None,
) -> tuple[PartReading, list[ToldPart], pa.Schema, BatchTasks]:
    """What `told_parts` gives, and the parts for `good_rows`. Cost: that of `told_parts` and `parts_to_read`."""
    tasks = BatchTasks.of(engine, parts)
    reading, told, columns = told_parts(reading_of(settings, table, config, errors, stored), parts, tasks.tell)
    return reading, told, columns, tasks.with_parts(parts_to_read(reading, parts.tasks, told, tasks.tell, table))


def _with_values(read: Batches, names: Sequence[str], part: Part | PartToRead) -> set[str]:
    """Which of these columns have a value in a part."""
    found: set[str] = set()
    for batch in read(part):
        found |= {
            name for name in names if name in batch.schema.names and batch.column(name).null_count < batch.num_rows
        }
        if len(found) == len(names):
            break
    return found


def _check(settings: Settings, table: TableState | None, config: WriteConfig) -> None:
    """Raise `UnsupportedFeatureError` where the order of the batch counts, and Spark's transformers do not keep it."""
    if all(isinstance(transform, RowWise) for transform in settings.transforms):
        return
    ordering = config.table.ordering_fields or (() if table is None else table.config.ordering_fields)
    if config.table.payload is not None:
        ordering = rule_of_payload(config.table.payload).ordering_fields or ordering
    if config.operation is WriteOperation.UPSERT and not ordering:
        raise _refused(
            "an upsert without ordering fields behind SQL or a function, as tasks do not know which of two rows of a"
            " record came later,",
            "give source_ordering_fields, use another op, or leave spark out",
        )


def _refused(what: str, instead: str, settings: Settings | None = None) -> UnsupportedFeatureError:
    context = {} if settings is None else {"source_class": settings.source_class}
    return UnsupportedFeatureError(f"{what} is not built for a streamer on Spark: {instead}", **context)
