"""A Hudi table as a source."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.ingestions import ids_in, ingestion, run_until_idle
from tests.support.tables import open_table

import pyhudi
from pyhudi.errors import ConfigError, SourceError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.streamer.checkpoints import KEY_V1, KEY_V2, last_commit
from pyhudi.streamer.config import StreamerConfig
from pyhudi.streamer.ingest import Ingestion, ingest
from pyhudi.streamer.settings import settings_of

INSTANTS = {"hoodie.streamer.source.hoodieincr.num_instants": "1"}


def source_table(folder: Path, *batches: list[int], version: int = 9) -> pyhudi.HudiTable:
    """A table with a write for each batch of ids."""
    options = {
        "hoodie.table.name": "s",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.write.table.version": str(version),
    }
    for ids in batches:
        rows = pa.table({"id": ids, "note": [f"n{number}" for number in ids]})
        pyhudi.save(rows, folder / "source", hudi_options=options)
    return pyhudi.HudiTable.for_path(folder / "source")


def streamer(folder: Path, storage: Storage, options: dict[str, str] | None = None, **given: Any) -> Ingestion:
    conf = {
        "hoodie.streamer.source.hoodieincr.path": str(folder / "source"),
        "hoodie.datasource.write.recordkey.field": "id",
        **(options or {}),
    }
    config = StreamerConfig(
        "memory://t/table", source_class="org.apache.x.HoodieIncrSource", hoodie_conf=conf, **{"op": "INSERT", **given}
    )
    return ingestion(settings_of(config), storage)


@pytest.mark.parametrize(("version", "key"), [(6, KEY_V1), (8, KEY_V2), (9, KEY_V2)])
def test_each_write_of_the_table_is_read_once(tmp_path: Path, version: int, key: str):
    storage = MemoryStorage()
    source_table(tmp_path, [1, 2], [3], version=version)
    assert run_until_idle(streamer(tmp_path, storage)) == 1
    table = source_table(tmp_path, [4, 5], [6], version=version)
    assert run_until_idle(streamer(tmp_path, storage)) == 1
    assert ids_in(storage) == [1, 2, 3, 4, 5, 6]
    last = last_commit(open_table(storage).handle.state)
    assert last is not None
    assert last.kept[key] == table.inspect.position()


def test_writes_are_read_so_many_at_a_time(tmp_path: Path):
    storage = MemoryStorage()
    source_table(tmp_path, [1])
    run_until_idle(streamer(tmp_path, storage))
    source_table(tmp_path, [2], [3], [4])
    assert run_until_idle(streamer(tmp_path, storage, INSTANTS)) == 3
    assert ids_in(storage) == [1, 2, 3, 4]


def test_instant_of_jvm_hudi_is_gone_on_from(tmp_path: Path):
    first = source_table(tmp_path, [1]).inspect.last_write()
    assert first is not None
    source_table(tmp_path, [2])
    for text in (
        f"resumeFromInstantRequestTime:{first.instant}",
        f"resumeFromInstantCompletionTime:{first.completion_time}",
        first.instant,
        first.completion_time,
    ):
        storage = MemoryStorage()
        given = streamer(tmp_path, storage, checkpoint=text)
        assert run_until_idle(given) == 1
        assert ids_in(storage) == [2], text


def test_unknown_instant_and_missing_table_are_refused(tmp_path: Path):
    with pytest.raises(SourceError, match="no Hudi table"):
        ingest(streamer(tmp_path, MemoryStorage()))
    source_table(tmp_path, [1])
    with pytest.raises(ConfigError, match="no such completed write"):
        ingest(streamer(tmp_path, MemoryStorage(), checkpoint="resumeFromInstantRequestTime:20010101000000000"))
    with pytest.raises(ConfigError, match="hoodieincr"):
        streamer(tmp_path, MemoryStorage(), {"hoodie.streamer.source.hoodieincr.path": ""})


@pytest.mark.parametrize("version", [6, 9])
def test_checkpoint_of_a_table_that_stood_here_before_is_refused(tmp_path: Path, version: int):
    other = tmp_path / "other"
    source_table(other, [11], version=version)
    storage = MemoryStorage()
    source_table(tmp_path, [1, 2], version=version)
    run_until_idle(streamer(tmp_path, storage))
    shutil.rmtree(tmp_path / "source")
    (other / "source").rename(tmp_path / "source")
    source_table(tmp_path, [13], version=version)
    with pytest.raises(ConfigError, match="another table"):
        ingest(streamer(tmp_path, storage))
    assert ids_in(storage) == [1, 2]
    assert run_until_idle(streamer(tmp_path, storage, ignore_checkpoint="the table was replaced")) == 1
    assert ids_in(storage) == [1, 2, 11, 13]


@pytest.mark.parametrize("version", [6, 9])
def test_table_that_was_moved_or_restored_keeps_its_checkpoint(tmp_path: Path, version: int):
    storage = MemoryStorage()
    table = source_table(tmp_path, [1], version=version)
    first = table.inspect.last_write()
    assert first is not None
    table.savepoints.create(first.instant)
    source_table(tmp_path, [2], version=version)
    run_until_idle(streamer(tmp_path, storage))
    table.refresh().recovery.restore(first.instant)
    (tmp_path / "moved").mkdir()
    (tmp_path / "source").rename(tmp_path / "moved" / "source")
    source_table(tmp_path / "moved", [3], version=version)
    assert run_until_idle(streamer(tmp_path / "moved", storage)) == 1
    assert ids_in(storage) == [1, 2, 3]


def test_deleted_rows_are_deleted_in_the_copy_if_changes_are_asked_for(tmp_path: Path):
    storage = MemoryStorage()
    options = {
        "hoodie.table.name": "s",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.table.cdc.enabled": "true",
    }
    path = tmp_path / "source"

    def put(*ids: int) -> pyhudi.HudiTable:
        rows = pa.table({"id": list(ids), "note": [f"n{number}" for number in ids]})
        pyhudi.save(rows, path, hudi_options=options)
        return pyhudi.HudiTable.for_path(path)

    def delete(*ids: int) -> None:
        pyhudi.HudiTable.for_path(path).delete(pa.table({"id": list(ids)}))

    cdc = {"hoodie.datasource.query.incremental.format": "cdc"}
    given = streamer(tmp_path, storage, cdc, op="UPSERT")
    put(1, 2, 3, 4)
    assert run_until_idle(given) == 1
    assert ids_in(storage) == [1, 2, 3, 4]
    delete(2, 3)
    put(3)  # came back
    delete(4)
    put(4)
    delete(4)  # deleted twice
    assert run_until_idle(given) == 1
    assert ids_in(storage) == [1, 3]
    put(5)
    delete(1)
    assert run_until_idle(streamer(tmp_path, storage, {**cdc, **INSTANTS}, op="UPSERT")) == 2
    assert ids_in(storage) == [3, 5]


@pytest.mark.parametrize("partition", ["city", ""])
@pytest.mark.parametrize("ordering", ["ts", ""])
def test_copy_of_a_row_that_moved_to_another_partition_has_it_once(tmp_path: Path, partition: str, ordering: str):
    storage = MemoryStorage()
    path = tmp_path / "source"
    options = {
        "hoodie.table.name": "s",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": ordering,
        "hoodie.table.cdc.enabled": "true",
        "hoodie.index.type": "GLOBAL_SIMPLE",
        "hoodie.simple.index.update.partition.path": "true",
    }

    def put(*rows: tuple[int, str]) -> None:
        columns = {"id": [number for number, _ in rows], "city": [city for _, city in rows], "ts": [1] * len(rows)}
        pyhudi.save(pa.table(columns), path, hudi_options=options)

    copy = {
        "hoodie.datasource.query.incremental.format": "cdc",
        "hoodie.datasource.write.partitionpath.field": partition,
    }
    if ordering:
        copy["hoodie.datasource.write.precombine.field"] = ordering
    given = streamer(tmp_path, storage, copy, op="UPSERT")
    put((1, "oslo"), (2, "oslo"))
    run_until_idle(given)
    put((1, "rome"))

    assert run_until_idle(given) == 1

    found = open_table(storage).scan(["id", "city"]).to_arrow().to_pylist()
    assert sorted((row["id"], row["city"]) for row in found) == [(1, "rome"), (2, "oslo")]


def test_rows_of_one_key_in_two_partitions_are_deleted_each_by_itself(tmp_path: Path):
    storage = MemoryStorage()
    path = tmp_path / "source"
    options = {
        "hoodie.table.name": "s",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.table.cdc.enabled": "true",
    }

    def rows(*cities: str, note: str = "old") -> pa.Table:
        return pa.table({"id": [1] * len(cities), "city": cities, "note": [note] * len(cities)})

    copy = {
        "hoodie.datasource.query.incremental.format": "cdc",
        "hoodie.datasource.write.partitionpath.field": "city",
    }
    given = streamer(tmp_path, storage, copy, op="UPSERT")
    pyhudi.save(rows("bonn", "oslo", "rome"), path, hudi_options=options)
    run_until_idle(given)
    pyhudi.HudiTable.for_path(path).delete(rows("bonn", "oslo"))
    pyhudi.save(rows("rome", note="new"), path, hudi_options=options)

    assert run_until_idle(given) == 1

    found = open_table(storage).scan(["city", "note"]).to_arrow().to_pylist()
    assert [(row["city"], row["note"]) for row in found] == [("rome", "new")]
