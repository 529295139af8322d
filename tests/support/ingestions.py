"""Streamers for tests: a folder of JSON files, a table in memory, and a clock that the test owns."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.kafka import Broker
from tests.support.tables import StepClock, environment, open_table

from pyhudi.engine.local import LocalEngine
from pyhudi.environment import Environment
from pyhudi.storage.protocol import Storage
from pyhudi.streamer.config import StreamerConfig
from pyhudi.streamer.error_table import error_table_of
from pyhudi.streamer.ingest import Ingestion, ingest
from pyhudi.streamer.settings import Settings, settings_of
from pyhudi.streamer.sources.open import open_source

FIRST_MS = 1_700_000_000_000
"""The time of the files of a landing folder, unless the test says another."""


@dataclass(frozen=True)
class Landing:
    """A folder into which files are put."""

    folder: Path

    def put(self, name: str, ids: Iterable[int], *, ms: int = FIRST_MS) -> None:
        """A file with a row for each id, of a time in milliseconds."""
        self.put_text(name, "\n".join(json.dumps({"id": number, "note": f"{name}:{number}"}) for number in ids), ms=ms)

    def put_text(self, name: str, text: str, *, ms: int = FIRST_MS) -> None:
        """A file with this content."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, ns=(ms * 1_000_000, ms * 1_000_000))


def settings(landing: Landing, options: Mapping[str, str] | None = None, **given: Any) -> Settings:
    """The settings of a streamer from this folder; `op` is INSERT, by which a row that is read twice is there twice."""
    conf = {
        "hoodie.streamer.source.dfs.root": str(landing.folder),
        "hoodie.datasource.write.recordkey.field": "id",
        **(options or {}),
    }
    return settings_of(StreamerConfig("memory://t/table", **{"op": "INSERT", **given}, hoodie_conf=conf))


def topic_settings(broker: Broker, topic: str, options: Mapping[str, str] | None = None, **given: Any) -> Settings:
    """The settings of a streamer of a topic; `op` is INSERT, by which a message that is read twice is there twice."""
    conf = {
        "bootstrap.servers": broker.servers,
        "hoodie.streamer.source.kafka.topic": topic,
        "hoodie.datasource.write.recordkey.field": "id",
        **(options or {}),
    }
    arguments: dict[str, Any] = {"source_class": "JsonKafkaSource", "op": "INSERT", **given}
    return settings_of(StreamerConfig("memory://t/table", hoodie_conf=conf, **arguments))


def ingestion(given: Settings, storage: Storage, env: Environment | None = None) -> Ingestion:
    """A streamer of one thread."""
    return Ingestion(
        settings=given,
        source=open_source(given),
        storage=storage,
        engine=LocalEngine(parallelism=1),
        errors=error_table_of(given.path, given.options),
        environment=env or environment(StepClock()),
    )


def run_until_idle(given: Ingestion) -> int:
    """Rounds of a streamer until nothing is new; how many batches they made."""
    batches = 0
    while ingest(given) is not None:
        batches += 1
    return batches


def ids_in(storage: Storage) -> list[int]:
    """The ids in a table, each as often as it is there."""
    return sorted(open_table(storage).scan(["id"]).to_arrow()["id"].to_pylist())
