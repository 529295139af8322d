"""Files that cannot be read as a whole: they are named, or in the error table, and the others are read."""

from __future__ import annotations

import io
import os
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from tests.support.ingestions import FIRST_MS, Landing, ids_in, ingestion, run_until_idle, settings
from tests.support.tables import open_table

from pyhudi.config.options_streamer import FolderOptions
from pyhudi.engine.local import as_table
from pyhudi.errors import SchemaMismatchError, SourceError, UnavailableError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.streamer.ingest import Ingestion, ingest
from pyhudi.streamer.settings import Settings
from pyhudi.streamer.sources.file_rows import Reading, rows_of_files
from pyhudi.streamer.sources.files import FileSource

ERRORS = {"hoodie.errortable.enable": "true", "hoodie.errortable.base.path": "memory://t/errors"}
HEADER = {"hoodie.streamer.csv.header": "true"}
TYPES = {"hoodie.errortable.validate.targetschema.enable": "true"}
AVRO = {
    "type": "record",
    "name": "row",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}


def parquet(rows: pa.Table) -> bytes:
    data = io.BytesIO()
    pq.write_table(rows, data, row_group_size=10)
    return data.getvalue()


def orc_file(rows: pa.Table) -> bytes:
    data = io.BytesIO()
    orc.write_table(rows, data)
    return data.getvalue()


def avro(rows: pa.Table) -> bytes:
    data = io.BytesIO()
    fastavro.writer(data, AVRO, rows.to_pylist(), codec="deflate")
    return data.getvalue()


FORMATS: dict[str, Callable[[pa.Table], bytes]] = {
    "ParquetDFSSource": parquet,
    "ORCDFSSource": orc_file,
    "AvroDFSSource": avro,
}


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "note": [f"n{number}" for number in ids]})


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    (tmp_path / "landing").mkdir()
    return Landing(tmp_path / "landing")


def put(landing: Landing, name: str, data: bytes, ms: int = FIRST_MS) -> None:
    path = landing.folder / name
    path.write_bytes(data)
    os.utime(path, ns=(ms * 1_000_000, ms * 1_000_000))


def with_errors(given: Settings, table: Storage, errors: Storage) -> Ingestion:
    """A streamer whose error table is in a store of the test."""
    made = ingestion(given, table)
    assert made.errors is not None
    return replace(made, errors=replace(made.errors, storage=errors))


def errors_in(storage: Storage) -> list[dict[str, Any]]:
    names = ["source", "position", "reason", "_corrupt_record"]
    rows = open_table(storage).scan(names).to_arrow().select(names).to_pylist()
    return sorted(rows, key=lambda row: (row["source"], int(row["position"] or 0)))


