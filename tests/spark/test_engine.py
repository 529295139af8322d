"""The engine on a real Spark session, with functions small enough to see through."""

from __future__ import annotations

import datetime as dt
import errno
import gc
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from tests.support.spark import temporarily

from pyhudi.config.enums import Arrangement
from pyhudi.engine.protocol import Distribution, TaskContext
from pyhudi.errors import (
    OutOfSpaceError,
    RecordKeyError,
    SchemaMismatchError,
    UnsupportedFeatureError,
    WorkerEnvironmentError,
)
from pyhudi.format.keys.generator import KeyGenerator
from pyhudi.format.keys.generator_types import KeyGeneratorType
from pyhudi.format.keys.value_text import value_text
from pyhudi.spark import engine as spark_engine
from pyhudi.spark.batches import SPLIT_BATCH_ROWS, conformed
from pyhudi.spark.engine import (
    ARROW_BATCHES,
    IN_PROCESS_BYTES_MAX,
    SparkEngine,
    limits_of_batches,
    session_parallelism,
)
from pyhudi.spark.frames import under
from pyhudi.spark.workers import begin_task
from pyhudi.storage.local import LocalStorage
from pyhudi.table.lister import EngineLister

BIG = IN_PROCESS_BYTES_MAX
AS_IS = Distribution(Arrangement.NONE)
BY_ID = Distribution(Arrangement.BY_KEY, key_columns=("id",), key_types=(pa.int64(),))


@pytest.fixture
def engine(spark: Any) -> SparkEngine:
    return SparkEngine(spark)


@pytest.fixture
def cities(spark: Any) -> Any:
    """Sixty rows of three cities in three partitions; `id` descends, so that sorting shows."""
    return spark.range(0, 60, 1, 3).selectExpr("60 - id as id", "concat('c', id % 3) as city")


def split_rows(engine: SparkEngine, rows: Any, distribution: Distribution) -> list[list[tuple[str, int]]]:
    """What each split holds, in its order."""

    def pairs(_: TaskContext, batches: Iterator[pa.RecordBatch]) -> list[tuple[str, int]]:
        return [(row["city"], row["id"]) for batch in batches for row in batch.to_pylist()]

    return engine.map_splits(rows, pairs, distribution=distribution, description="look")


def test_results_come_in_the_order_of_the_tasks_from_other_processes(engine: SparkEngine) -> None:
    def double(context: TaskContext, task: int) -> tuple[int, int, int]:
        return task * 2, context.partition, os.getpid()

    results = engine.map(double, [5, 1, 3], size_bytes=BIG, description="double")

    assert [(value, partition) for value, partition, _ in results] == [(10, 0), (2, 1), (6, 2)]
    assert os.getpid() not in {process for _, _, process in results}


def test_tasks_of_one_call_and_of_two_calls_have_different_write_tokens(engine: SparkEngine) -> None:
    def token(context: TaskContext, _: int) -> str:
        return context.write_token

    first, second = (engine.map(token, [1, 2], size_bytes=BIG, description="token") for _ in range(2))

    assert len({*first, *second}) == 4


@pytest.mark.parametrize(("tasks", "size"), [([1, 2], BIG - 1), ([1], BIG)], ids=["small", "single"])
def test_small_or_single_work_runs_in_this_process(engine: SparkEngine, tasks: list[int], size: int) -> None:
    def process(_: TaskContext, __: int) -> int:
        return os.getpid()

    assert set(engine.map(process, tasks, size_bytes=size, description="small")) == {os.getpid()}


def test_typed_error_of_a_worker_arrives_as_it_was_raised(engine: SparkEngine) -> None:
    def refuse(_: TaskContext, task: int) -> int:
        if task:
            raise RecordKeyError("a record key is null", column="uuid", task=task)
        return task

    with pytest.raises(RecordKeyError) as caught:
        engine.map(refuse, [0, 2, 1], size_bytes=BIG, description="refuse")

    assert caught.value.context == {"column": "uuid", "task": 2}


