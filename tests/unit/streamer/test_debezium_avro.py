"""Avro that Debezium sent of a real PostgreSQL, through a real broker and a schema registry."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.ingestions import ingestion, run_until_idle, topic_settings
from tests.support.kafka import Broker
from tests.support.recorded_changes import AVRO_COLUMNS, avro_messages, avro_rows
from tests.support.registries import Registry
from tests.support.tables import open_table

from pyhudi.errors import SourceError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.streamer.ingest import ingest

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(300)]


def given(broker: Broker, topic: str, registry: Registry, **more: Any) -> Any:
    options = {"hoodie.streamer.schemaprovider.registry.url": f"{registry.url}/subjects/orders-value/versions/latest"}
    return topic_settings(
        broker, topic, options, source_class="PostgresDebeziumSource", op="UPSERT", schema=AVRO_COLUMNS, **more
    )


@pytest.mark.parametrize("limit", [None, 17])
def test_table_equals_that_of_the_database_by_the_schema_of_each_message(
    broker: Broker, registry: Registry, limit: int | None
):
    topic, storage = broker.new_topic(), MemoryStorage()
    broker.send(topic, avro_messages(registry))
    run_until_idle(ingestion(given(broker, topic, registry, source_limit=limit), storage))
    found = open_table(storage).scan(AVRO_COLUMNS.names).to_arrow().sort_by("id").to_pylist()
    assert found == avro_rows() != []


def test_message_whose_schema_is_not_in_the_registry_is_named(broker: Broker, registry: Registry):
    topic, storage = broker.new_topic(), MemoryStorage()
    values = avro_messages(registry)
    broker.send(topic, [values[0], b"\0\0\1\0\0\2"])
    with pytest.raises(SourceError, match="no schema with the id 65536") as raised:
        ingest(ingestion(given(broker, topic, registry), storage))
    assert raised.value.context["offset"] == 1
    assert storage.list_recursive("") == ()
