"""Outcomes of tasks on Spark: their results, or the error that one raised, as rows of a DataFrame or an RDD."""

from __future__ import annotations

import base64
import json
import pickle
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import RDD, SparkContext, cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row

from pyhudi import errors
from pyhudi.errors import ConfigError, HudiError, InternalError, OutOfSpaceError, WorkerEnvironmentError
from pyhudi.spark.settings import is_connect
from pyhudi.storage.metered import Totals, begin_counting_task, count_calls_of_task
from pyhudi.telemetry.tracing import span

OUTCOME_DDL: Final = "task bigint not null, piece int not null, pieces int not null, outcome binary not null"
_OUTCOMES = pa.schema(
    [
        pa.field("task", pa.int64(), nullable=False),
        pa.field("piece", pa.int32(), nullable=False),
        pa.field("pieces", pa.int32(), nullable=False),
        pa.field("outcome", pa.binary(), nullable=False),
    ]
)
OutcomeTuple: TypeAlias = tuple[int, int, int, bytes]
"""A row of `OUTCOME_DDL`."""
PIECE_BYTES: Final = 1 << 20
"""A longer outcome comes in pieces of so much, each a row: Spark may refuse to collect it at once."""

NO_TASK: Final = -1
"""In place of a task: the outcome is not one of its own, but has calls to the store alone."""

