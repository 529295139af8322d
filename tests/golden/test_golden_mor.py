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
from tests.interop.deviations import COMMITTED_ROWS_ARE_HIDDEN, SEQUENCE_NUMBER

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

    if question["query"] == "changes":
        expected = without_late_rows(expected, rows, state_at_end(table, question["end"]))
    hidden = COMMITTED_ROWS_ARE_HIDDEN.get(f"{entry['name']} {Path(question['file']).stem}", {})
    expected, found = without(expected, hidden), without(rows, hidden)
    assert_same_rows(expected, found, ignore=[], hint=entry["name"])
    assert {row["id"]: row["note"] for row in rows.to_pylist() if row["id"] in hidden} == hidden


def state_at_end(table: pyhudi.HudiTable, end: str | None) -> pa.Table:
    """The rows at the end of a range."""
    times = table.handle.state.timeline.completion_times
    return table.scan(as_of=None if end is None else max(t for t in times if times[t] <= end)).to_arrow()


def without_late_rows(expected: pa.Table, rows: pa.Table, state: pa.Table) -> pa.Table:
    """The rows of the table, for the records that JVM Hudi or we give as changed.

    It merges the log blocks of the range alone, so it gives late rows that lost, and partial updates as they are. If
    such a row took the place of a delete, and an older row is there again, we give that. If versions are combined, we
    also give records whose combination did not change.
    """
    numbers = expected.column(SEQUENCE_NUMBER).combine_chunks()
    again = rows.filter(pc.invert(pc.is_in(rows.column(SEQUENCE_NUMBER), value_set=numbers)))
    due = pa.chunked_array([numbers, *again.column(SEQUENCE_NUMBER).chunks])
    return state.filter(pc.is_in(state.column(SEQUENCE_NUMBER), value_set=due)).cast(rows.schema)


def without(rows: pa.Table, ids: Collection[str]) -> pa.Table:
    """The rows but for those with these ids."""
    return rows.filter(pc.invert(pc.is_in(rows.column("id"), pa.array(ids, pa.string())))) if ids else rows
