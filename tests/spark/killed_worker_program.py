"""What `test_markers_on_spark.py` runs in a process of its own: `killed_worker_program.py <folder>`.

Two workers die in the middle of the first attempt of a task: one has sent rows to the tasks that write files, the other
has half a data file on disk. Spark tries both tasks again. Prints what is there after the commit as one line of JSON.

Speculation gives the same picture, but Spark starts no second attempt on the host of the first one.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore", category=FutureWarning)


def dying_once(folder: str) -> Any:
    """A stand-in for the task's function: the worker that comes first to the second task dies before its file ends."""

    def write(context: Any, task: Any, incoming: Any) -> Any:
        from pyhudi.io import base_file
        from pyhudi.tasks import data_file, rewrite_base

        class DyingWriter(base_file.BaseFileWriter):
            def close(self, *args: Any) -> Any:
                if context.partition == 1:
                    try:
                        with Path(folder, "died").open("x") as file:
                            file.write(context.write_token)
                    except FileExistsError:
                        return super().close(*args)
                    self.flush()
                    os._exit(1)
                return super().close(*args)

        data_file.BaseFileWriter = DyingWriter
        try:
            return rewrite_base.write_base_file(context, task, incoming)
        finally:
            data_file.BaseFileWriter = base_file.BaseFileWriter

    return write


def dying_sender(folder: str) -> Any:
    """A stand-in for the function that sends rows: the worker of the first split dies once, after it has sent some."""

    def send(assignment_of_file: Any, context: Any, task: Any) -> Any:
        from pyhudi.tasks import route

        for addressed in route.send_routed(assignment_of_file, context, task):
            yield addressed
            if context.partition == 0 and not Path(folder, "sender died").exists():
                Path(folder, "sender died").touch()
                os._exit(1)

    return send


def written(spark: Any, folder: Path, markers: str) -> dict[str, Any]:
    from pyhudi.format.file_names import parse_data_file
    from pyhudi.storage.local import LocalStorage
    from pyhudi.table.commits import load_commit_metadata
    from pyhudi.table.state import load_table
    from pyhudi.transaction import transaction
    from pyhudi.write import placement, staged

    folder.mkdir()
    path = str(folder / "t")
    storage = LocalStorage(path)

    def data_files() -> list[str]:
        return sorted(info.path for info in storage.list_recursive("") if parse_data_file(info.name))

    before_the_commit: list[str] = []
    staged.write_file_group = dying_once(str(folder))
    placement.send_routed = dying_sender(str(folder))
    transaction.load_markers = spied_on(transaction.load_markers, lambda: before_the_commit.extend(data_files()))
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "uuid",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.write.markers.type": markers,
    }
    rows = spark.range(0, 400, 1, 2).selectExpr("cast(id as string) uuid", "concat('c', id % 4) city")
    rows.write.format("hudi").options(**options).mode("append").save(path)
    table = load_table(storage)
    metadata = load_commit_metadata(storage, table.timeline.completed_writes[-1], table.version)
    died = f"_{(folder / 'died').read_text()}_"
    return {
        "half files before": sum(died in one for one in before_the_commit),
        "half files after": sum(died in one for one in data_files()),
        "sender died": (folder / "sender died").exists(),
        "rows": spark.read.format("hudi").load(path).count(),
        "files": data_files(),
        "listed": sorted(metadata.paths()),
        "left over": [info.path for info in storage.list_recursive(".hoodie/.temp")],
    }


def spied_on(function: Any, before: Any) -> Any:
    def call(*arguments: Any) -> Any:
        before()
        return function(*arguments)

    return call


def main(folder: str) -> None:
    import pyhudi
    from pyhudi.spark import engine

    engine.IN_PROCESS_BYTES_MAX = 0
    config = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    spark = pyhudi.spark_session(master="local[2,4]", config=config)
    seen = {markers: written(spark, Path(folder) / markers, markers) for markers in ("DIRECT", "TIMELINE_SERVER_BASED")}
    sys.stdout.write(f"{json.dumps(seen)}\n")


if __name__ == "__main__":
    main(sys.argv[1])
