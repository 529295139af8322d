"""Texts that occur often, which are read as dictionaries and filled in: the rows are those of a plain read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi.io.parquet_batches import bounded_batches, open_parquet

ROWS = 20_000
NUMBERS = list(range(ROWS))
COLUMNS = {
    "text": pa.array([f"city-{number % 3}" for number in NUMBERS]),
    "nulls": pa.array([None if number % 2 else f"city-{number % 3}" for number in NUMBERS]),
    "only nulls": pa.nulls(ROWS, pa.string()),
    "bytes": pa.array([b"\xff%d" % (number % 3) for number in NUMBERS]),
    "large": pa.array([f"city-{number % 3}" for number in NUMBERS], pa.large_string()),
    "nested": pa.array([{"name": f"city-{number % 3}"} for number in NUMBERS]),
    "lists": pa.array([[f"city-{number % 3}"] * (number % 3) for number in NUMBERS]),
    "first rows alone": pa.array([f"city-{number if number > ROWS // 2 else 1}" for number in NUMBERS]),
    "all others": pa.array([f"city-{number}" for number in NUMBERS]),
}


@pytest.mark.parametrize("row_group_size", [ROWS, ROWS // 2, 1_000])
@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}, {"dictionary_pagesize_limit": 100}], ids=str)
def test_rows_with_texts_that_occur_often_are_those_of_a_plain_read(
    tmp_path: Path, options: dict[str, Any], row_group_size: int
) -> None:
    rows = pa.table({**COLUMNS, "id": NUMBERS})
    path = tmp_path / "rows.parquet"
    pq.write_table(rows, path, row_group_size=row_group_size, store_schema=False, **options)
    file = open_parquet(path)

    batches = list(bounded_batches(path, file, None, 7_000))

    plain = file.read().replace_schema_metadata(None)
    assert pa.Table.from_batches(batches).replace_schema_metadata(None) == plain
    assert max(batch.num_rows for batch in batches) <= 7_000
    named = list(bounded_batches(path, file, ["id", "text"], 7_000, range(1)))
    assert pa.Table.from_batches(named).to_pydict() == plain.select(["text", "id"]).slice(0, row_group_size).to_pydict()
