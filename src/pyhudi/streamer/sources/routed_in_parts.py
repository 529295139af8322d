"""One topic for many tables whose messages tasks read: once for all tables, each of which then has parts of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from pyhudi.errors import InternalError, SourceDataLostError
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.sources.kafka import KafkaSource
from pyhudi.streamer.sources.protocol import Pull
from pyhudi.streamer.sources.routed import REST, ReadRange, Route, Takers, without_value, without_values
from pyhudi.streamer.sources.topic_parts import TopicPart, TopicParts

_NO_VALUE: Final = -1
"""In place of a taker's number: the first message of a part that does not say which table it is for."""


class Piece(Protocol):
    """How many rows of a part are for a taker, and how many bytes they have."""

    @property
    def rows(self) -> int:
        """How many rows."""
        ...

    @property
    def size_bytes(self) -> int:
        """How many bytes these have."""
        ...


class Kept(Protocol):
    """Rows of parts that an engine keeps, each for a taker."""

    def pieces(self, taker: int) -> Mapping[int, Piece]:
        """The pieces of a taker, by the numbers of the parts; none without rows."""
        ...

    def of(self, taker: int) -> Any:
        """What tasks get the pieces of a taker from: see `Parts.kept`."""
        ...

    def told(self, taker: int, tasks: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
        """What a function gives of pieces of a taker, in tasks."""
        ...

    def release(self) -> None:
        """Keep nothing any more."""
        ...


Divide: TypeAlias = Callable[[TopicPart], Iterator[tuple[int, pa.Table]]]
"""Reads a part, and divides its rows among takers: for each its number, and its rows."""
Keep: TypeAlias = Callable[[Sequence[TopicPart], Divide], Kept]
"""Runs a function over parts in tasks, once, and keeps what it gives."""


@dataclass(frozen=True, slots=True)
class RoutedPart(TopicPart):
    """The messages of a part that are for one table. `number`: that of the part. `messages`: they, in a task."""

    number: int
    count: int
    kept_bytes: int
    messages: pa.Table | None = field(default=None, repr=False)

    @property
    def size_bytes(self) -> int:
        """See `Part.size_bytes`."""
        return self.kept_bytes

    def with_rows(self, messages: pa.Table) -> RoutedPart:
        """The part as a task has it."""
        return replace(self, messages=messages)

    def fetched(self) -> pa.Table:
        """See `TopicPart.fetched`. Raises `SourceDataLostError` where there were others at first. Cost: none."""
        if self.messages is None:
            raise InternalError("the messages of a table are read where an engine keeps them", topic=self.source.topic)
        if self.messages.num_rows != self.count:
            raise SourceDataLostError(
                "messages were deleted while they were being read; run again",
                topic=self.source.topic,
                partition=self.partition,
                begin=self.begin,
                end=self.end,
            )
        return self.messages


class _Place(NamedTuple):
    part: int
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeInParts:
    """A range of a topic that tasks have read. See `ReadRange`. `takers`: by their numbers, for which it is kept."""

    topic_id: str | None
    parts: tuple[TopicPart, ...]
    kept: Kept
    takers: Takers
    reached: Checkpoint
    behind: int

    def pull_of(self, topic: KafkaSource, route: Route) -> Pull | None:
        """See `ReadRange.pull_of`. Cost: none; where messages do not say their table, a job that finds the first."""
        if self.kept.pieces(_NO_VALUE) and not route.is_rest:
            tasks = self._tasks(topic, _NO_VALUE)
            first = min(self.kept.told(_NO_VALUE, tasks, _place))
            raise route.no_value(topic.topic, first.partition, first.offset)
        taker = self.takers.index(route.values)
        tasks = self._tasks(topic, taker)
        if not tasks:
            return None
        return Pull(
            reached=self.reached,
            read=_read_by_tasks,
            items=sum(task.count for task in tasks),
            parts=TopicParts(topic, tasks, self.kept.of(taker)),
            behind=self.behind,
        )

    def _tasks(self, topic: KafkaSource, taker: int) -> tuple[RoutedPart, ...]:
        found = ((self.parts[number], number, piece) for number, piece in sorted(self.kept.pieces(taker).items()))
        return tuple(
            RoutedPart(topic, part.topic_id, part.partition, part.begin, part.end, number, piece.rows, piece.size_bytes)
            for part, number, piece in found
        )

    def release(self) -> None:
        """See `ReadRange.release`."""
        self.kept.release()


def _place(part: RoutedPart) -> _Place:
    """Where the only message of a part is."""
    message = part.fetched().select(["partition", "offset"]).to_pylist()[0]
    return _Place(part.number, message["partition"], message["offset"])


def _read_by_tasks(wanted: pa.Schema | None, stored: pa.Schema | None) -> pa.Table:
    del wanted, stored
    raise InternalError("tasks read the messages of this batch")


def read_in_parts(
    keep: Keep, topic: KafkaSource, route: Route, takers: Takers, after: Checkpoint, limit: int | None
) -> ReadRange | None:
    """See `ReadParts`. Raises as `Source.pull`. Cost: that of `KafkaSource.planned`, and a read of the range in tasks.

    What an engine makes again, as it lost it, is read from the same offsets of the topic with the same id.
    """
    plan = topic.planned(after, limit=limit)
    if plan.is_empty:
        return None
    every = frozenset[str]().union(*takers)
    routes = tuple(replace(route, values=values, others=every - values) for values in takers)
    kept = keep(plan.parts, functools.partial(_divided, routes))
    return RangeInParts(
        topic_id=plan.topic_id,
        parts=plan.parts,
        kept=kept,
        takers=takers,
        reached=plan.reached,
        behind=plan.behind,
    )


def _divided(routes: Sequence[Route], part: TopicPart) -> Iterator[tuple[int, pa.Table]]:
    """The messages of a part for each of the routes, by their numbers. Cost: a read of the part."""
    messages = routes[0].with_values(part.fetched(), part.source)
    if not any(REST in route.values for route in routes):
        yield _NO_VALUE, without_values(without_value(messages).slice(0, 1))
    for number, route in enumerate(routes):
        yield number, without_values(route.taken(messages))
