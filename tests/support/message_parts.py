"""Batches of change messages in parts for tests, as a topic has them, without a broker and without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pyhudi.config.options_streamer import KafkaOptions
from pyhudi.config.write_config import WriteConfig
from pyhudi.streamer.batch import Batch
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.error_table import ErrorTable
from pyhudi.streamer.parts_apart import bad_rows, columns_of_rows, good_rows, parts_to_read, reading_of, told_parts
from pyhudi.streamer.schemas import group_of
from pyhudi.streamer.settings import Settings
from pyhudi.streamer.sources.kafka import JSON, KafkaSource, kafka_source
from pyhudi.streamer.sources.kafka_client import MESSAGES
from pyhudi.streamer.sources.protocol import Pull
from pyhudi.streamer.sources.topic_parts import TopicPart, TopicParts
from pyhudi.table.schema import load_table_schema
from pyhudi.table.state import TableState

Message = dict[str, Any] | bytes


def topic_source() -> KafkaSource:
    """A source of JSON whose broker is never asked."""
    options = group_of(KafkaOptions, {"hoodie.streamer.source.kafka.topic": "t"})
    return kafka_source(JSON, options, None, {"bootstrap.servers": "127.0.0.1:1"})


@dataclass(frozen=True)
class MessagesPart(TopicPart):
    """A part whose messages are given; `begin` is the offset of the first."""

    messages: tuple[Message, ...] = ()

    def fetched(self) -> pa.Table:
        texts = [text if isinstance(text, bytes) else json.dumps(text).encode() for text in self.messages]
        count = len(texts)
        columns = [[self.partition] * count, list(range(self.begin, self.begin + count)), [5] * count, texts]
        arrays = [pa.array(values, field.type) for values, field in zip(columns, MESSAGES, strict=True)]
        return pa.table(arrays, schema=MESSAGES)


@dataclass(frozen=True)
class PartedBatches:
    """A source of batches, each of which is some parts. Its checkpoint is how many were read."""

    batches: Sequence[Sequence[Sequence[Message]]]

    def pull(self, after: Checkpoint, *, limit: int | None) -> Pull | None:
        del limit
        number = int(after.text or 0)
        if number == len(self.batches):
            return None
        source, begins = topic_source(), 0
        tasks = []
        for messages in self.batches[number]:
            tasks.append(
                MessagesPart(source, None, 0, begins, begins + len(messages), tuple(messages)),
            )
            begins += len(messages)
        whole = MessagesPart(source, None, 0, 0, begins, tuple(text for part in tasks for text in part.messages))
        return Pull(
            reached=Checkpoint(text=str(number + 1)),
            read=lambda wanted, stored: source.rows(None, whole._batches, wanted, stored),
            read_apart=whole.read_apart,
            items=begins,
            parts=TopicParts(source, tuple(tasks)),
        )


def batch_of_parts(
    pull: Pull | None, settings: Settings, table: TableState | None, config: WriteConfig, errors: ErrorTable | None
) -> Batch | None:
    """`batch_on_spark` in this process: what tasks tell of the parts, and the rows that they make."""
    assert pull is not None
    assert pull.parts is not None
    schema = None if table is None else load_table_schema(table)
    stored = None if schema is None else schema.arrow
    reading = reading_of(settings, table, config, errors, stored)
    parts = pull.parts

    def tell(function: Any) -> list[Any]:
        return [function(part) for part in parts.tasks]

    reading, told, columns = told_parts(reading, parts, tell)
    tasks = parts_to_read(reading, parts.tasks, told, tell, table)
    if not columns.names:
        return None if stored is None else Batch(rows=stored.empty_table())
    rows = _together(batch for part in tasks for batch in good_rows(reading, columns, part))
    rows = rows.cast(columns_of_rows(reading, columns)) if rows is not None else columns.empty_table()
    if errors is None:
        return Batch(rows=rows)
    lost = _together(batch for part in tasks for batch in bad_rows(reading, columns, errors.target, part))
    return Batch(rows=rows, errors=lost, failed=0 if lost is None else lost.num_rows)


def _together(batches: Iterable[pa.RecordBatch]) -> pa.Table | None:
    found = list(batches)
    return pa.Table.from_batches(found) if found else None
