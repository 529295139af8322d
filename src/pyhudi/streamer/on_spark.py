"""Spark as the engine of a streamer: its tasks read, decode and write a batch; this process plans and commits it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pyarrow as pa

from pyhudi.config.options_streamer import KafkaOptions
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.protocol import Engine
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.streamer.error_table import error_table_of
from pyhudi.streamer.settings import OPERATION, Settings
from pyhudi.streamer.sources.protocol import Pull, ReadBatch, Rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyhudi.spark.engine import SparkEngine

_OFFSETS = "hoodie.streamer.source.kafka.append.offsets"
_WITHOUT = "leave `spark` out: then this process reads and writes the batches"


def spark_of(spark: SparkSession, settings: Settings) -> tuple[Engine, ReadBatch]:
    """The engine of a session, and what makes a DataFrame of a batch.

    Raises:
        UnsupportedFeatureError: the settings need the rows of a batch in this process.
        ConfigError: the settings do not say which columns the rows have, or which version of a record is the newest.
    """
    _check(settings)
    from pyhudi.spark.streamed_rows import engine_of  # noqa: PLC0415 - most streamers do without Spark

    engine = engine_of(spark)
    return engine, functools.partial(_rows, engine)


def _rows(engine: SparkEngine, pull: Pull, wanted: pa.Schema | None, stored: pa.Schema | None) -> Rows:
    """The rows of a batch as a DataFrame."""
    from pyhudi.spark.streamed_rows import rows_of_parts  # noqa: PLC0415 - as above

    if pull.parts is None:
        raise UnsupportedFeatureError(f"tasks of Spark read topics and folders, not this source: {_WITHOUT}")
    assert wanted is not None  # see `_check`
    parts = pull.parts()
    reads = [functools.partial(part.read, wanted, stored) for part in parts]
    return rows_of_parts(engine, reads, [part.size for part in parts], wanted)


def _check(settings: Settings) -> None:
    config = WriteConfig.from_options(settings.options)
    needs = {
        "change data": settings.changes is not None,
        "transformers": bool(settings.transforms),
        "error table": error_table_of(settings.path, settings.options) is not None,
        "watermark of a topic": config.input.tracks_event_time and settings.reads_kafka,
        f"{_OFFSETS}=true": settings.reads_kafka and settings.group(KafkaOptions).appends_offsets,
    }
    if asked := [name for name, is_asked in needs.items() if is_asked]:
        raise UnsupportedFeatureError(
            f"a streamer on Spark has no {', and no '.join(asked)}, which are for batches in one process: {_WITHOUT}"
        )
    if settings.schema is None:
        raise ConfigError(
            "on Spark tasks read the rows, and nothing looks at them before: say which columns they have, by a schema"
            " provider or `schema`",
            source_class=settings.source_class,
        )
    is_upsert = settings.options[OPERATION] == WriteOperation.UPSERT.value
    if is_upsert and not config.table.ordering_fields:
        raise ConfigError(
            "tasks of Spark read a batch in no order, so an upsert needs columns that say which version of a record is"
            " the newest: give source_ordering_fields"
        )