RESULT_BYTES: Final = 256 << 10
"""What the result of one task takes at most, as a rule."""
PARTS_OF_LARGE: Final = 64
"""In how many parts results come that turned out to be more than Spark collects at once."""
_MAX_RESULT_SIZE: Final = "spark.driver.maxResultSize"
_UNITS: Final = {"": 0, "b": 0, "k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30, "t": 40, "tb": 40}

_MISSING_MODULE = re.compile(r"No module named '([A-Za-z0-9_]+)")
_WORKER_MODULES = frozenset(
    {"pyhudi", "pyarrow", "pandas", "numpy", "fastavro", "filelock", "obstore", "psutil", "tzdata"}
)
# "File too large" only as Java or Python says it of a file: a function of the user's may fail with these words, too.
_FULL_DISK = re.compile(
    r"No space left on device|Disk quota exceeded|(?:(?<=IOException: )|(?<=\[Errno 27\] ))File too large"
)
_RAISED = re.compile(r"\[pyhudi raised ([A-Za-z0-9+/=]+)\]")
"""A `HudiError` in the text that Spark makes of an error."""
_MORE_THAN_COLLECTED = re.compile(r"is bigger than (?:local )?spark\.driver\.maxResultSize")
_WORKER_MISFITS = ("PYTHON_VERSION_MISMATCH", "PACKAGE_NOT_INSTALLED", "UNSUPPORTED_PACKAGE_VERSION")


def outcome(task: int, function: Callable[..., Any], *arguments: Any) -> pa.RecordBatch:
    """The rows of the function's result for a task, or of the `HudiError` that it raised (`outcome_rows`).

    A `HudiError` is final, and Spark would convert it into text; therefore it is returned like a result. Any other
    error fails the Spark task, and Spark runs the task again.
    """
    meter = begin_counting_task()
    try:
        value: tuple[bool, Any] = (True, function(*arguments))
    except HudiError as error:
        value = (False, error)
    return outcome_rows(task, pickled(*value, meter.totals()))


def pickled(succeeded: bool, value: Any, calls: Totals = MappingProxyType({})) -> bytes:
    """A result or an error as `outcome_rows` takes it; `calls`: those of the task to the store."""
    return cast("bytes", cloudpickle.dumps((succeeded, value, dict(calls))))


class RowsFailedError(Exception):
    """A task that makes rows of a DataFrame failed by a `HudiError`, which `collected` raises in its place.

    Among rows there is no place for an error, and Spark hands on the text of an exception alone. What it says may come
    from the input, so nothing of it is unpickled.
    """

    def __init__(self, error: HudiError) -> None:
        said = {"kind": type(error).__name__, "message": error.message, "context": error.context}
        text = base64.b64encode(json.dumps(said, default=str).encode()).decode()
        super().__init__(f"{error} [pyhudi raised {text}]")


def _raised_in_rows(text: str) -> HudiError | None:
    """The error that `RowsFailedError` put into a text; None where there is none."""
    found = _RAISED.findall(text)
    if not found:
        return None
    said = json.loads(base64.b64decode(found[-1]))  # the words of the error, which may imitate it, come before
    kind = getattr(errors, said["kind"], None)
    if not (isinstance(kind, type) and issubclass(kind, HudiError)):
        return None
    return kind(said["message"], **said["context"])


def outcome_rows(task: int, content: bytes) -> pa.RecordBatch:
    """A pickled outcome in pieces, each a row."""
    pieces = [content[start : start + PIECE_BYTES] for start in range(0, len(content), PIECE_BYTES)]
    count = len(pieces)
    columns = (
        pa.array([task] * count, pa.int64()),
        pa.array(range(count), pa.int32()),
        pa.array([count] * count, pa.int32()),
        pa.array(pieces, pa.binary()),
    )
    return pa.RecordBatch.from_arrays(list(columns), schema=_OUTCOMES)


def collected(outcomes: DataFrame | RDD[OutcomeTuple], description: str, *, tasks: int | None = None) -> list[Any]:
    """Run the job and return its results in the order of the tasks, or raise the first error among them.

    `tasks`: how many there are, if that is known. Results of so many that Spark might refuse to collect them at once
    (`spark.driver.maxResultSize`) come in several jobs, after a small shuffle; of Spark Connect always at once. Where
    Spark refuses unexpectedly, the tasks run again, and their results come so. Raises `ConfigError` where it refuses
    for good.
    """
    results: dict[int, Any] = {}
    failures: dict[int, HudiError] = {}
    try:
        with span(description):
            for index, content in _joined(_rows(outcomes, tasks or 0)):
                # Written by `outcome` in a worker of this session.
                succeeded, value, calls = pickle.loads(content)  # noqa: S301
                count_calls_of_task(calls)
                if index == NO_TASK:
                    continue
                if index in results or index in failures:
                    raise InternalError("Spark returned two results for one task", task=index, step=description)
                (results if succeeded else failures)[index] = value
    except (PySparkException, Py4JJavaError) as error:  # py4j's before 4.0, and later where the JVM's own I/O fails
        if (explained := _explained(str(error), description)) is not None:
            raise explained from error
        raise
    if failures:
        raise failures[min(failures)]
    return [results[index] for index in sorted(results)]


def _joined(rows: Iterable[Row | OutcomeTuple]) -> Iterator[tuple[int, bytes]]:
    """The tasks and their outcomes, from rows of pieces in any order."""
    waiting: dict[int, dict[int, bytes]] = defaultdict(dict)
    for task, piece, pieces, content in rows:
        if pieces == 1:
            yield task, content
            continue
        waiting[task][piece] = content
        if len(waiting[task]) == pieces:
            found = waiting.pop(task)
            yield task, b"".join(found[number] for number in range(pieces))


def _rows(outcomes: DataFrame | RDD[OutcomeTuple], tasks: int) -> Iterator[Row | OutcomeTuple]:
    context = _context(outcomes)
    limit = None if context is None else _max_result_size(context)
    parts = 1 if limit is None else -(-tasks * RESULT_BYTES * 2 // limit)
    if parts <= 1:
        try:
            return iter(outcomes.collect())
        except Exception as error:  # of the JVM: there is no one class for it
            if limit is None or not _MORE_THAN_COLLECTED.search(str(error)):
                raise
            parts = PARTS_OF_LARGE
    # One job for each part. The first one runs the tasks; the others read what the shuffle has kept.
    frame = outcomes if isinstance(outcomes, DataFrame) else outcomes.toDF(OUTCOME_DDL)
    spread: Iterator[Row] = frame.repartition(parts, "task", "piece").toLocalIterator()
    return spread


def _context(outcomes: DataFrame | RDD[OutcomeTuple]) -> SparkContext | None:
    """The context of the application; None for Spark Connect."""
    if not isinstance(outcomes, DataFrame):
        return outcomes.context
    return None if is_connect(outcomes.sparkSession) else outcomes.sparkSession.sparkContext


def _max_result_size(context: SparkContext) -> int | None:
    """The limit of the application in bytes; None: there is none."""
    text = context._conf.get(_MAX_RESULT_SIZE, "1g")  # `getConf` copies all settings, one by one
    size = re.fullmatch(r"(\d+)([a-z]*)", text.strip().lower())
    if size is None or size.group(2) not in _UNITS:
        return None
    return (int(size.group(1)) << _UNITS[size.group(2)]) or None


def _explained(text: str, description: str) -> HudiError | None:
    """The error for a job whose rows failed, or that failed because of where it ran; None for another reason."""
    if (raised := _raised_in_rows(text)) is not None:
        return raised
    if _MORE_THAN_COLLECTED.search(text):
        return ConfigError(
            f"the results of tasks are more than Spark hands to its driver: raise {_MAX_RESULT_SIZE} before the "
            "session starts",
            option=_MAX_RESULT_SIZE,
            step=description,
        )
    full = _FULL_DISK.search(text)
    if full is not None:
        return OutOfSpaceError(
            f"the local disk of a Spark executor is full ({full.group()}): make room where executors keep what they "
            "shuffle (spark.local.dir, or what the cluster manager sets in its place), and write again",
            step=description,
        )
    missing = _MISSING_MODULE.search(text)
    if missing is not None and missing.group(1) in _WORKER_MODULES:
        return WorkerEnvironmentError(
            f"the Python of the Spark workers has no {missing.group(1)}: install pyhudi there, and point "
            "PYSPARK_PYTHON (or spark.pyspark.python) at that Python before the session starts",
            module=missing.group(1),
            step=description,
        )
    if any(misfit in text for misfit in _WORKER_MISFITS):
        return WorkerEnvironmentError(
            "the Python of the Spark workers does not match the driver's: set PYSPARK_PYTHON to a Python of the same "
            "version with pyhudi installed before the session starts",
            step=description,
        )
    return None
