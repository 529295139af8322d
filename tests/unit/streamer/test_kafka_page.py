"""The block of docs/ingestion.md that needs a broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.kafka import Broker
from tests.support.pages import ROOT, blocks, run_block

import pyhudi
import pyhudi.streamer

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(300)]


def test_block_of_the_page_ingests_a_topic(broker: Broker, tmp_path: Path):
    broker.new_topic(name="orders")
    broker.send("orders", [{"order_id": 1, "updated_at": 1}, {"order_id": 1, "updated_at": 2}])
    (block,) = (one for one in blocks(ROOT / "docs" / "ingestion.md") if one.tested_by)
    here = type(block)(block.code.replace("localhost:9092", broker.servers), block.note)
    run_block(here, {"pyhudi": pyhudi}, folder=tmp_path)
    assert pyhudi.HudiTable.for_path(tmp_path / "orders").scan(["updated_at"]).to_arrow().to_pylist() == [
        {"updated_at": 2}
    ]
