"""Tables that were clustered along curves, or by copying row groups: JVM Hudi goes on with them, and with the plans."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.interop.compare import assert_same_rows
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle

import pyhudi
from pyhudi.storage.open import open_storage
from pyhudi.table.pending_clusterings import load_clustering_plans
from pyhudi.table.state import load_table

OracleOf = Callable[[str], Oracle]
COPY = "hoodie.clustering.execution.strategy.class"
BINARY_COPY = "org.apache.hudi.client.clustering.run.strategy.SparkBinaryCopyClusteringExecutionStrategy"
FARES = (None, math.nan, -1.5, 0.0, 7.0, -0.0, 2.5e9, None)


def batch(first: int, ts: int, count: int = 12) -> pa.Table:
    """Records of many types, with nulls, NaN and negative values."""
    ids = list(range(first, first + count))
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "city": ["oslo" if one % 4 else "rome" for one in ids],
            "fare": pa.array([FARES[(one * 5) % 8] for one in ids], pa.float64()),
            "price": pa.array([Decimal(one * 7 % 30 - 10) for one in ids], pa.decimal128(12, 2)),
            "name": [f"n{one * 3 % 11}" if one % 5 else None for one in ids],
            "day": [dt.date(2026, 1, 1) + dt.timedelta(days=one * 5 % 17) for one in ids],
            "tags": [[str(one), "x"] for one in ids],
            "ts": pa.array([ts] * count, pa.int64()),
        }
    )


def options(table_type: str) -> dict[str, str]:
    return {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.metadata.enable": "false",
        "hoodie.index.type": "BLOOM",
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.compact.inline": "false",
        "hoodie.clean.automatic": "false",
    }


def opened(path: Path, given: dict[str, str]) -> pyhudi.HudiTable:
    return pyhudi.HudiTable.for_path(str(path), hudi_options=given)


def pending(path: Path) -> list[str]:
    state = load_table(open_storage(str(path), {}))
    return [instant.requested_time for instant, _ in load_clustering_plans(state.storage, state.timeline)]


def check_same(oracle: Oracle, path: Path, expected: dict[int, int]) -> None:
    ours = pyhudi.HudiTable.for_path(str(path)).scan().to_arrow()
    assert dict(zip(ours["id"].to_pylist(), ours["ts"].to_pylist(), strict=True)) == expected
    assert ours.num_rows == len(expected)
    assert_same_rows(oracle.read(path), ours, hint="newest")


def cluster_by_jvm(oracle: Oracle, path: Path, op: str, *given: str) -> None:
    texts = ",".join(("hoodie.metadata.enable=false", *given))
    oracle.sql(f"CALL run_clustering(path => '{path}', op => '{op}', options => '{texts}')")


def curves() -> list[Any]:
    chosen = [
        (9, "COPY_ON_WRITE", "ZORDER", "quick"),
        (9, "MERGE_ON_READ", "HILBERT", None),
        (8, "MERGE_ON_READ", "ZORDER", "thorough"),
        (6, "COPY_ON_WRITE", "HILBERT", None),
        (6, "MERGE_ON_READ", "ZORDER", None),
    ]
    return [
        pytest.param(
            version, kind, layout, id=f"v{version}-{kind}-{layout}", marks=[getattr(pytest.mark, mark)] if mark else []
        )
        for version, kind, layout, mark in chosen
    ]


@pytest.mark.parametrize(("version", "table_type", "layout"), curves())
def test_table_that_was_clustered_along_a_curve_is_read_written_and_clustered_on(
    version: int, table_type: str, layout: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, given = oracle_of(RELEASE_OF_TABLE_VERSION[version]), options(table_type)
    columns = "fare,price,name,day"
    along = {
        **given,
        "hoodie.layout.optimize.strategy": layout,
        "hoodie.clustering.plan.strategy.sort.columns": columns,
    }
    path = tmp_path / "t"
    oracle.write(path, batch(0, 1), given)
    opened(path, given).upsert(batch(12, 1))
    oracle.write(path, batch(6, 2), given)
    opened(path, given).delete(pa.table({"id": pa.array([3], pa.int64()), "city": ["oslo"]}))
    expected = {one: 2 if 6 <= one < 18 else 1 for one in range(24) if one != 3}

    assert opened(path, along).services.cluster()["files"].to_pylist() == [2]
    check_same(oracle, path, expected)

    oracle.write(path, batch(0, 3, 3), given)
    opened(path, given).upsert(batch(20, 3))
    expected |= dict.fromkeys([0, 1, 2, *range(20, 32)], 3)
    check_same(oracle, path, expected)

    # JVM Hudi executes the plan, which names the layout in a parameter that it does not know.
    assert opened(path, along).services.schedule("clustering") is not None
    cluster_by_jvm(oracle, path, "execute")
    assert pending(path) == []
    check_same(oracle, path, expected)


@pytest.mark.parametrize(
    "version", [pytest.param(9, marks=pytest.mark.quick), 8, pytest.param(6, marks=pytest.mark.thorough)]
)
@pytest.mark.parametrize("by_jvm", [True, False], ids=["files of JVM Hudi", "files of pyhudi"])
def test_joined_file_of_copied_row_groups_is_read_and_written_on(
    version: int, by_jvm: bool, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, given = oracle_of(RELEASE_OF_TABLE_VERSION[version]), options("COPY_ON_WRITE")
    path = tmp_path / "t"

    def write(rows: pa.Table, *, jvm: bool) -> None:
        if jvm:
            oracle.write(path, rows, given)
        else:
            opened(path, given).upsert(rows)

    oracle.write(path, batch(0, 1), given)
    if not by_jvm:
        opened(path, given).upsert(batch(0, 2))
    write(batch(100, 2), jvm=by_jvm)
    write(batch(200, 2), jvm=by_jvm)
    expected = {n: 2 for first in (0, 100, 200) for n in range(first, first + 12)}
    if by_jvm:
        expected |= dict.fromkeys(range(12), 1)
    before = {row["id"]: row for row in opened(path, given).scan().to_arrow().to_pylist()}

    (done,) = opened(path, {**given, COPY: BINARY_COPY}).services.cluster().to_pylist()

    assert (done["replaced"], done["files"], done["rows"]) == (6, 2, 36)
    files = opened(path, given).inspect.files()["path"].to_pylist()
    for file in files:
        parquet = pq.ParquetFile(path / file, page_checksum_verification=True)
        assert parquet.num_row_groups == 3, "row groups are copied as they are"
    check_same(oracle, path, expected)
    after = {row["id"]: row for row in opened(path, given).scan().to_arrow().to_pylist()}
    for key, row in before.items():
        assert str({**row, "_hoodie_file_name": after[key]["_hoodie_file_name"]}) == str(after[key])
    # Filters and statistics of the joined files lead JVM Hudi to the rows.
    found = oracle.read(path).filter(pa.compute.field("id") == 105)
    assert found.num_rows == 1

    oracle.write(path, batch(98, 3, 5), given)
    opened(path, given).upsert(batch(205, 3, 4))
    expected |= dict.fromkeys([*range(98, 103), *range(205, 209)], 3)
    check_same(oracle, path, expected)


def test_plans_that_copy_are_executed_by_the_other_side(tmp_path: Path, oracle_of: OracleOf) -> None:
    oracle, given = oracle_of("1.2.0"), options("COPY_ON_WRITE")
    path = tmp_path / "t"
    for first in (0, 100):
        oracle.write(path, batch(first, 1), given)
    expected = {n: 1 for first in (0, 100) for n in range(first, first + 12)}
    cluster_by_jvm(oracle, path, "schedule", f"{COPY}={BINARY_COPY}")
    (planned,) = pending(path)
    done = opened(path, given).services.run(planned)
    assert done["outcome"].to_pylist() == ["done"]
    check_same(oracle, path, expected)

    oracle.write(path, batch(200, 1), given)
    expected |= dict.fromkeys(range(200, 212), 1)
    assert opened(path, {**given, COPY: BINARY_COPY}).services.schedule("clustering") is not None
    cluster_by_jvm(oracle, path, "execute")
    assert pending(path) == []
    check_same(oracle, path, expected)
