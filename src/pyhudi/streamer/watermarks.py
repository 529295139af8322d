"""The watermark of a topic, each of whose partitions is a source of its own."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.cdc.event_columns import OPERATION, SNAPSHOT
from pyhudi.config.enums import Arrangement
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.protocol import Distribution, Engine, TaskContext
from pyhudi.errors import ConfigError
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.sources.protocol import PARTITION
from pyhudi.table.state import TableState
from pyhudi.table.watermarks import advanced, load_source_times, times_to_text
from pyhudi.tasks.event_times import milliseconds


def watermark_of_topic(
    engine: Engine, rows: Any, reached: Checkpoint, table: TableState | None, config: WriteConfig, *, now: int
) -> str:
    """What the commit of a batch says of event times. A partition without messages yet holds the watermark back.

    Messages of a partition are in order, and those of two partitions are not, so each counts for itself. A row that a
    snapshot of a database has read says nothing, as others of its time may still come. Raises `ConfigError` for rows
    that do not say which partition they come from. Cost: a read of the newest commit, and a pass over the rows, whose
    tasks read the source where this process does not have them.
    """
    columns = engine.schema_of(rows).names
    if PARTITION not in columns:
        raise _without_partition(columns)
    topic, *places = (reached.text or "").split(",")
    written: dict[str, int | None] = {_name(topic, place.partition(":")[0]): None for place in places}
    largest = engine.map_splits(
        rows,
        functools.partial(
            _largest_times, config.input.event_time_field or next(iter(config.table.ordering_fields or ()), None)
        ),
        distribution=Distribution(Arrangement.NONE),
        description="find the event times of a batch",
    )
    for partition, time in (found for split in largest for found in split.items()):
        known = written.get(_name(topic, partition))
        written[_name(topic, partition)] = time if known is None or (time is not None and time > known) else known
    previous = {} if table is None else load_source_times(table)[1]
    return times_to_text(advanced(previous, written, now))


def _largest_times(
    column: str | None, context: TaskContext, batches: Iterator[pa.RecordBatch]
) -> dict[int, int | None]:
    """The largest event time of each partition of a topic in a split; None for one whose rows say none."""
    del context
    largest: dict[int, int | None] = {}
    for batch in batches:
        if batch.column(PARTITION).null_count:
            raise _without_partition(batch.schema.names)
        rows = batch
        if OPERATION in batch.schema.names:
            rows = batch.filter(pc.not_equal(batch.column(OPERATION), SNAPSHOT))
        if column not in batch.schema.names:
            continue
        times = pa.table({"partition": rows.column(PARTITION), "time": milliseconds(rows.column(column))})
        for row in times.group_by("partition").aggregate([("time", "max")]).to_pylist():
            found = [time for time in (largest.get(row["partition"]), row["time_max"]) if time is not None]
            largest[row["partition"]] = max(found, default=None)
    return largest


def _without_partition(columns: list[str]) -> ConfigError:
    return ConfigError(
        f"each partition of a topic has a watermark of its own, so rows must have the column {PARTITION}: set"
        " hoodie.streamer.source.kafka.append.offsets=true, and name it in transformers that list columns",
        columns=columns,
    )


def _name(topic: str, partition: object) -> str:
    return f"{topic}-{partition}"
