"""Checkpoints of the streamer in tables that JVM Hudi writes, too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.ingestions import FIRST_MS, Landing
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle

import pyhudi
import pyhudi.streamer
from pyhudi.storage.open import open_storage
from pyhudi.streamer import StreamerConfig
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.ingest import ingest, new_ingestion
from pyhudi.streamer.settings import settings_of
from pyhudi.streamer.sources.protocol import Pull

OracleOf = Callable[[str], Oracle]
V1, V2 = "deltastreamer.checkpoint.key", "streamer.checkpoint.key.v2"
WITH_CHECKPOINT_UTILS = [("1.0.2", 8), ("1.1.1", 9), ("1.2.0", 9)]
"""Releases that can be asked for the checkpoint of a commit, and the version of the tables that they make."""


@pytest.mark.parametrize(("version", "key"), [(6, V1), (8, V2), (9, V1)])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_streamer_goes_on_after_commits_of_jvm_hudi_and_keeps_its_checkpoint_among_them(
    oracle_of: OracleOf, tmp_path: Path, version: int, key: str, table_type: str
):
    oracle = oracle_of(RELEASE_OF_TABLE_VERSION[version])
    path, landing = tmp_path / "t", Landing(tmp_path / "landing")
    for number in range(4):
        landing.put(f"f{number}", [number], ms=FIRST_MS + number)
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "id",
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.write.table.version": str(version),
        "hoodie.metadata.enable": "false",  # checkpoints are in commits alone
    }
    row = pa.table({"id": pa.array([100], pa.int64()), "note": ["of JVM Hudi"]})
    # As HoodieStreamer leaves the table after it has read the files f0 and f1.
    prefix = {"hoodie.datasource.write.commitmeta.key.prefix": key.partition(".")[0] + "."}
    oracle.write(path, row, {**options, **prefix, key: str(FIRST_MS + 1)})

    def ingest() -> pyhudi.streamer.StreamerResult:
        return pyhudi.streamer.run(
            path,
            op="INSERT",
            source_limit=1,
            hoodie_conf={"hoodie.streamer.source.dfs.root": str(landing.folder)},
        )

    assert ingest().items == 1
    oracle.write(path, row, options)
    assert ingest().items == 1
    assert ingest().items == 0
    expected = [2, 3, 100]
    assert sorted(pyhudi.HudiTable.for_path(path).scan(["id"]).to_arrow()["id"].to_pylist()) == expected
    assert sorted(oracle.read(path)["id"].to_pylist()) == expected


@pytest.mark.parametrize(("release", "version"), WITH_CHECKPOINT_UTILS)
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_jvm_hudi_finds_the_checkpoint_after_commits_that_were_archived(
    oracle_of: OracleOf, tmp_path: Path, release: str, version: int, table_type: str
):
    path, landing = tmp_path / "t", Landing(tmp_path / "landing")
    landing.put("f", [1], ms=FIRST_MS)
    conf = {
        "hoodie.streamer.source.dfs.root": str(landing.folder),
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.write.table.version": str(version),
    }
    pyhudi.streamer.run(path, table_type=table_type, hoodie_conf=conf)
    table = pyhudi.HudiTable.for_path(path)
    first = table.inspect.last_write().instant
    options = {
        "hoodie.write.rolling.metadata.keys": V1,
        "hoodie.keep.min.commits": "4",
        "hoodie.keep.max.commits": "5",
        "hoodie.clean.commits.retained": "2",
    }
    for number in range(12):
        table.upsert(pa.table({"id": pa.array([100 + number]), "note": ["x"]}), hudi_options=options)
    active = table.refresh().inspect.timeline()["instant"].to_pylist()
    assert first not in active
    assert oracle_of(release).newest_commit(path)["checkpoint"] == str(FIRST_MS)


@dataclass(frozen=True)
class OneBatch:
    """A source with one row, which is at this checkpoint then."""

    text: str

    def pull(self, after: Checkpoint, *, limit: int | None) -> Pull | None:
        del limit
        if after.text is not None:
            return None
        rows = pa.table({"id": pa.array([1], pa.int64())})
        return Pull(reached=Checkpoint(text=self.text), read=lambda *_: rows, items=1)


@pytest.mark.parametrize(("release", "version"), WITH_CHECKPOINT_UTILS)
@pytest.mark.parametrize("text", ["orders,0:5,1:0,2:71", "1700000000000", "2026-11-26 10:00:00.5"])
def test_jvm_hudi_reads_the_checkpoints_of_our_sources(
    oracle_of: OracleOf, tmp_path: Path, release: str, version: int, text: str
):
    conf = {
        "hoodie.streamer.source.dfs.root": str(tmp_path),
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.write.table.version": str(version),
    }
    settings = settings_of(StreamerConfig(tmp_path / "t", hoodie_conf=conf))
    assert ingest(new_ingestion(settings, OneBatch(text), open_storage(settings.path))) is not None
    assert oracle_of(release).newest_commit(tmp_path / "t")["checkpoint"] == text


@pytest.mark.parametrize(("release", "version"), WITH_CHECKPOINT_UTILS)
def test_jvm_hudi_reads_the_checkpoint_of_a_table_as_source(
    oracle_of: OracleOf, tmp_path: Path, release: str, version: int
):
    conf = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.write.table.version": str(version)}
    rows = pa.table({"id": pa.array([1], pa.int64())})
    pyhudi.save(rows, tmp_path / "source", hudi_options={"hoodie.table.name": "source", **conf})
    of_source = {"hoodie.streamer.source.hoodieincr.path": str(tmp_path / "source")}
    result = pyhudi.streamer.run(tmp_path / "copy", source_class="HoodieIncrSource", hoodie_conf={**of_source, **conf})
    assert result.rows == 1
    newest = oracle_of(release).newest_commit(tmp_path / "copy")
    assert newest["checkpoint"] == result.checkpoint


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_event_times_in_commits_are_read_by_jvm_hudi_and_those_of_jvm_hudi_by_us(
    oracle_of: OracleOf, tmp_path: Path, table_type: str
):
    oracle, path = oracle_of("1.2.0"), tmp_path / "t"
    of_avro = "org.apache.hudi.common.model.HoodieAvroRecordMerger"
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.write.track.event.time.watermark": "true",
        "hoodie.payload.event.time.field": "ts",
        "hoodie.metadata.enable": "false",
        # JVM Hudi keeps event times of Avro's records only.
        "hoodie.write.record.merge.custom.implementation.classes": of_avro,
        "hoodie.datasource.write.record.merger.impls": of_avro,
    }
    kept = {"hoodie.datasource.write.commitmeta.key.prefix": "deltastreamer.", V1: "1"}
    times = pa.array([FIRST_MS + 7, FIRST_MS + 3], pa.int64())
    oracle.write(path, pa.table({"id": pa.array([1, 2]), "ts": times}), {**options, **kept})
    jvm = oracle.newest_commit(path)
    assert (jvm["smallest"], jvm["largest"]) == (FIRST_MS + 3, FIRST_MS + 7)
    table = pyhudi.HudiTable.for_path(path)
    assert table.watermark().time == datetime.fromtimestamp((FIRST_MS + 7) / 1000, UTC)
    tracked = {name: text for name, text in options.items() if "event.time" in name}
    rows = pa.table({"id": pa.array([3, 4]), "ts": pa.array([FIRST_MS + 20, FIRST_MS + 9], pa.int64())})
    table.upsert(rows, hudi_options={**tracked, **kept})
    ours = oracle.newest_commit(path)
    assert (ours["smallest"], ours["largest"]) == (FIRST_MS + 9, FIRST_MS + 20)
    assert table.refresh().watermark().time == datetime.fromtimestamp((FIRST_MS + 20) / 1000, UTC)