def test_typed_error_in_a_split_arrives_though_rows_were_left_unread(engine: SparkEngine, spark: Any) -> None:
    def refuse(_: TaskContext, batches: Iterator[pa.RecordBatch]) -> int:
        raise RecordKeyError("a record key is null", row=next(batches).num_rows)

    rows = spark.range(0, 300_000, 1, 2).selectExpr("id", "repeat('x', 50) as text")

    with pytest.raises(RecordKeyError):
        engine.map_splits(rows, refuse, distribution=AS_IS, description="refuse")


def test_other_errors_of_a_worker_stay_errors_of_spark(engine: SparkEngine) -> None:
    def divide(_: TaskContext, task: int) -> float:
        return 1 / task

    with pytest.raises(PythonException, match="ZeroDivisionError"):
        engine.map(divide, [0, 0], size_bytes=BIG, description="divide")


def test_worker_without_pyarrow_is_told_with_the_fix(engine: SparkEngine) -> None:
    def lacking(_: TaskContext, __: int) -> None:
        raise ModuleNotFoundError("No module named 'pyarrow'")

    with pytest.raises(WorkerEnvironmentError, match="PYSPARK_PYTHON") as caught:
        engine.map(lacking, [1, 2], size_bytes=BIG, description="look keys up")

    assert caught.value.context == {"module": "pyarrow", "step": "look keys up"}


def test_full_disk_of_an_executor_is_told_with_the_setting_of_its_folder(engine: SparkEngine) -> None:
    def overflow(_: TaskContext, __: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OutOfSpaceError, match=r"\(No space left on device\).*spark\.local\.dir") as caught:
        engine.map(overflow, [1, 2], size_bytes=BIG, description="look keys up")

    assert caught.value.context == {"step": "look keys up"}


def test_function_that_finds_a_file_too_large_is_no_full_disk(engine: SparkEngine) -> None:
    def refuse(_: TaskContext, __: int) -> None:
        raise ValueError("File too large: photo.tiff")

    with pytest.raises(PythonException, match=r"photo\.tiff"):
        engine.map(refuse, [1, 2], size_bytes=BIG, description="read photos")


def test_missing_module_of_the_user_is_not_blamed_on_the_workers(engine: SparkEngine) -> None:
    def lacking(_: TaskContext, __: int) -> None:
        raise ModuleNotFoundError("No module named 'their_udfs'")

    with pytest.raises(PythonException, match="their_udfs"):
        engine.map(lacking, [1, 2], size_bytes=BIG, description="look keys up")


def test_schema_is_known_without_a_job_and_refuses_intervals(engine: SparkEngine, spark: Any) -> None:
    rows = spark.sql("select 1 as id, timestamp'2024-01-01' as at, interval 3 days as length")

    assert engine.schema_of(rows.drop("length")) == pa.schema(
        [pa.field("id", pa.int32(), nullable=False), pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False)]
    )
    with pytest.raises(SchemaMismatchError, match="'length'"):
        engine.schema_of(rows)


def test_batches_have_the_schema_with_instants_in_utc(engine: SparkEngine, spark: Any) -> None:
    rows = spark.sql(
        "select timestamp'2024-07-01 12:00:00' as at, array(timestamp'2024-07-01 12:00:00') as all,"
        " map('a', named_struct('at', timestamp'2024-07-01 12:00:00')) as by_name,"
        " timestamp_ntz'2024-07-01 12:00:00' as wall, cast(1.5 as decimal(10,2)) as fare, current_user() as who"
    )

    def seen(_: TaskContext, batches: Iterator[pa.RecordBatch]) -> list[tuple[pa.Schema, list[Any]]]:
        return [(batch.schema, batch.drop_columns(["who"]).to_pylist()) for batch in batches]

    [[(schema, [row])]] = engine.map_splits(rows, seen, distribution=AS_IS, description="look")

    assert schema == engine.schema_of(rows)
    noon_in_new_york = dt.datetime(2024, 7, 1, 16, tzinfo=dt.UTC)
    assert row["at"] == noon_in_new_york
    assert row["all"] == [noon_in_new_york]
    assert row["by_name"] == [("a", {"at": noon_in_new_york})]
    assert row["wall"] == dt.datetime(2024, 7, 1, 12)


