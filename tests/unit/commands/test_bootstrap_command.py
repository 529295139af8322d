"""`python -m pyhudi bootstrap`: what it prints, and how it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.sources import parquet_source

import pyhudi
from pyhudi.commands.command_line import main


def test_plan_tells_each_partition_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = parquet_source(tmp_path / "source")
    assert main(["bootstrap", str(source), str(tmp_path / "t"), "--record-key", "id", "--plan"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["city=a", "city=b", "in"]
    assert "4 files, 20 rows" in lines[-1]
    assert not (tmp_path / "t").exists()


def test_command_makes_the_table_and_tells_its_commits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = parquet_source(tmp_path / "source")
    arguments = ["--record-key", "id", "--table-type", "mor", "--option", "hoodie.table.name=trips", "--check-keys"]
    assert main(["bootstrap", str(source), str(tmp_path / "t"), *arguments]) == 0
    assert capsys.readouterr().out == "00000000000001 bootstrap: 20 rows, 4 files\n"
    assert pyhudi.HudiTable.for_path(tmp_path / "t").scan().count() == 20


def test_refused_source_ends_with_status_2_and_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "source").mkdir()
    assert main(["bootstrap", str(tmp_path / "source"), str(tmp_path / "t"), "--record-key", "id"]) == 2
    assert "no Parquet files" in capsys.readouterr().err
