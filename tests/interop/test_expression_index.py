"""Expression indexes that JVM Hudi or pyhudi made, and both keep: JVM Hudi's queries by them lose no row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from tests.support.oracle import Oracle

import pyhudi

LOCK: Final = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
TABLE: Final = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.metadata.enable": "true",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.compact.inline": "false",
    "hoodie.write.lock.provider": LOCK,
    "hoodie.datasource.write.operation": "upsert",
}
SCHEMA: Final = pa.schema(
    [("id", pa.string()), ("p", pa.string()), ("ts", pa.int64()), ("name", pa.string()), ("day", pa.date32())]
)
QUERIES: Final = (
    "lower(name) = 'name3'",
    "lower(name) > 'name6'",
    "lower(name) is null",
    "from_unixtime(ts, 'yyyy-MM-dd') = '2023-11-17'",
    "from_unixtime(ts, 'yyyy-MM-dd') < '2023-11-16'",
    "year(day) = 2001",
)
MADE: Final = (
    ("by_lower", "name", {"expr": "lower"}),
    ("by_day", "ts", {"expr": "from_unixtime", "format": "yyyy-MM-dd"}),
    ("by_year", "day", {"expr": "year"}),
)


@pytest.mark.parametrize(("kind", "maker"), [("COPY_ON_WRITE", "jvm"), ("MERGE_ON_READ", "ours")])
def test_statistics_of_expressions_leave_out_no_row_whoever_made_and_writes_them(
    oracle_of: Callable[[str], Oracle], tmp_path: Path, kind: str, maker: str
) -> None:
    judge, path, name = oracle_of("1.2.0"), tmp_path / "t", f"ei_{maker}_{kind.lower()}"
    theirs = {**TABLE, "hoodie.datasource.write.table.type": kind}
    judge.write(path, _rows(range(12)), theirs, mode="overwrite")
    judge.sql(f"create table {name} using hudi location '{path}'")
    judge.sql(f"set hoodie.write.lock.provider={LOCK}")
    for index, column, options in MADE:
        if maker == "jvm":
            said = ", ".join(f"{key}='{value}'" for key, value in options.items())
            judge.sql(f"create index {index} on {name} using column_stats({column}) options({said})")
        else:
            made = _ours(path).indexes.create(index, "expression", column, expression=options)
            assert made.file_groups == 2
    shown = {row["index_name"] for row in judge.sql(f"show indexes from {name}")}
    assert {f"expr_index_{index}" for index, _, _ in MADE} <= shown
    _check(judge, path, name)
    _ours(path).upsert(_rows(range(8, 18), shift=3))
    _check(judge, path, name)
    judge.write(path, _rows(range(16, 22), shift=1), theirs)
    _check(judge, path, name)
    _ours(path).delete(_rows(range(2, 4)).select(["id", "p"]))
    _ours(path).services.cluster(hudi_options={"hoodie.clustering.plan.strategy.small.file.limit": "100000000"})
    _ours(path).upsert(_rows(range(22, 24), names=["ÄÖÜ", "name3"]))
    _check(judge, path, name)
    judge.sql(f"drop index by_year on {name}")
    _ours(path).indexes.refresh("by_lower")
    _ours(path).indexes.drop("by_day")
    assert [row for row in _ours(path).indexes.list().column("name").to_pylist() if "by" in row] == ["by_lower"]
    _check(judge, path, name)


def test_bloom_filters_of_an_expression_leave_out_no_row(oracle_of: Callable[[str], Oracle], tmp_path: Path) -> None:
    judge, path = oracle_of("1.2.0"), tmp_path / "t"
    judge.write(
        path, _rows(range(1, 5)), {**TABLE, "hoodie.datasource.write.table.type": "COPY_ON_WRITE"}, mode="overwrite"
    )
    judge.sql(f"create table ei_bloom using hudi location '{path}'")
    judge.sql(f"set hoodie.write.lock.provider={LOCK}")
    judge.sql("create index by_upper on ei_bloom using bloom_filters(name) options(expr='upper')")
    _ours(path).upsert(_rows(range(6, 10)))
    _ours(path).upsert(_rows(range(11, 13), names=["ÄÖÜ", "name3"]))
    for wanted in ("NAME3", "NAME8", "ÄÖÜ", "none"):
        judge.sql("refresh table ei_bloom")
        found = {row["id"] for row in judge.sql(f"select id from ei_bloom where upper(name) = '{wanted}'")}
        rows = _ours(path).scan(["id", "name"]).to_arrow().to_pylist()
        assert found == {row["id"] for row in rows if (row["name"] or "").upper() == wanted}


def _check(judge: Oracle, path: Path, name: str) -> None:
    judge.sql(f"refresh table {name}")
    for query in QUERIES:
        found = {row["id"] for row in judge.sql(f"select id from {name} where {query}")}
        judge.sql("set hoodie.enable.data.skipping=false")
        expected = {row["id"] for row in judge.sql(f"select id from {name} where {query}")}
        judge.sql("set hoodie.enable.data.skipping=true")
        assert found == expected, query
    assert _ours(path).scan().count() == int(str(judge.sql(f"select count(*) n from {name}")[0]["n"]))


def _ours(path: Path) -> pyhudi.HudiTable:
    return pyhudi.HudiTable.for_path(str(path), hudi_options={"hoodie.parquet.small.file.limit": "0"})


def _rows(numbers: range, *, shift: int = 0, names: list[str] | None = None) -> pa.Table:
    columns = [
        [f"k{number}" for number in numbers],
        [f"p{number % 2}" for number in numbers],
        [1_700_000_000 + 86_400 * (number + shift) for number in numbers],
        names or [None if number % 5 == 0 else f"Name{(number + shift) % 9}" for number in numbers],
        [11_000 + 40 * number for number in numbers],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.table(arrays, schema=SCHEMA)