def test_memory_of_a_task_comes_from_the_pool_that_keeps_it(engine: SparkEngine, cities: Any) -> None:
    def pool(_: TaskContext, batches: Iterator[pa.RecordBatch]) -> str:
        del batches
        return pa.default_memory_pool().backend_name

    assert set(engine.map_splits(cities, pool, distribution=AS_IS, description="look")) == {"system"}


def test_memory_pool_that_the_environment_names_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", "mimalloc")
    monkeypatch.setattr(pa, "set_memory_pool", lambda pool: pytest.fail(f"set to {pool}"))
    monkeypatch.setattr(gc, "freeze", lambda: None)

    begin_task.__wrapped__()


def test_batch_of_the_right_schema_is_not_copied() -> None:
    batch = pa.record_batch({"id": [1, 2]})

    assert next(conformed(iter([batch]), batch.schema)) is batch


def test_small_batches_are_joined_and_large_ones_are_passed_on() -> None:
    small, large = pa.record_batch({"id": range(10_000)}), pa.record_batch({"id": range(SPLIT_BATCH_ROWS)})

    joined = list(conformed(iter([small, small, large, small]), small.schema))

    assert [batch.num_rows for batch in joined] == [20_000 + SPLIT_BATCH_ROWS, 10_000]
    assert joined[0].column(0).to_pylist() == [*range(10_000), *range(10_000), *range(SPLIT_BATCH_ROWS)]


def test_joining_small_batches_takes_as_many_steps_for_each_of_them_however_many_wait() -> None:
    """Spark hands over 65 batches to be joined: adding up all that wait at each of them took longer than the rest."""

    def steps(count: int) -> int:
        taken = 0

        def step(*_: Any) -> None:
            nonlocal taken
            taken += 1

        batches = [pa.record_batch({"id": [number]}) for number in range(count)]
        sys.setprofile(step)
        try:
            joined = list(conformed(iter(batches), batches[0].schema))
        finally:
            sys.setprofile(None)
        assert [batch.num_rows for batch in joined] == [count]
        return taken

    assert steps(400) < 3 * steps(200)


def test_rows_under_settings_of_their_own_leave_the_session_as_it_is(spark: Any) -> None:
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(key, None)

    def sizes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"size": [batch.num_rows]})

    rows = spark.range(0, 50, 1, 1).mapInArrow(sizes, "size long")

    assert [row["size"] for row in under(rows, {key: "20"}).collect()] == [20, 20, 10]
    assert [row["size"] for row in rows.collect()] == [50]
    assert spark.conf.get(key, None) == before


def test_rows_as_they_are_keep_their_splits(engine: SparkEngine, cities: Any) -> None:
    assert [len(split) for split in split_rows(engine, cities, AS_IS)] == [20, 20, 20]


def test_fewer_splits_can_be_asked_for(engine: SparkEngine, cities: Any) -> None:
    assert len(split_rows(engine, cities, Distribution(Arrangement.NONE, splits=2))) == 2


def test_rows_of_one_key_meet_in_one_split(engine: SparkEngine, cities: Any) -> None:
    doubled = cities.unionAll(cities)
    distribution = replace(BY_ID, splits=4)

    splits = split_rows(engine, doubled, distribution)

    assert len(splits) == 4
    assert sum(len({key for _, key in split}) for split in splits) == 60
    assert all(len(split) == 2 * len(set(split)) for split in splits)


