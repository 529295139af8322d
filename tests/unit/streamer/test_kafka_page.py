"""The blocks of docs/ingestion.md that need a broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.kafka import Broker
from tests.support.pages import ROOT, blocks, run_block

import pyhudi
import pyhudi.streamer

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(300)]


def run_page_block(topic: str, broker: Broker, messages: list[dict[str, Any]], folder: Path) -> None:
    """Run the block of the page that reads a topic, in which these messages are."""
    broker.new_topic(name=topic)
    broker.send(topic, messages)
    (block,) = (block for block in blocks(ROOT / "docs" / "ingestion.md") if f'topic": "{topic}"' in block.code)
    here = type(block)(block.code.replace("localhost:9092", broker.servers), block.note)
    run_block(here, {"pyhudi": pyhudi}, folder=folder)


def test_block_of_the_page_ingests_a_topic(broker: Broker, tmp_path: Path):
    run_page_block("orders", broker, [{"order_id": 1, "updated_at": 1}, {"order_id": 1, "updated_at": 2}], tmp_path)
    rows = pyhudi.HudiTable.for_path(tmp_path / "orders").scan(["updated_at"]).to_arrow()
    assert rows.to_pylist() == [{"updated_at": 2}]


def test_block_of_the_page_ingests_a_topic_into_many_tables(broker: Broker, tmp_path: Path):
    kinds = ["sale", "visit", "return", "fire"]
    run_page_block("shop", broker, [{"id": number, "kind": kind} for number, kind in enumerate(kinds)], tmp_path)
    tables = {name: pyhudi.HudiTable.for_path(tmp_path / name) for name in ("sales", "visits", "other_events")}
    found = {name: sorted(table.scan(["kind"]).to_arrow()["kind"].to_pylist()) for name, table in tables.items()}
    assert found == {"sales": ["return", "sale"], "visits": ["visit"], "other_events": ["fire"]}


def test_block_of_the_page_ingests_changes_of_a_database(broker: Broker, tmp_path: Path):
    source = {"connector": "postgresql", "name": "shop", "db": "shop", "schema": "public", "table": "orders"}
    changes = [
        {"op": op, "before": None, "after": {"order_id": 1, "n": lsn}, "source": {**source, "lsn": lsn}, "ts_ms": 1}
        for op, lsn in (("u", 7), ("c", 3))
    ]
    run_page_block("shop.public.orders", broker, changes, tmp_path)
    rows = pyhudi.HudiTable.for_path(tmp_path / "orders_of_postgres").scan(["n"]).to_arrow()
    assert rows.to_pylist() == [{"n": 7}]


def test_block_of_the_page_ingests_changes_of_many_tables(broker: Broker, tmp_path: Path):
    source = {"connector": "postgresql", "name": "shop", "db": "shop", "schema": "public"}
    changes = [
        {
            "op": "c",
            "before": None,
            "after": {"id": 1, name: 7},
            "source": {**source, "table": name, "lsn": 1},
            "ts_ms": 1,
        }
        for name in ("orders", "items")
    ]
    run_page_block("shop.changes", broker, changes, tmp_path)
    for name in ("orders", "items"):
        rows = pyhudi.HudiTable.for_path(tmp_path / "all_of_postgres" / name).scan([name]).to_arrow()
        assert rows.to_pylist() == [{name: 7}]
