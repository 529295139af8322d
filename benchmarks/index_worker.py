"""One peer's writes and reads with indexes, in one process: `python index_worker.py '<json>'`, for `index_rivals.py`.

Before and after each operation a line on stdout names it; the parent notes processor time and waits for nothing.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

KEYED = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.metadata.enable": "true",
    "hoodie.parquet.small.file.limit": "0",
}
RECORD_INDEX = {
    **KEYED,
    "hoodie.table.name": "keyed",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
}
STATISTICS = {
    **KEYED,
    "hoodie.table.name": "small",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
}


class Tables:
    """The tables of one turn, written and read by one peer. Without Spark rows are read from Parquet by Arrow."""

    def __init__(self, folder: Path, spark: Any) -> None:
        self.folder, self.spark = folder, spark

    def write(self, table: str, rows: str, operation: str, options: dict[str, str], mode: str = "append") -> None:
        options = {**options, "hoodie.datasource.write.operation": operation}
        path = str(self.folder / table)
        if self.spark is not None:
            self.spark.read.parquet(rows).write.format("hudi").options(**options).mode(mode).save(path)
            return
        import pyarrow.parquet as pq

        import pyhudi

        pyhudi.save(pq.read_table(rows), path, mode=mode, hudi_options=options)

    def find(self, key: str) -> None:
        path = str(self.folder / "keyed")
        if self.spark is not None:
            reader = self.spark.read.format("hudi").option("hoodie.metadata.enable", "true")
            assert len(reader.load(path).where(f"id = '{key}'").collect()) == 1
            return
        import pyhudi

        assert pyhudi.HudiTable.for_path(path).lookup([key]).num_rows == 1


def main() -> None:
    request = json.loads(sys.argv[1])
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    module, _, name = request["peer"].partition(":")
    peer = getattr(importlib.import_module(module), name)(Path(request["work"]), request["jars"])
    peer.start()
    for turn, rows in request["inputs"].items():
        tables = Tables(Path(request["work"]) / turn, getattr(peer, "spark", None))
        tables.write("small", rows["small"], "bulk_insert", STATISTICS, "overwrite")
        actions: list[tuple[str, Callable[[], None]]] = [
            ("bulk insert", partial(tables.write, "keyed", rows["all"], "bulk_insert", RECORD_INDEX, "overwrite")),
            ("upsert by record index", partial(tables.write, "keyed", rows["some"], "upsert", RECORD_INDEX)),
            *(("lookup", partial(tables.find, key)) for key in rows["keys"]),
            *(("small commit", partial(tables.write, "small", few, "upsert", STATISTICS)) for few in rows["few"]),
        ]
        for operation, act in actions:
            print(json.dumps([turn, operation, "begin"]), file=out, flush=True)
            act()
            print(json.dumps([turn, operation, "end"]), file=out, flush=True)
    peer.stop()


if __name__ == "__main__":
    main()
