"""The sources of Kafka: JsonKafkaSource and AvroKafkaSource."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.config.options_streamer import KafkaOptions
from pyhudi.errors import ConfigError, SchemaMismatchError, SourceError, UnsupportedFeatureError
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.sources.apart import (
    Apart,
    NoColumnsError,
    Origin,
    UnreadableError,
    numbered,
    read_apart,
    with_numbers,
)
from pyhudi.streamer.sources.avro_rows import joined_rows, rows_of_avro
from pyhudi.streamer.sources.decoding import Decode, Messages, batches_of, decoded
from pyhudi.streamer.sources.json_rows import joined, rows_of_json, rows_of_json_piece, with_types
from pyhudi.streamer.sources.kafka_client import (
    MESSAGES,
    MESSAGES_WITH_KEYS,
    Broker,
    broker_of,
    check_is_same,
    client_options,
    read_messages,
    topic_of,
)
from pyhudi.streamer.sources.kafka_offsets import (
    Bounds,
    Offsets,
    StartAt,
    checkpoint_text,
    end_offsets,
    first_offsets,
    next_offsets,
    parse_checkpoint,
)
from pyhudi.streamer.sources.moved_keys import (
    PutOff,
    deletes_again,
    of_silent_partitions,
    put_off_deletes,
    with_deletes,
)
from pyhudi.streamer.sources.protocol import COLUMNS_OF_OFFSETS, Check, Pull
from pyhudi.streamer.sources.routed import REST, Range, Route, RoutedSource
from pyhudi.streamer.sources.routed_changes import tables_of_avro, tables_of_json
from pyhudi.streamer.sources.schema_registry import SchemaRegistry
from pyhudi.streamer.sources.topic_parts import TopicPart, TopicParts, parts_of

JSON: Final = "JsonKafkaSource"
AVRO: Final = "AvroKafkaSource"
_FAILURES: Final = {JSON: "JSON_ROW_DESERIALIZATION_FAILURE", AVRO: "AVRO_DESERIALIZATION_FAILURE"}
LAST_MESSAGES: Final = 256
"""How many offsets are read to see how a batch ends; so many times as many where they have too few messages."""
_START: Final = "auto.offset.reset"
_ROUTE: Final = "hoodie.streamer.source.kafka.route.values"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRange:
    """Offsets of the topic with an id that are a batch, in parts, and what the topic is at then.

    `previous`: single messages that the batch before had put off. `messages`: those of the range, where few were read
    to see how it ends.
    """

    topic_id: str | None
    begin: Offsets
    end: Offsets
    previous: Offsets
    reached: Checkpoint
    behind: int
    parts: tuple[TopicPart, ...]
    messages: pa.Table | None

    @property
    def is_empty(self) -> bool:
        """Whether no partition has an offset."""
        return all(self.begin[partition] == stop for partition, stop in self.end.items())


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """A topic, by the name of JVM Hudi's class. `registry`: where the schemas of its messages are, if they are Avro.

    `changes`: the program or database whose changes of rows they are; None for rows. `has_moved_keys`: a batch does not
    part two changes that are one (`moved_keys.py`). `reads_keys`: whether messages have their keys.
    """

    kind: str

    topic: str
    options: KafkaOptions
    broker: Broker = field(repr=False)
    start: StartAt
    registry: SchemaRegistry | None = None
    changes: str | None = None
    has_moved_keys: bool = False
    reads_keys: bool = False

    def pull(self, after: Checkpoint, *, limit: int | None) -> Pull | None:
        """See `Source.pull`. Cost: that of `planned`."""
        source = self.of_a_batch()
        plan = source.planned(after, limit=limit)
        if plan.is_empty and (plan.reached.text == after.text or (after.text is None and self._begins_at_first)):
            return None
        fetch = functools.partial(source._messages_of, plan)
        return Pull(
            reached=plan.reached,
            read=functools.partial(source.rows, plan.topic_id, fetch),
            read_apart=functools.partial(source.rows_apart, plan.topic_id, fetch),
            items=sum(plan.end.values()) - sum(plan.begin.values()),
            parts=TopicParts(source, plan.parts),
            must_be_kept=after.text is None and not self._begins_at_first,
            behind=plan.behind,
        )

    def of_a_batch(self) -> KafkaSource:
        """See `Topic.of_a_batch`. Cost: none."""
        return self if self.registry is None else replace(self, registry=self.registry.of_a_batch())

    @property
    def decode(self) -> Decode:
        """Makes rows of messages."""
        return rows_of_json if self.registry is None else functools.partial(_rows_of_avro, self.registry)

    def tables_of(self, values: pa.ChunkedArray) -> pa.Array:
        """See `Topic.tables_of`. Cost: of Avro a request for each schema."""
        if self.registry is not None:
            return tables_of_avro(self.registry.schema, values)
        return tables_of_json(values, is_maxwell=self.changes == "maxwell")

    @property
    def _begins_at_first(self) -> bool:
        return self.start is StartAt.EARLIEST

    def planned(self, after: Checkpoint, *, limit: int | None) -> PlannedRange:
        """The range of a batch after a checkpoint, in parts.

        Cost: three requests to the broker; with `has_moved_keys` a read of the ends of partitions.
        """
        topic_id, bounds, begin, end = self._range(after, limit)
        again: Offsets = {}
        previous: Offsets = {}
        messages: pa.Table | None = None
        if self.has_moved_keys:
            is_small = all(stop - begin[partition] <= LAST_MESSAGES for partition, stop in end.items())
            put_off, previous = self._put_off(self._last_messages(topic_id, begin, end), end, after)
            end, again = put_off.ends, put_off.again
            messages = put_off.messages if is_small else None
        text = checkpoint_text(self.topic, end)
        return PlannedRange(
            topic_id=topic_id,
            begin=begin,
            end=end,
            previous=previous,
            reached=Checkpoint(text=text, state=_state(topic_id, text, again)),
            behind=_behind(begin, bounds),
            parts=parts_of(self, topic_id, previous, begin, end),
            messages=messages,
        )

    def read_range(self, after: Checkpoint, *, limit: int | None) -> Range | None:
        """See `Topic.read_range`. Cost: three requests to the broker, and a read of the messages."""
        topic_id, bounds, begin, end = self._range(after, limit)
        if begin == end:
            return None
        messages = self.fetched(topic_id, begin, end)
        again: Offsets = {}
        if self.has_moved_keys:
            put_off, previous = self._put_off(messages, end, after)
            end, again = put_off.ends, put_off.again
            read = functools.partial(batches_of, put_off.messages)
            messages = self._together(self._messages_after(topic_id, previous, read))
        text = checkpoint_text(self.topic, end)
        return Range(
            topic=self.topic,
            topic_id=topic_id,
            messages=messages,
            reached=Checkpoint(text=text, state=_state(topic_id, text, again)),
            behind=_behind(begin, bounds),
        )

    def pull_of(self, some: Range, messages: pa.Table) -> Pull:
        """See `Topic.pull_of`. Cost: none."""
        return Pull(
            reached=some.reached,
            read=functools.partial(self.rows, some.topic_id, functools.partial(batches_of, messages)),
            read_apart=functools.partial(self.rows_apart, some.topic_id, functools.partial(batches_of, messages)),
            items=messages.num_rows,
            behind=some.behind,
        )

    def _range(self, after: Checkpoint, limit: int | None) -> tuple[str | None, Bounds, Offsets, Offsets]:
        """The id of the topic, what it has, and where a batch after a checkpoint begins and ends."""
        topic_id, bounds = topic_of(self.broker, self.topic)
        if after.text is None:
            begin = first_offsets(bounds, self.start)
        else:
            begin = next_offsets(
                bounds,
                parse_checkpoint(after.text, self.topic),
                is_made_anew=_is_another(topic_id, after),
                accepts_loss=not self.options.fails_on_loss,
            )
        return topic_id, bounds, begin, end_offsets(begin, bounds, self.options.max_events if limit is None else limit)

    def columns_of(self, schema: pa.Schema) -> pa.Schema:
        """See `TopicReader.columns_of`."""
        if not self.options.appends_offsets:
            return schema
        return _with_columns(
            schema.empty_table().select([name for name in schema.names if name not in COLUMNS_OF_OFFSETS]),
            self._columns_of_offsets(MESSAGES.empty_table()),
        ).schema

    def told_columns(
        self, topic_id: str | None, messages: pa.Table, stored: pa.Schema | None, *, fits: bool
    ) -> tuple[int, pa.Schema] | None:
        """See `TopicReader.told_columns`."""
        if not messages.num_rows:
            return 0, pa.schema([])
        known = self._without_offsets(stored)
        with self._naming(topic_id, messages):
            try:
                rows = self.decode(messages["value"].combine_chunks(), None, known, fits=fits)
            except NoColumnsError:
                return messages.num_rows, pa.schema([])
            except UnreadableError:
                if fits:
                    return None
                raise
        return messages.num_rows, rows.schema

    def rows(
        self, topic_id: str | None, fetch: Callable[[], Messages], wanted: pa.Schema | None, stored: pa.Schema | None
    ) -> pa.Table:
        """See `TopicReader.rows`."""
        only, known = self._without_offsets(wanted), self._without_offsets(stored)
        decode = rows_of_json_piece if self.kind == JSON else self.decode

        def read(messages: pa.Table) -> tuple[pa.Table, pa.Table]:
            with self._naming(topic_id, messages):
                rows = decode(messages["value"].combine_chunks(), only, known)
            return rows, self._columns_of_offsets(messages)

        found = decoded(fetch(), read)
        if not found:
            return (wanted if wanted is not None else pa.schema([])).empty_table()
        parts = [rows for rows, _ in found]
        if only is not None:
            rows = pa.concat_tables(parts)
        else:
            rows = self.joined(parts, known) if len(parts) > 1 else parts[0]
            rows = _typed(rows, self.topic) if self.kind == JSON else rows
        return _with_columns(rows, pa.concat_tables(columns for _, columns in found))

    @contextmanager
    def _naming(self, topic_id: str | None, messages: pa.Table) -> Iterator[None]:
        """Let the error for a message that cannot be read say which one it is, if it is one of this topic."""
        try:
            yield
        except (UnreadableError, SchemaMismatchError) as error:
            check_is_same(self.broker, self.topic, topic_id)
            if isinstance(error, SchemaMismatchError):
                raise
            place = {} if error.row is None else _place(messages, error.row)
            raise SourceError(f"a message cannot be read: {error.reason}", topic=self.topic, **place) from error

    def rows_apart(
        self,
        topic_id: str | None,
        fetch: Callable[[], Messages],
        wanted: pa.Schema | None,
        stored: pa.Schema | None,
        *,
        fits: bool,
        check: Check | None = None,
    ) -> Apart:
        """See `TopicReader.rows_apart`."""
        messages = self._together(fetch())
        columns = self._columns_of_offsets(messages)
        values = messages["value"].combine_chunks()
        only, known = self._without_offsets(wanted), self._without_offsets(stored)

        def read(start: int, stop: int) -> pa.Table:
            count = stop - start
            decode = functools.partial(self.decode, values.slice(start, count), only, known, fits=fits)
            if check is None:
                rows = numbered(decode, start, count)
            else:
                messages_read = decode()
                check(messages_read)
                rows = with_numbers(messages_read, start)
            return _with_columns(rows, columns.slice(start, count))

        parts, failed = read_apart(len(values), read, _FAILURES[self.kind])
        return Apart(
            rows=self.joined(parts, known),
            failed=failed,
            origins=functools.partial(self._origins, topic_id, messages),
        )

    def joined(self, tables: Sequence[pa.Table], stored: pa.Schema | None) -> pa.Table:
        """Rows of messages, with the columns of all. Raises `SchemaMismatchError` where they do not fit together."""
        return joined(list(tables), None) if self.kind == JSON else joined_rows(tables, stored)

    def joined_columns(self, schemas: Sequence[pa.Schema], stored: pa.Schema | None) -> pa.Schema:
        """See `TopicReader.joined_columns`."""
        rows = self.joined([schema.empty_table() for schema in schemas], self._without_offsets(stored))
        return self.columns_of(rows.schema)

    def _columns_of_offsets(self, messages: pa.Table) -> pa.Table:
        """The columns that say where rows come from, if the options ask for them."""
        if not self.options.appends_offsets:
            return messages.select([])
        return messages.select(["offset", "partition", "timestamp"]).rename_columns(list(COLUMNS_OF_OFFSETS))

    def _without_offsets(self, schema: pa.Schema | None) -> pa.Schema | None:
        """The columns that come from the messages themselves."""
        if schema is None or not self.options.appends_offsets:
            return schema
        return pa.schema([column for column in schema if column.name not in COLUMNS_OF_OFFSETS])

    def fetched(self, topic_id: str | None, begin: Offsets, end: Offsets) -> pa.Table:
        """See `TopicReader.fetched`."""
        return self._together(self._messages(topic_id, begin, end))

    def _messages(self, topic_id: str | None, begin: Offsets, end: Offsets) -> Messages:
        """The messages with a value: a null value is the tombstone of a compacted topic, and no row.

        Raises `SourceDataLostError` if they may be of another topic than that with the id.
        """
        check_is_same(self.broker, self.topic, topic_id)  # what another one does not have would be waited for
        with closing(read_messages(self.broker.options, self.topic, begin, end, with_keys=self.reads_keys)) as found:
            for batch in found:
                values = batch["value"]
                yield batch.filter(values.is_valid()) if values.null_count else batch
        check_is_same(self.broker, self.topic, topic_id)  # ids do not come back, so it was the same all the time

    def _together(self, messages: Messages) -> pa.Table:
        schema = MESSAGES_WITH_KEYS if self.reads_keys else MESSAGES
        return pa.Table.from_batches([batch.select(schema.names) for batch in messages], schema)

    def _messages_of(self, plan: PlannedRange) -> Messages:
        """The messages of a range, after those that the batch before had put off."""
        read = functools.partial(self._messages, plan.topic_id, plan.begin, plan.end)
        if plan.messages is not None:
            read = functools.partial(batches_of, plan.messages)
        return self._messages_after(plan.topic_id, plan.previous, read)

    def _messages_after(self, topic_id: str | None, previous: Offsets, read: Callable[[], Messages]) -> Messages:
        """The messages that are read, after the single ones that the batch before had put off."""
        if previous:
            yield from self._messages(topic_id, previous, _behind_each(previous))
        yield from read()

    def _last_messages(self, topic_id: str | None, begin: Offsets, end: Offsets) -> pa.Table:
        """The last messages with a value of each partition: two or more, or all. Cost: few reads of some messages."""
        found: list[pa.Table] = [MESSAGES.empty_table()]
        left, depth = dict(end), LAST_MESSAGES
        while left:
            first = {partition: max(begin[partition], stop - depth) for partition, stop in left.items()}
            messages = self.fetched(topic_id, first, left)
            counts = np.bincount(messages["partition"].to_numpy(), minlength=max(left) + 1)
            is_enough = {partition: counts[partition] > 1 or begin[partition] == first[partition] for partition in left}
            whole = pa.array([partition for partition in left if is_enough[partition]], pa.int32())
            found.append(messages.filter(pc.is_in(messages["partition"], whole)))
            left = {partition: stop for partition, stop in left.items() if not is_enough[partition]}
            depth *= LAST_MESSAGES
        return pa.concat_tables(found)

    def _put_off(self, messages: pa.Table, end: Offsets, after: Checkpoint) -> tuple[PutOff, Offsets]:
        """A batch without a delete at its end, and the deletes that the batch before had put off (`moved_keys`).

        `messages`: of each partition the last two with a value at least.
        """
        put_off = put_off_deletes(messages, end, lambda value: self.decode(value, None, None))
        previous = deletes_again(after)
        again = {**of_silent_partitions(previous, put_off.messages), **put_off.again}
        return replace(put_off, again=again), previous if put_off.messages.num_rows else {}

    def _origins(self, topic_id: str | None, messages: pa.Table, numbers: Sequence[int]) -> list[Origin]:
        """Where messages are. Another topic of the same name has other ones at the same offsets."""
        found = messages.take(pa.array(numbers, pa.int64())).to_pylist()
        topic = self.topic if topic_id is None else f"{self.topic}@{topic_id}"
        places = [f"{message['partition']}:{message['offset']}" for message in found]
        return [
            Origin(id=f"{topic}|{place}", source=self.topic, position=place, payload=message["value"])
            for message, place in zip(found, places, strict=True)
        ]


def _behind_each(offsets: Offsets) -> dict[int, int]:
    return {partition: offset + 1 for partition, offset in offsets.items()}


def _place(messages: pa.Table, row: int) -> dict[str, int]:
    return {name: messages[name][row].as_py() for name in ("partition", "offset")}


def _is_another(topic_id: str | None, after: Checkpoint) -> bool:
    """Whether the topic is another one of the same name. False where that cannot be known."""
    return topic_id is not None and after.state_under("checkpoint").get("topic_id") not in (None, topic_id)


def _state(topic_id: str | None, text: str, again: Offsets) -> str | None:
    if topic_id is None and not again:
        return None
    state = with_deletes({"checkpoint": text, "topic_id": topic_id}, again)
    return json.dumps(state, separators=(",", ":"))


def _typed(rows: pa.Table, topic: str) -> pa.Table:
    try:
        return with_types(rows)
    except NoColumnsError as error:
        raise SourceError(f"a message cannot be read: {error.reason}", topic=topic) from error


def _with_columns(rows: pa.Table, columns: pa.Table) -> pa.Table:
    for name, column in zip(columns.column_names, columns.columns, strict=True):
        rows = rows.append_column(pa.field(name, column.type), column)
    return rows


def _rows_of_avro(
    registry: SchemaRegistry,
    values: pa.BinaryArray,
    wanted: pa.Schema | None,
    stored: pa.Schema | None,
    *,
    fits: bool = False,
) -> pa.Table:
    del fits  # Avro says its types, which the columns of the table grow to or not
    return rows_of_avro(values, registry.schema, wanted, stored)


def _behind(begin: Offsets, bounds: Bounds) -> int:
    """How many offsets of the topic are from the begin of a batch on."""
    return sum(bounds.latest[partition] - offset for partition, offset in begin.items())


def routed_source(source: KafkaSource) -> RoutedSource:
    """The source of the messages of a topic that are for one table, as its options say.

    Raises `ConfigError` and `UnsupportedFeatureError`. Cost: none.
    """
    options = source.options
    values = frozenset(value.strip() for value in (options.route_values or "").split(","))
    if "" in values or (REST in values and len(values) > 1):
        raise ConfigError(
            f"{_ROUTE} must be values with commas between them, or {REST} alone", given=options.route_values
        )
    if options.route_field is not None and source.kind != JSON:
        raise UnsupportedFeatureError(
            f"messages of {source.kind} are not told apart by a field: leave it out; then the table of the database"
            " does so for change data, and the message key for others",
            field=options.route_field,
        )
    if source.start is not StartAt.EARLIEST:
        raise UnsupportedFeatureError(f"a topic for many tables is read from its begin: leave {_START} out")
    client = tuple(sorted(source.broker.options.items()))
    place = (client, source.topic, options.route_field, options.fails_on_loss, source.changes)
    route = Route(values=values, field=options.route_field, is_by_table=source.changes is not None)
    reads_keys = route.field is None and not route.is_by_table
    return RoutedSource(replace(source, reads_keys=reads_keys), route, place)


def kafka_source(
    kind: str,
    options: KafkaOptions,
    registry: str | None,
    client: Mapping[str, str],
    *,
    changes: str | None = None,
    has_moved_keys: bool = False,
) -> KafkaSource:
    """The source of a topic, JsonKafkaSource or AvroKafkaSource; `registry`: the URL of the schema registry.

    The others are those of `KafkaSource`. Raises `ConfigError` and `UnsupportedFeatureError`. Cost: none.
    """
    if options.topic is None:
        raise ConfigError(f"{kind} needs hoodie.streamer.source.kafka.topic")
    given = client_options(client)
    named = given.pop(_START, StartAt.EARLIEST.value).lower()
    if named not in {place.value for place in StartAt}:
        raise UnsupportedFeatureError(
            f"{_START} can be earliest, the default, or latest: a commit is the only place of offsets", given=named
        )
    schemas = None
    if kind == AVRO:
        if registry is None:
            raise ConfigError(f"{AVRO} needs hoodie.streamer.schemaprovider.registry.url")
        schemas = SchemaRegistry.of(registry)
    return KafkaSource(kind, options.topic, options, broker_of(given), StartAt(named), schemas, changes, has_moved_keys)
