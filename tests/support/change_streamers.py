"""Streamers of change data for tests, whose source is a list of batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from tests.support.ingestions import ingestion

from pyhudi.storage.protocol import Storage
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.config import StreamerConfig
from pyhudi.streamer.ingest import Ingestion
from pyhudi.streamer.settings import settings_of
from pyhudi.streamer.sources.protocol import Pull

CLASSES = {"postgresql": "PostgresDebeziumSource", "mysql": "MysqlDebeziumSource", "maxwell": "JsonKafkaSource"}
MAXWELL = {"hoodie.streamer.source.json.kafka.post.processor.class": "a.b.MaxwellJsonKafkaSourcePostProcessor"}


@dataclass(frozen=True)
class Batches:
    """A source of these batches. Its checkpoint is how many were read."""

    batches: list[pa.Table]

    def pull(self, after: Checkpoint, *, limit: int | None) -> Pull | None:
        del limit
        number = int(after.text or 0)
        if number == len(self.batches):
            return None
        rows = self.batches[number]
        return Pull(reached=Checkpoint(text=str(number + 1)), read=lambda *_: rows, items=rows.num_rows)


def streamer(
    source: Batches | None, storage: Storage, kind: str, options: Mapping[str, str] | None = None, **given: Any
) -> Ingestion:
    conf = {
        "bootstrap.servers": "127.0.0.1:1",
        "hoodie.streamer.source.kafka.topic": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        **(MAXWELL if kind == "maxwell" else {}),
        **(options or {}),
    }
    config = StreamerConfig("memory://t/table", source_class=f"org.apache.{CLASSES[kind]}", hoodie_conf=conf, **given)
    found = ingestion(settings_of(config), storage)
    return found if source is None else dataclasses.replace(found, source=source)
