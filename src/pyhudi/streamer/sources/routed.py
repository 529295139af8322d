"""One topic for many tables: each takes the messages with its values of a field, or of the message key.

Each table has its own checkpoint in its own commits, as if it read the topic alone. The tables of one run read the same
ranges of the topic, so that the broker sends each message once.
"""

from __future__ import annotations

import functools
import json
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.environment import SYSTEM
from pyhudi.errors import SchemaMismatchError, SourceError
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.sources.apart import UnreadableError
from pyhudi.streamer.sources.json_rows import rows_of_json
from pyhudi.streamer.sources.protocol import Pull, Source

REST: Final = "*"
"""In place of values: the messages that no other table of the run takes."""
_VALUE: Final = "value of the route"
_RANGES_KEPT: Final = 2
_QUIET_SECONDS: Final = 1.0
COMMIT_SECONDS: Final = 3600.0
"""After this long a commit without rows keeps how far the topic was read without a message for the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Messages of a topic with their places, and where the topic was after them."""

    topic: str
    topic_id: str | None
    messages: pa.Table
    reached: Checkpoint
    behind: int

    def pull_of(self, topic: Topic, route: Route) -> Pull | None:
        """See `ReadRange.pull_of`. Cost: none."""
        messages = route.chosen(self)
        return topic.pull_of(self, messages) if messages.num_rows else None

    def release(self) -> None:
        """See `ReadRange.release`."""


class ReadRange(Protocol):
    """A range of a topic that was read for all tables of a run."""

    @property
    def reached(self) -> Checkpoint:
        """Where the topic is after the range."""
        ...

    def pull_of(self, topic: Any, route: Route) -> Pull | None:
        """The batch of a table; None where the range has nothing for it. Raises as `Route.chosen`."""
        ...

    def release(self) -> None:
        """Give back what is kept of the range, which no table reads any more."""
        ...


class Topic(Protocol):
    """What reads a topic in ranges."""

    def of_a_batch(self) -> Topic:
        """The topic as a batch reads it: what says how to read messages, such as their schemas, is asked for again."""
        ...

    def tables_of(self, values: pa.ChunkedArray) -> pa.Array:
        """The source table of each of these changes of rows, as a text; null where a message does not say it."""
        ...

    def read_range(self, after: Checkpoint, *, limit: int | None) -> Range | None:
        """The messages after a checkpoint; None if there are none. Raises as `Source.pull`."""
        ...

    def pull_of(self, some: Range, messages: pa.Table) -> Pull:
        """The batch that has these messages of a range, and ends where the range does."""
        ...


Takers: TypeAlias = Sequence[frozenset[str]]
"""The values of the tables of a run, each set of them once."""
ReadParts: TypeAlias = Callable[[Any, "Route", Takers, Checkpoint, int | None], ReadRange | None]
"""Reads a range of a topic, with the values by which a route tells messages apart, for these tables, in tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Which messages are for a table: those whose value is one of `values`, or with `REST` none of `others`.

    The value is that of the field of JSON with the name `field`, with points between the names of nested ones, or the
    message key; with `is_by_table` the table of the database whose row a message changes. `others`: the values of the
    other tables of the run.
    """

    values: frozenset[str]
    field: str | None = None
    others: frozenset[str] = frozenset()
    is_by_table: bool = False

    @property
    def is_rest(self) -> bool:
        """Whether the table takes what no other one takes."""
        return REST in self.values

    def chosen(self, some: Range) -> pa.Table:
        """The messages of a range with values that are for the table.

        Raises `SourceError` for a message without a value that no table of the run takes.
        """
        if not self.is_rest and REST not in self.others and some.messages[_VALUE].null_count:
            first = without_value(some.messages).slice(0, 1).to_pylist()[0]
            raise self.no_value(some.topic, first["partition"], first["offset"])
        return self.taken(some.messages)

    def taken(self, messages: pa.Table) -> pa.Table:
        """Which of these messages with values are for the table."""
        values = messages[_VALUE]
        if self.is_rest:
            is_ours = pc.invert(pc.is_in(values, pa.array(sorted(self.others), pa.string())))
            return messages.filter(pc.or_kleene(values.is_null(), is_ours))
        return messages.filter(pc.is_in(values, pa.array(sorted(self.values), pa.string())))

    def no_value(self, topic: str, partition: int, offset: int) -> SourceError:
        """The error for a message without a value that no table takes."""
        return SourceError(
            f"a message does not say which table it is for: give a table the values {REST}, which takes what no"
            " other one does",
            topic=topic,
            partition=partition,
            offset=offset,
            field=self.field or ("the table of the database" if self.is_by_table else "the message key"),
        )

    def with_values(self, messages: pa.Table, topic: Topic) -> pa.Table:
        """The messages of a topic with the values by which they are told apart."""
        if self.field is not None:
            values = _values_of_field(messages["value"], self.field.split("."))
        else:
            values = topic.tables_of(messages["value"]) if self.is_by_table else _keys(messages)
        return messages.append_column(_VALUE, values)


