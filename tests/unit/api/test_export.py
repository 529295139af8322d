"""`Scan.to_parquet`: plain Parquet files with exactly the rows of the scan."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.table_builder import MOR_TABLES, TableBuilder
from tests.support.tables import open_table

import pyhudi
from pyhudi.commands.command_line import main


@pytest.mark.parametrize("builder", MOR_TABLES, ids=str)
def test_export_has_the_rows_of_the_scan_and_ends_with_success(builder: TableBuilder, tmp_path: Path) -> None:
    table = open_table(builder.commit(rows=9).delta_commit(updates=4).delete((0, "oslo", 9, "")).build())
    scan = table.scan(["id", "city", "note"])
    done = scan.to_parquet(tmp_path / "out")
    read = pq.read_table(tmp_path / "out")
    assert read.sort_by("id").equals(scan.to_arrow().sort_by("id"))
    assert (done.files, done.rows) == (1, 8)
    assert done.bytes == (tmp_path / "out/part-00000.parquet").stat().st_size
    assert (tmp_path / "out/_SUCCESS").exists()


def test_large_export_is_divided_into_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyhudi.api.export.BYTES_PER_FILE", 1)
    table = open_table(TableBuilder(9, "cow").commit(rows=9).build())
    done = table.scan().to_parquet(tmp_path / "out")
    assert done.files == 3
    assert pq.read_table(tmp_path / "out").num_rows == done.rows == 9


def test_export_of_no_rows_has_the_columns(tmp_path: Path) -> None:
    table = open_table(TableBuilder(9, "cow").commit(rows=3).build())
    done = table.scan(["id"], [("id", ">", 100)]).to_parquet(tmp_path / "out")
    assert (done.files, done.rows) == (1, 0)
    assert pq.read_table(tmp_path / "out").schema.names == ["id"]


def test_folder_with_files_and_folder_of_the_table_are_refused(tmp_path: Path) -> None:
    table = pyhudi.HudiTable.create(tmp_path / "t", schema=pa.schema([("id", pa.int64())]), record_key="id")
    table.insert(pa.table({"id": [1]}))
    (tmp_path / "out").mkdir()
    (tmp_path / "out/x").write_text("x")
    for folder in ("out", "t/out", "t"):
        assert main(["export", str(tmp_path / "t"), str(tmp_path / folder)]) == 2
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["x"]
    assert not (tmp_path / "t/out").exists()


def test_dry_run_of_an_export_makes_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pyhudi.HudiTable.create(tmp_path / "t", schema=pa.schema([("id", pa.int64())]), record_key="id")
    table.insert(pa.table({"id": [1]}))
    assert main(["export", str(tmp_path / "t"), str(tmp_path / "out"), "--dry-run"]) == 0
    assert not (tmp_path / "out").exists()
    assert main(["export", str(tmp_path / "t"), str(tmp_path / "out"), "--columns", "id"]) == 0
    assert pq.read_table(tmp_path / "out").to_pylist() == [{"id": 1}]
