"""Sources that are gone for a while: continuous runs go on when they are back, and write every record once."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import pyarrow as pa
import pytest
from tests.support.ingestions import ids_in, ingestion, topic_settings
from tests.support.kafka import Broker
from tests.support.postgres import Postgres
from tests.support.registries import SmallRegistry

from pyhudi.environment import SYSTEM
from pyhudi.errors import SourceDataLostError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.config import StreamerConfig
from pyhudi.streamer.ingest import Ingestion, checkpoint_of
from pyhudi.streamer.loop import run_continuously
from pyhudi.streamer.result import StreamerResult
from pyhudi.streamer.settings import settings_of
from pyhudi.streamer.sources import kafka_client
from pyhudi.streamer.sources.open import open_source
from pyhudi.streamer.sources.protocol import Pull, Rows, Source

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(300)]
Stopped: TypeAlias = Callable[[], AbstractContextManager[None]]
PATIENT = StreamerConfig("memory://t/table", continuous=True, retry_interval_seconds=0.1, max_retry_count=1000)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's client gives up early, so that a test sees many rounds fail in a short outage."""
    monkeypatch.setattr(kafka_client, "ANSWER_SECONDS", 5)
    monkeypatch.setattr(kafka_client, "SILENCE_SECONDS", 5)


def ids(*numbers: int) -> list[dict[str, int]]:
    return [{"id": number} for number in numbers]


@dataclass(frozen=True)
class AroundReads:
    """A source whose reads are made by a function, which is given the read."""

    inner: Source
    around: Callable[[Callable[[], Rows]], Rows]

    def pull(self, after: Checkpoint, *, limit: int | None) -> Pull | None:
        pull = self.inner.pull(after, limit=limit)
        return None if pull is None else replace(pull, read=partial(self._read, pull))

    def _read(self, pull: Pull, wanted: pa.Schema | None, stored: pa.Schema | None) -> Rows:
        return self.around(partial(pull.read, wanted, stored))


def run_with_death_in_the_first_read(
    streamer: Ingestion, around: Callable[[Callable[[], Rows], Callable[[], None]], Rows], stopped: Stopped
) -> None:
    """A continuous run until its first batch. `around` makes the first read, and is given what stops the source."""
    reads, failed = itertools.count(), []
    with ExitStack() as outage:

        def read_once(read: Callable[[], Rows]) -> Rows:
            return around(read, lambda: outage.enter_context(stopped())) if next(reads) == 0 else read()

        def ends(result: StreamerResult, _: int) -> bool:
            if not result.batches:
                assert streamer.storage.list_recursive("") == (), "the batch that could not be read has left something"
                outage.close()
                failed.append(True)
            return result.batches > 0

        dying = replace(streamer, source=AroundReads(streamer.source, read_once))
        run_continuously(dying, replace(PATIENT, post_write_termination=ends))
    assert failed


def run_with_an_outage(
    streamer: Ingestion, stopped: Stopped, *, meanwhile: Callable[[], None], rows: int
) -> StreamerResult:
    """A continuous run: a batch, then two rounds without the source, then until the table has so many rows.

    `meanwhile` puts something into the source when it is back.
    """
    rounds = itertools.count(1)
    kept: list[str | None] = []
    with ExitStack() as outage:

        def ends(result: StreamerResult, idle: int) -> bool:
            if not result.batches:
                return False  # a slow machine: the client gave up
            number = next(rounds)
            kept.append(checkpoint_of(streamer))
            if number == 1:
                outage.enter_context(stopped())
            elif number == 3:
                assert kept[0] == kept[1] == kept[2], "a round without the source has moved the checkpoint"
                assert (result.batches, idle) == (1, 0)
                outage.close()
                meanwhile()
            return number > 3 and result.rows >= rows and idle > 0

        return run_continuously(streamer, replace(PATIENT, post_write_termination=ends))


@pytest.mark.usefixtures("impatient")
def test_broker_that_is_gone_and_back_leaves_every_message_in_the_table_once(broker: Broker):
    topic, storage = broker.new_topic(partitions=2), MemoryStorage()
    broker.send(topic, ids(0, 1, 2))
    result = run_with_an_outage(
        ingestion(topic_settings(broker, topic), storage, SYSTEM),
        broker.stopped,
        meanwhile=lambda: broker.send(topic, ids(10, 11), partition=1),
        rows=5,
    )
    assert result.batches == 2
    assert ids_in(storage) == [0, 1, 2, 10, 11]
    assert result.checkpoint == f"{topic},0:3,1:2"


@pytest.mark.usefixtures("impatient")
def test_broker_that_dies_while_a_batch_is_read_leaves_every_message_in_the_table_once(broker: Broker):
    topic, storage = broker.new_topic(), MemoryStorage()
    broker.send(topic, ids(0, 1, 2))

    def read(messages: Callable[[], Rows], stop: Callable[[], None]) -> Rows:
        stop()  # the offsets are known, and none of the messages is
        return messages()

    run_with_death_in_the_first_read(ingestion(topic_settings(broker, topic), storage, SYSTEM), read, broker.stopped)
    assert ids_in(storage) == [0, 1, 2]


