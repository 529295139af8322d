"""Sizes of base files that tasks of Spark write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi

LIMIT = 400 << 10
OPTIONS = {
    "hoodie.parquet.max.file.size": str(LIMIT),
    "hoodie.parquet.small.file.limit": str(LIMIT * 3 // 4),
    "hoodie.parquet.bloom.filter.enabled": "false",
}


@pytest.mark.parametrize("operation", ["upsert", "bulk_insert"])
def test_wide_rows_leave_all_files_within_their_limit_and_narrow_ones_make_few(
    spark: Any, tmp_path: Path, operation: str
) -> None:
    schema = pa.schema([("id", pa.int64()), ("note", pa.string())])
    table = pyhudi.HudiTable.create(tmp_path / "t", schema=schema, record_key="id")
    narrow = spark.range(0, 5000, 1, 2).selectExpr("id", "'a' as note")
    digest = "sha2(concat(cast(id as string), '-', cast(n as string)), 512)"
    note = f"concat_ws('', transform(sequence(1, 64), n -> {digest})) as note"  # 8 KB, which compress to half
    wide = spark.range(10_000, 10_200, 1, 2).selectExpr("id", note)

    table.upsert(narrow, hudi_options=OPTIONS)
    assert len(table.refresh().inspect.files()) == 1
    getattr(table.refresh(), operation)(wide, hudi_options=OPTIONS)

    files = table.refresh().inspect.files()
    assert len(files) >= 2
    assert max(files.column("size").to_pylist()) < 1.1 * LIMIT
    assert table.refresh().scan().count() == 5200
