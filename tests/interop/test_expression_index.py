"""Expression indexes that JVM Hudi or pyhudi made, and both keep: JVM Hudi's queries by them lose no row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.oracle import Oracle

import pyhudi
from pyhudi.config.read_config import ReadConfig
from pyhudi.read.scan import plan_table_scan
from pyhudi.read.skipping.comparisons import Comparison
from pyhudi.read.skipping.expression_index import skip_by_expressions
from pyhudi.read.skipping.expressions import certain
from pyhudi.read.skipping.metadata_read import MetadataOfRead
from pyhudi.read.skipping.predicates import AllOf, NullTest
from pyhudi.read.skipping.record_index import file_id_of
from pyhudi.storage.open import open_storage
from pyhudi.table.state import load_table

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
QUERIES: Final[dict[str, tuple[str, str, Any]]] = {
    "lower(name) = 'name3'": ("lower", "==", "name3"),
    "lower(name) > 'name6'": ("lower", ">", "name6"),
    "lower(name) is null": ("lower", "is null", None),
    "from_unixtime(ts, 'yyyy-MM-dd') = '2023-11-17'": ("from_unixtime", "==", "2023-11-17"),
    "from_unixtime(ts, 'yyyy-MM-dd') < '2023-11-16'": ("from_unixtime", "<", "2023-11-16"),
    "year(day) = 2001": ("year", "==", 2001),
}
MADE: Final = (
    ("by_lower", "name", {"expr": "lower"}),
    ("by_day", "ts", {"expr": "from_unixtime", "format": "yyyy-MM-dd"}),
    ("by_year", "day", {"expr": "year"}),
)


@pytest.mark.parametrize(
    ("release", "kind", "maker"),
    [
        ("1.2.0", "COPY_ON_WRITE", "jvm"),
        ("1.2.0", "MERGE_ON_READ", "ours"),
        pytest.param("1.0.2", "COPY_ON_WRITE", "jvm", marks=pytest.mark.thorough),
    ],
)
def test_statistics_of_expressions_leave_out_no_row_whoever_made_and_writes_them(
    oracle_of: Callable[[str], Oracle], tmp_path: Path, release: str, kind: str, maker: str
) -> None:
    judge, path, name = oracle_of(release), tmp_path / "t", f"ei_{maker}_{kind.lower()}_{release.replace('.', '')}"
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
    total = _check(judge, path, name)
    _ours(path).upsert(_rows(range(8, 18), shift=3))
    total += _check(judge, path, name)
    judge.write(path, _rows(range(16, 22), shift=1), theirs)
    total += _check(judge, path, name)
    _ours(path).delete(_rows(range(2, 4)).select(["id", "p"]))
    _ours(path).services.cluster(hudi_options={"hoodie.clustering.plan.strategy.small.file.limit": "100000000"})
    _ours(path).upsert(_rows(range(22, 24), names=["ÄÖÜ", "name3"]))
    total += _check(judge, path, name)
    judge.sql(f"drop index by_year on {name}")
    _ours(path).indexes.refresh("by_lower")
    _ours(path).indexes.drop("by_day")
    assert [row for row in _ours(path).indexes.list().column("name").to_pylist() if "by" in row] == ["by_lower"]
    total += _check(judge, path, name)
    assert total > 0


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
    left_out = 0
    for wanted in ("NAME3", "NAME8", "ÄÖÜ", "none"):
        judge.sql("refresh table ei_bloom")
        found = {row["id"] for row in judge.sql(f"select id from ei_bloom where upper(name) = '{wanted}'")}
        rows = _ours(path).scan(["id", "name"]).to_arrow().to_pylist()
        expected = {row["id"] for row in rows if (row["name"] or "").upper() == wanted}
        assert found == expected
        asked = _ours(path).scan(["id"], where=pc.utf8_upper(pc.field("name")) == wanted)
        assert set(asked.to_arrow()["id"].to_pylist()) == expected
        left_out += sum(use.file_slices for use in asked.explain().indexes if use.index == "expr_index_by_upper")
    assert left_out > 0


def _check(judge: Oracle, path: Path, name: str) -> int:
    """Compare the answers with and without skipping; how many file slices our reads leave out."""
    judge.sql(f"refresh table {name}")
    total = 0
    for query, asked in QUERIES.items():
        found = {row["id"] for row in judge.sql(f"select id from {name} where {query}")}
        judge.sql("set hoodie.enable.data.skipping=false")
        whole = judge.sql(f"select id, _hoodie_file_name file from {name} where {query}")
        judge.sql("set hoodie.enable.data.skipping=true")
        assert found == {row["id"] for row in whole}, query
        groups = {str(row["file"]).lstrip(".")[:38] for row in whole}
        kept, left_out = _kept_by_us(path, *asked)
        assert groups <= kept, query
        total += left_out
    assert _ours(path).scan().count() == int(str(judge.sql(f"select count(*) n from {name}")[0]["n"]))
    return total


def _kept_by_us(path: Path, function: str, sign: str, value: Any) -> tuple[set[str], int]:
    """The file groups that our reads open by the indexes over a function, and how many they leave out."""
    table = load_table(open_storage(str(path), {}))
    plan = plan_table_scan(table, ReadConfig.from_options({}))
    named = [one for one in plan.expressions if one.function == function]
    tests = [
        NullTest(one.name, is_null=True) if value is None else Comparison(one.name, sign, pa.scalar(value, one.kind))
        for one in named
    ]
    found = skip_by_expressions(MetadataOfRead(table), plan, certain(AllOf(tuple(tests)), named))
    assert all("cannot be read" not in str(use.note) for use in found.uses)
    return {file_id_of(one) or "" for one in found.plan.slices}, len(plan.slices) - len(found.plan.slices)


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