@pytest.mark.parametrize("count", [1, 5], ids=["fewer messages", "more messages"])
def test_topic_that_is_deleted_and_made_anew_ends_a_continuous_run(broker: Broker, count: int):
    topic, storage = broker.new_topic(), MemoryStorage()
    broker.send(topic, ids(0, 1, 2))
    rounds = itertools.count(1)

    def ends(result: StreamerResult, _: int) -> bool:
        if not result.batches:
            return False  # a slow machine: the client gave up
        assert result.batches == 1
        number = next(rounds)
        if number == 1:
            broker.delete_topic(topic)
        elif number == 3:  # a round without the topic was repeated
            broker.new_topic(name=topic)
            broker.send(topic, ids(*range(10, 10 + count)))
        return False

    streamer = ingestion(topic_settings(broker, topic), storage, SYSTEM)
    with pytest.raises(SourceDataLostError, match="made anew"):
        run_continuously(streamer, replace(PATIENT, post_write_termination=ends))
    assert checkpoint_of(streamer) == f"{topic},0:3"
    assert ids_in(storage) == [0, 1, 2]


def test_registry_that_is_gone_and_back_leaves_every_message_in_the_table_once(
    broker: Broker, small_registry: SmallRegistry
):
    topic, storage, errors = broker.new_topic(), MemoryStorage(), MemoryStorage()
    first, second = (
        small_registry.register(
            f"{topic}-value", f'{{"type": "record", "name": "{name}", "fields": [{{"name": "id", "type": "long"}}]}}'
        )
        for name in ("r", "s")
    )

    def send(schema: int, *zigzags: bytes) -> None:
        broker.send(topic, [b"\0" + schema.to_bytes(4, "big") + value for value in zigzags])

    send(first, b"\2", b"\4")
    options = {
        "hoodie.streamer.schemaprovider.registry.url": small_registry.url,
        "hoodie.errortable.enable": "true",
        "hoodie.errortable.base.path": "memory://t/errors",
    }
    streamer = ingestion(topic_settings(broker, topic, options, source_class="AvroKafkaSource"), storage, SYSTEM)
    assert streamer.errors is not None
    streamer = replace(streamer, errors=replace(streamer.errors, storage=errors))

    def stopped() -> AbstractContextManager[None]:
        send(second, b"\6")  # which is in the topic before the registry can say what it is
        return small_registry.stopped()

    result = run_with_an_outage(streamer, stopped, meanwhile=lambda: send(first, b"\10"), rows=4)
    assert ids_in(storage) == [1, 2, 3, 4]
    assert result.failed == 0
    assert errors.list_recursive("") == (), "messages whose schema could not be asked for are no bad messages"


def test_database_that_is_gone_and_back_leaves_every_row_in_the_table_once(postgres: Postgres):
    postgres.run(
        "DROP TABLE IF EXISTS outages",
        "CREATE TABLE outages (id integer PRIMARY KEY, changed integer)",
        "INSERT INTO outages VALUES (1, 1), (2, 2)",
    )
    storage = MemoryStorage()
    result = run_with_an_outage(
        database_streamer(postgres, storage),
        postgres.stopped,
        meanwhile=lambda: postgres.run("INSERT INTO outages VALUES (3, 2), (4, 3)"),
        rows=4,
    )
    assert result.checkpoint == "3"
    assert ids_in(storage) == [1, 2, 3, 4]


def test_database_that_dies_while_a_batch_is_read_leaves_every_row_in_the_table_once(postgres: Postgres):
    count = 60_000  # of 500 bytes, so that the rows are not all on their way when the server dies
    postgres.run(
        "DROP TABLE IF EXISTS outages",
        "CREATE TABLE outages (id integer PRIMARY KEY, changed integer, note text)",
        f"INSERT INTO outages SELECT id, id, repeat('x', 500) FROM generate_series(1, {count}) id",
    )

    def read(rows: Callable[[], Rows], stop: Callable[[], None]) -> Rows:
        begun = rows()
        stop()
        return begun

    storage = MemoryStorage()
    run_with_death_in_the_first_read(database_streamer(postgres, storage), read, postgres.stopped)
    assert ids_in(storage) == list(range(1, count + 1))


def database_streamer(postgres: Postgres, storage: Storage) -> Ingestion:
    """A streamer of the table `outages`, by the column `changed`."""
    options = {
        "hoodie.streamer.jdbc.url": postgres.url,
        "hoodie.streamer.jdbc.user": "postgres",
        "hoodie.streamer.jdbc.table.name": "outages",
        "hoodie.streamer.jdbc.incr.pull": "true",
        "hoodie.streamer.jdbc.table.incr.column.name": "changed",
        "hoodie.datasource.write.recordkey.field": "id",
    }
    settings = settings_of(StreamerConfig("memory://t/table", "JdbcSource", hoodie_conf=options))
    return replace(ingestion(settings, storage, SYSTEM), source=open_source(settings))