@pytest.mark.parametrize("source", list(FORMATS))
def test_file_that_was_cut_off_stops_the_run_and_is_named(landing: Landing, source: str):
    data, storage = FORMATS[source](rows_of(*range(30))), MemoryStorage()
    put(landing, "a", FORMATS[source](rows_of(1)))
    put(landing, "b", data[: len(data) * 2 // 3], ms=FIRST_MS + 1)
    streamer = ingestion(settings(landing, source_class=source), storage)
    with pytest.raises(SourceError) as raised:
        ingest(streamer)
    assert raised.value.context["path"] == f"file:{landing.folder}/b"
    assert storage.list_recursive("") == ()


@pytest.mark.parametrize("kind", ["parquet", "avro"])
def test_damaged_bytes_of_any_kind_are_an_error_of_the_source(kind: str):
    data = {"parquet": parquet, "avro": avro}[kind](rows_of(*range(30)))
    chance, read = random.Random(5), 0
    for _ in range(400):
        damaged = bytearray(data)
        damaged[chance.randrange(len(data))] = chance.randrange(256)
        storage = MemoryStorage()
        storage.put("f", bytes(damaged[: chance.choice((len(data), chance.randrange(1, len(data))))]))
        file = FileInfo("f", len(storage.read("f")), FIRST_MS)
        with suppress(SourceError, SchemaMismatchError):
            as_table(rows_of_files(kind, [file], Reading(storage, FolderOptions(), None, None)))
            read += 1
    assert 0 < read < 200


@pytest.mark.parametrize("source", list(FORMATS))
def test_file_that_cannot_be_read_is_one_row_of_the_error_table_and_the_others_are_read(landing: Landing, source: str):
    data, table, errors = FORMATS[source](rows_of(*range(30))), MemoryStorage(), MemoryStorage()
    put(landing, "a", FORMATS[source](rows_of(100)))
    put(landing, "b", data[: len(data) * 2 // 3], ms=FIRST_MS + 1)
    put(landing, "c", FORMATS[source](rows_of(200)), ms=FIRST_MS + 2)
    streamer = with_errors(settings(landing, ERRORS, source_class=source), table, errors)
    done = ingest(streamer)
    assert done is not None
    assert (done.items, done.failed) == (3, 1)
    assert ids_in(table) == [100, 200]
    assert errors_in(errors) == [
        {
            "source": f"file:{landing.folder}/b",
            "position": None,
            "reason": "FILE_DESERIALIZATION_FAILURE",
            "_corrupt_record": None,
        }
    ]
    put(landing, "b", data, ms=FIRST_MS + 3)  # repaired
    run_until_idle(streamer)
    assert ids_in(table) == [*range(30), 100, 200]


def test_rows_of_csv_with_another_number_of_values_are_in_the_error_table(landing: Landing):
    landing.put_text("a.csv", 'id,note\n1,a\n2,b,c\n3,"x\ny"\n\n4\n"5,é",6,7\n6,\n')
    table, errors = MemoryStorage(), MemoryStorage()
    given = settings(landing, {**ERRORS, **HEADER}, source_class="CsvDFSSource")
    ingest(with_errors(given, table, errors))
    assert ids_in(table) == ["1", "3", "6"]
    found = errors_in(errors)
    assert [(row["position"], row["_corrupt_record"]) for row in found] == [
        ("2", b"2,b,c"),
        ("4", b"4"),
        ("5", '"5,é",6,7'.encode()),
    ]
    assert {row["reason"] for row in found} == {"CSV_ROW_DESERIALIZATION_FAILURE"}


def test_csv_row_without_a_key_keeps_its_place_beside_rows_that_are_passed_over(landing: Landing):
    landing.put_text("a.csv", "1,a\n2,b,c\n,x\n4,d\n")
    table, errors = MemoryStorage(), MemoryStorage()
    schema = pa.schema([("id", pa.int64()), ("note", pa.string())])
    ingest(with_errors(settings(landing, ERRORS, source_class="CsvDFSSource", schema=schema), table, errors))
    assert ids_in(table) == [1, 4]
    assert [(row["position"], row["reason"]) for row in errors_in(errors)] == [
        ("2", "CSV_ROW_DESERIALIZATION_FAILURE"),
        ("3", "RECORD_CREATION"),
    ]


def test_csv_of_another_shape_is_one_row_of_the_error_table(landing: Landing):
    table, errors = MemoryStorage(), MemoryStorage()
    schema = pa.schema([("id", pa.int64()), ("note", pa.string())])
    given = settings(landing, ERRORS, source_class="CsvDFSSource", schema=schema)
    landing.put_text("a.csv", "1,a\n")
    landing.put_text("b.csv", "2,b,c\n")
    landing.put_text("c.csv", "three,c\n")
    ingest(with_errors(given, table, errors))
    assert ids_in(table) == [1]
    assert [row["source"].rpartition("/")[2] for row in errors_in(errors)] == ["b.csv", "c.csv"]
    landing.put_text("d.csv", "4,d,d\n", ms=FIRST_MS + 1)
    with pytest.raises(SourceError) as raised:
        ingest(ingestion(settings(landing, source_class="CsvDFSSource", schema=schema), table))
    assert raised.value.context["path"].endswith("/d.csv")


def test_json_files_whose_columns_do_not_fit_together_are_refused_with_the_name_of_one(landing: Landing):
    landing.put_text("a.json", '{"id": 1, "n": {"x": 1}}')
    landing.put_text("b.json", '{"id": 2, "n": 5}')
    with pytest.raises(SchemaMismatchError) as raised:
        ingest(ingestion(settings(landing), MemoryStorage()))
    assert raised.value.context["file"] == "b.json"


def test_file_that_does_not_fit_the_columns_is_named_and_is_in_the_error_table(landing: Landing):
    put(landing, "a", parquet(rows_of(1)))
    put(landing, "b", parquet(pa.table({"id": [[2]], "note": ["b"]})))
    schema = pa.schema([("id", pa.int64()), ("note", pa.string())])
    with pytest.raises(SchemaMismatchError) as raised:
        ingest(ingestion(settings(landing, source_class="ParquetDFSSource", schema=schema), MemoryStorage()))
    assert raised.value.context["file"] == "b"
    table, errors = MemoryStorage(), MemoryStorage()
    ingest(with_errors(settings(landing, ERRORS, source_class="ParquetDFSSource", schema=schema), table, errors))
    assert ids_in(table) == [1]
    assert [row["source"].rpartition("/")[2] for row in errors_in(errors)] == ["b"]
    put(landing, "c", parquet(pa.table({"id": [3], "note": [[3]]})), ms=FIRST_MS + 1)
    put(landing, "d", parquet(rows_of(4)), ms=FIRST_MS + 1)
    given = settings(landing, {**ERRORS, **TYPES}, source_class="ParquetDFSSource")
    run_until_idle(with_errors(given, table, errors))
    assert ids_in(table) == [1, 4]
    assert [row["source"].rpartition("/")[2] for row in errors_in(errors)] == ["b", "c"]


class Failing(MemoryStorage):
    """A store whose file `a` cannot be read, or begins to be read as if it were damaged."""

    failure: Exception | None = None
    is_cut = False

    def open_input(self, path: str) -> Any:
        if self.is_cut:
            return pa.BufferReader(b"PAR1")
        return super().open_input(path)

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        if self.failure is not None:
            raise self.failure
        return super().read(path, offset=offset, length=length)


def test_store_that_fails_is_no_damage_of_a_file(landing: Landing):
    store, table, errors = Failing(), MemoryStorage(), MemoryStorage()
    store.put("a", parquet(rows_of(1)))
    streamer = with_errors(settings(landing, ERRORS, source_class="ParquetDFSSource"), table, errors)
    assert isinstance(streamer.source, FileSource)
    streamer = replace(streamer, source=replace(streamer.source, storage=store))
    store.is_cut, store.failure = True, UnavailableError("no answer")
    with pytest.raises(UnavailableError):
        ingest(streamer)
    assert errors.list_recursive("") == ()
    store.failure = None
    ingest(streamer)
    assert ids_in(table) == [1]
    assert errors.list_recursive("") == ()


def test_file_that_grows_while_it_is_read_is_read_when_it_is_complete(landing: Landing):
    store, table, errors = Failing(), MemoryStorage(), MemoryStorage()
    data = parquet(rows_of(1))
    store.put("a", data[:-4])
    streamer = with_errors(settings(landing, ERRORS, source_class="ParquetDFSSource"), table, errors)
    assert isinstance(streamer.source, FileSource)
    streamer = replace(streamer, source=replace(streamer.source, storage=store))
    read = MemoryStorage.read
    store.read = lambda path, **_: read(store, path) + data[-4:]  # type: ignore[method-assign]
    with pytest.raises(SourceError, match="changes while it is read"):
        ingest(streamer)
    assert errors.list_recursive("") == ()