def without_value(messages: pa.Table) -> pa.Table:
    """Which of these messages with values have none."""
    return messages.filter(messages[_VALUE].is_null())


def without_values(messages: pa.Table) -> pa.Table:
    """Messages as they were before `Route.with_values`."""
    return messages.drop_columns([_VALUE])


def _keys(messages: pa.Table) -> pa.Array:
    """The message keys as texts; null where there is none, or it is no text."""
    keys = messages["key"].combine_chunks()
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text_of_bytes(key) for key in keys.to_pylist()], pa.string())


def _text_of_bytes(key: bytes | None) -> str | None:
    try:
        return None if key is None else key.decode()
    except UnicodeDecodeError:
        return None


def _values_of_field(messages: pa.ChunkedArray, path: Sequence[str]) -> pa.Array:
    """The values of a field of JSON objects as texts; null where it has no text and no whole number."""
    texts = messages.combine_chunks()
    for kind in (pa.string(), pa.int64()):
        wanted = functools.reduce(lambda inner, name: pa.struct([(name, inner)]), reversed(path), kind)
        try:
            column = rows_of_json(texts, pa.schema(list(wanted)), None)[path[0]].combine_chunks()
        except (UnreadableError, SchemaMismatchError):
            continue
        for name in path[1:]:
            column = pc.struct_field(column, name)
        return column.cast(pa.string())
    return pa.array([_value_in(text, path) for text in texts.to_pylist()], pa.string())


def _value_in(text: bytes, path: Sequence[str]) -> str | None:
    """As `_values_of_field`, of one message; slow, for ranges in which not all are alike."""
    try:
        found: Any = json.loads(text)
    except ValueError:
        return None
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return str(found) if isinstance(found, str | int) and not isinstance(found, bool) else None


@dataclass(slots=True)
class Ranges:
    """The newest ranges of a topic that were read, for all tables that come to where one begins.

    `takers`: the values of these; none for a table alone.
    """

    takers: Takers = ()
    _kept: dict[tuple[Checkpoint, int | None], tuple[ReadRange | None, float]] = field(default_factory=dict)
    _used: dict[int, ReadRange | None] = field(default_factory=dict)
    _old: list[ReadRange] = field(default_factory=list)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def after(
        self, after: Checkpoint, limit: int | None, read: Callable[[], ReadRange | None], *, user: int
    ) -> ReadRange | None:
        """The range that begins at a checkpoint, which is read if none is kept; that nothing is there for a second.

        What is kept of it stays until the same user asks for another one.
        """
        place, clock = (after, limit), SYSTEM.clock  # by the topic's id, too, which another topic of its name has not
        with self._guard:
            self._used[user] = None
            some, until = self._kept.pop(place, (None, 0.0))
            if some is None and clock.monotonic() >= until:
                some, until = read(), clock.monotonic() + _QUIET_SECONDS
            self._kept[place], self._used[user] = (some, until), some
            self._forget(_RANGES_KEPT)
            return some

    def release(self) -> None:
        """Give back what is kept of all ranges."""
        with self._guard:
            self._used.clear()
            self._forget(0)

    def _forget(self, left: int) -> None:
        """Forget the oldest ranges, but for so many, and give back what is kept of those that no table uses."""
        while len(self._kept) > left:
            some, _ = self._kept.pop(next(iter(self._kept)))
            if some is not None:
                self._old.append(some)
        used = [id(some) for some in self._used.values()]
        for some in self._old:
            if id(some) not in used:
                some.release()
        self._old = [some for some in self._old if id(some) in used]


