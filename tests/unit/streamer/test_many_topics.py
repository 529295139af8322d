"""Many tables from topics in one process, with a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.kafka import Broker

import pyhudi
from pyhudi.errors import SourceError
from pyhudi.streamer import StreamerConfig, run_many

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(300)]


def test_table_whose_topic_is_not_there_stops_no_other(broker: Broker, tmp_path: Path):
    topics = ["missing", broker.new_topic(), broker.new_topic()]
    for number, topic in enumerate(topics[1:]):
        broker.send(topic, [{"id": number}])
    results = run_many(
        [
            StreamerConfig(
                tmp_path / topic,
                source_class="JsonKafkaSource",
                hoodie_conf={
                    "bootstrap.servers": broker.servers,
                    "hoodie.streamer.source.kafka.topic": topic,
                    "hoodie.datasource.write.recordkey.field": "id",
                },
            )
            for topic in topics
        ]
    )
    assert [type(found.error) for found in results] == [SourceError, type(None), type(None)]
    assert not (tmp_path / "missing").exists()
    for number, topic in enumerate(topics[1:]):
        assert pyhudi.HudiTable.for_path(tmp_path / topic).scan(["id"]).to_arrow()["id"].to_pylist() == [number]
