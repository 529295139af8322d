"""Exchanges through Spark's shuffle, and tasks as rows of DataFrames."""

from __future__ import annotations

import dataclasses
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as sql
from tests.support.exchanges import exchange, expected, failing
from tests.support.spark import results_at_most

from pyhudi.engine.protocol import AddressedRows, TaskContext
from pyhudi.engine.spilled_rows import SpillSettings
from pyhudi.errors import ConfigError, RecordKeyError
from pyhudi.spark import outcomes, parcels
from pyhudi.spark.engine import IN_PROCESS_BYTES_MAX, READERS_PER_CORE, SparkEngine
from pyhudi.spark.parcels import BLOCK_BYTES, blocks, delivered, ids_by_hash, readers_of, rows_of_block, task_parcels

BIG = IN_PROCESS_BYTES_MAX


@pytest.fixture
def engine(spark: Any) -> SparkEngine:
    return SparkEngine(spark)


@pytest.mark.parametrize("memory", [1 << 30, 1], ids=["in memory", "spilled"])
def test_rows_reach_their_receivers_through_the_shuffle_in_the_order_of_their_senders(
    engine: SparkEngine, memory: int
) -> None:
    results = engine.exchange(exchange(sent_bytes=BIG, spill=SpillSettings(memory)))

    assert results == [("a", expected(0)), ("b", expected(1)), ("c", expected(2))]


def test_both_rounds_run_in_other_processes_unless_they_are_small(engine: SparkEngine) -> None:
    def process(context: TaskContext, name: str, batches: Iterator[pa.RecordBatch]) -> tuple[int, str]:
        assert sum(batch.num_rows for batch in batches)
        return os.getpid(), context.write_token

    small, large = (engine.exchange(exchange(receive=process, sent_bytes=size)) for size in (BIG - 1, BIG))

    assert {pid for pid, _ in small} == {os.getpid()}
    assert os.getpid() not in {pid for pid, _ in large}
    assert len({token for _, token in large}) == 3


def test_error_of_a_sender_arrives_as_it_was_raised_and_no_receiver_runs(engine: SparkEngine, tmp_path: Path) -> None:
    def record(_: TaskContext, name: str, __: Iterator[pa.RecordBatch]) -> None:
        (tmp_path / name).touch()

    with pytest.raises(RecordKeyError, match="no key") as caught:
        engine.exchange(exchange(send=failing(2), receive=record, sent_bytes=BIG))

    assert caught.value.context == {"sender": 2}
    assert list(tmp_path.iterdir()) == []


def test_senders_run_though_there_is_no_receiver(engine: SparkEngine) -> None:
    def check(_: TaskContext, sender: int) -> Iterator[AddressedRows]:
        if sender == 3:
            raise RecordKeyError("no key", sender=sender)
        yield from ()

    step = exchange(send=check, receivers=[], sizes=[], sent_bytes=BIG)

    with pytest.raises(RecordKeyError, match="no key"):
        engine.exchange(step)
    assert engine.exchange(dataclasses.replace(step, senders=[0, 1])) == []


def test_error_of_a_receiver_arrives_as_it_was_raised(engine: SparkEngine) -> None:
    def fail(_: TaskContext, name: str, __: Iterator[pa.RecordBatch]) -> None:
        if name != "a":
            raise RecordKeyError("bad rows", receiver=name)

    with pytest.raises(RecordKeyError, match="bad rows") as caught:
        engine.exchange(exchange(receive=fail, sent_bytes=BIG))

    assert caught.value.context == {"receiver": "b"}


