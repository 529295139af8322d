"""The parts of a batch of a topic: tasks read them, and make rows of their messages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from pyhudi.errors import SourceError
from pyhudi.streamer.sources.apart import Apart
from pyhudi.streamer.sources.decoding import Messages, batches_of
from pyhudi.streamer.sources.kafka_offsets import Offsets
from pyhudi.streamer.sources.protocol import Check, Tell
from pyhudi.streamer.sources.routed import Topic

MESSAGES_OF_A_PART: Final = 100_000
"""How many messages a task reads, which has them in memory together."""
_MESSAGE_BYTES: Final = 1_000
"""About what a message takes: the broker does not say it before it is read."""


class TopicReader(Topic, Protocol):
    """What reads messages of a topic, and makes rows of them."""

    @property
    def topic(self) -> str:
        """The name of the topic."""
        ...

    def fetched(self, topic_id: str | None, begin: Offsets, end: Offsets) -> pa.Table:
        """The messages with a value of a range of the topic with an id. Cost: a read of it."""
        ...

    def rows(
        self, topic_id: str | None, fetch: Callable[[], Messages], wanted: pa.Schema | None, stored: pa.Schema | None
    ) -> pa.Table:
        """The rows of the messages that `fetch` gives. See `Pull.read`."""
        ...

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
        """The rows of the messages that `fetch` gives, apart from those that cannot be read. See `Pull.read_apart`."""
        ...

    def told_columns(
        self, topic_id: str | None, messages: pa.Table, stored: pa.Schema | None, *, fits: bool
    ) -> tuple[int, pa.Schema] | None:
        """How many messages these are, and the columns that they say; none where no message has a value in a field.

        With `fits`, None where one cannot be read, as its values do not have the types of the table's columns. Raises
        `SourceError` where one cannot be read otherwise. Cost: they are decoded.
        """
        ...

    def columns_of(self, schema: pa.Schema) -> pa.Schema:
        """The columns of rows whose messages have these."""
        ...

    def joined_columns(self, schemas: Sequence[pa.Schema], stored: pa.Schema | None) -> pa.Schema:
        """The columns of rows that are joined of such ones; those of offsets are the last.

        Raises `SchemaMismatchError` where they do not fit together.
        """
        ...


@dataclass(frozen=True, slots=True)
class TopicPart:
    """A range of offsets of one partition of the topic with an id. See `Part`."""

    source: TopicReader
    topic_id: str | None
    partition: int
    begin: int
    end: int

    @property
    def size_bytes(self) -> int:
        """See `Part.size_bytes`."""
        return (self.end - self.begin) * _MESSAGE_BYTES

    def told(self, stored: pa.Schema | None, *, fits: bool) -> tuple[int, pa.Schema] | None:
        """See `TopicReader.told_columns`. Cost: a read of the range."""
        return self.source.told_columns(self.topic_id, self.fetched(), stored, fits=fits)

    def batches(
        self, columns: pa.Schema, wanted: pa.Schema | None, stored: pa.Schema | None
    ) -> Iterator[pa.RecordBatch]:
        """See `Part.batches`. Cost: a read of the range."""
        del wanted, stored  # the messages of all parts have said the columns
        yield from self.source.rows(self.topic_id, self._batches, columns, None).to_batches()

    def read_apart(
        self, wanted: pa.Schema | None, stored: pa.Schema | None, *, fits: bool, check: Check | None = None
    ) -> Apart:
        """See `Part.read_apart`. Cost: a read of the range."""
        return self.source.rows_apart(self.topic_id, self._batches, wanted, stored, fits=fits, check=check)

    def fetched(self) -> pa.Table:
        """The messages with a value. Cost: a read of the range."""
        begin, end = {self.partition: self.begin}, {self.partition: self.end}
        return self.source.fetched(self.topic_id, begin, end)

    def _batches(self) -> Messages:
        """All messages in one piece, which this task decodes by itself: other tasks have the other cores."""
        return batches_of(self.fetched().combine_chunks())


@dataclass(frozen=True, slots=True)
class TopicParts:
    """A batch of a topic. See `Parts`."""

    source: TopicReader
    tasks: tuple[TopicPart, ...]
    kept: Any = None

    def columns(self, tell: Tell, wanted: pa.Schema | None, stored: pa.Schema | None) -> pa.Schema:
        """See `Parts.columns`. Cost: without `wanted` a read of the messages; two if values do not fit the table."""
        if wanted is not None:
            return self.source.columns_of(wanted)
        told = tell(functools.partial(TopicPart.told, stored=stored, fits=stored is not None))
        if None in told:  # then the types of the batch decide, as where it is read as a whole
            told = tell(functools.partial(TopicPart.told, stored=None, fits=False))
        schemas = [schema for _, schema in told if schema.names]
        if not schemas:
            if any(count for count, _ in told):
                raise SourceError(
                    "a message cannot be read: no field of any row has a value, so nothing says what columns there are",
                    topic=self.source.topic,
                )
            return pa.schema([])
        return self.joined(schemas, stored)

    def joined(self, schemas: Sequence[pa.Schema], stored: pa.Schema | None) -> pa.Schema:
        """See `Parts.joined`. Cost: none."""
        return self.source.joined_columns(schemas, stored)

    @property
    def is_typed_as_a_whole(self) -> bool:
        """See `Parts.is_typed_as_a_whole`."""
        return True


def parts_of(
    source: TopicReader, topic_id: str | None, previous: Offsets, begin: Offsets, end: Offsets
) -> tuple[TopicPart, ...]:
    """What is read alone of a batch: `previous` messages, and ranges, those of a partition one after the other."""
    single = (TopicPart(source, topic_id, partition, first, first + 1) for partition, first in previous.items())
    ranges = (
        TopicPart(source, topic_id, partition, first, min(first + MESSAGES_OF_A_PART, stop))
        for partition, stop in sorted(end.items())
        for first in range(begin[partition], stop, MESSAGES_OF_A_PART)
    )
    return (*single, *ranges)
