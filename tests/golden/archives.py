"""What the tests on golden tables share: the manifest's questions, the archives, and asking."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.interop.deviations import BEGIN_IS_INCLUDED

import pyhudi

Entry = dict[str, Any]


def entries(folder: Path) -> list[Entry]:
    """The tables that the manifest of a folder lists."""
    found: list[Entry] = json.loads((folder / "manifest.json").read_text())
    return found


def questions(tables: list[Entry]) -> list[Any]:
    """A parameter set (table, question) for everything that JVM Hudi was asked."""
    return [
        pytest.param(entry, question, id=f"{entry['name']}-{Path(question['file']).stem}")
        for entry in tables
        for question in entry["expected"]
    ]


def unpack(folder: Path, tables: list[Entry], to: Path) -> dict[str, Path]:
    """Folders of the archives, unpacked, by name."""
    for entry in tables:
        with tarfile.open(folder / entry["archive"]) as archive:
            archive.extractall(to / entry["name"], filter="data")
    return {entry["name"]: to / entry["name"] for entry in tables}


def ask(table: pyhudi.HudiTable, question: dict[str, Any], release: str) -> pa.Table:
    """What pyhudi answers."""
    match question["query"]:
        case "as_of":
            return table.scan(as_of=question["instant"]).to_arrow()
        case "changes":
            begin = str(int(question["begin"]) - 1) if release in BEGIN_IS_INCLUDED else question["begin"]
            return table.changes(begin, question["end"]).to_arrow()
        case kind:
            return table.scan(query_type=kind).to_arrow()
