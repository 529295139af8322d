"""`python -m pyhudi services`: what it prints, how it ends, and beside a writer."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.waiting import wait_until

import pyhudi
from pyhudi.commands.command_line import main
from pyhudi.storage.local import LocalStorage
from pyhudi.testing.faults import FaultStorage

SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string()), ("ts", pa.int64())])
LEFT_TO_THE_OTHER_PROCESS = {"hoodie.table.services.enabled": "false"}
OPTIONS = ["--option", "hoodie.clean.commits.retained=2"]


def rows(turn: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": key, "note": f"{turn}", "ts": turn} for key in range(20)], SCHEMA)


def written(path: Path, turns: int = 4) -> pyhudi.HudiTable:
    """A table that its writers leave to the command."""
    table = pyhudi.HudiTable.create(
        str(path), schema=SCHEMA, record_key="id", ordering_fields="ts", hudi_options=LEFT_TO_THE_OTHER_PROCESS
    )
    for turn in range(turns):
        table.upsert(rows(turn))
    return table


def base_files(path: Path) -> int:
    return sum(".hoodie" not in file.parts for file in path.rglob("*.parquet"))


def test_command_runs_what_is_due_once_and_prints_a_line_for_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = written(tmp_path / "t")

    assert main(["services", str(tmp_path / "t"), *OPTIONS]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == table.services.due()["service"].to_pylist()
    (clean,) = (line for line in lines if line.startswith("clean"))
    assert re.match(r"clean +done +\d{17} +1 files deleted, \d+\.\d\d s$", clean)
    assert base_files(tmp_path / "t") == 3


def test_plan_says_what_is_due_and_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path / "t")
    before = sorted(tmp_path.rglob("*"))

    assert main(["services", str(tmp_path / "t"), "--plan", "--only", "archive, clean", *OPTIONS]) == 0

    assert capsys.readouterr().out.splitlines() == [
        "clean           due      4 of 1 commits since the last clean",
        "archive         not due  4 completed commits on the active timeline; more than 30 are too many",
    ]
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "cleaning"], "no table service with this name"),
        (["--option", "hoodie.clean.commits.retained=no"], "hoodie.clean.commits.retained"),
    ],
)
def test_what_is_refused_ends_with_two_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    written(tmp_path / "t", turns=1)

    assert main(["services", str(tmp_path / "t"), *arguments]) == 2

    assert said in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--every", "0"], ["--option", "novalue"], ["--option", "=x"]])
def test_malformed_arguments_end_with_two(tmp_path: Path, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["services", str(tmp_path), *arguments])
    assert ended.value.code == 2


def test_folder_that_is_no_table_ends_with_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["services", str(tmp_path)]) == 2
    assert "not a Hudi table" in capsys.readouterr().err


def test_service_that_fails_ends_with_one_and_its_line_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "t")

    def fail(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith(".clean.requested"):
            raise OSError("no space left")

    store = FaultStorage(LocalStorage(str(tmp_path / "t")), before=fail)
    monkeypatch.setattr("pyhudi.api.opening.open_storage", lambda *_, **__: store)

    assert main(["services", str(tmp_path / "t"), *OPTIONS]) == 1

    assert re.search(r"^clean +failed .*no space left", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("ends_by", [signal.SIGTERM, signal.SIGINT])
def test_process_of_its_own_serves_a_table_beside_its_writer_until_it_is_told_to_end(
    tmp_path: Path, ends_by: signal.Signals
) -> None:
    path = tmp_path / "t"
    table = written(path, turns=2)
    command = [sys.executable, "-m", "pyhudi", "services", str(path), "--every", "0.2", *OPTIONS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("rollback")
        for turn in range(2, 12):
            table.upsert(rows(turn))
        try:
            wait_until(lambda: base_files(path) <= 4)
        finally:
            process.send_signal(ends_by)
        out, err = process.communicate(timeout=100)

    assert (process.returncode, "ends after the service" in err) == (0, True), err
    assert "failed" not in out
    assert base_files(path) <= 4  # the last clean may have begun while the last write was pending
    assert table.refresh().scan(["note"]).to_arrow()["note"].to_pylist() == ["11"] * 20
    assert table.refresh().services.pending().num_rows == 0


def test_progress_of_a_service_is_told_to_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "t")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["services", str(tmp_path / "t"), *OPTIONS, "--only", "clean"]) == 0
    lines = capsys.readouterr().err.replace("\r", "\n").splitlines()
    assert [line for line in lines if re.match(r"delete old file slices: 1 of 1 tasks, [0-9.]+ s", line)], lines