def test_more_receivers_than_readers_and_blocks_than_one_arrive_whole(engine: SparkEngine) -> None:
    count, rows = 100, 2_000

    def send(_: TaskContext, sender: int) -> Iterator[AddressedRows]:
        numbers = np.arange(rows)
        wide = pa.array([os.urandom(5_000)] * rows, pa.binary())  # 10 MB, so more than a block
        batch = pa.RecordBatch.from_arrays([pa.array(numbers), wide], names=["row", "wide"])
        yield AddressedRows(batch, numbers * 7 % count)

    def count_rows(_: TaskContext, number: int, batches: Iterator[pa.RecordBatch]) -> tuple[int, int]:
        received = pa.Table.from_batches(list(batches))
        assert {row * 7 % count for row in received.column("row").to_pylist()} == {number}
        return number, received.num_rows

    step = exchange(
        send=send,
        senders=[0, 1, 2],
        receive=count_rows,
        receivers=list(range(count)),
        sizes=[1] * count,
        sent_bytes=BIG,
    )
    assert engine.exchange(step) == [(number, 3 * rows // count) for number in range(count)]


# -- tasks as rows ----------------------------------------------------------------------------------------------------


def test_worker_gets_the_task_that_it_runs_and_no_other(engine: SparkEngine, tmp_path: Path) -> None:
    class Telling:
        def __init__(self, number: int) -> None:
            self.number = number

        def __setstate__(self, state: dict[str, Any]) -> None:
            self.__dict__.update(state)
            with (tmp_path / f"{self.number}").open("a") as file:
                file.write("loaded\n")

        def __getstate__(self) -> dict[str, Any]:
            return self.__dict__

    results = engine.map(lambda _, task: task.number, [Telling(n) for n in range(20)], size_bytes=BIG, description="t")

    assert results == list(range(20))
    assert [(tmp_path / str(n)).read_text() for n in range(20)] == ["loaded\n"] * 20


def test_what_the_tasks_of_a_reader_have_in_common_is_loaded_once(engine: SparkEngine, tmp_path: Path) -> None:
    class Common:
        def __setstate__(self, state: dict[str, Any]) -> None:
            with (tmp_path / "loaded").open("a") as file:
                file.write("x")

        def __getstate__(self) -> dict[str, Any]:
            return {"some": "state"}

    common, count = Common(), 60

    step = exchange(
        send=lambda _, __: iter([AddressedRows(pa.RecordBatch.from_pydict({"n": np.arange(count)}), np.arange(count))]),
        senders=[0],
        receive=lambda _, task, __: task[0],
        receivers=[(number, common) for number in range(count)],
        sizes=[1] * count,
        sent_bytes=BIG,
    )

    assert engine.exchange(step) == list(range(count))
    readers = readers_of(np.ones(count, dtype=np.int64), engine.parallelism * READERS_PER_CORE)
    assert len((tmp_path / "loaded").read_text()) == len(set(readers.tolist()))


@pytest.mark.parametrize("readers", [1, 3, 64])
@pytest.mark.parametrize("by_hash", [False, True], ids=["by id", "by hash"])
def test_each_reader_gets_its_parcels_and_no_other_however_few_they_are(
    spark: Any, monkeypatch: pytest.MonkeyPatch, readers: int, by_hash: bool
) -> None:
    """Adaptive execution would merge partitions that are so small, if it could."""
    if by_hash:
        monkeypatch.setattr(parcels, "HAS_SHUFFLE_BY_NUMBER", False)
    given = task_parcels(spark, np.arange(readers), range(readers))

    placed = delivered(given, readers).select("reader", sql.spark_partition_id()).collect()

    assert sorted(placed) == [(number, number) for number in range(readers)]


def test_ids_by_hash_are_one_for_each_partition() -> None:
    for partitions in (1, 2, 7, 1_000):
        assert len(set(ids_by_hash(partitions).tolist())) == partitions


def test_results_above_the_limit_of_the_driver_arrive(
    engine: SparkEngine, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark stops a job whose results take more than `spark.driver.maxResultSize` together."""
    runs = spark.sparkContext.accumulator(0)

    def result(_: TaskContext, number: int) -> tuple[int, bytes]:
        runs.add(1)
        return number, os.urandom(100_000)

    def arrived() -> list[int]:
        return [number for number, _ in engine.map(result, range(30), size_bytes=BIG, description="t")]

    with results_at_most(spark, "1m"):
        assert arrived() == list(range(30))
        assert runs.value == 30
        monkeypatch.setattr(outcomes, "RESULT_BYTES", 0)  # so that they are more than was expected
        assert arrived() == list(range(30))
        assert runs.value > 2 * 30


def test_one_result_above_the_limit_of_the_driver_arrives_in_pieces(engine: SparkEngine, spark: Any) -> None:
    sizes = [10, 3_000_000, 10]

    def result(_: TaskContext, number: int) -> bytes:
        return random.Random(number).randbytes(sizes[number])  # what Spark cannot compress

    with results_at_most(spark, "2m"):
        arrived = engine.map(result, range(3), size_bytes=BIG, description="t")

    assert arrived == [random.Random(number).randbytes(size) for number, size in enumerate(sizes)]


def test_results_that_spark_refuses_for_good_say_what_to_set(
    engine: SparkEngine, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def result(_: TaskContext, number: int) -> tuple[int, bytes]:
        return number, os.urandom(400_000)

    monkeypatch.setattr(outcomes, "PARTS_OF_LARGE", 1)
    with results_at_most(spark, "1m"), pytest.raises(ConfigError, match=r"raise spark\.driver\.maxResultSize"):
        engine.map(result, range(6), size_bytes=BIG, description="t")


# -- blocks -----------------------------------------------------------------------------------------------------------


def test_readers_get_neighbours_of_about_equal_size() -> None:
    sizes = np.array([100, 1, 1, 1, 100, 100, 1, 1], dtype=np.int64)

    assert readers_of(sizes, 3).tolist() == [0, 0, 0, 1, 1, 2, 2, 2]
    assert readers_of(sizes, 100).tolist() == sorted(readers_of(sizes, 100).tolist())
    assert readers_of(np.zeros(4, dtype=np.int64), 2).tolist() == [0, 0, 1, 1]
    assert readers_of(np.array([7], dtype=np.int64), 8).tolist() == [0]


def test_blocks_are_limited_in_bytes_and_keep_rows_and_receivers() -> None:
    wide = [os.urandom(1 << 20) for _ in range(30)]
    rows = pa.RecordBatch.from_pydict({"n": np.arange(30), "wide": wide})
    receivers = np.arange(30) % 5

    sent = list(blocks(AddressedRows(rows, receivers), np.array([0, 0, 1, 1, 1])))

    assert [reader for reader, _ in sent] == sorted(reader for reader, _ in sent)
    assert max(len(block) for _, block in sent) < BLOCK_BYTES + (1 << 20)
    arrived = [rows_of_block(block) for _, block in sent]
    pairs = [
        (int(n), int(receiver))
        for part in arrived
        for n, receiver in zip(part.rows.column("n").to_numpy(), part.receivers, strict=True)
    ]
    assert sorted(pairs) == [(n, n % 5) for n in range(30)]
    assert arrived[0].rows.schema == rows.schema
