"""`Scan.to_parquet` and `to_json`: plain files with exactly the rows of the scan; `pyhudi export` and `copy`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.table_builder import MOR_TABLES, TableBuilder
from tests.support.tables import open_table

import pyhudi
from pyhudi.commands.command_line import main
from pyhudi.errors import ConfigError, HudiError


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


def lines_of(folder: Path) -> list[dict[str, object]]:
    return [
        json.loads(line) for path in sorted(folder.rglob("*.json")) for line in path.read_text("utf-8").split("\n")[:-1]
    ]


def test_json_has_a_line_for_each_row_in_forms_that_other_programs_read(tmp_path: Path) -> None:
    moment = datetime(2024, 1, 2, 3, 4, 5, 6000, UTC)
    rows = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int64()),
            "text": pa.array(['a "quoted"\nline', None, "caf\u00e9 \u2028 </script>"], pa.string()),
            "day": pa.array([moment.date(), None, None], pa.date32()),
            "at": pa.array([moment, None, None], pa.timestamp("us", "UTC")),
            "cost": pa.array([Decimal("1.10"), None, None], pa.decimal128(10, 2)),
            "ratio": pa.array([0.5, float("nan"), None], pa.float64()),
            "raw": pa.array([b"\x00\xff", None, None], pa.binary()),
            "tags": pa.array([[moment], [], None], pa.list_(pa.timestamp("us", "UTC"))),
        }
    )
    table = pyhudi.HudiTable.create(tmp_path / "t", schema=rows.schema, record_key="id")
    table.insert(rows)
    done = table.scan(rows.schema.names).to_json(tmp_path / "out")
    assert (done.files, done.rows) == (1, 3)
    assert sorted(lines_of(tmp_path / "out"), key=lambda row: str(row["id"])) == [
        {
            "id": 1,
            "text": 'a "quoted"\nline',
            "day": "2024-01-02",
            "at": "2024-01-02 03:04:05.006000Z",
            "cost": 1.1,
            "ratio": 0.5,
            "raw": "AP8=",
            "tags": ["2024-01-02 03:04:05.006000Z"],
        },
        {"id": 2, "ratio": "NaN", "tags": []},
        {"id": 3, "text": "caf\u00e9 \u2028 </script>"},
    ]


@pytest.mark.parametrize("file_format", ["parquet", "json"])
def test_partitioned_export_has_values_in_names_of_folders(
    file_format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyhudi.api.export.FILES_OPEN_MAX", 1)
    rows = pa.table({"id": range(6), "city": ["oslo", "a/b", None, "oslo", "a/b", ".."], "n": [1, 1, 1, 2, 2, 2]})
    table = pyhudi.HudiTable.create(tmp_path / "t", schema=rows.schema, record_key="id")
    table.insert(rows)
    scan = table.scan(rows.schema.names)
    write = scan.to_parquet if file_format == "parquet" else scan.to_json
    done = write(tmp_path / "out", partition_by=["city", "n"])
    assert done.rows == 6
    folders = {str(path.parent.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("part-*")}
    assert folders == {
        "city=oslo/n=1", "city=oslo/n=2", "city=a%2Fb/n=1", "city=a%2Fb/n=2", "city=__HIVE_DEFAULT_PARTITION__/n=1",
        "city=../n=2",
    }  # fmt: skip
    if file_format == "json":
        assert sorted(row["id"] for row in lines_of(tmp_path / "out")) == [0, 1, 2, 3, 4, 5]  # type: ignore[type-var]
    else:
        assert sorted(pq.read_table(tmp_path / "out")["id"].to_pylist()) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("columns", [["nowhere"], ["id", "ratio"], ["ratio"]])
def test_partitions_that_make_no_folders_are_refused(columns: list[str], tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("ratio", pa.float64())])
    table = pyhudi.HudiTable.create(tmp_path / "t", schema=schema, record_key="id")
    with pytest.raises(ConfigError):
        table.scan(["id", "ratio"]).to_parquet(tmp_path / "out", partition_by=columns)
    assert not (tmp_path / "out").exists()


def test_export_that_fails_leaves_no_success(tmp_path: Path) -> None:
    table = pyhudi.HudiTable.create(tmp_path / "t", schema=pa.schema([("id", pa.int64())]), record_key="id")
    table.insert(pa.table({"id": [1]}))
    scan = table.scan()
    next((tmp_path / "t").glob("*.parquet")).unlink()
    with pytest.raises(HudiError):
        scan.to_json(tmp_path / "out")
    assert not (tmp_path / "out/_SUCCESS").exists()


@pytest.mark.parametrize("command", [["copy"], ["export", "--format", "hudi"]], ids=" ".join)
def test_command_makes_a_table_and_its_dry_run_nothing(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pyhudi.HudiTable.create(
        tmp_path / "t", schema=pa.schema([("id", pa.int64()), ("n", pa.int64())]), record_key="id"
    )
    table.insert(pa.table({"id": [1], "n": [1]}))
    table.upsert(pa.table({"id": [1], "n": [2]}))
    arguments = [command[0], str(tmp_path / "t"), str(tmp_path / "copy"), *command[1:], "--json"]
    assert main([*arguments, "--dry-run"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert not (tmp_path / "copy").exists()
    assert main(arguments) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["files"], done["bytes"]) == (
        sum(one["files"] for one in planned),
        sum(one["bytes"] for one in planned),
    )
    assert pyhudi.HudiTable.for_path(tmp_path / "copy").scan(["id", "n"]).to_arrow().to_pylist() == [{"id": 1, "n": 2}]
    assert len(list((tmp_path / "copy").glob("*.parquet"))) == (2 if command[0] == "copy" else 1)
    assert main(arguments) == 2
    assert "has a table" in capsys.readouterr().err


def test_export_as_hudi_refuses_what_would_leave_rows_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pyhudi.HudiTable.create(tmp_path / "t", schema=pa.schema([("id", pa.int64())]), record_key="id")
    arguments = ["export", str(tmp_path / "t"), str(tmp_path / "copy"), "--format", "hudi"]
    assert main([*arguments, "--where", "id > 1"]) == 2
    assert "--where" in capsys.readouterr().err
    assert not (tmp_path / "copy").exists()
