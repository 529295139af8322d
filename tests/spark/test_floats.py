"""NaN and -0.0: Spark finds their rows in tables as it does in memory."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi

COUNT = 2_000
VALUES = {
    "few NaN": [math.nan if n % 700 == 0 else float(n) for n in range(COUNT)],
    "NaN and one number": [math.nan if n % 2 else 5.0 for n in range(COUNT)],
    "NaN in the second row group": [5.0] * (COUNT - 500) + [math.nan] * 500,
    "negative zeros": [-0.0 if n % 2 else 1.5 for n in range(COUNT)],
}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_conditions_find_the_rows_of_floats_that_they_find_in_memory(
    spark: Any, tmp_path: Path, values: list[float]
) -> None:
    rows = pa.table({"id": range(COUNT), "f": values})
    path = str(tmp_path / "t")
    table = pyhudi.HudiTable.create(path, schema=rows.schema, record_key="id")
    reader = pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(COUNT // 2))
    table.bulk_insert(reader, hudi_options={"hoodie.parquet.block.size": "100000"})
    (file,) = (tmp_path / "t").glob("*.parquet")
    assert pq.ParquetFile(file).metadata.num_row_groups == 2
    stored, in_memory = spark.read.format("hudi").load(path), spark.createDataFrame(rows)

    for condition in ("f <> 5.0", "f > 6", "f > 5000", "not (f = 5.0)", "isnan(f)", "f in (double('NaN'))", "f = 0.0"):
        found, expected = (frame.where(condition).count() for frame in (stored, in_memory))
        assert found == expected, condition
