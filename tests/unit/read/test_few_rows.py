"""Rows that a condition on keys finds are those that a read of all rows finds, whatever the file is like."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.config.read_config import ReadConfig
from pyhudi.errors import CorruptDataError
from pyhudi.read.arrow import read_table
from pyhudi.read.few_rows import read_few_rows
from pyhudi.read.scan import ScanPlan, plan_table_scan
from pyhudi.storage.open import open_storage
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table

ROWS = 3_000
POINT = pa.struct([("x", pa.float64()), ("names", pa.list_(pa.string()))])
OLDER = pa.schema([("id", pa.int64()), ("city", pa.string()), ("n", pa.int32()), ("at", pa.timestamp("us", "UTC"))])
NEWER = pa.schema([*OLDER, ("text", pa.string()), ("point", POINT)]).set(2, pa.field("n", pa.int64()))
WANTED = {
    "none": [[-1]],
    "one": [[2 * ROWS - 1]],
    "first": [[0]],
    "some of both": [[0, 1, 17, ROWS - 1, ROWS, ROWS + 5, 2 * ROWS - 1]],
    "all": [list(range(2 * ROWS))],
}


def rows(first: int, schema: pa.Schema) -> pa.Table:
    numbers = np.arange(first, first + ROWS)
    values = {
        "id": numbers,
        "city": [["oslo", "rome", ""][number % 3] for number in numbers],
        "n": [None if number % 7 == 0 else int(number) for number in numbers],
        "at": numbers * 1_000_003,
        "text": [None if number % 5 == 0 else f"text {number}" for number in numbers],
        "point": [None if number % 4 == 0 else {"x": number / 3, "names": [str(number)]} for number in numbers],
    }
    return pa.table([pa.array(values[field.name], field.type) for field in schema], schema=schema)


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Storage, ScanPlan]:
    """A table with an older file, and a newer one in row groups, whose columns are more and wider."""
    path = tmp_path_factory.mktemp("t")
    table = pyhudi.HudiTable.create(str(path), schema=OLDER, record_key="id")
    options = {"hoodie.parquet.small.file.limit": "0"}
    table.insert(rows(0, OLDER), hudi_options=options)
    table.refresh().insert(rows(ROWS, NEWER), hudi_options=options)
    storage = open_storage(str(path), {})
    plan = plan_table_scan(load_table(storage), ReadConfig.from_options({}))
    newer = max(one.files.base or "" for one in plan.slices if "text" in stored(path / (one.files.base or "")).names)
    pq.write_table(pq.read_table(path / newer), path / newer, row_group_size=700, data_page_size=1000)
    return storage, plan


def stored(path: Path) -> pa.Schema:
    return pq.read_schema(path)


@pytest.mark.parametrize("columns", [None, ["id"], ["text", "city"], ["point", "id", "_hoodie_record_key"], []])
@pytest.mark.parametrize("wanted", WANTED)
def test_rows_with_some_keys_are_those_of_a_read_of_whole_row_groups(
    planned: tuple[Storage, ScanPlan], wanted: str, columns: list[str] | None
) -> None:
    where = [("id", "in", *WANTED[wanted])]
    storage, plan = planned

    found = read_few_rows(storage, plan, columns, where)

    assert found.equals(read_table(storage, plan, columns, where))


@pytest.mark.parametrize(
    "where",
    [[("n", "==", 5)], [("text", "==", "text 3001"), ("id", ">", 3)], [("id", "==", 9), ("city", "!=", "oslo")]],
)
def test_conditions_on_columns_that_some_files_lack_find_the_same_rows(
    planned: tuple[Storage, ScanPlan], where: list[tuple[str, str, object]]
) -> None:
    storage, plan = planned
    assert read_few_rows(storage, plan, None, where).equals(read_table(storage, plan, None, where))


def test_a_page_that_is_damaged_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    table = pyhudi.HudiTable.create(str(tmp_path), schema=OLDER, record_key="id")
    table.insert(rows(0, OLDER))
    storage = open_storage(str(tmp_path), {})
    plan = plan_table_scan(load_table(storage), ReadConfig.from_options({}))
    (path,) = (one.files.base or "" for one in plan.slices)
    at = pq.read_metadata(tmp_path / path).row_group(0).column(1).data_page_offset
    content = bytearray((tmp_path / path).read_bytes())
    content[at + 200] ^= 0xFF
    (tmp_path / path).write_bytes(bytes(content))

    with pytest.raises(CorruptDataError) as caught:
        read_few_rows(storage, plan, None, [("id", "==", 5)])
    assert caught.value.context["path"] == path
