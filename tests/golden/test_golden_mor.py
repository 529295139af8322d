"""Merge-on-read tables that JVM Hudi wrote, against the rows that JVM Hudi reads from them. No JVM is needed."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.golden.archives import ask, entries, questions, unpack
from tests.interop.compare import assert_same_rows
from tests.interop.deviations import COMMITTED_ROWS_ARE_HIDDEN

import pyhudi

HERE = Path(__file__).parent / "mor"
ENTRIES = entries(HERE)


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of the archives that were unpacked in this run, by name."""
    return unpack(HERE, ENTRIES, tmp_path_factory.mktemp("golden-mor"))


@pytest.mark.parametrize(("entry", "question"), questions(ENTRIES))
def test_merge_on_read_table_of_jvm_hudi_gives_the_rows_that_jvm_hudi_reads(
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
