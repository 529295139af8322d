"""Exchange files that Spark keeps, as on a cluster, in a local session: no task reads a folder of another process."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from tests.support.redis import redis_url  # noqa: F401

import pyhudi
from pyhudi.engine.exchange_files import (
    ExchangeFolder,
    ExchangeWriter,
    FilePart,
    Segment,
    TaskFiles,
    open_exchange,
    read_segment,
)
from pyhudi.engine.protocol import TaskContext
from pyhudi.errors import StagedRowsLostError
from pyhudi.spark import engine, kept_files
from pyhudi.spark.engine import IN_PROCESS_BYTES_MAX, SparkEngine
from pyhudi.storage.open import open_spec

INDEXES = {
    "SIMPLE": {"hoodie.index.type": "SIMPLE"},
    "GLOBAL_SIMPLE": {"hoodie.index.type": "GLOBAL_SIMPLE"},
    "BLOOM": {"hoodie.index.type": "BLOOM"},
    "BUCKET": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"},
    "INMEMORY": {"hoodie.index.type": "INMEMORY"},
    "RECORD_INDEX": {
        "hoodie.index.type": "RECORD_INDEX",
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.metadata.global.record.level.index.enable": "true",
    },
}
TABLE = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.parquet.small.file.limit": "0",
}


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks run elsewhere, as far as the engine knows."""
    monkeypatch.setattr(SparkEngine, "on_one_machine", False)


@pytest.mark.parametrize("in_process", [0, IN_PROCESS_BYTES_MAX], ids=["on workers", "in this process"])
@pytest.mark.parametrize("index", INDEXES)
def test_rows_keys_and_tags_reach_the_tasks_of_a_write_without_a_folder_that_all_reach(
    spark: SparkSession, index: str, in_process: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "IN_PROCESS_BYTES_MAX", in_process)
    check_writes(spark, {**TABLE, **INDEXES[index]}, str(tmp_path / "t"))


@pytest.mark.parametrize("in_process", [0, IN_PROCESS_BYTES_MAX], ids=["on workers", "in this process"])
def test_keys_reach_tasks_that_ask_a_store_which_other_machines_reach(
    spark: SparkSession,
    in_process: int,
    redis_url: str,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "IN_PROCESS_BYTES_MAX", in_process)
    check_writes(
        spark, {**TABLE, "hoodie.index.type": "HBASE", "hoodie.index.hbase.store": redis_url}, str(tmp_path / "t")
    )


def check_writes(spark: SparkSession, options: dict[str, str], path: str) -> None:
    """Two inserts and an upsert give the rows that they should."""
    for start in (0, 500):
        batch = spark.range(start, start + 500).selectExpr("id", "id % 3 AS p", "0 AS v")
        pyhudi.save(batch, path, hudi_options=options)
    changes = spark.range(300, 1100).selectExpr("id", "id % 3 AS p", "1 AS v")

    result = pyhudi.HudiTable.for_path(path).upsert(changes, hudi_options=options)

    assert (result.updated, result.inserted) == (700, 100)
    found = pyhudi.HudiTable.for_path(path).scan(["id", "v"]).to_arrow().to_pylist()
    assert sorted((row["id"], row["v"]) for row in found) == [(n, int(n >= 300)) for n in range(1100)]


def made_by_chance(spark: SparkSession, rows: int) -> Any:
    """Rows that are others each time they are made."""
    value = sql.udf(lambda _: random.random(), "double").asNondeterministic()
    made = spark.range(0, rows, 1, 3).withColumn("value", value("id"))
    return made.selectExpr("cast(value * 1e15 as bigint) id", "'p' p", "value", "value copy")


def test_input_that_gives_other_rows_each_time_is_evaluated_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "IN_PROCESS_BYTES_MAX", 0)
    path = str(tmp_path / "t")
    for number in (1, 2):
        pyhudi.save(made_by_chance(spark, 200), path, hudi_options=TABLE)
        rows = pyhudi.HudiTable.for_path(path).scan(["id", "value", "copy"]).to_arrow().to_pylist()
        assert len({row["id"] for row in rows}) == len(rows) == 200 * number
        assert all(row["value"] == row["copy"] and row["id"] == int(row["value"] * 1e15) for row in rows)


