"""A schema registry that was made anew while the process lives: it gives the ids of its schemas again."""

from __future__ import annotations

import json

import pytest
from tests.support.ingestions import ingestion, run_until_idle, topic_settings
from tests.support.kafka import Broker
from tests.support.registries import SmallRegistry
from tests.support.tables import open_table

from pyhudi.storage.memory import MemoryStorage

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(300)]
URL = "hoodie.streamer.schemaprovider.registry.url"


def record(*names: str) -> str:
    fields = [{"name": name, "type": "long"} for name in names]
    return json.dumps({"type": "record", "name": "r", "fields": fields})


def test_messages_are_read_by_the_schemas_that_the_registry_has_for_their_batch(
    broker: Broker, small_registry: SmallRegistry
):
    topic, storage = broker.new_topic(), MemoryStorage()
    given = ingestion(topic_settings(broker, topic, {URL: small_registry.url}, source_class="AvroKafkaSource"), storage)
    assert small_registry.register("t", record("id", "of")) == 1
    broker.send(topic, [b"\0\0\0\0\1\2\4"])
    run_until_idle(given)
    small_registry.forget()
    assert small_registry.register("t", record("of", "id")) == 1
    broker.send(topic, [b"\0\0\0\0\1\6\10"])
    run_until_idle(given)
    rows = open_table(storage).scan(["id", "of"]).to_arrow().sort_by("id").to_pylist()
    assert rows == [{"id": 1, "of": 2}, {"id": 4, "of": 3}]