@dataclass(slots=True)
class _Passed:
    """Up to where the topic has nothing for the table, after a checkpoint, and since when that is in no commit."""

    after: Checkpoint
    reached: Checkpoint
    since: float


@dataclass(slots=True)
class RoutedSource:
    """The messages of a topic that are for one table. `place`: of which topic, and how it is read.

    `read_parts`: reads the topic in tasks; None where this process reads it. Where the topic has nothing for the table,
    that is remembered for this run, and in a commit after an hour.
    """

    topic: Topic
    route: Route
    place: tuple[Any, ...] = field(repr=False)
    ranges: Ranges = field(default_factory=Ranges, repr=False)
    read_parts: ReadParts | None = field(default=None, repr=False)
    _passed: _Passed | None = None

    def pull(self, after: Checkpoint, *, limit: int | None) -> Pull | None:
        """See `Source.pull`. Cost: three requests to the broker in a second, and one read, for all tables of a run."""
        passed, now, topic = self._passed, SYSTEM.clock.monotonic(), self.topic.of_a_batch()
        if passed is None or passed.after != after:
            passed = _Passed(after, after, now)
        while True:
            read = functools.partial(self._read, topic, passed.reached, limit)
            some = self.ranges.after(passed.reached, limit, read, user=id(self))
            if some is None:
                break
            pull = some.pull_of(topic, self.route)
            if pull is not None:
                return pull
            passed.reached, self._passed = some.reached, passed
        if passed.reached == after or now - passed.since < COMMIT_SECONDS:
            return None
        return Pull(reached=passed.reached, read=_nothing, items=0)

    def _read(self, topic: Topic, after: Checkpoint, limit: int | None) -> ReadRange | None:
        if self.read_parts is not None:
            return self.read_parts(topic, self.route, self.ranges.takers or (self.route.values,), after, limit)
        some = topic.read_range(after, limit=limit)
        return None if some is None else replace(some, messages=self.route.with_values(some.messages, topic))


def _nothing(wanted: pa.Schema | None, stored: pa.Schema | None) -> pa.Table:
    return (wanted or stored or pa.schema([])).empty_table()


def in_one_run(sources: Sequence[Source]) -> list[Source]:
    """Sources that read a topic together, where they read the same, and know which values the others take."""
    groups: dict[tuple[Any, ...], list[RoutedSource]] = defaultdict(list)
    for source in sources:
        if isinstance(source, RoutedSource):
            groups[source.place].append(source)
    ranges = {
        place: Ranges(tuple(dict.fromkeys(source.route.values for source in found))) for place, found in groups.items()
    }

    def joined(source: Source) -> Source:
        if not isinstance(source, RoutedSource):
            return source
        others = (other.route.values for other in groups[source.place] if other is not source)
        route = replace(source.route, others=frozenset().union(*others))
        return replace(source, route=route, ranges=ranges[source.place])

    return [joined(source) for source in sources]


def released(sources: Sequence[Source]) -> None:
    """Give back what sources keep of topics, at the end of a run."""
    for source in sources:
        if isinstance(source, RoutedSource):
            source.ranges.release()
