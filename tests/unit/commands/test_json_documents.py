"""`--json` of every command prints one JSON document, whether the command does its work, fails or is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.commands.command_line import main, parser_of
from pyhudi.commands.registry import COMMANDS

WITHOUT_JSON = {"completion", "inspect"}
"""A script for a shell, and a page for a browser."""
MORE = {
    "sample": ["--limit", "1"],
    "query": ["select count(*) from t"],
    "lookup": ["1"],
    "changes": ["--cdc"],
    "diff": ["first"],
    "savepoint": ["--name", "second"],
    "restore": ["first"],
    "rollback": ["--dry-run"],
    "upgrade": ["--to", "9"],
    "sync": ["--option", "hoodie.datasource.hive_sync.metastore.uris=thrift://127.0.0.1:1"],
    "export": ["{folder}/exported"],
    "copy": ["{folder}/copied"],
    "bootstrap": ["--from", "{folder}/plain", "--record-key", "id"],
    "streamer": ["--source-class", "JsonDFSSource"],
    "wait-for": ["--partition", "oslo", "--timeout", "0"],
}
"""What a command needs besides the path. Some are refused or fail with it, which is to be one document as well."""


def document(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    capsys.readouterr()
    try:
        status = main(arguments)
    except SystemExit as ended:
        status = int(str(ended.code))
    return status, json.loads(capsys.readouterr().out)  # which refuses anything before and behind it


def table_of_two_writes(path: Path, kind: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64())])
    table = pyhudi.HudiTable.create(
        str(path), schema=schema, record_key="id", partition_by="city", ordering_fields="ts", table_type=kind
    )
    table.insert(pa.table({"id": [1, 2], "city": ["oslo", "rome"], "ts": [1, 1]}))
    table.savepoints.create(name="first")
    table.upsert(pa.table({"id": [1], "city": ["oslo"], "ts": [2]}))


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_every_command_prints_one_document_of_a_table(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table_of_two_writes(tmp_path / "t", kind)
    statuses = {}
    for name in sorted(COMMANDS.keys() - WITHOUT_JSON):
        more = [word.replace("{folder}", str(tmp_path)) for word in MORE.get(name, [])]
        statuses[name], said = document([name, str(tmp_path / "t"), *more, "--json"], capsys)
        is_error = isinstance(said, dict) and said.keys() == {"error", "message", "context", "retry", "page"}
        assert is_error or statuses[name] in (0, 1), (name, said)
    assert {name for name, status in statuses.items() if status == 0} >= {"describe", "files", "sample", "stats"}
    assert (statuses["compact"], statuses["sync"]) == (0 if kind == "mor" else 2, 1)


def test_every_command_prints_one_document_where_it_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in sorted(COMMANDS.keys() - WITHOUT_JSON - {"doctor"}):  # which without a path looks at this machine
        assert "--json" in parser_of(name).format_help()
        status, said = document([name, "--json"], capsys)
        assert (status, said["error"]) in {(2, "InvalidRequestError"), (2, "ConfigError")}, name
    status, said = document(["descibe", "--json"], capsys)
    assert (status, said["message"]) == (2, "there is no command 'descibe': did you mean describe?")
    status, said = document(["describe", str(tmp_path), "--json"], capsys)
    assert (status, said["error"], said["context"]) == (2, "TableNotFoundError", {"path": f"file:{tmp_path}"})
    assert said["page"] == "docs/troubleshooting.md#tablenotfounderror"
