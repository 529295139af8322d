"""Change data through Spark: every projection has as many rows, in tasks of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.support.pages import ROOT, blocks

import pyhudi

TRIPS = pa.schema(
    [("id", pa.int64()), ("city", pa.string()), ("fare", pa.decimal128(22, 2)), ("at", pa.timestamp("us", "UTC"))]
)
CAPTURE = {"hoodie.table.cdc.enabled": "true", "hoodie.compact.inline": "false"}


def trips(*values: tuple[int, str, int]) -> pa.Table:
    columns = [[value[n] for value in values] for n in (0, 1, 2, 2)]
    return pa.table([pa.array(column).cast(field.type) for column, field in zip(columns, TRIPS, strict=True)], TRIPS)


def captured(path: str, kind: str) -> pyhudi.HudiTable:
    table = pyhudi.HudiTable.create(
        path, schema=TRIPS, record_key="id", partition_by="city", table_type=kind, hudi_options=CAPTURE
    )
    table.insert(trips((1, "oslo", 1), (2, "rome", 1)))
    table.refresh().upsert(trips((1, "oslo", 2), (3, "bern", 2)))
    table.refresh().delete(pa.table({"id": [2], "city": ["rome"]}))
    return table.refresh()


def test_all_projections_of_change_data_have_the_same_number_of_rows(spark: Any, tmp_path: Path) -> None:
    page = "docs/cdc.md"
    code = next(each.code for each in blocks(ROOT / page) if each.tested_by == "tests/spark/test_changes.py")
    path = f"{tmp_path}/captured-trips"
    table = captured(path, "mor")
    names: dict[str, Any] = {"spark": spark}
    exec(code.replace('"/tmp/', f'"{tmp_path}/').replace("20261123060735652", "000"), names)
    rows = names["rows"]

    found = sorted(tuple(row) for row in rows.collect())
    assert found == sorted(tuple(row.values()) for row in table.changes(format="cdc").to_arrow().to_pylist())
    assert [row[0] for row in found] == ["d", "i", "i", "i", "u"]
    counts = [
        rows.count(),
        len(rows.select("op").collect()),
        rows.select("after").count(),
        rows.agg({"*": "count"}).first()[0],
    ]
    assert counts == [5] * 4
    assert rows.where("op = 'u'").select("ts_ms").count() == 1

    spark.sql(
        f"""CREATE OR REPLACE TEMPORARY VIEW captured USING hudi OPTIONS (path '{path}',
        `hoodie.datasource.query.type` 'incremental', `hoodie.datasource.query.incremental.format` 'cdc',
        `hoodie.datasource.read.begin.instanttime` '000')"""
    )
    assert sorted(tuple(row) for row in spark.table("captured").collect()) == found


def test_typed_images_have_the_columns_of_the_table(spark: Any, tmp_path: Path) -> None:
    table = captured(f"{tmp_path}/t", "cow")
    rows = table.changes(format="cdc_typed", where=[("op", "!=", "i")]).to_df(spark)
    found = {row.op: (row.before, row.after) for row in rows.collect()}
    before, after = found["u"]
    assert (before.id, before.fare, after.fare) == (1, 1, 2)
    assert (after.at - before.at).microseconds == 1
    assert found["d"][1] is None