def keys_of_splits(engine: SparkEngine, rows: Any, types: Mapping[str, pa.DataType]) -> list[list[str]]:
    """The record keys in each of many splits."""
    keys = KeyGenerator(kind=KeyGeneratorType.COMPLEX, record_key_fields=tuple(types))

    def distinct(_: TaskContext, batches: Iterator[pa.RecordBatch]) -> list[str]:
        return sorted({key for batch in batches for key in keys.record_keys(batch).to_pylist()})

    distribution = Distribution(
        Arrangement.BY_KEY, key_columns=tuple(types), key_types=tuple(types.values()), splits=32
    )
    return engine.map_splits(rows, distinct, distribution=distribution, description="look")


def test_rows_of_other_values_whose_keys_are_one_text_meet_in_one_split(engine: SparkEngine, spark: Any) -> None:
    pairs = [(None, "1"), ("__null__", "1"), ("", "2"), ("__empty__", "2"), ("1,b:2", "3"), ("1", "2,b:3")]

    splits = keys_of_splits(
        engine, spark.createDataFrame(pairs, "a string, b string"), dict.fromkeys("ab", pa.string())
    )

    assert len([key for split in splits for key in split]) == len(set().union(*splits)) == 3


@pytest.mark.parametrize(
    "value", ["timestamp_micros({})", "cast(timestamp_micros({}) as timestamp_ntz)", "unhex('0{}')"]
)
def test_texts_that_imitate_a_column_of_another_form_meet_in_one_split(
    engine: SparkEngine, spark: Any, value: str
) -> None:
    frames = [spark.sql(f"select {value.format(number)} t") for number in (1, 2)]
    one, two = (value_text(frame.toArrow()["t"].combine_chunks())[0].as_py() for frame in frames)
    rows = frames[0].selectExpr("'x' a", "t", f"'q,t:{two},c:z' c")
    rows = rows.unionAll(frames[1].selectExpr(f"'x,t:{one},c:q' a", "t", "'z' c"))
    types = {"a": pa.string(), "t": frames[0].toArrow().schema.field("t").type, "c": pa.string()}

    splits = keys_of_splits(engine, rows, types)

    assert [split for split in splits if split] == [[f"a:x,t:{one},c:q,t:{two},c:z"]]


def test_keys_of_texts_and_instants_go_to_many_splits(engine: SparkEngine, spark: Any) -> None:
    rows = spark.range(40).selectExpr("'x,u:' a", "timestamp_micros(id) t")

    splits = keys_of_splits(engine, rows, {"a": pa.string(), "t": pa.timestamp("us", "UTC")})

    assert sum(map(len, splits)) == 40
    assert sum(map(bool, splits)) > 15


def test_number_of_splits_by_key_follows_the_size_if_not_given(engine: SparkEngine, cities: Any) -> None:
    assert len(split_rows(engine, cities, BY_ID)) == 1


def test_global_sort_orders_across_splits_by_the_text_of_the_keys(engine: SparkEngine, cities: Any) -> None:
    distribution = Distribution(Arrangement.GLOBAL_SORT, ("city",), ("id",), splits=3)

    splits = split_rows(engine, cities, distribution)

    rows = [row for split in splits for row in split]
    assert len(splits) == 3
    assert len(rows) == 60
    assert rows == sorted(rows, key=lambda row: (row[0], str(row[1])))


def test_partition_sort_orders_within_each_split(engine: SparkEngine, cities: Any) -> None:
    splits = split_rows(engine, cities, Distribution(Arrangement.PARTITION_SORT, ("city",), ("id",)))

    assert [len(split) for split in splits] == [20, 20, 20]
    assert all(split == sorted(split, key=lambda row: (row[0], str(row[1]))) for split in splits)


@pytest.mark.parametrize(
    "arrangement", [Arrangement.PARTITION_PATH_REPARTITION, Arrangement.PARTITION_PATH_REPARTITION_AND_SORT]
)
def test_repartitioning_brings_each_partition_path_into_one_split(
    engine: SparkEngine, cities: Any, arrangement: Arrangement
) -> None:
    splits = split_rows(engine, cities, Distribution(arrangement, ("city",), splits=2))

    assert sum(len({city for city, _ in split}) for split in splits) == 3
    if arrangement is Arrangement.PARTITION_PATH_REPARTITION_AND_SORT:
        assert all([city for city, _ in split] == sorted(city for city, _ in split) for split in splits)