@pytest.mark.parametrize("in_process", [0, IN_PROCESS_BYTES_MAX], ids=["on workers", "in this process"])
def test_write_whose_kept_rows_are_all_lost_is_refused_and_nothing_of_it_is_visible(
    spark: SparkSession, in_process: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    pyhudi.save(made_by_chance(spark, 50), path, hudi_options=TABLE)
    before = pyhudi.HudiTable.for_path(path).scan().to_arrow()
    monkeypatch.setattr(engine, "IN_PROCESS_BYTES_MAX", in_process)
    map_splits = SparkEngine.map_splits

    def losing(*given: Any, **how: Any) -> Any:
        results = map_splits(*given, **how)
        spark.catalog.clearCache()
        return results

    with monkeypatch.context() as patches:
        patches.setattr(SparkEngine, "map_splits", losing)
        with pytest.raises(StagedRowsLostError, match="run it again"):
            pyhudi.save(made_by_chance(spark, 50), path, hudi_options=TABLE)

    assert pyhudi.HudiTable.for_path(path).scan().to_arrow() == before
    pyhudi.save(made_by_chance(spark, 50), path, hudi_options=TABLE)
    assert pyhudi.HudiTable.for_path(path).scan().count() == 100


# -- steps of an engine -----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Writing:
    """Writes a file with so many batches, each with the number of the task and its own."""

    folder: ExchangeFolder
    number: int
    batches: int


def write(context: TaskContext, task: Writing) -> Segment:
    path = f"{task.folder.path}/numbers-{context.write_token}.arrow"
    schema = pa.schema([("task", pa.int64()), ("batch", pa.int64())])
    with ExchangeWriter(open_spec(task.folder.storage), path, schema) as writer:
        for batch in range(task.batches):
            writer.write(pa.RecordBatch.from_pylist([{"task": task.number, "batch": batch}], schema=schema))
    return Segment(path, tuple(range(task.batches)), task.batches)


@dataclasses.dataclass(frozen=True)
class Reading:
    """Reads some batches of a file, and the number of batches where it asked for all of them."""

    folder: ExchangeFolder
    parts: tuple[FilePart, ...]

    def reads(self) -> Iterator[FilePart]:
        return iter(self.parts)


def read(_: TaskContext, task: Reading) -> list[tuple[int, int]]:
    storage, found = open_spec(task.folder.storage), []
    for part in task.parts:
        batches = part.batches
        if batches is None:
            with open_exchange(storage, part.path) as reader:
                batches = tuple(range(reader.num_record_batches))
        for batch in read_segment(storage, Segment(part.path, batches, 0)):
            found += [(row["task"], row["batch"]) for row in batch.to_pylist()]
    return found


@pytest.mark.parametrize("collected_max", [0, 1 << 30], ids=["by parts", "whole"])
@pytest.mark.parametrize("writes_here", [False, True], ids=["written on workers", "written here"])
@pytest.mark.parametrize("reads_here", [False, True], ids=["read on workers", "read here"])
def test_tasks_get_the_parts_of_files_that_they_read_wherever_they_were_written(
    spark: SparkSession,
    writes_here: bool,
    reads_here: bool,
    collected_max: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept_files, "COLLECTED_WHOLE_MAX", collected_max)
    runner, size = SparkEngine(spark), {True: 0, False: IN_PROCESS_BYTES_MAX}
    with runner.exchange_folder("name-of-the-write", str(tmp_path)) as folder:
        files = TaskFiles(folder, lambda _: ())
        tasks = [Writing(folder, number, 3) for number in range(3)]
        first, second, third = runner.map(write, tasks, size_bytes=size[writes_here], description="w", files=files)
        wanted = [
            Reading(folder, (FilePart(first.path, (2, 0)), FilePart(third.path))),
            Reading(folder, (FilePart(first.path, (1,)),)),
            Reading(folder, ()),
        ]
        seen = runner.map(
            read, wanted, size_bytes=size[reads_here], description="r", files=TaskFiles(folder, Reading.reads)
        )
        assert seen == [[(0, 2), (0, 0), (2, 0), (2, 1), (2, 2)], [(0, 1)], []]
        assert second.rows == 3
        assert list(tmp_path.rglob("*.arrow")) != [] if writes_here else list(tmp_path.rglob("*.arrow")) == []
    assert list(tmp_path.iterdir()) == []
