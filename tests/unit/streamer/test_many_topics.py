"""Many tables from topics in one process, with a real broker."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
from tests.support.kafka import Broker

import pyhudi
from pyhudi.errors import SourceError
from pyhudi.streamer import StreamerConfig, run_many
from pyhudi.streamer.sources import kafka_client

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(300)]


def table(broker: Broker, folder: Path, topic: str, **client: str) -> StreamerConfig:
    return StreamerConfig(
        folder / topic,
        source_class="JsonKafkaSource",
        hoodie_conf={
            "bootstrap.servers": broker.servers,
            "hoodie.streamer.source.kafka.topic": topic,
            "hoodie.datasource.write.recordkey.field": "id",
            **{name.replace("_", "."): value for name, value in client.items()},
        },
    )


def test_table_whose_topic_is_not_there_stops_no_other(broker: Broker, tmp_path: Path):
    topics = ["missing", broker.new_topic(), broker.new_topic()]
    for number, topic in enumerate(topics[1:]):
        broker.send(topic, [{"id": number}])
    results = run_many([table(broker, tmp_path, topic) for topic in topics])
    assert [type(found.error) for found in results] == [SourceError, type(None), type(None)]
    assert not (tmp_path / "missing").exists()
    for number, topic in enumerate(topics[1:]):
        assert pyhudi.HudiTable.for_path(tmp_path / topic).scan(["id"]).to_arrow()["id"].to_pylist() == [number]


def test_topics_of_one_broker_are_asked_for_by_one_client_which_ends_with_the_run(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Counted(kafka_client.AdminClient):  # type: ignore[misc]
        def __init__(self, options: Any, **more: Any) -> None:
            super().__init__(options, **more)
            clients.append(weakref.ref(self))

    clients = list[weakref.ref[Any]]()
    monkeypatch.setattr(kafka_client, "AdminClient", Counted)
    topics = [broker.new_topic() for _ in range(4)]
    for topic in topics:
        broker.send(topic, [{"id": 1}])
    rounds = 0

    def ends(_: object) -> bool:
        nonlocal rounds
        rounds += 1
        return rounds == 3

    tables = [table(broker, tmp_path, topic, client_id="of this test alone") for topic in topics]
    results = run_many(tables, continuous=True, post_write_termination=ends)
    assert [found.error for found in results] == [None] * 4
    assert [found.result.rows for found in results] == [1, 1, 1, 1]
    assert 1 <= len(clients) < 12  # one for each round of each topic; threads that begin at once may make two
    del results
    gc.collect()
    assert [client() for client in clients] == [None] * len(clients)
