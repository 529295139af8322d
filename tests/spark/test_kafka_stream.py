"""Topics that Spark's own Kafka reader reads, and pyhudi's sink writes: the example of streaming.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.kafka import Broker
from tests.support.pages import ROOT, blocks
from tests.support.programs import told_by
from tests.support.server_jars import server_jars

pyspark = pytest.importorskip("pyspark")
pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(600)]

PROGRAM = Path(__file__).with_name("kafka_stream_program.py")
PROGRAM_SECONDS_MAX = 180


def order(key: int, city: str, updated_at: int) -> dict[str, Any]:
    return {"id": key, "city": city, "updated_at": updated_at}


@pytest.mark.skipif(not pyspark.__version__.startswith("4.2."), reason="Spark's Kafka reader is that of Spark 4.2")
def test_topics_of_a_pattern_are_in_the_table_once_those_that_came_later_from_their_begin(
    broker: Broker, tmp_path: Path
) -> None:
    jars = server_jars("spark-kafka")
    first = broker.new_topic(partitions=2)
    later = f"{first}later"
    (block,) = (block for block in blocks(ROOT / "docs/streaming.md") if "subscribePattern" in block.code)
    example = block.code.replace("localhost:9092", broker.servers).replace("orders_.*", f"{first}.*")
    example = example.replace('"/tmp/', f'"{tmp_path}/')

    def ingest() -> Any:
        place = [str(jars), example, str(tmp_path / "orders")]
        return told_by(PROGRAM, *place, folder=tmp_path, seconds_max=PROGRAM_SECONDS_MAX)

    broker.send(first, [order(1, "oslo", 1), order(2, "rome", 1)])
    assert [row["id"] for row in ingest()["rows"]] == [1, 2]
    broker.send(first, [order(2, "bonn", 2)], partition=1)
    broker.new_topic(name=later)
    broker.send(later, [order(3, "graz", 1)])
    found = ingest()
    assert found["commits"] == 2
    assert found["rows"] == [
        {"id": 1, "city": "oslo", "topic": first},
        {"id": 2, "city": "bonn", "topic": first},
        {"id": 3, "city": "graz", "topic": later},
    ]
    assert ingest() == found  # nothing new makes no commit
