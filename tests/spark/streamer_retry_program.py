"""What `test_streamer_on_spark.py` runs in a process of its own: `streamer_retry_program.py <folder>`.

The worker that reads the second file of a batch dies after it has sent rows, and Spark runs its task again. Prints what
is in the table as one line of JSON.
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
    """A part whose reading kills its worker once, with rows on the way."""

    part: Any
    died: str

    @property
    def size_bytes(self) -> int:
        return self.part.size_bytes

    def batches(self, columns: Any, wanted: Any, stored: Any) -> Any:
        for batch in self.part.batches(columns, wanted, stored):
            yield batch.slice(0, 2)
            if not Path(self.died).exists():
                Path(self.died).touch()
                os._exit(1)
            yield batch.slice(2)


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


@dataclass(frozen=True)
class DyingSource:
    """A source whose parts are `DyingParts`."""

    source: Any
    died: str

    def pull(self, after: Any, *, limit: Any) -> Any:
        pull = self.source.pull(after, limit=limit)
        return None if pull is None else replace(pull, parts=DyingParts(pull.parts, self.died))


def main(folder: str) -> None:
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
    conf = {
        "hoodie.streamer.source.dfs.root": f"{folder}/landing",
        "hoodie.datasource.write.recordkey.field": "id",
    }
    schema = pa.schema([("id", pa.int64()), ("ts", pa.int64())])
    settings = settings_of(StreamerConfig(path, op="INSERT", schema=schema, hoodie_conf=conf))
    source = DyingSource(open_source(settings), died)
    ingest(new_ingestion(settings, source, open_storage(path), spark=spark))
    ids = pyhudi.HudiTable.for_path(path).scan(["id"]).to_arrow()["id"].to_pylist()
    spark.stop()
    sys.stdout.write(f"{json.dumps({'ids': sorted(ids), 'has_died': Path(died).exists()})}\n")


if __name__ == "__main__":
    main(sys.argv[1])