def test_nested_and_oddly_named_key_columns_are_found(engine: SparkEngine, spark: Any) -> None:
    rows = spark.range(4).selectExpr("named_struct('id', 9 - id) as rider", "id as `the id`", "'x' as city", "id")
    distribution = Distribution(Arrangement.GLOBAL_SORT, ("the id",), ("rider.id",), splits=1)

    assert [key for split in split_rows(engine, rows, distribution) for _, key in split] == [0, 1, 2, 3]


def test_function_runs_on_the_empty_splits_of_an_empty_input(engine: SparkEngine, spark: Any, cities: Any) -> None:
    nothing_at_all = spark.createDataFrame([], cities.schema)

    for rows in (cities.where("id < 0"), nothing_at_all):
        for distribution in (AS_IS, BY_ID):
            splits = split_rows(engine, rows, distribution)
            assert splits
            assert not any(splits)


def test_parallelism_is_what_the_session_was_given(spark: Any) -> None:
    assert session_parallelism(spark) == 2


def test_engine_takes_dataframes_and_nothing_else(engine: SparkEngine, cities: Any) -> None:
    assert engine.accepts(cities)
    assert not engine.accepts(pa.table({"id": [1]}))


def test_limits_of_batches_that_the_session_sets_are_left_alone(spark: Any) -> None:
    schema = pa.schema([("id", pa.int64())])
    assert limits_of_batches(spark, schema) == (ARROW_BATCHES,)
    for name in ARROW_BATCHES:
        with temporarily(spark, {name: "77"}):
            assert limits_of_batches(spark, schema) == ({},)


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.binary(), pa.list_(pa.int64()), pa.struct([("a", pa.string())])], ids=str
)
def test_batches_have_fewer_rows_where_rows_may_be_wide(spark: Any, kind: pa.DataType) -> None:
    limits = limits_of_batches(spark, pa.schema([("id", pa.int64()), ("doc", kind)]))

    assert [each["spark.sql.execution.arrow.maxRecordsPerBatch"] for each in limits] == ["4000", "100"]


def test_rows_that_are_too_wide_for_the_first_limit_are_sent_again_by_the_next_one(
    engine: SparkEngine, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker says what Spark says of a batch that exceeds its vectors; a real one takes a gigabyte."""
    rows = spark.range(0, 5_000, 1, 1).selectExpr("id", "concat('c', id) as city")

    def seen(_: TaskContext, batches: Iterator[pa.RecordBatch]) -> int:
        try:
            (tmp_path / "tried").touch(exist_ok=False)
        except FileExistsError:
            return sum(batch.num_rows for batch in batches)
        raise MemoryError("org.apache.arrow.vector.util.OversizedAllocationException: Unable to expand the buffer")

    assert engine.map_splits(rows, seen, distribution=AS_IS, description="look") == [5_000]

    monkeypatch.setattr(spark_engine, "ROWS_OF_ANY_WIDTH", (4_000,))
    (tmp_path / "tried").unlink()
    with pytest.raises(UnsupportedFeatureError, match="maxRecordsPerBatch to fewer rows"):
        engine.map_splits(rows, seen, distribution=AS_IS, description="look")


def test_many_folders_are_listed_by_workers(
    engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, folders = LocalStorage(str(tmp_path)), [f"city={number:03}" for number in range(400)]
    for folder in folders:
        storage.put(f"{folder}/a", b"12", durable=False)

    def in_driver(*_: Any) -> Any:
        raise AssertionError("the driver lists a folder")

    monkeypatch.setattr(LocalStorage, "list_folder", in_driver)
    found = EngineLister(storage, engine).partitions(folders)

    assert [(info.path, info.size) for info in found] == [(f"{folder}/a", 2) for folder in folders]
