"""Clusterings of ours and of JVM Hudi on one table: each goes on from the other's, and executes the other's plan."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.interop.compare import assert_same_rows
from tests.support.hooks import at
from tests.support.jvm_tables import every_kind, jvm_options, state
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle, OracleError
from tests.support.tables import rehandled

import pyhudi
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.storage.open import open_storage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.pending_clusterings import load_clustering_plans
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage, SimulatedCrash

OracleOf = Callable[[str], Oracle]
FARES = (None, math.nan, -1.5, 0.0, 7.0, -0.0, 2.5e9, None)
SORTED_BY = "fare,id"


def batch(first: int, ts: int) -> pa.Table:
    """Eight records in two partitions; their fares have nulls, NaN and negative values."""
    ids = list(range(first, first + 8))
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "city": ["oslo" if one % 2 else "rome" for one in ids],
            "fare": pa.array([FARES[(one * 5) % 8] for one in ids], pa.float64()),
            "ts": pa.array([ts] * 8, pa.int64()),
        }
    )


EVERY_TABLE = every_kind(quick=(9, "COPY_ON_WRITE"), thorough=(8, "MERGE_ON_READ"))


def options(table_type: str) -> dict[str, str]:
    return jvm_options(
        table_type,
        **{
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.parquet.small.file.limit": "0",
            "hoodie.clean.automatic": "false",
        },
    )


def pending(path: Path) -> list[str]:
    now = state(path)
    return [instant.requested_time for instant, _ in load_clustering_plans(now.storage, now.timeline)]


def clusterings(path: Path) -> list[str]:
    now = state(path)
    return [
        write.requested_time
        for write in now.timeline.completed_writes
        if load_commit_metadata(now.storage, write, now.version).operation is WriteOperation.CLUSTER
    ]


def call(oracle: Oracle, path: Path, op: str) -> None:
    order = f"order => '{SORTED_BY}'," if op == "schedule" else ""
    oracle.sql(
        f"CALL run_clustering(path => '{path}', op => '{op}', {order} options => 'hoodie.metadata.enable=false')"
    )


def check_same(oracle: Oracle, path: Path, expected: dict[int, int]) -> None:
    """Both sides have the same rows, meta columns included, now and in the changes since the first commit."""
    table = pyhudi.HudiTable.for_path(str(path))
    ours = table.scan().to_arrow()
    assert dict(zip(ours["id"].to_pylist(), ours["ts"].to_pylist(), strict=True)) == expected
    assert ours.num_rows == len(expected)
    assert_same_rows(oracle.read(path), ours, hint="newest")
    last = clusterings(path)[-1]
    assert last not in set(ours["_hoodie_commit_time"].to_pylist())
    name = ours["_hoodie_file_name"].to_pylist()
    assert all(any(name.endswith(f"_{instant}.parquet") for instant in clusterings(path)) for name in set(name))


def in_order(path: Path) -> bool:
    """Whether each file has its rows by fare, nulls first and NaN last, and then by id."""
    rows = pyhudi.HudiTable.for_path(str(path)).scan(["_hoodie_file_name", "fare", "id"]).to_arrow().to_pylist()
    files: dict[str, list[Any]] = {}
    for row in rows:
        fare = row["fare"]
        rank = (0, 0.0) if fare is None else (2, 0.0) if math.isnan(fare) else (1, fare)
        files.setdefault(row["_hoodie_file_name"], []).append((*rank, row["id"]))
    return all(found == sorted(found) for found in files.values())


@pytest.mark.parametrize(("version", "table_type"), EVERY_TABLE)
def test_clusterings_in_turn_keep_all_rows_and_their_commit_times(
    version: int, table_type: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, given = oracle_of(RELEASE_OF_TABLE_VERSION[version]), options(table_type)
    sorting = {**given, "hoodie.clustering.plan.strategy.sort.columns": SORTED_BY}
    path = tmp_path / "t"
    expected: dict[int, int] = {}

    def write(number: int, ts: int, *, by_jvm: bool) -> None:
        rows = batch(8 * number, ts)
        if by_jvm:
            oracle.write(path, rows, given)
        else:
            pyhudi.HudiTable.for_path(str(path), hudi_options=given).upsert(rows)
        expected.update(dict.fromkeys(rows["id"].to_pylist(), ts))

    write(0, 1, by_jvm=True)
    write(1, 1, by_jvm=False)
    write(0, 2, by_jvm=False)
    write(1, 2, by_jvm=True)
    table = pyhudi.HudiTable.for_path(str(path), hudi_options=sorting)
    table.delete(pa.table({"id": pa.array([3], pa.int64()), "city": ["oslo"]}))
    del expected[3]

    assert table.refresh().services.cluster()["files"].to_pylist() == [2]
    check_same(oracle, path, expected)
    assert in_order(path)

    write(2, 3, by_jvm=True)
    write(0, 3, by_jvm=True)
    planned = table.refresh().services.schedule("clustering")
    assert pending(path) == [planned]
    call(oracle, path, "execute")
    assert clusterings(path)[-1] == planned
    assert pending(path) == []
    check_same(oracle, path, expected)

    write(3, 4, by_jvm=False)
    write(2, 4, by_jvm=False)
    call(oracle, path, "schedule")
    (theirs,) = pending(path)
    assert table.refresh().services.run(theirs)["rows"].to_pylist() == [len(expected)]
    assert clusterings(path)[-1] == theirs
    check_same(oracle, path, expected)
    assert in_order(path)

    write(3, 5, by_jvm=True)
    write(1, 5, by_jvm=False)
    theirs_now, ours_now = oracle.read(path), table.refresh().scan().to_arrow()
    assert_same_rows(theirs_now, ours_now, hint="after later writes")
    assert dict(zip(ours_now["id"].to_pylist(), ours_now["ts"].to_pylist(), strict=True)) == expected


ALLOW = {
    "hoodie.clustering.updates.strategy": "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy",
    "hoodie.clustering.rollback.pending.replacecommit.on.conflict": "true",
}


@pytest.mark.parametrize("version", [pytest.param(9, id="v9"), pytest.param(6, id="v6")])
def test_writes_of_jvm_hudi_give_way_to_a_plan_of_ours_or_roll_it_back(
    version: int, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, given = oracle_of(RELEASE_OF_TABLE_VERSION[version]), options("COPY_ON_WRITE")
    path = tmp_path / "t"
    oracle.write(path, batch(0, 1), given)
    oracle.write(path, batch(8, 1), given)
    table = pyhudi.HudiTable.for_path(str(path), hudi_options=given)
    planned = table.services.schedule("clustering")

    with pytest.raises(OracleError, match="clustering"):
        oracle.write(path, batch(0, 2), given)
    assert pending(path) == [planned]
    oracle.write(path, batch(0, 3), {**given, **ALLOW})

    assert pending(path) == []
    found = table.refresh().scan(["id", "ts"]).to_arrow()
    assert dict(zip(found["id"].to_pylist(), found["ts"].to_pylist(), strict=True)) == {
        **dict.fromkeys(range(8), 3),
        **dict.fromkeys(range(8, 16), 1),
    }
    assert_same_rows(oracle.read(path), table.refresh().scan().to_arrow(), hint="after the write")


@pytest.mark.parametrize("version", [pytest.param(9, id="v9"), pytest.param(6, id="v6")])
def test_jvm_hudi_executes_a_plan_whose_run_of_ours_died(version: int, tmp_path: Path, oracle_of: OracleOf) -> None:
    oracle, given = oracle_of(RELEASE_OF_TABLE_VERSION[version]), options("COPY_ON_WRITE")
    path = tmp_path / "t"
    oracle.write(path, batch(0, 1), given)
    oracle.write(path, batch(8, 1), given)
    table = pyhudi.HudiTable.for_path(str(path), hudi_options=given)
    planned = str(table.services.schedule("clustering"))
    dying = FaultStorage(open_storage(str(path), {}), before=at(".replacecommit", "put_if_absent"))
    with pytest.raises(SimulatedCrash):
        rehandled(table, loaded=load_table(dying)).services.run(planned)
    assert [one for one in path.rglob(f"*_{planned}.parquet") if ".hoodie" not in one.parts]

    call(oracle, path, "execute")

    assert clusterings(path) == [planned]
    check_same(oracle, path, dict.fromkeys(range(16), 1))
