"""Messages of a Kafka topic, by confluent-kafka: the bounds of its partitions, and a range of each as Arrow."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from pyhudi.environment import SYSTEM
from pyhudi.errors import ConfigError, SourceDataLostError, SourceError
from pyhudi.streamer.sources.decoding import Messages
from pyhudi.streamer.sources.kafka_offsets import Bounds, Offsets

R = TypeVar("R")
_log = logging.getLogger("pyhudi.kafka")
_log.addHandler(logging.NullHandler())
MESSAGES: Final = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("value", pa.binary()),
    ]
)
"""The columns of messages. `timestamp` is in milliseconds since the epoch."""
MESSAGES_WITH_KEYS: Final = MESSAGES.append(pa.field("key", pa.binary()))
ANSWER_SECONDS: Final = 30
SILENCE_SECONDS: Final = 60
_ASKED_AGAIN: Final = 20
_PAUSE_SECONDS: Final = 0.5
_PASSING: Final = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
    }
)
"""The errors of a topic that was made a moment ago, or whose leader changes."""
_AWAY: Final = frozenset(
    {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE}
)
_WAIT_SECONDS: Final = 0.2
_AT_ONCE: Final = 2_000
"""How many messages the client gives at a time. Of more, the first ones have left the processor's cache."""
_REFILL_MILLISECONDS: Final = "10"
"""How long the client waits after its queue was full. By its own default, a second, it waits most of the time."""
_OF_CONSUMERS: Final = (
    "group.",
    "isolation.",
    "auto.offset.",
    "enable.auto.",
    "fetch.",
    "max.poll.",
    "session.",
    "heartbeat.",
)
_OF_JAVA: Final = ("key.deserializer", "value.deserializer", "schema.registry.")
_SAID_OF_CLIENT: Final = re.compile(r"\[rdkafka#[^]]*\]|\(after .*")
"""What differs where the same is said again: the name of the client, and how long it took."""
_SAID_AGAIN_SECONDS: Final = 60.0
_SAID_MAX: Final = 100
_said: Final[dict[str, float]] = {}


def _is_due(record: logging.LogRecord) -> bool:
    """Whether Kafka's client has not said this in the last minute: it says each attempt to connect, many a second."""
    text, now = _SAID_OF_CLIENT.sub("", record.getMessage()), SYSTEM.clock.monotonic()
    if now - _said.get(text, -_SAID_AGAIN_SECONDS) < _SAID_AGAIN_SECONDS:
        return False
    if len(_said) >= _SAID_MAX:
        _said.clear()
    _said[text] = now
    return True


_log.addFilter(_is_due)


def client_options(given: Mapping[str, str]) -> dict[str, str]:
    """What Kafka's client is given. Raises `ConfigError` where there is no address."""
    if not given.get("bootstrap.servers"):
        raise ConfigError("a Kafka source needs bootstrap.servers in hoodie_conf")
    return {name: value for name, value in given.items() if not name.startswith(_OF_JAVA)}


