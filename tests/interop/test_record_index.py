"""The record index between two engines: what one writes into it, the other finds its records by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle

import pyhudi
from pyhudi.metadata_table import entries

SCHEMA: Final = pa.schema([("id", pa.string()), ("p", pa.string()), ("ts", pa.int64()), ("v", pa.int64())])
TABLE: Final = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.compact.inline": "false",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "4",
}
OURS: Final = {**TABLE, "hoodie.index.type": "RECORD_INDEX"}
THEIRS: Final = {**TABLE, "hoodie.index.type": "RECORD_INDEX", "hoodie.datasource.write.operation": "upsert"}
#: Keys whose order by UTF-16 is not that of their bytes, and one that is long.
SPECIAL: Final = ("\ue000", "\U0001f600", "é$\\", "x" * 5000)


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        pytest.param(9, "COPY_ON_WRITE", marks=pytest.mark.quick),
        (9, "MERGE_ON_READ"),
        (8, "MERGE_ON_READ"),
        (6, "COPY_ON_WRITE"),
    ],
)
def test_jvm_hudi_finds_every_record_by_the_index_that_we_keep(
    oracle_of: Callable[[str], Oracle],
    tmp_path: Path,
    version: int,
    kind: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    oracle, path = oracle_of(RELEASE_OF_TABLE_VERSION[version]), tmp_path / "t"
    ours = {**OURS, "hoodie.datasource.write.table.type": kind, "hoodie.write.table.version": str(version)}
    theirs = {**THEIRS, "hoodie.datasource.write.table.type": kind, "hoodie.write.table.version": str(version)}
    keys = [*SPECIAL, *(f"k{number:03}" for number in range(60))]
    pyhudi.save(_rows(keys[:40], ts=1), str(path), hudi_options=ours)
    table = pyhudi.HudiTable.for_path(str(path), hudi_options=ours)
    table.upsert(_rows(keys[30:50], ts=3))
    table.refresh().delete(_rows(keys[2:4], ts=4).select(["id", "p"]))
    table.refresh().upsert(_rows(keys[10:12], ts=0))
    if kind == "MERGE_ON_READ":
        table.refresh().services.compact()
    table.refresh().services.cluster(hudi_options={"hoodie.clustering.plan.strategy.small.file.limit": "100000000"})
    table.refresh().insert_overwrite(_rows([*keys[5:9], "other"], ts=5, partition="p1"))
    here = set(table.refresh().scan(["id"]).to_arrow().column("id").to_pylist())
    oracle.write(path, _rows(keys, ts=9), theirs)
    after = oracle.read(path)
    assert set(_once(after)) == here | set(keys)
    assert set(after.column("ts").to_pylist()) == ({9, 5} if "other" in here else {9})
    found = pyhudi.HudiTable.for_path(str(path)).scan(SCHEMA.names).to_arrow()
    assert sorted(found.to_pylist(), key=repr) == sorted(after.select(SCHEMA.names).to_pylist(), key=repr)
    _take_turns(oracle, path, ours, theirs, keys)
    assert "record index" not in caplog.text  # it was never passed over


@pytest.mark.parametrize("version", [9, 8, 6])
def test_jvm_hudi_finds_every_record_by_an_index_written_in_many_pieces(
    oracle_of: Callable[[str], Oracle], tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "RUN_BYTES", 1_000)
    monkeypatch.setattr(entries, "PIECE_BYTES", 100)
    oracle, path = oracle_of(RELEASE_OF_TABLE_VERSION[version]), tmp_path / "t"
    kind = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.write.table.version": str(version)}
    without = {**OURS, **kind, "hoodie.metadata.record.index.enable": "false", "hoodie.index.type": "SIMPLE"}
    keys = [*SPECIAL, *(f"k{number:03}" for number in range(300))]
    pyhudi.save(_rows(keys[:200], ts=1), str(path), hudi_options=without)
    table = pyhudi.HudiTable.for_path(str(path), hudi_options={**OURS, **kind})
    table.indexes.create("record_index")
    table.refresh().upsert(_rows(keys[150:], ts=3))
    table.refresh().delete(_rows(keys[20:120], ts=4).select(["id", "p"]))

    oracle.write(path, _rows(keys, ts=9), {**THEIRS, **kind})
    after = oracle.read(path)
    assert sorted(_once(after)) == sorted(keys)
    assert set(after.column("ts").to_pylist()) == {9}


@pytest.mark.parametrize("undone_by", [pytest.param("JVM Hudi", marks=pytest.mark.quick), "pyhudi"])
@pytest.mark.filterwarnings("ignore:the index .* is not used:pyhudi.errors.MetadataTableWarning")
def test_index_that_jvm_hudi_built_with_a_deletion_loses_no_record_once_that_is_rolled_back(
    oracle_of: Callable[[str], Oracle], tmp_path: Path, undone_by: str
) -> None:
    oracle, path = oracle_of(RELEASE_OF_TABLE_VERSION[6]), tmp_path / "t"
    options = {**OURS, "hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.write.table.version": "6"}
    keys = [f"k{number}" for number in range(9)]
    without = {**options, "hoodie.metadata.record.index.enable": "false", "hoodie.index.type": "SIMPLE"}
    pyhudi.save(_rows(keys, ts=1), str(path), hudi_options=without)
    table = pyhudi.HudiTable.for_path(str(path), hudi_options=without)
    table.delete(_rows(keys[3:5], ts=4).select(["id", "p"]))
    oracle.write(path, _rows(["new"], ts=5), {**THEIRS, "hoodie.datasource.write.table.type": "MERGE_ON_READ"})
    assert "record_index" in table.refresh().handle.state.config.metadata_partitions, "it builds the index"

    name = f"undone_by_{undone_by[:3].lower()}"
    oracle.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    for write in reversed(table.handle.state.timeline.completed_writes[-2:]):
        if undone_by == "pyhudi":
            table.refresh().recovery.rollback(write.requested_time)
        else:
            oracle.sql(f"CALL rollback_to_instant(table => '{name}', instant_time => '{write.requested_time}')")

    for key in keys:
        assert pyhudi.HudiTable.for_path(str(path)).scan(where=[("id", "==", key)]).count() == 1
    pyhudi.HudiTable.for_path(str(path), hudi_options=options).upsert(_rows(keys[2:6], ts=9))
    assert sorted(_once(oracle.read(path))) == keys


def _take_turns(oracle: Oracle, path: Path, ours: dict[str, str], theirs: dict[str, str], keys: list[str]) -> None:
    """Both engines write in turn; neither stores a key a second time."""
    for turn in range(2):
        table = pyhudi.HudiTable.for_path(str(path), hudi_options=ours)
        table.upsert(_rows([*keys[:10], f"ours{turn}"], ts=20 + turn))
        oracle.write(path, _rows([*keys[5:15], f"ours{turn}", f"theirs{turn}"], ts=30 + turn), theirs)
        assert "record_index" in table.refresh().handle.state.config.metadata_partitions
    _once(oracle.read(path))


def _once(rows: pa.Table) -> list[str]:
    """The keys of all rows, each of which must be there once."""
    counts = Counter(rows.column("_hoodie_record_key").to_pylist())
    assert max(counts.values()) == 1, counts.most_common(3)
    return list(counts)


def _rows(keys: list[str], *, ts: int, partition: str | None = None) -> pa.Table:
    paths = [partition or f"p{len(key) % 3}" for key in keys]
    columns = [keys, paths, [ts] * len(keys), list(range(len(keys)))]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )
