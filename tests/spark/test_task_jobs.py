"""Jobs of tasks: in which workers they run, what they have of the session, and the same through Spark Connect."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext as SparkTaskContext

from pyhudi.engine.protocol import TaskContext
from pyhudi.spark import task_jobs
from pyhudi.spark.capabilities import IS_4
from pyhudi.spark.engine import IN_PROCESS_BYTES_MAX, SparkEngine

_TAGS, _QUERY = "spark.job.tags", "spark.sql.execution.id"


def _tell(spark: Any, *names: str) -> list[list[str | None]]:
    """Local properties of the session's thread, as the tasks of a job have them."""

    def properties(_: TaskContext, __: int) -> list[str | None]:
        context = SparkTaskContext.get()
        assert context is not None
        return [context.getLocalProperty(name) for name in names]

    return SparkEngine(spark).map(properties, [1, 2], size_bytes=IN_PROCESS_BYTES_MAX, description="tell")


def test_tasks_run_in_the_workers_of_queries(spark: Any) -> None:
    def parent(_: TaskContext, __: int) -> int:
        return os.getppid()

    def parents(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.record_batch({"parent": [os.getppid()]})

    of_tasks = SparkEngine(spark).map(parent, [1, 2], size_bytes=IN_PROCESS_BYTES_MAX, description="look")
    of_queries = spark.range(0, 2, 1, 2).mapInArrow(parents, "parent long").collect()

    assert set(of_tasks) == {row["parent"] for row in of_queries}


@pytest.mark.skipif(not IS_4, reason="classic sessions have no tags before PySpark 4.0")
def test_tags_of_the_session_are_those_of_its_tasks_and_stay_no_longer(spark: Any) -> None:
    spark.addTag("nightly")
    try:
        found = _tell(spark, _TAGS, _QUERY)
    finally:
        spark.removeTag("nightly")

    assert {query for _, query in found} == {None}
    of_session = str(spark._jsparkSession.sessionJobTag())
    for tags, _ in found:
        assert tags is not None
        assert of_session in tags.split(",")
        assert any(tag.endswith("nightly") for tag in tags.split(","))
    assert not set(spark.sparkContext.getJobTags())


def test_tag_that_the_caller_gave_its_jobs_stays(spark: Any) -> None:
    context = spark.sparkContext
    own = str(spark._jsparkSession.sessionJobTag()) if IS_4 else "own"
    context.addJobTag(own)
    try:
        assert {tags for (tags,) in _tell(spark, _TAGS)} == {own}
        assert set(context.getJobTags()) == {own}
    finally:
        context.removeJobTag(own)


def test_tasks_have_the_same_results_where_a_session_has_dataframes_alone(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def described(context: TaskContext, task: str) -> tuple[int, str]:
        return context.partition, task * 2

    def results() -> list[tuple[int, str]]:
        return SparkEngine(spark).map(
            described, [*"cab"], size_bytes=IN_PROCESS_BYTES_MAX, description="describe tasks"
        )

    found = results()
    monkeypatch.setattr(task_jobs, "is_connect", lambda _: True)

    assert found == results() == [(0, "cc"), (1, "aa"), (2, "bb")]
