"""What `test_streamer_on_spark.py` runs in a process of its own: `streamer_retry_program.py <folder> [errors]`.

The worker that reads the last file of a batch dies after it has sent rows, and Spark runs its task again: once in each
stage that reads the file. Prints what is in the table, and in the error table if there is one, as one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore", category=FutureWarning)


@dataclass(frozen=True)
class DyingPart:
    """A part whose reading kills its worker once in a stage, with rows on the way."""

    part: Any
    died: str

    @property
    def size_bytes(self) -> int:
        return self.part.size_bytes

    def batches(self, columns: Any, wanted: Any, stored: Any) -> Any:
        for batch in self.part.batches(columns, wanted, stored):
            yield batch.slice(0, 2)
            self.die()
            yield batch.slice(2)

    def read_apart(self, wanted: Any, stored: Any, **given: Any) -> Any:
        apart = self.part.read_apart(wanted, stored, **given)
        self.die()
        return apart

    def die(self) -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None and not (died := Path(f"{self.died}/{context.stageId()}")).exists():
            died.touch()
            os._exit(1)


@dataclass(frozen=True)
class DyingParts:
    """The parts of a batch, of which the last one dies."""

    parts: Any
    died: str

    @property
    def tasks(self) -> Any:
        *others, last = self.parts.tasks
        return [*others, DyingPart(last, self.died)]

    def columns(self, tell: Any, wanted: Any, stored: Any) -> Any:
        return self.parts.columns(tell, wanted, stored)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.parts, name)


@dataclass(frozen=True)
class DyingSource:
    """A source whose parts are `DyingParts`."""

    source: Any
    died: str

    def pull(self, after: Any, *, limit: Any) -> Any:
        pull = self.source.pull(after, limit=limit)
        return None if pull is None else replace(pull, parts=DyingParts(pull.parts, self.died))


def main(folder: str, *names: str) -> None:
    import pyarrow as pa

    import pyhudi
    from pyhudi.storage.open import open_storage
    from pyhudi.streamer.config import StreamerConfig
    from pyhudi.streamer.ingest import ingest, new_ingestion
    from pyhudi.streamer.settings import settings_of
    from pyhudi.streamer.sources.open import open_source

    config = {"spark.driver.memory": "1g", "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "2"}
    spark = pyhudi.spark_session(master="local[2, 3]", config=config)
    path, died = f"{folder}/table", f"{folder}/died"
    Path(died).mkdir()
    conf = {
        "hoodie.streamer.source.dfs.root": f"{folder}/landing",
        "hoodie.datasource.write.recordkey.field": "id",
    }
    if names:
        conf |= {"hoodie.errortable.enable": "true", "hoodie.errortable.base.path": f"{folder}/errors"}
    schema = pa.schema([("id", pa.int64()), ("ts", pa.int64())])
    settings = settings_of(StreamerConfig(path, op="INSERT", schema=schema, hoodie_conf=conf))
    source = DyingSource(open_source(settings), died)
    ingest(new_ingestion(settings, source, open_storage(path), spark=spark))
    ids = pyhudi.HudiTable.for_path(path).scan(["id"]).to_arrow()["id"].to_pylist()
    told: dict[str, Any] = {"ids": sorted(ids), "deaths": len(list(Path(died).iterdir()))}
    for name in names:
        errors = pyhudi.HudiTable.for_path(f"{folder}/{name}").scan(["_corrupt_record"]).to_arrow()
        told[name] = sorted(text.decode() for text in errors["_corrupt_record"].to_pylist())
    spark.stop()
    sys.stdout.write(f"{json.dumps(told)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
