"""The frame of `pyhudi`: help, statuses, JSON, and output that is safe for terminals and pipes."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.commands.command_line import main
from pyhudi.commands.registry import COMMANDS

ROOT = Path(__file__).parents[3]
LOOKS = ["describe", "schema", "history", "timeline", "files", "partitions"]
HOSTILE = "red\x1b[31m\x07\u202e\r\x9b"


def table_with_name(path: Path, name: str = "oslo") -> pyhudi.HudiTable:
    schema = pa.schema([("id", pa.int64()), ("note", pa.string())])
    table = pyhudi.HudiTable.create(str(path), schema=schema, record_key="id", name="trips")
    table.insert(pa.table({"id": [1], "note": [name]}))
    return table.refresh()


def printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def run_program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "pyhudi", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        check=False,
    )


def test_entry_point_is_the_function_that_runs_commands() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, name = scripts["pyhudi"].partition(":")
    assert getattr(import_module(module), name) is main


def test_help_of_all_commands_and_completion_load_neither_pyarrow_nor_numpy_nor_spark() -> None:
    program = (
        "import sys\n"
        "from contextlib import suppress\n"
        "from pyhudi.commands.command_line import main\n"
        "main(['--help'])\n"
        "main(['completion', 'bash'])\n"
        "for name in sys.argv[1:]:\n"
        "    with suppress(SystemExit):\n"
        "        main([name, '--help'])\n"
        "sys.exit(', '.join({'pyarrow', 'numpy', 'pyspark', 'obstore', 'duckdb'} & sys.modules.keys()) or None)\n"
    )
    run = subprocess.run([sys.executable, "-c", program, *COMMANDS], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_help_has_a_line_for_each_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ")] == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_says_how_it_ends(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    said = capsys.readouterr().out
    assert ended.value.code == 0
    assert said.startswith(f"usage: pyhudi {name} ")


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"pyhudi {pyhudi.__version__}\n"


def test_no_command_is_refused_with_the_list_of_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "describe" in capsys.readouterr().out


def test_unknown_command_is_refused_with_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["descibe"]) == 2
    assert capsys.readouterr().err == "pyhudi: there is no command 'descibe': did you mean describe?\n"


@pytest.mark.parametrize("name", LOOKS)
def test_look_at_a_table_gives_a_table_for_eyes_and_one_json_document(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table_with_name(tmp_path / "t")
    assert main([name, str(tmp_path / "t")]) == 0
    seen = capsys.readouterr().out
    assert len(seen.splitlines()) > 1
    assert printed([name, str(tmp_path / "t")], capsys)


def test_json_has_values_as_they_are_and_text_has_units(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = table_with_name(tmp_path / "t")
    (row,) = printed(["files", str(tmp_path / "t")], capsys)
    assert row == table.inspect.files().to_pylist()[0]
    assert main(["files", str(tmp_path / "t")]) == 0
    assert re.search(r"\d KiB", capsys.readouterr().out)


@pytest.mark.parametrize("name", LOOKS)
def test_folder_that_is_no_table_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert "not a Hudi table" in said.err
    assert said.err.endswith("(see docs/troubleshooting.md#tablenotfounderror)\n")


def test_damaged_table_fails_with_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table_with_name(tmp_path / "t")
    (tmp_path / "t/.hoodie/hoodie.properties").write_text("hoodie.table.version=9\n")
    assert main(["describe", str(tmp_path / "t")]) == 1
    assert "hoodie.properties" in capsys.readouterr().err


@pytest.mark.parametrize("name", LOOKS)
def test_table_of_a_refused_version_ends_with_two_and_says_what_to_do(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table_with_name(tmp_path / "t")
    properties = tmp_path / "t/.hoodie/hoodie.properties"
    properties.write_text(properties.read_text().replace("hoodie.table.version=9", "hoodie.table.version=5"))
    assert main([name, str(tmp_path / "t")]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert "upgrade the table with JVM Hudi" in said.err


def test_server_that_is_away_fails_with_one_and_its_address(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
        given = {"fs.s3a.endpoint": endpoint, "fs.s3a.access.key": "a", "fs.s3a.secret.key": "secret-of-mine"}
        options = [word for key, value in given.items() for word in ("--option", f"{key}={value}")]
        assert main(["describe", "s3://bucket/t", *options]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert endpoint in said.err
    assert "secret-of-mine" not in said.err


@contextmanager
def without_rights(folder: Path) -> Iterator[None]:
    """Take the rights to a folder away; from the superuser, who may read everything, its identity, too."""
    is_root = os.geteuid() == 0
    folder.chmod(0)
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o700)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="rights are those of Unix")
def test_table_without_permission_fails_with_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table_with_name(tmp_path / "t")
    assert main(["describe", str(tmp_path / "t")]) == 0  # loads what it needs while it may
    capsys.readouterr()
    with without_rights(tmp_path / "t/.hoodie"):
        assert main(["describe", str(tmp_path / "t")]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert "denied" in said.err


def test_names_that_would_control_a_terminal_are_written_as_escapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = pa.schema([("id", pa.int64())])
    pyhudi.HudiTable.create(str(tmp_path / "t"), schema=schema, record_key="id", name=HOSTILE)
    for arguments in (["describe"], ["describe", "--json"]):
        assert main([arguments[0], str(tmp_path / "t"), *arguments[1:]]) == 0
        said = capsys.readouterr().out
        assert "red" in said
        assert set(said) - {"\n"} <= {chr(code) for code in range(32, 127)}
    assert "red\\x1b[31m\\x07\\u202e\\r\\x9b" in _text_of(["describe", str(tmp_path / "t")], capsys)


def _text_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[HOSTILE], ["describe", HOSTILE], ["describe", "x", HOSTILE]])
def test_arguments_that_would_control_a_terminal_are_refused_in_safe_words(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status = 0
    try:
        status = main(arguments)
    except SystemExit as ended:
        status = int(str(ended.code))
    assert status == 2
    assert set(capsys.readouterr().err) - {"\n"} <= {chr(code) for code in range(32, 127)}


def test_narrow_terminal_gets_blocks_that_lose_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_with_name(tmp_path / "t")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    lines = _text_of(["files", str(tmp_path / "t")], capsys).splitlines()
    assert lines[0] == "-- 1 --"
    assert lines[2].split() == ["file_id", table.inspect.files()["file_id"][0].as_py()]


def test_terminal_that_is_nearly_wide_enough_shortens_the_longest_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table_with_name(tmp_path / "t")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "90")
    lines = _text_of(["files", str(tmp_path / "t")], capsys).splitlines()
    assert [len(line) <= 90 for line in lines] == [True, True]
    assert "…" in lines[1]


@pytest.mark.parametrize("closed", ["at once", "after a line"])
def test_pipe_that_is_closed_ends_without_a_traceback(closed: str, tmp_path: Path) -> None:
    table_with_name(tmp_path / "t")
    command = [sys.executable, "-m", "pyhudi", "files", str(tmp_path / "t"), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        if closed == "after a line":
            process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
        assert (process.wait(60), said) == (0, b"")


def test_text_that_the_terminal_cannot_show_is_written_as_escapes(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("città", pa.string())])
    pyhudi.HudiTable.create(str(tmp_path / "t"), schema=schema, record_key="id", partition_by="città")
    run = run_program("schema", str(tmp_path / "t"), PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (run.returncode, run.stderr) == (0, b"")
    assert b"citt\\xe0" in run.stdout


def test_warning_is_a_note_in_one_line(tmp_path: Path) -> None:
    table_with_name(tmp_path / "t")
    run = run_program("services", str(tmp_path / "t"), "--dry-run", "--option", "hoodie.no.such.option=1")
    assert (run.returncode, run.stderr.count(b"\n")) == (0, 1)
    assert run.stderr.startswith(b"warning: ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command_and_flag(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = _text_of(["completion", shell], capsys)
    assert [name for name in (*COMMANDS, "json", "dry-run") if name not in said] == []


@pytest.mark.parametrize(
    ("words", "offered"), [(["pyhudi", "desc"], "describe"), (["pyhudi", "describe", "--js"], "--json")]
)
def test_completion_of_bash_offers_commands_and_flags(words: list[str], offered: str) -> None:
    script = run_program("completion", "bash").stdout.decode()
    program = f"{script}\nCOMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _pyhudi; echo ${{COMPREPLY[@]}}"
    run = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=False)
    assert (run.stdout.split(), run.stderr) == ([offered], "")
