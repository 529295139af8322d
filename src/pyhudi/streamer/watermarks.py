"""The watermark of a topic, each of whose partitions is a source of its own."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.cdc.event_columns import OPERATION, SNAPSHOT
from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import ConfigError
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.sources.protocol import PARTITION, Rows
from pyhudi.table.state import TableState
from pyhudi.table.watermarks import advanced, load_source_times, times_to_text
from pyhudi.tasks.event_times import milliseconds


def watermark_of_topic(
    rows: Rows, reached: Checkpoint, table: TableState | None, config: WriteConfig, *, now: int
) -> str:
    """What the commit of a batch says of event times. A partition without messages yet holds the watermark back.

    Messages of a partition are in order, and those of two partitions are not, so each counts for itself. A row that a
    snapshot of a database has read says nothing, as others of its time may still come. Raises `ConfigError` for rows
    that do not say which partition they come from. Cost: a read of the newest commit.
    """
    if not isinstance(rows, pa.Table) or PARTITION not in rows.column_names or rows[PARTITION].null_count:
        raise ConfigError(
            f"each partition of a topic has a watermark of its own, so rows must have the column {PARTITION}: set"
            " hoodie.streamer.source.kafka.append.offsets=true, and name it in transformers that list columns",
            columns=rows.schema.names,
        )
    topic, *places = (reached.text or "").split(",")
    written: dict[str, int | None] = {_name(topic, place.partition(":")[0]): None for place in places}
    column = config.input.event_time_field or next(iter(config.table.ordering_fields or ()), None)
    if OPERATION in rows.column_names:
        rows = rows.filter(pc.not_equal(rows[OPERATION], SNAPSHOT))
    if column in rows.column_names:
        times = pa.table({"partition": rows[PARTITION], "time": milliseconds(rows[column])})
        largest = times.group_by("partition").aggregate([("time", "max")])
        written |= {_name(topic, row["partition"]): row["time_max"] for row in largest.to_pylist()}
    previous = {} if table is None else load_source_times(table)[1]
    return times_to_text(advanced(previous, written, now))


def _name(topic: str, partition: object) -> str:
    return f"{topic}-{partition}"
