"""Indexes that remember keys, in writes of DataFrames: tasks run on workers, and the keys of this process stay here."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.support.indexes import INDEXES, IndexCase

import pyhudi
from pyhudi.index import delivery, search
from pyhudi.spark import engine

REMEMBERING = [index for index in INDEXES if index.name in ("INMEMORY", "HBASE", "HBASE-thrift", "own-global")]


@pytest.mark.parametrize("index", REMEMBERING, ids=str)
def test_dataframe_is_upserted_with_an_index_that_remembers(
    spark: SparkSession, index: IndexCase, tmp_path: Path
) -> None:
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "p",
        "hoodie.parquet.small.file.limit": "0",
        **index.options,
    }
    path = str(tmp_path / "t")
    for start in (0, 50):
        batch = spark.range(start, start + 100).selectExpr("id", "id % 3 AS p", f"{start} AS v")
        pyhudi.save(batch, path, hudi_options=options)

    table = pyhudi.HudiTable.for_path(path)
    result = table.upsert(spark.range(140, 160).selectExpr("id", "id % 3 AS p", "99 AS v"), hudi_options=options)

    assert (result.updated, result.inserted) == (10, 10)
    found = sorted((row["id"], row["v"]) for row in table.refresh().scan(["id", "v"]).to_arrow().to_pylist())
    assert found == [(n, 99 if n >= 140 else 50 if n >= 50 else 0) for n in range(160)]


@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE", "BLOOM", "GLOBAL_BLOOM"])
def test_keys_that_are_sent_through_a_shuffle_meet_those_that_are_stored(
    spark: SparkSession, index: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "IN_PROCESS_BYTES_MAX", 0)
    monkeypatch.setattr(engine.SparkEngine, "on_one_machine", False)
    monkeypatch.setattr(delivery, "READ_KEYS_MAX", 0)
    monkeypatch.setattr(search, "READ_KEYS_MAX", 0)
    monkeypatch.setattr(search, "JOIN_COSTS", 0)
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "p",
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.index.type": index,
    }
    path = str(tmp_path / "t")
    for start in (0, 500):
        batch = spark.range(start, start + 500).selectExpr("id", "id % 3 AS p", "0 AS v")
        pyhudi.save(batch, path, hudi_options=options)
    changes = spark.range(300, 1100).selectExpr("id", "id % 3 AS p", "1 AS v")

    result = pyhudi.HudiTable.for_path(path).upsert(changes, hudi_options=options)

    assert (result.updated, result.inserted) == (700, 100)
    found = pyhudi.HudiTable.for_path(path).scan(["id", "v"]).to_arrow().to_pylist()
    assert sorted((row["id"], row["v"]) for row in found) == [(n, int(n >= 300)) for n in range(1100)]
