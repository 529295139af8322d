"""`python -m pyhudi wait-for`: what it prints, and how it ends."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.commands.command_line import main

NINE = datetime(2026, 11, 22, 9, tzinfo=UTC)
OPTIONS = {"hoodie.write.track.event.time.watermark": "true", "hoodie.payload.event.time.field": "at"}


def write(path: Path, *minutes: int) -> str:
    """A write of an event at each of these minutes after nine, into the partition of nine. Returns its instant."""
    rows = pa.table(
        {
            "id": list(minutes),
            "at": pa.array([NINE.timestamp() * 1000 + minute * 60_000 for minute in minutes], pa.float64()).cast(
                "int64"
            ),
            "hour": ["2026-11-22-09"] * len(minutes),
        }
    )
    options = {
        **OPTIONS,
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "hour",
    }
    done = pyhudi.save(rows, path, hudi_options=options)
    assert done is not None
    return done.instant


def arguments(path: Path, *more: str) -> list[str]:
    return ["wait-for", str(path), "--partition", "2026-11-22-09", "--json", *more]


def test_partition_that_is_not_complete_in_time_ends_with_three(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write(tmp_path / "t", 59)
    assert main(arguments(tmp_path / "t", "--timeout", "0s")) == 3
    shown = json.loads(capsys.readouterr().out)
    assert (shown["complete"], shown["watermark"]) == (False, "2026-11-22T09:59:00+00:00")


def test_complete_partition_ends_with_nothing_and_names_the_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    instant = write(tmp_path / "t", 65)
    assert main(arguments(tmp_path / "t", "--lateness", "5m")) == 0
    assert json.loads(capsys.readouterr().out)["instant"] == instant
    assert main(arguments(tmp_path / "t", "--lateness", "6m", "--timeout", "0s")) == 3
    assert main(arguments(tmp_path / "t", "--sources", ",other", "--timeout", "0s")) == 3
    capsys.readouterr()
    write(tmp_path / "t", 7, 8)
    assert main(arguments(tmp_path / "t", "--after", instant)) == 0
    assert json.loads(capsys.readouterr().out)["late_rows"] == 2


def test_write_ends_the_waiting(tmp_path: Path):
    write(tmp_path / "t", 59)
    later = threading.Timer(0.3, write, (tmp_path / "t", 61))
    later.start()
    try:
        assert main(arguments(tmp_path / "t", "--poll", "1s", "--timeout", "60s")) == 0
    finally:
        later.join()


@pytest.mark.parametrize(
    "more", [["--partition", "oslo"], ["--lateness", "ten"], ["--after", "20010101000000000", "--timeout", "0s"]]
)
def test_wrong_arguments_end_with_two(tmp_path: Path, more: list[str]):
    write(tmp_path / "t", 59)
    try:
        status = main(arguments(tmp_path / "t", *more))
    except SystemExit as ended:
        status = ended.code
    assert status == 2
