"""One row that is wider than blocks, batches and files are to be, among small ones, in writes that succeed and fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.audit import audit

import pyhudi
from pyhudi.errors import RecordKeyError
from pyhudi.spark import engine
from pyhudi.spark.parcels import BLOCK_BYTES
from pyhudi.storage.local import LocalStorage

ROWS, WIDE = 400, 7
WIDTH = BLOCK_BYTES + 1_000_000
SCHEMA = pa.schema({"id": pa.string(), "city": pa.int64(), "text": pa.string(), "version": pa.int64()})
OPTIONS = {
    "hoodie.parquet.max.file.size": str(1 << 20),
    "hoodie.logfile.data.block.max.size": str(1 << 20),
    "hoodie.memory.merge.max.size": str(1 << 20),
    "hoodie.compact.inline": "false",
    "hoodie.metadata.enable": "false",
}


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_row_wider_than_every_limit_is_written_changed_and_read(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(engine, "IN_PROCESS_BYTES_MAX", 0)  # rows go through Spark's shuffle
    folder = tmp_path / "t"
    table = pyhudi.HudiTable.create(
        folder, schema=SCHEMA, record_key="id", partition_by="city", table_type=kind, hudi_options=OPTIONS
    )

    def rows(version: int, key: str = "string(id)") -> Any:
        text = f"if(id = {WIDE}, repeat('{version}', {WIDTH}), 'small') text"
        return spark.range(0, ROWS, 1, 2).selectExpr(f"{key} id", "id % 2 city", text, f"{version}L version")

    table.insert(rows(0))
    with pytest.raises(RecordKeyError):
        table.upsert(rows(8, key="if(id = 399, null, string(id))"))
    table.upsert(rows(1))

    texts = {row["id"]: row["text"] for row in table.scan(["id", "text"]).to_arrow().to_pylist()}
    assert texts.pop(str(WIDE)) == "1" * WIDTH
    assert set(texts.values()) == {"small"}
    assert len(texts) == ROWS - 1
    read = spark.read.format("hudi").load(str(folder)).selectExpr("max(length(text))", "count(*)", "min(version)")
    assert [tuple(row) for row in read.collect()] == [(WIDTH, ROWS, 1)]
    audit(LocalStorage(folder))
