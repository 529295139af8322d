"""Tables that JVM Hudi wrote, against the rows that JVM Hudi read from them. No JVM: both are in the archives."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.golden.archives import ask, entries, questions, unpack
from tests.interop.compare import assert_same_rows
from tests.interop.deviations import PARTITION_COLUMN_FROM_PATH
from tests.interop.shapes import Shape

import pyhudi
from pyhudi.io import parquet_batches
from pyhudi.read import arrow

HERE = Path(__file__).parent
ENTRIES = entries(HERE)


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of the archives that were unpacked in this run, by name."""
    return unpack(HERE, ENTRIES, tmp_path_factory.mktemp("golden"))


def folder_of(row: dict[str, Any]) -> str:
    """The partition path that follows from a row of the tables in PARTITION_COLUMN_FROM_PATH."""
    if "event_ms" in row:
        return dt.datetime.fromtimestamp(row["event_ms"] / 1000, dt.UTC).strftime("%Y/%m/%d")
    return Shape(name="t", table_version=8, partition_by=("city",), url_encode=True).partition_path_of(row)


@pytest.mark.parametrize(("entry", "question"), questions(ENTRIES))
def test_table_of_jvm_hudi_gives_the_rows_that_jvm_hudi_reads(
    entry: dict[str, Any], question: dict[str, Any], unpacked: dict[str, Path]
) -> None:
    folder = unpacked[entry["name"]]
    expected = pq.read_table(folder / question["file"])
    assert expected.num_rows == question["rows"]
    table = pyhudi.HudiTable.for_path(str(folder / "table"))

    rows = ask(table, question, entry["release"])

    from_path = PARTITION_COLUMN_FROM_PATH.get(entry["name"])
    assert_same_rows(expected, rows, ignore=[from_path] if from_path else [], hint=entry["name"])
    if from_path:
        assert [folder_of(row) for row in rows.to_pylist()] == rows["_hoodie_partition_path"].to_pylist()


@pytest.mark.parametrize(("entry", "question"), questions(ENTRIES))
def test_table_of_jvm_hudi_gives_the_same_rows_where_its_files_are_read_as_large_ones(
    entry: dict[str, Any], question: dict[str, Any], unpacked: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(unpacked[entry["name"]] / "table")
    rows = ask(pyhudi.HudiTable.for_path(path), question, entry["release"])
    monkeypatch.setattr(arrow, "FEW_ROWS", 0)
    monkeypatch.setattr(parquet_batches, "FEW_ROWS", 0)

    found = ask(pyhudi.HudiTable.for_path(path), question, entry["release"])

    assert_same_rows(rows, found, hint=entry["name"])
    assert found.column("_hoodie_record_key") == rows.column("_hoodie_record_key")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["name"])
def test_history_of_a_table_of_jvm_hudi_names_its_commits(entry: dict[str, Any], unpacked: dict[str, Path]) -> None:
    table = pyhudi.HudiTable.for_path(str(unpacked[entry["name"]] / "table"))

    history = table.inspect.history().to_pylist()

    active = [write["requested"] for write in entry["writes"]]
    assert [row["instant"] for row in reversed(history)][-len(active) :] == active
    assert [row["operation"].lower() for row in reversed(history)] == entry["operations"]
    assert table.inspect.history(limit=2).to_pylist() == history[:2]
