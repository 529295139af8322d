"""Avro that Debezium sent of a real PostgreSQL, through a real broker and a schema registry."""

from __future__ import annotations

import base64
import json
import lzma
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.ingestions import ingestion, run_until_idle, topic_settings
from tests.support.kafka import Broker
from tests.support.registries import Registry
from tests.support.tables import open_table

from pyhudi.errors import SourceError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.streamer.ingest import ingest

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(300)]
RECORDED = Path(__file__).parents[1] / "cdc" / "recorded"
COLUMNS = pa.schema(
    [
        ("id", pa.int32()),
        ("city", pa.string()),
        ("amount", pa.decimal128(10, 2)),
        ("big", pa.string()),
        ("seen", pa.timestamp("us")),
        ("day", pa.date32()),
        ("note", pa.string()),
    ]
)


def lines(name: str) -> list[Any]:
    with lzma.open(RECORDED / name, "rt") as file:
        return [json.loads(line) for line in file]


def messages(registry: Registry) -> list[bytes | None]:
    """The messages with the ids that their schemas have in a registry."""
    schemas, *values = lines("postgres_avro.jsonl.xz")
    ids = {int(old): registry.register("orders-value", schema) for old, schema in schemas.items()}
    assert len(set(ids.values())) == 2
    found: list[bytes | None] = []
    for value in values:
        data = None if value is None else base64.b64decode(value)
        if data is not None:
            data = b"\0" + ids[int.from_bytes(data[1:5], "big")].to_bytes(4, "big") + data[5:]
        found.append(data)
    return found


def row_of(line: dict[str, Any]) -> dict[str, Any]:
    """A row of the database, whose values other than numbers were recorded as text."""
    return {
        **line,
        "amount": Decimal(line["amount"]),
        "seen": datetime.fromisoformat(line["seen"]),
        "day": date.fromisoformat(line["day"]),
    }


def given(broker: Broker, topic: str, registry: Registry, **more: Any) -> Any:
    options = {"hoodie.streamer.schemaprovider.registry.url": f"{registry.url}/subjects/orders-value/versions/latest"}
    return topic_settings(
        broker, topic, options, source_class="PostgresDebeziumSource", op="UPSERT", schema=COLUMNS, **more
    )


@pytest.mark.parametrize("limit", [None, 17])
def test_table_equals_that_of_the_database_by_the_schema_of_each_message(
    broker: Broker, registry: Registry, limit: int | None
):
    topic, storage = broker.new_topic(), MemoryStorage()
    broker.send(topic, messages(registry))
    run_until_idle(ingestion(given(broker, topic, registry, source_limit=limit), storage))
    found = open_table(storage).scan(COLUMNS.names).to_arrow().sort_by("id").to_pylist()
    assert found == [row_of(line) for line in lines("postgres_avro.final.jsonl.xz")] != []


def test_message_whose_schema_is_not_in_the_registry_is_named(broker: Broker, registry: Registry):
    topic, storage = broker.new_topic(), MemoryStorage()
    values = messages(registry)
    broker.send(topic, [values[0], b"\0\0\1\0\0\2"])
    with pytest.raises(SourceError, match="no schema with the id 65536") as raised:
        ingest(ingestion(given(broker, topic, registry), storage))
    assert raised.value.context["offset"] == 1
    assert storage.list_recursive("") == ()
