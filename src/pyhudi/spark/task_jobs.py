"""Jobs of tasks: each Spark task is given tasks of pyhudi, and no rows of Spark.

In a classic session such a job is one of an RDD. A DataFrame's would be analysed, optimized, compiled and shuffled
first, for rows that Spark never looks into. Spark Connect has DataFrames alone.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from pyhudi.spark.capabilities import IS_4
from pyhudi.spark.frames import under
from pyhudi.spark.outcomes import OUTCOME_DDL, OutcomeTuple, collected
from pyhudi.spark.parcels import Delivery, SentTasks, parcels_of_tasks
from pyhudi.spark.settings import is_connect

InArrow = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What Spark runs over the batches of a partition."""


def results_of_tasks(given: Delivery | SentTasks, run: InArrow, *, description: str) -> list[Any]:
    """Run a job with a Spark task for each reader, and return what `collected` makes of the outcomes.

    `run`: from what a reader is given, of which `opened` makes its tasks, to outcomes. Cost: one Spark job, with a
    shuffle of tasks that the driver sends through Spark Connect.
    """
    if not isinstance(given, SentTasks) or is_connect(given.spark):
        outcomes = under(given.frame.mapInArrow(run, OUTCOME_DDL), given.limits)
        return collected(outcomes, description, tasks=given.readers)
    parcels = itertools.groupby(parcels_of_tasks(given.reader_of, given.tasks), key=lambda batch: batch.column(0)[0])
    sent = given.spark.sparkContext.parallelize([list(own) for _, own in parcels], given.readers)
    with _tags_of(given.spark):
        return collected(sent.mapPartitions(functools.partial(_outcome_tuples, run)), description, tasks=given.readers)


def _outcome_tuples(run: InArrow, parcels: Iterator[list[pa.RecordBatch]]) -> Iterator[OutcomeTuple]:
    for outcomes in run(itertools.chain.from_iterable(parcels)):
        yield from zip(*(column.to_pylist() for column in outcomes.columns), strict=True)


@contextmanager
def _tags_of(spark: SparkSession) -> Iterator[None]:
    """Give jobs of this thread the session's tags, as Spark gives them to its queries: `interruptTag` then ends them.

    Classic sessions have no tags before 4.0.
    """
    tags: set[str] = set()
    if IS_4:
        session = spark._jsparkSession
        own = str(session.managedJobTags().get().values().mkString(","))  # no tag has a comma
        tags = {str(session.sessionJobTag()), *filter(None, own.split(","))} - set(spark.sparkContext.getJobTags())
    for tag in tags:
        spark.sparkContext.addJobTag(tag)
    try:
        yield
    finally:
        for tag in tags:
            spark.sparkContext.removeJobTag(tag)
