"""The commands of docs/command_line.md and docs/slow_tables.md print what the pages say.

What differs from run to run is compared by its form: instants, ids of files, sizes with units, seconds.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.support.pages import ROOT, run_block
from tests.support.pages import blocks as python_blocks

from pyhudi.commands.command_line import main

PAGES = [ROOT / "docs" / name for name in ("command_line.md", "slow_tables.md")]
_FENCE = re.compile(r"^```(python|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FORMS = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}-\d+"), "<file id>"),
    (re.compile(r"\d{17}"), "<instant>"),
    (re.compile(r"\d+ bytes; 0 MiB of I/O +\d+ +(\d) +\d+"), r"<bytes> \1 <bytes>"),
    (re.compile(r"[\d.]+ (?:B|[KMGT]iB)\b"), "<size>"),
    (re.compile(r'("\w*(?:bytes|size)"): \d+'), r"\1: <bytes>"),
    (re.compile(r"\d+\.\d+ s\b"), "<seconds>"),
    (re.compile(r"bytes: \d+ of \d+"), "bytes: <bytes>"),
    (re.compile(r"^(user|created) .*$", re.MULTILINE), r"\1 <any>"),
    (re.compile(r" +"), " "),
)


def form_of(text: str) -> list[str]:
    """The lines of an output without what differs from run to run; the widths of columns follow from that."""
    for pattern, form in _FORMS:
        text = pattern.sub(form, text)
    return [line.rstrip() for line in text.strip().splitlines()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_the_page_print_what_it_says(
    page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    programs = iter(python_blocks(page))
    for kind, text in _FENCE.findall(page.read_text(encoding="utf-8")):
        if kind == "python":
            run_block(next(programs), names, folder=tmp_path)
            continue
        for command, said in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
            program, *arguments = shlex.split(command)
            assert program == "pyhudi"
            capsys.readouterr()
            main([argument.replace("/tmp/", f"{tmp_path}/") for argument in arguments])
            printed = capsys.readouterr()
            shown = (printed.err + printed.out).replace(f"{tmp_path}/", "/tmp/")
            assert form_of(shown) == form_of(said), command


def test_every_command_is_on_a_page() -> None:
    from pyhudi.commands.registry import COMMANDS

    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    assert [name for name in COMMANDS if f"pyhudi {name}" not in pages] == []
