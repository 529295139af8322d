"""The sources of Kafka: JsonKafkaSource and AvroKafkaSource."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.config.options_streamer import KafkaOptions
from pyhudi.errors import ConfigError, SourceError, UnsupportedFeatureError
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.sources.avro_rows import AvroRowError, rows_of_avro
from pyhudi.streamer.sources.json_rows import JsonRowError, rows_of_json
from pyhudi.streamer.sources.kafka_client import client_options, read_messages, topic_of
from pyhudi.streamer.sources.kafka_offsets import (
    Offsets,
    StartAt,
    checkpoint_text,
    end_offsets,
    first_offsets,
    next_offsets,
    parse_checkpoint,
)
from pyhudi.streamer.sources.protocol import Pull
from pyhudi.streamer.sources.schema_registry import SchemaRegistry

Decode: TypeAlias = Callable[[pa.Table, pa.Schema | None, pa.Schema | None], pa.Table]
"""The rows of messages, none of which has a null value. The other arguments are those of `Pull.read`."""
AVRO: Final = "AvroKafkaSource"
_START: Final = "auto.offset.reset"


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """A topic. `decode` makes rows of its messages."""

    topic: str
    options: KafkaOptions
    client: Mapping[str, str] = field(repr=False)
    start: StartAt
    decode: Decode

    def pull(self, after: Checkpoint, *, limit: int | None) -> Pull | None:
        """See `Source.pull`. Cost: three requests to the broker."""
        topic_id, bounds = topic_of(self.client, self.topic)
        if after.text is None:
            begin = first_offsets(bounds, self.start)
        else:
            begin = next_offsets(
                bounds,
                parse_checkpoint(after.text, self.topic),
                is_made_anew=_is_another(topic_id, after),
                accepts_loss=not self.options.fails_on_loss,
            )
        end = end_offsets(begin, bounds, self.options.max_events if limit is None else limit)
        text = checkpoint_text(self.topic, end)
        is_empty = all(begin[partition] == stop for partition, stop in end.items())
        if is_empty and (text == after.text or (after.text is None and self.start is StartAt.EARLIEST)):
            return None
        return Pull(
            reached=Checkpoint(text=text, state=_state(topic_id, text)),
            read=functools.partial(self._rows, begin, end),
            items=sum(end.values()) - sum(begin.values()),
            must_be_kept=after.text is None and self.start is StartAt.LATEST,
        )

    def _rows(self, begin: Offsets, end: Offsets, wanted: pa.Schema | None, stored: pa.Schema | None) -> pa.Table:
        messages = read_messages(self.client, self.topic, begin, end)
        # A null value is the tombstone of a compacted topic, and no row.
        messages = messages.filter(pc.is_valid(messages["value"]))
        if not messages.num_rows:
            return (wanted if wanted is not None else pa.schema([])).empty_table()
        if not self.options.appends_offsets:
            return self.decode(messages, wanted, stored)
        columns = _columns_of_offsets(messages)
        return _with_columns(self.decode(messages, _without(wanted, columns), _without(stored, columns)), columns)


def _is_another(topic_id: str | None, after: Checkpoint) -> bool:
    """Whether the topic is another one of the same name. False where that cannot be known."""
    if topic_id is None or after.state is None:
        return False
    state: dict[str, Any] = json.loads(after.state)
    return state.get("checkpoint") == after.text and state.get("topic_id") not in (None, topic_id)


def _state(topic_id: str | None, text: str) -> str | None:
    if topic_id is None:
        return None
    return json.dumps({"checkpoint": text, "topic_id": topic_id}, separators=(",", ":"))


def _columns_of_offsets(messages: pa.Table) -> dict[str, pa.ChunkedArray]:
    """The columns that say where a row comes from, as JVM Hudi names them."""
    return {f"_hoodie_kafka_source_{name}": messages[name] for name in ("offset", "partition", "timestamp")}


def _without(schema: pa.Schema | None, columns: Mapping[str, pa.ChunkedArray]) -> pa.Schema | None:
    return None if schema is None else pa.schema([one for one in schema if one.name not in columns])


def _with_columns(rows: pa.Table, columns: Mapping[str, pa.ChunkedArray]) -> pa.Table:
    for name, column in columns.items():
        rows = rows.append_column(pa.field(name, column.type), column)
    return rows


def decode_json(topic: str, messages: pa.Table, wanted: pa.Schema | None, stored: pa.Schema | None) -> pa.Table:
    """The rows of messages that are JSON objects. Raises `SourceError` with the place of the first that is none."""
    values = messages["value"].combine_chunks()
    try:
        return rows_of_json(values, wanted, stored)
    except JsonRowError as error:
        place = (
            {} if error.row is None else {name: messages[name][error.row].as_py() for name in ("partition", "offset")}
        )
        raise SourceError(f"a message cannot be read: {error.reason}", topic=topic, **place) from error


def decode_avro(
    topic: str, registry: SchemaRegistry, messages: pa.Table, wanted: pa.Schema | None, stored: pa.Schema | None
) -> pa.Table:
    """The rows of messages in Avro. Raises `SourceError` with the place of the first that cannot be read."""
    try:
        return rows_of_avro(messages["value"].combine_chunks(), registry.schema, wanted, stored)
    except AvroRowError as error:
        place = {name: messages[name][error.row].as_py() for name in ("partition", "offset")}
        raise SourceError(f"a message cannot be read: {error.reason}", topic=topic, **place) from error


def kafka_source(kind: str, options: KafkaOptions, registry: str | None, client: Mapping[str, str]) -> KafkaSource:
    """The source of a topic, JsonKafkaSource or AvroKafkaSource; `registry`: the URL of the schema registry.

    Raises `ConfigError` and `UnsupportedFeatureError`. Cost: none.
    """
    if options.topic is None:
        raise ConfigError(f"{kind} needs hoodie.streamer.source.kafka.topic")
    given = client_options(client)
    named = given.pop(_START, StartAt.EARLIEST.value).lower()
    if named not in {one.value for one in StartAt}:
        raise UnsupportedFeatureError(
            f"{_START} can be earliest, the default, or latest: a commit is the only place of offsets", given=named
        )
    decode: Decode = functools.partial(decode_json, options.topic)
    if kind == AVRO:
        if registry is None:
            raise ConfigError(f"{AVRO} needs hoodie.streamer.schemaprovider.registry.url")
        decode = functools.partial(decode_avro, options.topic, SchemaRegistry.of(registry))
    return KafkaSource(options.topic, options, given, StartAt(named), decode)
