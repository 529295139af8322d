"""Commands that change a table: what a dry run says and leaves, and what the command does then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.commands.command_line import main

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64())])
NO_SERVICES = {"hoodie.table.services.enabled": "false"}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A merge-on-read table of two partitions with logs, whose services have never run."""
    table = pyhudi.HudiTable.create(
        str(tmp_path / "t"),
        schema=SCHEMA,
        record_key="id",
        partition_by="city",
        ordering_fields="ts",
        table_type="mor",
        hudi_options=NO_SERVICES,
    )
    for turn in range(3):
        table.upsert(pa.table({"id": [1, 2], "city": ["oslo", "rome"], "ts": [turn, turn]}, SCHEMA))
    return str(tmp_path / "t")


def opened(path: str) -> pyhudi.HudiTable:
    return pyhudi.HudiTable.for_path(path)


def told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def state(path: str) -> list[tuple[str, int]]:
    return sorted((str(file), file.stat().st_size) for file in Path(path).rglob("*") if file.is_file())


@pytest.mark.parametrize(
    "arguments",
    [
        ["compact"],
        ["cluster"],
        ["clean"],
        ["archive"],
        ["expire"],
        ["services"],
        ["rollback"],
        ["savepoint"],
        ["index", "--create", "record_index"],
        ["upgrade", "--to", "8"],
        ["rebuild-metadata"],
    ],
    ids=lambda words: words[0],
)
def test_dry_run_writes_nothing_and_prints_one_document_or_a_table(
    arguments: list[str], path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = state(path)
    name, *rest = arguments
    told([name, path, *rest, "--dry-run"], capsys)
    assert main([name, path, *rest, "--dry-run"]) == 0
    assert capsys.readouterr().out
    assert state(path) == before


@pytest.mark.parametrize("command", ["rollback", "restore"])
def test_dry_run_of_undoing_names_the_files_and_writes_nothing(
    command: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = state(path)
    first, _, last = opened(path).inspect.timeline()["instant"].to_pylist()
    found = told([command, path, last if command == "rollback" else first, "--dry-run"], capsys)
    assert {row["action"] for row in found} == {"deltacommit"}
    assert all((Path(path) / row["path"]).stat().st_size == row["size"] for row in found)
    assert state(path) == before


def test_compact_merges_logs_and_says_how_many_slices(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert [row["compacts"] for row in told(["compact", path, "--dry-run"], capsys)] == [True, True]
    (done,) = told(["compact", path], capsys)
    assert done["slices"] == 2
    assert opened(path).inspect.sizes().logs == 0
    assert main(["compact", path]) == 0
    assert capsys.readouterr().out == "nothing to compact\n"


def test_plan_for_eyes_shows_what_would_be_done_and_counts_the_rest(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["archive", path, "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "nothing would be done",
        "3 instants stay",
        "    3: there are 3 completed commits, and 30 may be there",
    ]


def test_plan_of_a_clean_for_eyes_says_why_nothing_is_deleted(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clean", path, "--dry-run"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "nothing would be done\n"
    assert "hoodie.clean.commits.retained" in shown.err


def test_clean_deletes_what_no_retained_state_needs(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    told(["compact", path], capsys)
    option = [
        "--option",
        "hoodie.clean.policy=KEEP_LATEST_FILE_VERSIONS",
        "--option",
        "hoodie.clean.fileversions.retained=1",
    ]
    planned = [row for row in told(["clean", path, *option, "--dry-run"], capsys) if row["deletes"]]
    assert told(["clean", path, *option], capsys)["files"] == sum(row["files"] for row in planned) > 0
    assert told(["clean", path, *option], capsys) is None


def test_savepoint_is_made_listed_restored_and_deleted(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    first = opened(path).inspect.timeline()["instant"][0].as_py()
    assert told(["savepoint", path, first, "--name", "begin", "--comment", "x"], capsys)["name"] == "begin"
    assert [row["name"] for row in told(["savepoint", path, "--list"], capsys)] == ["begin"]
    assert told(["restore", path, "begin"], capsys)["to"] == first
    assert opened(path).scan(["ts"]).to_arrow()["ts"].to_pylist() == [0, 0]
    assert told(["savepoint", path, "--delete", "begin"], capsys) == {"deleted": "begin"}
    assert told(["savepoint", path, "--list"], capsys) == []


def test_rollback_undoes_the_newest_write(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    last = opened(path).inspect.timeline()["instant"].to_pylist()[-1]
    assert told(["rollback", path, last], capsys)["instant"] == last
    assert opened(path).scan(["ts"]).to_arrow()["ts"].to_pylist() == [1, 1]
    newest = opened(path).inspect.history(limit=1)["instant"].to_pylist()[0]
    assert main(["rollback", path]) == 0
    shown = capsys.readouterr()
    assert shown.out == "dead writers left nothing to roll back\n"
    assert shown.err == f"the newest completed write (upsert) stays; to undo it: pyhudi rollback {path} {newest}\n"


def test_index_is_built_listed_and_dropped(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = opened(path)
    metadata = {"hoodie.metadata.enable": "true"}
    table.upsert(pa.table({"id": [1], "city": ["oslo"], "ts": [9]}, SCHEMA), hudi_options=metadata)
    assert told(["index", path, "--create", "column_stats", "--columns", "ts"], capsys)["name"] == "column_stats"
    assert "column_stats" in [row["name"] for row in told(["index", path], capsys)]
    assert told(["rebuild-metadata", path], capsys)["built"]
    assert told(["index", path, "--refresh", "column_stats"], capsys)["name"] == "column_stats"
    assert told(["index", path, "--drop", "column_stats"], capsys) == {"dropped": "column_stats"}
    assert "column_stats" not in [row["name"] for row in told(["index", path], capsys)]


def test_upgrade_goes_both_ways(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(["upgrade", path, "--to", "8"], capsys)["after"] == 8
    assert told(["upgrade", path], capsys)["after"] == 9
    assert main(["upgrade", path, "--dry-run"]) == 0
    assert capsys.readouterr().out == "the table has version 9\n"


def test_expire_drops_old_partitions_only_where_an_option_says_so(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(["expire", path], capsys) is None
    assert main(["expire", path]) == 0
    assert capsys.readouterr().out == "no partition is too old\n"


def test_cluster_puts_small_files_together(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    told(["compact", path], capsys)
    (done,) = told(["cluster", path, "--option", "hoodie.clustering.plan.strategy.sort.columns=ts"], capsys)
    assert done["replaced"] == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["savepoint", "--list", "--name", "x"],
        ["rollback", "20200101000000000"],
        ["rollback", "20200101000000000", "--eager"],
        ["restore", "nowhere"],
        ["index", "--columns", "ts"],
        ["index", "--drop", "nothing"],
        ["compact", "--logs", "--dry-run"],
        ["clean", "--option", "hoodie.clean.commits.retained=no"],
    ],
    ids=" ".join,
)
def test_what_is_refused_ends_with_two_and_changes_nothing(
    arguments: list[str], path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = state(path)
    assert main([arguments[0], path, *arguments[1:]]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"pyhudi {arguments[0]}: ")
    assert state(path) == before


def test_services_without_an_end_are_refused_as_one_document(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["services", path, "--every", "1", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"] == "InvalidRequestError"