@dataclass(eq=False, slots=True, weakref_slot=True)
class Broker:
    """A broker, by the options of its client. It keeps one client that asks it for bounds, as connections cost time.

    A forked process makes a client of its own. It keeps that of its parent, too, whose end would wait for threads that
    stayed behind.
    """

    options: Mapping[str, str] = field(repr=False)
    _admins: dict[int, Any] = field(default_factory=dict, init=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickled broker is that of the process which opens it: clients stay where they are."""
        return broker_of, (dict(self.options),)

    def admin(self) -> Any:
        """The client that asks for the bounds of topics. Cost: none until it is asked."""
        process = os.getpid()
        if process not in self._admins:
            of_admin = {name: value for name, value in self.options.items() if not name.startswith(_OF_CONSUMERS)}
            self._admins[process] = AdminClient(of_admin, logger=_log)
        return self._admins[process]

    def forget(self) -> None:
        """Ask by a new client from now on: what one knows of the leaders of topics may be old."""
        self._admins.pop(os.getpid(), None)


_brokers: Final[WeakValueDictionary[frozenset[tuple[str, str]], Broker]] = WeakValueDictionary()


def broker_of(options: Mapping[str, str]) -> Broker:
    """The broker with these options of its client: one for all sources of a process that have the same. Cost: none."""
    key = frozenset(options.items())
    known = _brokers.get(key)
    if known is None:
        known = _brokers[key] = Broker(dict(options))
    return known


def topic_of(broker: Broker, topic: str) -> tuple[str | None, Bounds]:
    """The id of a topic, which another one of its name does not have, and what it has. None for a broker without ids.

    The last offset is the one up to which the isolation level of the options lets messages be read. Raises
    `SourceError` where there is no such topic. Cost: three requests; more while a topic has no leader.
    """
    return _answer(broker, topic, _bounds)


def check_is_same(broker: Broker, topic: str, topic_id: str | None) -> None:
    """Raise `SourceDataLostError` if another topic has the name by now. Cost: a request; none for None.

    None is the id of a topic of a broker without ids.
    """
    if topic_id is None:
        return
    found = _id_of(_answer(broker, topic, _described))
    if found != topic_id:
        raise SourceDataLostError(
            "the topic was deleted and made anew while it was being read: nothing of this batch was written; run again",
            topic=topic,
            topic_id=topic_id,
            found=found,
        )


def _answer(broker: Broker, topic: str, ask: Callable[[Any, Mapping[str, str], str], R]) -> R:
    """What a broker says of a topic, which is asked again while it has no leader."""
    with _failures(broker.options, topic):
        for _ in range(_ASKED_AGAIN):
            admin = broker.admin()
            try:
                return ask(admin, broker.options, topic)
            except KafkaException as error:
                broker.forget()
                if error.args[0].code() not in _PASSING:
                    raise
            finally:
                admin.poll(0)  # hands what the client has logged to the logger
            SYSTEM.clock.sleep(_PAUSE_SECONDS)
        return ask(broker.admin(), broker.options, topic)


def _described(admin: Any, options: Mapping[str, str], topic: str) -> Any:
    del options
    return admin.describe_topics(TopicCollection([topic]), request_timeout=ANSWER_SECONDS)[topic].result()


def _bounds(admin: Any, options: Mapping[str, str], topic: str) -> tuple[str | None, Bounds]:
    commits_only = options.get("isolation.level", "read_committed") == "read_committed"
    level = IsolationLevel.READ_COMMITTED if commits_only else IsolationLevel.READ_UNCOMMITTED
    described = _described(admin, options, topic)
    partitions = sorted(partition.id for partition in described.partitions)

    def offsets(spec: Any) -> dict[int, int]:
        wanted = {TopicPartition(topic, partition): spec for partition in partitions}
        found = admin.list_offsets(wanted, isolation_level=level, request_timeout=ANSWER_SECONDS)
        return {place.partition: future.result().offset for place, future in found.items()}

    # In this order: the first offset grows, too, and is never above the last one of a later moment.
    earliest = offsets(OffsetSpec.earliest())
    latest = offsets(OffsetSpec.latest())
    return _id_of(described), Bounds(topic=topic, earliest=earliest, latest=latest)


def _id_of(described: Any) -> str | None:
    found = getattr(described, "topic_id", None)
    return None if found is None else str(found)


def read_messages(
    options: Mapping[str, str], topic: str, begin: Offsets, end: Offsets, *, with_keys: bool = False
) -> Messages:
    """The messages from `begin` to before `end`, those of a partition in their order; `with_keys` a column `key`, too.

    There may be fewer than the offsets between: markers of transactions, aborted messages, and what a compaction of the
    topic removed have offsets, too. Raises `SourceError` where the broker does not answer for a minute.
    """
    wanted = {partition: stop for partition, stop in end.items() if begin[partition] < stop}
    if not wanted:
        return
    settings = {
        "isolation.level": "read_committed",
        "group.id": "pyhudi",
        "fetch.queue.backoff.ms": _REFILL_MILLISECONDS,
        **options,
        "enable.auto.commit": "false",
        "auto.offset.reset": "error",
        "enable.partition.eof": "true",
    }
    schema = MESSAGES_WITH_KEYS if with_keys else MESSAGES
    with _failures(options, topic):
        consumer = Consumer(settings, logger=_log)
        try:
            consumer.assign([TopicPartition(topic, partition, begin[partition]) for partition in wanted])
            yield from _until(consumer, topic, wanted, schema)
        finally:
            consumer.close()


def _until(consumer: Any, topic: str, wanted: Offsets, schema: pa.Schema) -> Messages:
    """What the consumer gives, until each partition has come to its end."""
    left = set(wanted)
    ends, reached = np.zeros((2, max(wanted) + 1), np.int64)
    ends[list(wanted)] = list(wanted.values())
    silent = 0.0
    while left:
        found = consumer.consume(_AT_ONCE, timeout=_WAIT_SECONDS)
        silent = 0.0 if found else silent + _WAIT_SECONDS
        if silent >= SILENCE_SECONDS:
            raise SourceError(
                f"the broker sent nothing for {SILENCE_SECONDS} seconds, with messages left to read",
                topic=topic,
                partitions=sorted(left),
            )
        messages = [message for message in found if message.error() is None]
        batch = _arrow(messages, schema)
        partitions, offsets = (batch[name].to_numpy() for name in ("partition", "offset"))
        reached[partitions] = offsets + 1  # the last one of each partition stays
        if len(messages) < len(found):
            for partition, offset in _ends(found):
                reached[partition] = max(reached[partition], offset)
        is_wanted = offsets < ends[partitions]
        if messages:
            yield batch if is_wanted.all() else batch.filter(pa.array(is_wanted))
        done = [partition for partition in left if reached[partition] >= ends[partition]]
        for partition in done:
            left.remove(partition)
            consumer.pause([TopicPartition(topic, partition)])


def _ends(found: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Where partitions end, as the client says it among messages. Raises the error that it says otherwise."""
    for message in found:
        error = message.error()
        if error is None:
            continue
        if error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        yield message.partition(), message.offset()


def _arrow(messages: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        np.array([message.partition() for message in messages], np.int32),
        np.array([message.offset() for message in messages], np.int64),
        np.array([message.timestamp()[1] for message in messages], np.int64),
        pa.array([message.value() for message in messages], pa.binary()),
    ]
    if schema is MESSAGES_WITH_KEYS:
        columns.append(pa.array([message.key() for message in messages], pa.binary()))
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=schema)


@contextmanager
def _failures(options: Mapping[str, str], topic: str) -> Iterator[None]:
    """Errors of Kafka's client as ours."""
    try:
        yield
    except KafkaException as error:
        cause = error.args[0]
        code = cause.code() if isinstance(cause, KafkaError) else None
        if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise SourceError("there is no such topic", topic=topic) from error
        if code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise SourceDataLostError(
                f"messages were deleted while they were being read; run again: {cause}", topic=topic
            ) from error
        if code == KafkaError._INVALID_ARG:
            raise ConfigError(f"Kafka's client refuses an option: {cause}", topic=topic) from error
        servers = options.get("bootstrap.servers")
        if code in _AWAY:
            raise SourceError(
                f"no broker answers: check that one runs at bootstrap.servers: {cause}", topic=topic, servers=servers
            ) from error
        raise SourceError(f"Kafka's client failed: {cause}", topic=topic, servers=servers) from error
