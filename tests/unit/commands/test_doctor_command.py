"""`pyhudi doctor`: what it prints and how it ends; the findings themselves are tested with a zoo of damaged tables."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.tables import LATER_MS, StepClock, environment

import pyhudi
from pyhudi.commands.command_line import main
from pyhudi.doctor.store import promise_findings
from pyhudi.errors import AlreadyExistsError
from pyhudi.storage.memory import MemoryStorage


@pytest.fixture
def path(tmp_path: Path) -> str:
    table = pyhudi.HudiTable.create(str(tmp_path / "t"), schema=pa.schema([("id", pa.int64())]), record_key="id")
    table.insert(pa.table({"id": [1]}))
    return str(tmp_path / "t")


def told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, list[dict[str, Any]]]:
    status = main(["doctor", *arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_healthy_table_ends_with_nothing_is_wrong(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", path]) == 0
    assert capsys.readouterr().out == "nothing is wrong\n"


def test_damage_is_told_with_its_command_and_mended_by_fix(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    metafile = Path(path, ".hoodie_partition_metadata")
    metafile.unlink()
    status, (found,) = told([path], capsys)
    assert (status, found["problem"], found["mend"]) == (1, "partition without its metafile", "put partition metafiles")
    assert not metafile.exists()
    assert main(["doctor", path]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "warning: partition without its metafile",
        "    JVM Hudi does not see the rows of this partition where it lists the store",
        f"    pyhudi doctor file:{path} --fix",
    ]
    assert main(["doctor", path, "--fix"]) == 0
    assert capsys.readouterr() == ("nothing is wrong\n", "done: put partition metafiles\n")
    assert metafile.exists()


def test_lost_file_stays_an_error_after_fix(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    next(Path(path).glob("*.parquet")).unlink()
    status, found = told([path, "--fix"], capsys)
    assert (status, [one["problem"] for one in found]) == (1, ["file is missing"])


def test_table_that_cannot_be_opened_is_a_finding(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(path, ".hoodie/hoodie.properties").write_text("hoodie.table.version=9\n")
    status, (found,) = told([path], capsys)
    assert (status, found["severity"], found["problem"]) == (1, "error", "table cannot be opened")


def test_instant_whose_name_has_lost_its_completion_time_is_a_finding(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (commit,) = Path(path, ".hoodie/timeline").glob("*.commit")
    commit.rename(commit.with_name(f"{commit.name.partition('_')[0]}.commit"))
    status, (found,) = told([path], capsys)
    assert (status, found["problem"], found["path"]) == (
        1,
        "table cannot be opened",
        f".hoodie/timeline/{commit.name.partition('_')[0]}.commit",
    )


def old_properties(path: str, change: Callable[[str], str]) -> Path:
    """Change the properties as if it was long ago."""
    properties = Path(path, ".hoodie/hoodie.properties")
    properties.write_text(change(properties.read_text()))
    os.utime(properties, (properties.stat().st_mtime - 7200,) * 2)
    return properties


def with_another_checksum(text: str) -> str:
    return re.sub(r"(?m)^hoodie\.table\.checksum=.*$", "hoodie.table.checksum=1", text)


def test_checksum_that_does_not_fit_the_name_is_mended_by_fix(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = pyhudi.HudiTable.for_path(path).scan().to_arrow()
    properties = old_properties(path, with_another_checksum)
    damaged = properties.read_text()
    status, (found,) = told([path], capsys)
    assert (status, found["problem"], found["command"]) == (1, "table cannot be opened", f"doctor file:{path} --fix")
    assert properties.read_text() == damaged
    assert told([path, "--fix"], capsys) == (0, [])
    assert pyhudi.HudiTable.for_path(path).scan().to_arrow() == before


def test_young_properties_are_left_to_their_writer(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    properties = Path(path, ".hoodie/hoodie.properties")
    properties.write_text(with_another_checksum(properties.read_text()))
    assert told([path, "--fix"], capsys)[0] == 1
    assert told([path], capsys)[1][0]["command"] is None


def test_damaged_properties_are_taken_from_their_copy_by_fix(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = pyhudi.HudiTable.for_path(path).scan().to_arrow()
    properties = old_properties(path, str)
    copy = Path(path, ".hoodie/hoodie.properties.backup")
    copy.write_bytes(properties.read_bytes())
    os.utime(copy, (properties.stat().st_mtime,) * 2)
    old_properties(path, lambda text: text[:40])
    assert told([path], capsys)[0] == 1
    assert told([path, "--fix"], capsys) == (0, [])
    assert pyhudi.HudiTable.for_path(path).scan().to_arrow() == before
    assert not copy.exists()


@pytest.mark.parametrize("partition_by", [None, "city"])
def test_files_of_a_table_without_its_folder_are_found(
    tmp_path: Path, partition_by: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = pa.schema([("id", pa.int64()), ("city", pa.string())])
    table = pyhudi.HudiTable.create(
        str(tmp_path / "t"), schema=schema, record_key="id", partition_by=partition_by, name="trips"
    )
    table.insert(pa.table({"id": [1], "city": ["oslo"]}))
    shutil.rmtree(tmp_path / "t" / ".hoodie")
    status, (found,) = told([str(tmp_path / "t")], capsys)
    assert (status, found["problem"]) == (1, "table has lost its .hoodie")


@pytest.mark.parametrize("arguments", [["--fix"], ["--store"], ["--files", "-1"]])
def test_arguments_without_a_meaning_are_refused(arguments: list[str]) -> None:
    try:
        status = main(["doctor", *arguments])
    except SystemExit as ended:
        status = int(str(ended.code))
    assert status == 2


def test_folder_without_a_table_is_refused_but_its_store_can_be_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", str(tmp_path)]) == 2
    capsys.readouterr()
    assert told([str(tmp_path), "--store"], capsys) == (0, [])
    assert list(tmp_path.iterdir()) == []


def test_machine_is_told_by_its_packages(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    version = metadata.version

    def installed(name: str) -> str:
        if name == "kazoo":
            raise metadata.PackageNotFoundError(name)
        return {"pyarrow": "1.0"}.get(name) or version(name)

    monkeypatch.setattr(metadata, "version", installed)
    status, found = told([], capsys)
    problems = {(one["problem"], one["path"]) for one in found}
    assert status == 1
    assert {("package is too old", "pyarrow"), ("optional package is missing", "kazoo")} <= problems


@pytest.mark.parametrize(("python", "problem"), [("/no/such/python", "cannot be started"), (sys.executable, None)])
def test_python_of_workers_is_compared(
    python: str, problem: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setenv("PYSPARK_PYTHON", python)
    _, found = told([], capsys)
    details = [one["detail"] for one in found if one["problem"] == "Spark's workers have another Python"]
    assert bool(details) is (problem is not None)
    assert all(problem in one for one in details if problem)


class LastWriterWins(MemoryStorage):
    """A store without exclusive creation."""

    def put_if_absent(self, path: str, data: bytes) -> None:
        self.put(path, data)


class LaggingList(MemoryStorage):
    """A store that lists what was written only later, and keeps what was deleted."""

    def list_names(self, path: str) -> tuple[str, ...]:
        return super().list_names(path)[:0]

    def delete(self, path: str) -> None:
        pass


class NoStore(MemoryStorage):
    """A store whose creation always says that there is an object."""

    def put_if_absent(self, path: str, data: bytes) -> None:
        raise AlreadyExistsError("there is one", path=path, size=len(data))


@pytest.mark.parametrize(
    ("store", "problems"),
    [
        (MemoryStorage, set()),
        (LastWriterWins, {"creation is not exclusive"}),
        (NoStore, {"creation is not exclusive"}),
        (LaggingList, {"listing lags", "removal lags"}),
    ],
)
def test_promise_that_a_store_breaks_is_found(store: type[MemoryStorage], problems: set[str]) -> None:
    clock = StepClock(LATER_MS)
    found = promise_findings(store(clock=clock.now_ms), environment(clock))
    assert {one.problem for one in found} == problems


@pytest.mark.parametrize(("behind_ms", "severity"), [(1_000, None), (10_000, "warning"), (600_000, "error")])
def test_clock_that_differs_from_the_stores_is_found(behind_ms: int, severity: str | None) -> None:
    store = MemoryStorage(clock=lambda: LATER_MS)
    found = list(promise_findings(store, environment(StepClock(LATER_MS - behind_ms))))
    assert [one.severity.value for one in found] == ([severity] if severity else [])


def test_many_small_files_and_listed_partitions_are_notes_whose_commands_mend_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = pa.schema([("id", pa.int64()), ("city", pa.string())])
    unfilled = {"hoodie.parquet.small.file.limit": "0"}
    table = pyhudi.HudiTable.create(
        str(tmp_path / "s"), schema=schema, record_key="id", partition_by="city", hudi_options=unfilled
    )
    for number in range(51):
        table.bulk_insert(pa.table({"id": [number], "city": ["oslo"]}))
    table.insert(pa.table({"id": range(100, 200), "city": [f"c{number}" for number in range(100)]}))

    status, found = told([str(tmp_path / "s")], capsys)
    notes = {row["problem"]: row["command"].split() for row in found}
    assert (status, notes.keys()) == (0, {"many small files", "no metadata table"})
    for problem in ("many small files", "no metadata table"):
        assert main(notes[problem]) == 0
    capsys.readouterr()
    left = {row["problem"] for row in told([str(tmp_path / "s")], capsys)[1]}
    assert left <= {"archive is due"}
    assert main(["rebuild-metadata", str(tmp_path / "s")]) == 0  # there is one now
