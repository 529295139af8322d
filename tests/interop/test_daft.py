"""Daft reads our tables, by its own reader of Hudi: copy-on-write ones of version 6, the newest it knows.

It does not read replace commits, so overwrites and clusterings have to be cleaned before it reads.

Its environment is made by `python tools/daft.py`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from tools import daft

Row = tuple[int, str, int, float]
COLUMNS = ("id", "city", "ts", "fare")
PROGRAM = """
import json, sys

import daft

try:
    table = daft.read_hudi(sys.argv[1])
    if sys.argv[2]:
        table = table.where(daft.col("id") == int(sys.argv[2]))
    print(json.dumps(table.select("id", "city", "ts", "fare").to_pylist()))
except Exception as error:
    print(json.dumps(str(error)))
"""
Read = Callable[..., Any]


@pytest.fixture(scope="session")
def read() -> Read:
    """What Daft makes of a table: its rows, or the text of its error. `id`: those with this value alone."""
    python = daft.find()
    if python is None:
        pytest.skip("Daft is not here: python tools/daft.py")

    def run(table: Path, *, id: str = "") -> Any:  # noqa: A002
        done = subprocess.run(
            [python, "-c", PROGRAM, table, id],
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
            env={"DAFT_ANALYTICS_ENABLED": "0", "DO_NOT_TRACK": "true", "DAFT_PROGRESS_BAR": "0"},
        )
        answer = json.loads(done.stdout.splitlines()[-1])
        return answer if isinstance(answer, str) else sorted(tuple(row[name] for name in COLUMNS) for row in answer)

    return run


def rows(*given: Row) -> pa.Table:
    schema = pa.schema([("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])
    return pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in given], schema)


def made(path: Path, version: int, **options: str) -> pyhudi.HudiTable:
    """A table with updated and deleted rows."""
    given = {"hoodie.write.table.version": str(version), **options}
    table = pyhudi.HudiTable.create(
        str(path),
        schema=rows().schema,
        record_key="id",
        partition_by=["city"],
        ordering_fields=["ts"],
        hudi_options=given,
    )
    table.upsert(rows((1, "oslo", 1, 1.0), (2, "rome", 1, 2.0), (3, "oslo", 1, 3.0), (4, "bern", 1, 4.0)))
    table.upsert(rows((1, "oslo", 2, 10.0), (5, "paris", 1, 5.0)))
    table.delete_where([("id", "==", 3)])
    return table


EXPECTED = [(1, "oslo", 2, 10.0), (2, "rome", 1, 2.0), (4, "bern", 1, 4.0), (5, "paris", 1, 5.0)]


@pytest.mark.parametrize("has_metadata_table", ["true", "false"])
@pytest.mark.parametrize("is_hive_style", ["true", "false"])
def test_daft_reads_inserted_and_updated_rows_and_no_deleted_ones(
    has_metadata_table: str, is_hive_style: str, read: Read, tmp_path: Path
) -> None:
    options = {
        "hoodie.metadata.enable": has_metadata_table,
        "hoodie.datasource.write.hive_style_partitioning": is_hive_style,
    }
    made(tmp_path / "trips", 6, **options)

    assert read(tmp_path / "trips") == EXPECTED
    assert read(tmp_path / "trips", id="5") == [(5, "paris", 1, 5.0)]


def test_daft_reads_overwritten_rows_until_a_clean_has_deleted_their_files(read: Read, tmp_path: Path) -> None:
    table = made(tmp_path / "trips", 6)
    table.insert_overwrite(rows((6, "bern", 1, 6.0)))
    new = [row for row in EXPECTED if row[1] != "bern"] + [(6, "bern", 1, 6.0)]
    assert read(tmp_path / "trips") == sorted([*EXPECTED, (6, "bern", 1, 6.0)])

    table.upsert(rows((6, "bern", 1, 6.0)))
    table.services.clean(hudi_options={"hoodie.clean.commits.retained": "1"})

    assert read(tmp_path / "trips") == new


@pytest.mark.parametrize("version", [8, 9])
def test_daft_refuses_newer_versions_by_name(version: int, read: Read, tmp_path: Path) -> None:
    made(tmp_path / "trips", version)

    assert read(tmp_path / "trips") == "Only support table version 5 and 6"


def test_daft_reads_a_table_that_was_taken_down_to_version_6(read: Read, tmp_path: Path) -> None:
    table = made(tmp_path / "trips", 9)

    table.alter.downgrade(6)

    assert read(tmp_path / "trips") == EXPECTED


def test_daft_refuses_merge_on_read_tables(read: Read, tmp_path: Path) -> None:
    made(tmp_path / "trips", 6, **{"hoodie.datasource.write.table.type": "MERGE_ON_READ"})

    assert "COPY_ON_WRITE" in read(tmp_path / "trips")
