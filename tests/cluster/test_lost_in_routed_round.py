"""Executors that are killed while tables are loaded from one topic, whose messages Spark keeps for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.killing import PROGRAM_SECONDS_MAX, told_by_program
from tests.cluster.routed_program import MESSAGES, PARTITIONS, ROUNDS, TABLES
from tests.support.audit import audit
from tests.support.kafka import Broker, broker
from tests.support.spark_cluster import APPLICATION, SparkCluster, cluster

from pyhudi.storage.local import LocalStorage

__all__ = ["broker", "cluster"]
PROGRAM = Path(__file__).with_name("routed_program.py")
pytestmark = pytest.mark.timeout(PROGRAM_SECONDS_MAX + 200)


def test_executor_lost_in_a_routed_round_neither_loses_nor_doubles_messages(
    cluster: SparkCluster, broker: Broker, tmp_path: Path
) -> None:
    settings = {
        "servers": broker.servers,
        "topic": broker.new_topic(partitions=PARTITIONS),
        "config": {**APPLICATION, "spark.driver.memory": "512m"},
    }

    told = told_by_program(PROGRAM, cluster, tmp_path, settings, ROUNDS)

    own = {"a": [key for key in range(MESSAGES) if key // 2 % 2 == 0]}
    own["rest"] = [key for key in range(MESSAGES) if key // 2 % 2]
    for number, seen in enumerate(told):
        assert seen["errors"] == []
        assert seen["kept"] == 0, "Spark keeps no messages after the round"
        for name in TABLES:
            sent_again = [key for key in own[name] if key % 2 == 0 or number == 0]
            total = sum(own[name]) + number * len(sent_again)
            assert seen["tables"][name] == [len(own[name]), len(own[name]), len(sent_again), total, number + 1]
    for name in TABLES:
        audit(LocalStorage(tmp_path / name))
