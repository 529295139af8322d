"""Merge-on-read tables that real Hudi wrote, against the rows that real Hudi reads from them. No JVM is needed."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.interop.compare import assert_same_rows
from tests.interop.deviations import BEGIN_IS_INCLUDED, COMMITTED_ROWS_ARE_HIDDEN

import pyhudi

HERE = Path(__file__).parent / "mor"
ENTRIES: list[dict[str, Any]] = json.loads((HERE / "manifest.json").read_text())
QUESTIONS = [
    pytest.param(entry, question, id=f"{entry['name']}-{Path(question['file']).stem}")
    for entry in ENTRIES
    for question in entry["expected"]
]


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of the archives, by name."""
    folder = tmp_path_factory.mktemp("golden-mor")
    for entry in ENTRIES:
        with tarfile.open(HERE / entry["archive"]) as archive:
            archive.extractall(folder / entry["name"], filter="data")
    return {entry["name"]: folder / entry["name"] for entry in ENTRIES}


def ask(table: pyhudi.HudiTable, question: dict[str, Any], release: str) -> pa.Table:
    match question["query"]:
        case "as_of":
            return table.to_arrow(as_of=question["instant"])
        case "changes":
            begin = str(int(question["begin"]) - 1) if release in BEGIN_IS_INCLUDED else question["begin"]
            return table.changes(begin, question["end"])
        case kind:
            return table.to_arrow(query_type=kind)


@pytest.mark.parametrize(("entry", "question"), QUESTIONS)
def test_merge_on_read_table_of_real_hudi_gives_the_rows_that_real_hudi_reads(
    entry: dict[str, Any], question: dict[str, Any], unpacked: dict[str, Path]
) -> None:
    folder = unpacked[entry["name"]]
    expected = pq.read_table(folder / question["file"])
    assert expected.num_rows == question["rows"]
    table = pyhudi.HudiTable.for_path(str(folder / "table"))

    rows = ask(table, question, entry["release"])

    hidden = COMMITTED_ROWS_ARE_HIDDEN.get(f"{entry['name']} {Path(question['file']).stem}", {})
    expected, found = without(expected, hidden), without(rows, hidden)
    assert_same_rows(expected, found, ignore=[], hint=entry["name"])
    assert {row["id"]: row["note"] for row in rows.to_pylist() if row["id"] in hidden} == hidden


def without(rows: pa.Table, ids: Collection[str]) -> pa.Table:
    """The rows but for those with these ids."""
    return rows.filter(pc.invert(pc.is_in(rows.column("id"), pa.array(ids, pa.string())))) if ids else rows
