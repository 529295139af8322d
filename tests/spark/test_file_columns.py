"""Single columns of rows in a store that Spark cannot open, as functions in a worker read them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.config.read_config import ReadConfig
from pyhudi.read.table_of_path import plan_of_path
from pyhudi.spark.reads import file_columns, log_columns
from pyhudi.spark.reads.file_columns import read_file_column
from pyhudi.spark.reads.slice_tasks import packed


def test_batch_with_rows_of_base_files_and_of_logs_has_the_values_of_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (file_columns, log_columns):
        monkeypatch.setattr(module, "begin_task", lambda: None)  # it changes the process that it is called in
    path = str(tmp_path / "t")
    rows = pa.table({"id": [0, 1, 2, 3], "ts": [1, 1, 1, 1]})
    table = pyhudi.HudiTable.create(
        path, schema=rows.schema, record_key="id", ordering_fields="ts", table_type="MERGE_ON_READ"
    )
    table.upsert(rows)
    table.upsert(pa.table({"id": [3, 2], "ts": [7, 8]}))
    _, plan = plan_of_path(path, {}, ReadConfig())

    base, logs = 0, -1
    parts, places = pa.array([base, base, logs, logs, base]), pa.array([1, 2, 0, 1, 0])
    ids = read_file_column(packed(plan), "id", pa.int64(), parts, places)
    values = read_file_column(packed(plan), "ts", pa.int64(), parts, places)

    found = list(zip(ids.to_pylist(), values.to_pylist(), strict=True))
    assert [found[0], found[1], found[4]] == [(1, 1), (2, 1), (0, 1)]
    assert sorted(found[2:4]) == [(2, 8), (3, 7)]
