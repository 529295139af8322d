"""Queries as a source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.ingestions import ids_in, ingestion

from pyhudi.errors import ConfigError, SourceError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.streamer.config import StreamerConfig
from pyhudi.streamer.ingest import checkpoint_of, ingest
from pyhudi.streamer.settings import Settings, settings_of

pytest.importorskip("duckdb")
QUERY = "hoodie.streamer.source.sql.sql.query"
FILE = "hoodie.streamer.source.sql.file"


def settings(kind: str, options: dict[str, str], **given: Any) -> Settings:
    conf = {"hoodie.datasource.write.recordkey.field": "id", **options}
    return settings_of(StreamerConfig("memory://t/table", kind, hoodie_conf=conf, **given))


def test_rows_of_a_query_are_written_each_time(tmp_path: Path):
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "a.parquet")
    storage = MemoryStorage()
    given = settings("SqlSource", {QUERY: f"SELECT id FROM '{tmp_path}/*.parquet' WHERE id > 1"})
    first = ingest(ingestion(given, storage))
    assert first is not None
    assert first.checkpoint is None
    assert ids_in(storage) == [2, 3]
    pq.write_table(pa.table({"id": [4]}), tmp_path / "b.parquet")
    assert ingest(ingestion(given, storage)) is not None
    assert ids_in(storage) == [2, 3, 4]
    assert checkpoint_of(ingestion(given, storage)) is None


def test_query_in_a_file_keeps_its_time_if_asked_for(tmp_path: Path):
    (tmp_path / "q.sql").write_text("SELECT 1 AS id")
    storage = MemoryStorage()
    options = {FILE: str(tmp_path / "q.sql"), "hoodie.streamer.source.sql.checkpoint.emit": "true"}
    first = ingest(ingestion(settings("SqlFileBasedSource", options), storage))
    second = ingest(ingestion(settings("SqlFileBasedSource", options), storage))
    assert first is not None
    assert second is not None
    assert int(str(second.checkpoint)) >= int(str(first.checkpoint)) > 1_700_000_000_000
    assert ids_in(storage) == [1]


def test_query_that_fails_writes_nothing():
    storage = MemoryStorage()
    with pytest.raises(SourceError, match="the query of the source failed"):
        ingest(ingestion(settings("SqlSource", {QUERY: "SELECT x FROM nowhere"}), storage))
    assert storage.list_recursive("") == ()


@pytest.mark.parametrize(
    ("kind", "options"),
    [("SqlSource", {}), ("SqlFileBasedSource", {}), ("SqlFileBasedSource", {FILE: "/nowhere/q.sql"})],
)
def test_missing_queries_are_refused(kind: str, options: dict[str, str]):
    with pytest.raises(ConfigError):
        ingestion(settings(kind, options), MemoryStorage())
