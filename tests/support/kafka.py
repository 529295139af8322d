"""A real Kafka broker for tests: one process on loopback, in KRaft mode, with a folder of its own.

from tests.support.kafka import broker  # noqa: F401   (in a conftest.py)

def test_something(broker): topic = broker.new_topic(partitions=2)
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import secrets
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.ports import free_port
from tests.support.server_jars import server_jars

START_SECONDS = 120
ANSWER_SECONDS = 90
START_ATTEMPTS = 3
_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"


@dataclass
class _Server:
    """The process of a broker, which keeps its data and its port when it is started again."""

    command: Sequence[str]
    port: int
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        for attempt in range(START_ATTEMPTS):
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(self.command, stdout=log, stderr=subprocess.STDOUT)
            try:
                _wait_until_live(self.process, self.port, self.log)
            except RuntimeError:
                self.kill()
                if attempt == START_ATTEMPTS - 1:
                    raise
            else:
                break

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@dataclass(frozen=True)
class Broker:
    """A running broker. `servers`: its address."""

    servers: str
    _server: _Server | None = None

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Kill the broker, and start it again at the end of the block, with what it had."""
        assert self._server is not None, "there is no process to stop"
        self._server.kill()
        try:
            yield
        finally:
            self._server.start()

    def admin(self) -> Any:
        """A client that makes and changes topics. It must be kept while it works."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers})

    def new_topic(self, *, partitions: int = 1, name: str | None = None, **settings: str) -> str:
        """A topic that no other test has; settings with `_` for `.`."""
        from confluent_kafka.admin import NewTopic

        topic = name or f"t{secrets.token_hex(6)}"
        config = {key.replace("_", "."): value for key, value in settings.items()}
        admin = self.admin()
        admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(ANSWER_SECONDS)
        return topic

    def delete_topic(self, topic: str) -> None:
        """Remove a topic, and wait until the broker says so."""
        admin = self.admin()
        admin.delete_topics([topic])[topic].result(ANSWER_SECONDS)
        while topic in admin.list_topics(timeout=ANSWER_SECONDS).topics:
            time.sleep(0.1)

    def add_partitions(self, topic: str, total: int) -> None:
        """Give a topic more partitions."""
        from confluent_kafka.admin import NewPartitions

        admin = self.admin()
        admin.create_partitions([NewPartitions(topic, total)])[topic].result(ANSWER_SECONDS)
        while len(admin.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic].partitions) < total:
            time.sleep(0.1)

    def expire(self, topic: str, partition: int, before: int) -> None:
        """Delete what a partition has before an offset, as its retention would."""
        from confluent_kafka import TopicPartition

        admin = self.admin()
        (future,) = admin.delete_records([TopicPartition(topic, partition, before)]).values()
        future.result(ANSWER_SECONDS)

    def offsets(self, topic: str) -> list[int]:
        """The offsets of the messages that the first partition still has."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "offsets", "enable.partition.eof": "true"})
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            found = []
            while (message := consumer.poll(ANSWER_SECONDS)) is not None and message.error() is None:
                found.append(message.offset())
            return found
        finally:
            consumer.close()

    def values(self, topic: str) -> list[bytes | None]:
        """The values of all messages of a topic of one partition; None for a tombstone."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": topic})
        try:
            partition = TopicPartition(topic, 0, 0)
            _, end = consumer.get_watermark_offsets(partition, timeout=ANSWER_SECONDS)
            consumer.assign([partition])
            return [message.value() for message in consumer.consume(end, timeout=ANSWER_SECONDS)]
        finally:
            consumer.close()

    def documents(self, topic: str) -> list[dict[str, Any]]:
        """The JSON messages of a topic of one partition, without tombstones."""
        return [json.loads(value) for value in self.values(topic) if value is not None]

    def send(self, topic: str, values: Iterable[Any], *, partition: int = 0, key: str | None = None) -> None:
        """Send messages, all with one key: bytes and None as they are, other values as JSON."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 0})
        for value in values:
            data = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
            producer.produce(topic, data, partition=partition, key=key)
        producer.flush(ANSWER_SECONDS)

    def send_in_transactions(self, topic: str, transactions: Iterable[tuple[Iterable[Any], bool]]) -> None:
        """Send messages in transactions, each of which is committed or aborted.

        Waits until the partition has the marker of the last one, which the broker writes after it has answered.
        """
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.servers, "transactional.id": secrets.token_hex(6)})
        producer.init_transactions(ANSWER_SECONDS)
        for values, commits in transactions:
            producer.begin_transaction()
            for value in values:
                producer.produce(topic, json.dumps(value).encode(), partition=0)
            producer.flush(ANSWER_SECONDS)
            if commits:
                producer.commit_transaction(ANSWER_SECONDS)
            else:
                producer.abort_transaction(ANSWER_SECONDS)
        while self._end(topic, is_stable=True) < self._end(topic, is_stable=False):
            time.sleep(0.05)

    def _end(self, topic: str, *, is_stable: bool) -> int:
        """Where the first partition ends, or the part of it that has no open transaction."""
        from confluent_kafka import IsolationLevel, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        level = IsolationLevel.READ_COMMITTED if is_stable else IsolationLevel.READ_UNCOMMITTED
        asked = {TopicPartition(topic, 0): OffsetSpec.latest()}
        admin = self.admin()
        (future,) = admin.list_offsets(asked, isolation_level=level, request_timeout=ANSWER_SECONDS).values()
        return int(future.result().offset)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for the whole run; skips, with the reason, where there is none."""
    if importlib.util.find_spec("confluent_kafka") is None:
        pytest.skip("confluent-kafka is not installed")
    try:
        jars = server_jars("kafka")
    except RuntimeError as error:
        pytest.skip(f"no Kafka broker to test against: {error}")
    with running(jars, tmp_path_factory.mktemp("kafka")) as found:
        yield found


@contextlib.contextmanager
def running(jars: Path, folder: Path) -> Iterator[Broker]:
    """Start a broker with its data in a folder, on free ports, and stop it at the end of the block."""
    port, controller = free_port(), free_port()
    properties = folder / "server.properties"
    properties.write_text(
        f"""process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder / "data"}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
offsets.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.cleaner.backoff.ms=200
file.delete.delay.ms=100
"""
    )
    java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*"]
    format_storage = [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(properties)]
    subprocess.run(format_storage, check=True, capture_output=True, timeout=START_SECONDS)
    server = _Server([*java, "kafka.Kafka", str(properties)], port, folder / "kafka.log")
    try:
        server.start()
        yield Broker(f"127.0.0.1:{port}", server)
    finally:
        server.kill()  # its data are thrown away


def _wait_until_live(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.2)
    raise RuntimeError(f"Kafka did not start: {log.read_text(errors='replace')[-2000:]}")
