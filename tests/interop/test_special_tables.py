"""Tables that Hudi's SQL made, and indexes that it was told to keep: what a write of pyhudi leaves of them."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop.compare import assert_same_rows
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle

import pyhudi

OracleOf = Callable[[str], Oracle]
GOLDEN = Path(__file__).parents[1] / "golden" / "features"
NO_METADATA = {"hoodie.metadata.enable": "false"}


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", [6, 8, pytest.param(9, marks=pytest.mark.quick)])
def test_table_without_partitions_that_sql_made_goes_back_and_forth(
    version: int, kind: str, oracle_of: OracleOf, tmp_path: Path
) -> None:
    oracle = oracle_of(RELEASE_OF_TABLE_VERSION[version])
    with tarfile.open(GOLDEN / f"v{version}-sql_{kind}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    path = tmp_path / "table"
    name = f"back_and_forth_{version}_{kind}"
    table = pyhudi.HudiTable.for_path(str(path), hudi_options={"hoodie.compact.inline": "false"})

    table.upsert(rows((1, 1.5, 2), (3, 3.5, 2)))
    table.refresh().delete([2])
    if kind == "mor":
        table.refresh().upsert(rows((1, 1.25, 3)))
        assert table.refresh().services.compact().num_rows == 1
    ours = table.refresh().scan().to_arrow()
    assert_same_rows(oracle.read(path, NO_METADATA), ours, ignore=[], hint="what pyhudi wrote")

    oracle.sql(f"create table {name} using hudi location '{path}'")
    oracle.sql(f"insert into {name} select 4L, 4.5D, 'n', 5L, 'x'")
    oracle.sql(f"update {name} set fare = 9.75 where id = 3")
    assert_same_rows(oracle.read(path), table.refresh().scan().to_arrow(), ignore=[], hint="what JVM Hudi made of it")
    assert {row["id"]: row["fare"] for row in table.refresh().scan().to_arrow().to_pylist()} == {
        1: 1.25 if kind == "mor" else 1.5,
        3: 9.75,
        4: 4.5,
    }


def rows(*given: tuple[int, float, int]) -> pa.Table:
    ids, fares, times = zip(*given, strict=True)
    texts = pa.array(["n"] * len(ids))
    columns = [pa.array(ids, pa.int64()), pa.array(fares), texts, pa.array(times, pa.int64()), texts]
    return pa.table(dict(zip(("id", "fare", "note", "ts", "a"), columns, strict=True)))


@pytest.mark.quick
def test_expression_index_and_the_indexes_beside_it_are_kept_by_every_write(
    oracle_of: OracleOf, tmp_path: Path
) -> None:
    oracle, path = oracle_of("1.2.0"), tmp_path / "indexed"
    lock = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
    oracle.sql(f"set hoodie.write.lock.provider={lock}")
    oracle.sql(
        "create table indexed (id bigint, v bigint, ts bigint, a string) using hudi tblproperties (primaryKey='id', "
        "'hoodie.metadata.enable'='true', 'hoodie.metadata.record.index.enable'='true') partitioned by (a) "
        f"location '{path}'"
    )
    oracle.sql("insert into indexed values (1, 10, 1, 'x'), (2, 20, 1, 'x'), (3, 30, 1, 'y')")
    oracle.sql("create index by_v on indexed (v)")
    oracle.sql(
        "create index by_day on indexed using column_stats(ts) options(expr='from_unixtime', format='yyyy-MM-dd')"
    )
    built = indexes_of(path)
    assert {"record_index", "secondary_index_by_v", "expr_index_by_day"} < built

    new = pa.table({"id": [2, 4], "v": [21, 40], "ts": [2, 2], "a": ["x", "x"]})
    pyhudi.HudiTable.for_path(str(path)).upsert(new)
    assert indexes_of(path) == built
    found = oracle.sql("select id from indexed where from_unixtime(ts, 'yyyy-MM-dd') = '1970-01-01' order by id")
    assert [row["id"] for row in found] == ["1", "2", "3", "4"]
    oracle.sql("drop index by_day on indexed")
    assert {"record_index", "secondary_index_by_v"} < indexes_of(path)
    oracle.sql("insert into indexed values (5, 50, 1, 'y')")
    found = oracle.sql("select id, v from indexed where v in (21, 40, 50) order by id")
    assert [(row["id"], row["v"]) for row in found] == [("2", "21"), ("4", "40"), ("5", "50")]
    oracle.sql("reset hoodie.write.lock.provider")


def indexes_of(path: Path) -> set[str]:
    lines = (path / ".hoodie" / "hoodie.properties").read_text().splitlines()
    (value,) = [line.partition("=")[2] for line in lines if line.startswith("hoodie.table.metadata.partitions=")]
    return {name for name in value.split(",") if name}
