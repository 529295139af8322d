"""`python -m pyhudi bootstrap`: what it prints, and how it ends."""

from __future__ import annotations

import sys
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
    assert lines[-1].endswith(" s")
    assert not (tmp_path / "t").exists()


def test_command_makes_the_table_and_tells_its_commits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = parquet_source(tmp_path / "source")
    arguments = ["--record-key", "id", "--table-type", "mor", "--option", "hoodie.table.name=trips", "--check-keys"]
    assert main(["bootstrap", str(source), str(tmp_path / "t"), *arguments]) == 0
    assert capsys.readouterr().out == "00000000000001 bootstrap: 20 rows, 4 files\n"
    assert pyhudi.HudiTable.for_path(tmp_path / "t").scan().count() == 20


def test_progress_is_told_to_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = parquet_source(tmp_path / "source")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["bootstrap", str(source), str(tmp_path / "t"), "--record-key", "id", "--check-keys"]) == 0
    lines = capsys.readouterr().err.replace("\r", "\n").splitlines()
    assert [line for line in lines if line.startswith("write skeleton files: 4 of 4 tasks, ")]
    assert [line for line in lines if line.startswith("compare record keys: 1 of 2 tasks, about ")]


def test_refused_source_ends_with_status_2_and_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "source").mkdir()
    assert main(["bootstrap", str(tmp_path / "source"), str(tmp_path / "t"), "--record-key", "id"]) == 2
    assert "no Parquet files" in capsys.readouterr().err
