"""What `test_streamer_on_spark.py` runs in a process of its own: `streamer_retry_program.py <folder> [errors]`.

The worker that reads the last part of a batch dies after it has sent rows, and Spark runs its task again: once in each
stage that reads the part. Prints what is in the table as one line of JSON. With `errors` there is an error table; then
it follows a database, too, and prints its rows and those of its table.
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
ROOT = str(Path(__file__).parents[2])
sys.path.insert(0, ROOT)
os.environ["PYTHONPATH"] = os.pathsep.join([ROOT, os.environ.get("PYTHONPATH", "")])  # of the workers
KEY, CHANGES = "hoodie.datasource.write.recordkey.field", 40


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
        if context is None:  # the driver reads what is little
            return
        died = Path(f"{self.died}/{type(self.part).__name__} {context.stageId()}")
        if not died.exists():
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


def follow(folder: str, spark: Any) -> dict[str, Any]:
    """The rows of a database, and those of the table that follows it."""
    from tests.support.change_data import Database
    from tests.support.message_parts import PartedBatches

    import pyhudi
    from pyhudi.storage.open import open_storage
    from pyhudi.streamer.config import StreamerConfig
    from pyhudi.streamer.ingest import ingest, new_ingestion
    from pyhudi.streamer.settings import settings_of

    database = Database("postgresql", seed=4)
    while len(database.messages) < CHANGES:
        database.change()
        database.place += 1
    messages = [message for change in database.messages for message in change if message is not None]
    conf = {"bootstrap.servers": "127.0.0.1:1", "hoodie.streamer.source.kafka.topic": "t", KEY: "id"}
    path = f"{folder}/followed"
    settings = settings_of(StreamerConfig(path, source_class="PostgresDebeziumSource", hoodie_conf=conf))
    source = DyingSource(PartedBatches([[messages[first::4] for first in range(4)]]), f"{folder}/died")
    ingest(new_ingestion(settings, source, open_storage(path), spark=spark))
    rows = pyhudi.HudiTable.for_path(path).scan(["id", "city", "big"]).to_arrow().sort_by("id").to_pylist()
    return {"database": [database.rows[key] for key in sorted(database.rows)], "followed": rows}


def queried(spark: Any, folder: str, schema: Any, conf: dict[str, str]) -> list[list[int]]:
    """The rows of another table after the same death, and a query over the rows."""
    import pyhudi
    from pyhudi.storage.open import open_storage
    from pyhudi.streamer.config import StreamerConfig
    from pyhudi.streamer.ingest import ingest, new_ingestion
    from pyhudi.streamer.settings import settings_of
    from pyhudi.streamer.sources.open import open_source

    path, died = f"{folder}/queried", f"{folder}/died_again"
    Path(died).mkdir()
    conf = {**conf, "hoodie.streamer.transformer.sql": "SELECT *, id * 2 AS twice FROM <SRC>"}
    given: dict[str, Any] = {"transformer_class": "SqlQueryBasedTransformer", "table_type": "mor"}
    given["source_ordering_fields"] = "ts"
    settings = settings_of(StreamerConfig(path, schema=schema, hoodie_conf=conf, spark=spark, **given))
    ingest(new_ingestion(settings, DyingSource(open_source(settings), died), open_storage(path), spark=spark))
    assert len(list(Path(died).iterdir())) == 1
    rows = pyhudi.HudiTable.for_path(path).scan(["id", "twice"]).to_arrow().sort_by("id")
    return [[row["id"], row["twice"]] for row in rows.to_pylist()]


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
        KEY: "id",
    }
    if names:
        conf |= {"hoodie.errortable.enable": "true", "hoodie.errortable.base.path": f"{folder}/errors"}
    schema = pa.schema([("id", pa.int64()), ("ts", pa.int64())])
    settings = settings_of(StreamerConfig(path, op="INSERT", schema=schema, hoodie_conf=conf))
    source = DyingSource(open_source(settings), died)
    ingest(new_ingestion(settings, source, open_storage(path), spark=spark))
    ids = pyhudi.HudiTable.for_path(path).scan(["id"]).to_arrow()["id"].to_pylist()
    told: dict[str, Any] = {"ids": sorted(ids)}
    for name in names:
        errors = pyhudi.HudiTable.for_path(f"{folder}/{name}").scan(["_corrupt_record"]).to_arrow()
        told[name] = sorted(text.decode() for text in errors["_corrupt_record"].to_pylist())
    if names:
        told |= follow(folder, spark)
    else:
        told["of a query"] = queried(spark, folder, schema, conf)
    told["deaths"] = sorted(file.name.partition(" ")[0] for file in Path(died).iterdir())
    spark.stop()
    sys.stdout.write(f"{json.dumps(told)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
