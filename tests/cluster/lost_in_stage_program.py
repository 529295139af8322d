"""Application of `test_lost_in_stage.py`: `lost_in_stage_program.py <master> <folder> <JSON of settings>`.

Tasks wait in the middle of their work, or after it and before Spark hears of it, until their executor is killed: each
of them makes a file `kill-<step>-<where>` in the folder, with the id of its process. Prints one line of JSON with what
was there before and after the commit of each step.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore", category=FutureWarning)

ROWS, SPLITS, CITIES = 8_000, 8, 4
WAIT_SECONDS_MAX = 180
BULK, STAGE, WRITE = "bulk insert", "stage rows", "write files"
#: Of each step: the operation, and where tasks wait to be killed (what the engine runs, and the moment).
STEPS = {
    "COPY_ON_WRITE": [
        ("bulk_insert", [(BULK, "middle"), (BULK, "end")]),
        ("upsert", [(WRITE, "sending")]),
        ("upsert", [(WRITE, "middle"), (WRITE, "end")]),
        ("upsert", [(STAGE, "end")]),
    ],
    "MERGE_ON_READ": [
        ("bulk_insert", []),
        ("upsert", [(WRITE, "sending"), (WRITE, "end")]),
        ("upsert", [(WRITE, "middle"), (WRITE, "end")]),
    ],
}


def main(master: str, folder: Path, settings: dict[str, Any]) -> list[dict[str, Any]]:
    from life_program import table_options

    import pyhudi
    from pyhudi.format.file_names import parse_data_file
    from pyhudi.spark import engine
    from pyhudi.storage.open import open_storage
    from pyhudi.table.state import load_table
    from pyhudi.transaction import tidying, transaction

    uri, store, table_type = settings["uri"], settings["store"], settings["table_type"]
    engine.IN_PROCESS_BYTES_MAX = 0
    waiting = Waiting(folder)
    waiting.wrap(engine.SparkEngine)
    storage = open_storage(uri, store)
    before_the_commit: set[str] = set()
    left_by_the_commit: list[set[str]] = []

    def data_files() -> set[str]:
        return {info.path for info in storage.list_recursive("") if parse_data_file(info.name)}

    load_markers = transaction.load_markers

    def note_files(*arguments: Any) -> Any:
        before_the_commit.update(data_files())
        return load_markers(*arguments)

    def note_files_left(*arguments: Any) -> Any:
        left_by_the_commit.append(data_files())  # what follows removes lost attempts a second time
        return load_markers(*arguments)

    transaction.load_markers, tidying.load_markers = note_files, note_files_left
    spark = pyhudi.spark_session(master=master, config=settings["config"])
    options = table_options(settings)
    told = []
    for step, (operation, places) in enumerate(STEPS[table_type]):
        waiting.places = {place: folder / f"kill-{step}-{' '.join(place)}" for place in places}
        before_the_commit.clear()
        left_by_the_commit.clear()
        rows = made_by_chance(spark, step, folder / f"failed-{step}")
        how = {**options, "hoodie.datasource.write.operation": operation}
        rows.write.format("hudi").options(**how).mode("append").save(uri)
        after = left_by_the_commit[0] if left_by_the_commit else data_files()
        stored = spark.read.format("hudi").options(**store).load(uri)
        sums = ["count(*)", "count(distinct uuid)", "count_if(value = copy)", f"count_if(ts = {step})"]
        told.append(
            {
                "sums": list(stored.selectExpr(*sums).first()),
                "removed": len(before_the_commit - after),
                "failed": (folder / f"failed-{step}").exists(),
                "commits": len(load_table(storage).timeline.completed_writes),
            }
        )
    spark.stop()
    return told


def made_by_chance(spark: Any, step: int, failed: Path) -> Any:
    """Rows whose values are others each time they are made, and one of whose tasks fails half-way once."""
    from pyspark.sql import functions as sql

    def value(number: int) -> float:
        if number == ROWS // 2 + 500:
            try:
                failed.touch(exist_ok=False)
            except FileExistsError:
                return random.random()
            raise RuntimeError("the input fails once")
        return random.random()

    made = spark.range(0, ROWS, 2 if step else 1, SPLITS).withColumn(
        "value", sql.udf(value, "double").asNondeterministic()("id")
    )
    return made.selectExpr(
        "cast(id as string) uuid", f"concat('c', id % {CITIES}) city", f"{step}L ts", "value", "value copy"
    )


@dataclasses.dataclass
class Waiting:
    """Lets tasks of the engine wait. `places`: where, with the file that the first task there makes."""

    folder: Path
    places: dict[tuple[str, str], Path] = dataclasses.field(default_factory=dict)

    def wrap(self, engine: Any) -> None:
        map_splits, exchange = engine.map_splits, engine.exchange

        def waiting_splits(this: Any, rows: Any, function: Any, **how: Any) -> Any:
            name = how["description"]
            function = received(function, self._file(name, "middle"), self._file(name, "end"))
            return map_splits(this, rows, function, **how)

        def waiting_exchange(this: Any, step: Any) -> Any:
            name = step.description
            send = sent(step.send, self._file(name, "sending"))
            receive = received(step.receive, self._file(name, "middle"), self._file(name, "end"))
            return exchange(this, dataclasses.replace(step, send=send, receive=receive))

        engine.map_splits, engine.exchange = waiting_splits, waiting_exchange

    def _file(self, description: str, moment: str) -> Path | None:
        return self.places.get((description, moment))


def received(function: Callable[..., Any], middle: Path | None, end: Path | None) -> Callable[..., Any]:
    """The function over batches of rows, which waits after the first batch, or when it has done its work."""

    def run(context: Any, *arguments: Any) -> Any:
        *task, batches = arguments
        result = function(context, *task, waiting_after_one(batches, middle))
        wait_to_be_killed(end)
        return result

    return run


def sent(function: Callable[..., Any], file: Path | None) -> Callable[..., Any]:
    """The function that sends rows, which waits after the first of them."""

    def run(context: Any, task: Any) -> Iterator[Any]:
        yield from waiting_after_one(function(context, task), file)

    return run


def waiting_after_one(items: Iterator[Any], file: Path | None) -> Iterator[Any]:
    for item in items:
        yield item
        wait_to_be_killed(file)


def wait_to_be_killed(file: Path | None) -> None:
    """Wait, if this task is the first one here."""
    if file is None:
        return
    try:
        with file.open("x") as made:
            made.write(f"{os.getpid()}\n")
    except FileExistsError:
        return
    time.sleep(WAIT_SECONDS_MAX)
    raise RuntimeError(f"nobody has killed the executor: {file.name}")


def arguments(given: Sequence[str]) -> tuple[str, Path, dict[str, Any]]:
    return given[1], Path(given[2]), json.loads(given[3])


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*arguments(sys.argv))) + "\n")
