"""The rows of files of each kind."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from pyhudi.config.options_streamer import FolderOptions
from pyhudi.errors import SchemaMismatchError, SourceError, UnsupportedFeatureError
from pyhudi.storage.local import LocalStorage
from pyhudi.streamer.sources.file_rows import KINDS, Reading, rows_of_files
from pyhudi.streamer.sources.folder import ReadFiles, new_files

ROWS = [{"id": 1, "city": "oslo"}, {"id": 2, "city": "rome"}]
AVRO = {
    "type": "record",
    "name": "row",
    "fields": [{"name": "id", "type": "long"}, {"name": "city", "type": ["null", "string"]}],
}
HEADED = FolderOptions(csv_header=True, csv_infers=True)


def put(folder: Path, kind: str, name: str, rows: list[dict[str, object]]) -> None:
    path = folder / name
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif kind == "orc":
        orc.write_table(pa.Table.from_pylist(rows), path)
    elif kind == "avro":
        with path.open("wb") as target:
            fastavro.writer(target, AVRO, rows)
    elif kind == "json":
        path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    else:
        path.write_text("\n".join(",".join(map(str, line)) for line in (rows[0], *(row.values() for row in rows))))


def read(
    folder: Path,
    kind: str,
    options: FolderOptions = HEADED,
    *,
    wanted: pa.Schema | None = None,
    stored: pa.Schema | None = None,
) -> pa.Table:
    storage = LocalStorage(folder)
    files = new_files(storage, ReadFiles(since_ms=None), None)
    rows = rows_of_files(kind, files, Reading(storage, options, wanted, stored))
    return rows if isinstance(rows, pa.Table) else rows.read_all()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_two_files_are_read_in_order(tmp_path: Path, kind: str):
    put(tmp_path, kind, "a", ROWS)
    put(tmp_path, kind, "b", [{"id": 3, "city": "bonn"}])
    assert read(tmp_path, kind).to_pylist() == [*ROWS, {"id": 3, "city": "bonn"}]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_get_the_columns_of_the_schema_provider(tmp_path: Path, kind: str):
    put(tmp_path, kind, "a", ROWS)
    wanted = pa.schema([("city", pa.string()), ("id", pa.int64()), ("late", pa.float64())])
    if kind == "csv":
        wanted = wanted.remove(2)
    found = read(tmp_path, kind, wanted=wanted)
    assert found.schema == wanted
    assert found["id"].to_pylist() == [1, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_file_is_named(tmp_path: Path, kind: str):
    put(tmp_path, kind, "a", ROWS)
    (tmp_path / "b").write_bytes(b'{"id": "\xff\xfe' if kind != "csv" else b"id,city\n1\n")
    with pytest.raises(SourceError, match="cannot be read") as raised:
        read(tmp_path, kind)
    assert raised.value.context["path"].endswith("/b")


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_columns_of_all_files_are_joined(tmp_path: Path, kind: str):
    put(tmp_path, kind, "a", [{"id": 1}])
    put(tmp_path, kind, "b", [{"id": 2.5, "city": "rome"}])
    assert read(tmp_path, kind).to_pylist() == [{"id": 1.0, "city": None}, {"id": 2.5, "city": "rome"}]


def test_files_that_do_not_fit_together_are_refused_with_the_name_of_one(tmp_path: Path):
    pq.write_table(pa.table({"id": [1], "x": pa.array([[1]])}), tmp_path / "a")
    pq.write_table(pa.table({"id": [1], "x": [True]}), tmp_path / "b")
    with pytest.raises(SchemaMismatchError) as raised:
        read(tmp_path, "parquet")
    assert raised.value.context["file"] == "b"


def test_csv_without_header_has_the_columns_of_the_table(tmp_path: Path):
    (tmp_path / "a").write_text("1;oslo\n2;\n")
    stored = pa.schema([("id", pa.int32()), ("city", pa.string())])
    found = read(tmp_path, "csv", FolderOptions(csv_separator=";"), stored=stored)
    assert found.schema == stored
    assert found.to_pylist() == [{"id": 1, "city": "oslo"}, {"id": 2, "city": None}]


def test_csv_that_nothing_describes_has_numbered_columns_of_text(tmp_path: Path):
    (tmp_path / "a").write_text('1,"o,slo"\n')
    assert read(tmp_path, "csv", FolderOptions()).to_pylist() == [{"_c0": "1", "_c1": "o,slo"}]


def test_csv_with_another_number_of_columns_than_the_table_is_refused(tmp_path: Path):
    (tmp_path / "a").write_text("1,2,3\n")
    with pytest.raises(SourceError, match="3 columns"):
        read(tmp_path, "csv", FolderOptions(), stored=pa.schema([("id", pa.int64())]))


def test_json_with_a_map_in_the_schema_provider_is_refused_by_name(tmp_path: Path):
    put(tmp_path, "json", "a", ROWS)
    with pytest.raises(UnsupportedFeatureError, match="map"):
        read(tmp_path, "json", wanted=pa.schema([("city", pa.map_(pa.string(), pa.string()))]))


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        ([f"{2**64 - 1}", f"-{2**64 - 2}", ""], pa.decimal128(20, 0)),
        ([f"{10**37 + 1}", "1", "2"], pa.decimal128(38, 0)),
        (["1e20", f"{2**64 - 1}", ""], pa.float64()),
        ([f"{2**63 - 1}", "0", "1"], pa.int64()),
    ],
    ids=["unsigned", "38 digits", "floating point", "of 64 bits"],
)
def test_whole_numbers_of_csv_beyond_64_bits_keep_their_digits(tmp_path: Path, texts: list[str], kind: pa.DataType):
    lines = [f"{number},{text}\n" for number, text in enumerate(texts)]
    (tmp_path / "a").write_text("".join(["id,n\n", *lines]))
    found = read(tmp_path, "csv", FolderOptions(csv_header=True, csv_infers=True))
    assert found.schema == pa.schema([("id", pa.int64()), ("n", kind)])
    if kind != pa.float64():
        assert found["n"].to_pylist() == [int(text) if text else None for text in texts]


@pytest.mark.parametrize(
    "text", ['\n\nid,city\n1,"oslo"\n', '\r\nid,"ci\nty"\r\n1,oslo\r\n'], ids=["blank", "two lines"]
)
def test_header_of_csv_after_blank_lines_or_of_several_lines_is_no_row(tmp_path: Path, text: str):
    (tmp_path / "a").write_bytes(text.encode())
    found = read(tmp_path, "csv")
    assert [list(row.values()) for row in found.to_pylist()] == [[1, "oslo"]]


@pytest.mark.parametrize(
    ("text", "has_header", "found"),
    [
        ("id,city", True, []),
        ('id,"ci\nty"', True, []),
        ("1,oslo", False, [["1", "oslo"]]),
        ("id,city\n1,oslo", True, [["1", "oslo"]]),
        ("id\n1\n", True, [["1"]]),
    ],
)
def test_last_line_of_csv_needs_no_end(
    tmp_path: Path,
    text: str,
    has_header: bool,
    found: list[list[str]],
):
    (tmp_path / "a").write_text(text)
    rows = read(tmp_path, "csv", FolderOptions(csv_header=has_header))
    assert [list(row.values()) for row in rows.to_pylist()] == found


COMPRESSIONS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": lambda text: pa.compress(text, codec="zstd", asbytes=True),
}


@pytest.mark.parametrize("ending", COMPRESSIONS)
@pytest.mark.parametrize("kind", ["json", "csv"])
def test_text_whose_name_says_its_compression_is_read(tmp_path: Path, kind: str, ending: str):
    put(tmp_path, kind, "text", ROWS)
    text = (tmp_path / "text").read_bytes()
    (tmp_path / "text").unlink()
    (tmp_path / f"a.{kind}.{ending}").write_bytes(COMPRESSIONS[ending](text))
    assert read(tmp_path, kind)["id"].to_pylist() == [1, 2]


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_compressed_text_that_is_cut_off_is_named(tmp_path: Path, kind: str):
    put(tmp_path, kind, "text", ROWS * 1_000)
    text = (tmp_path / "text").read_bytes()
    (tmp_path / "text").unlink()
    (tmp_path / "a.gz").write_bytes(gzip.compress(text)[:-9])
    with pytest.raises(SourceError, match="Truncated") as raised:
        read(tmp_path, kind)
    assert raised.value.context["path"].endswith("/a.gz")
