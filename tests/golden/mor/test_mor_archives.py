"""The golden merge-on-read archives hold what their manifest says, so that the tests over them ask real questions."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

HERE = Path(__file__).parent
ENTRIES: list[dict[str, Any]] = json.loads((HERE / "manifest.json").read_text())
META = ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path"]


def test_every_archive_has_an_entry_and_every_entry_an_archive() -> None:
    assert sorted(entry["archive"] for entry in ENTRIES) == sorted(path.name for path in HERE.glob("*.tar.xz"))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["name"])
def test_archive_answers_the_questions_of_its_entry(entry: dict[str, Any]) -> None:
    completed = {write["requested"] for write in entry["writes"]}
    with tarfile.open(HERE / entry["archive"]) as archive:
        files = {member.name: archive.extractfile(member) for member in archive if member.isfile()}
        answers = {question["file"]: _rows(files[question["file"]]) for question in entry["expected"]}

    assert {name for name in files if name.startswith("expected/")} == set(answers)
    assert {question["file"]: question["rows"] for question in entry["expected"]} == {
        file: len(rows) for file, rows in answers.items()
    }
    assert {row["_hoodie_commit_time"] for rows in answers.values() for row in rows} <= completed
    for file in ("expected/snapshot.parquet", "expected/read-optimized.parquet"):
        keys = [(row["_hoodie_partition_path"], row["_hoodie_record_key"]) for row in answers[file]]
        assert len(keys) == len(set(keys)), file


def _rows(file: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(io.BytesIO(file.read()), columns=META).to_pylist()
    return rows
