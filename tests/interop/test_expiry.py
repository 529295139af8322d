"""Expiry of partitions and truncated tables: JVM Hudi names the same partitions, reads what is left, and goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop.compare import assert_same_rows
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle
from tests.support.tables import StepClock, environment

import pyhudi

OracleOf = Callable[[str], Oracle]
DAY = 86_400_000
DAYS = {"hoodie.partition.ttl.strategy.days.retain": "5"}
BY_CREATION = {"hoodie.partition.ttl.management.strategy.type": "KEEP_BY_CREATION_TIME"}
BORN = {"oslo": 20, "rome": 10, "bonn": 8, "kiel": 1}
"""How many days ago each partition was created."""


def batch(city: str, version: int) -> pa.Table:
    first = sorted(BORN).index(city) * 10
    ids = pa.array([first, first + 1], pa.int64())
    stamps = pa.array([version] * 2, pa.int64())
    return pa.table({"id": ids, "city": [city] * 2, "v": stamps, "ts": stamps})


def days_ago(path: Path, days: float) -> pyhudi.HudiTable:
    """The table, whose writer believes that it is so many days earlier."""
    table = pyhudi.HudiTable.for_path(path, hudi_options={"hoodie.clean.automatic": "false"})
    clock = StepClock(int(time.time() * 1000) - int(days * DAY))
    return pyhudi.HudiTable(replace(table.handle, environment=environment(clock)))


def old_table(path: Path, version: int, table_type: str) -> None:
    schema = batch("oslo", 0).schema
    pyhudi.HudiTable.create(
        path,
        schema=schema,
        record_key="id",
        partition_by="city",
        ordering_fields="ts",
        table_type=table_type,
        table_version=version,
    )
    for city, days in BORN.items():
        days_ago(path, days).upsert(batch(city, 0))
    days_ago(path, 2).upsert(batch("rome", 1))


def jvm_options(table_type: str) -> dict[str, str]:
    return {
        "hoodie.table.name": path_name(table_type),
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[table_type],
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.metadata.enable": "false",
    }


def path_name(table_type: str) -> str:
    return f"aged_{table_type}"


@pytest.mark.parametrize(
    ("version", "table_type"),
    [
        pytest.param(9, "cow", marks=pytest.mark.quick),
        (6, "mor"),
        pytest.param(8, "mor", marks=pytest.mark.thorough),
    ],
)
def test_jvm_hudi_reads_what_expiry_and_truncate_leave_and_goes_on(
    version: int, table_type: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, path = oracle_of(RELEASE_OF_TABLE_VERSION[version]), tmp_path / path_name(table_type)
    old_table(path, version, table_type)
    last = pyhudi.HudiTable.for_path(path).handle.state.timeline.completed_writes[-1].requested_time

    def check(cities: set[str], hint: str) -> None:
        ours = pyhudi.HudiTable.for_path(path).scan().to_arrow()
        assert set(ours["city"].to_pylist()) == cities, hint
        assert_same_rows(oracle.read(path), ours, hint=hint)

    assert days_ago(path, 0).services.expire_partitions(hudi_options=DAYS).partitions == ("oslo", "bonn")
    check({"rome", "kiel"}, "expired by last change")
    then = oracle.read(path, {"as.of.instant": last})
    assert_same_rows(then, pyhudi.HudiTable.for_path(path).scan(as_of=last).to_arrow(), hint="before")
    assert set(then["city"].to_pylist()) == set(BORN)
    assert days_ago(path, 0).services.expire_partitions(hudi_options={**DAYS, **BY_CREATION}).partitions == ("rome",)
    check({"kiel"}, "expired by creation")
    oracle.write(path, batch("oslo", 3), jvm_options(table_type))
    check({"kiel", "oslo"}, "JVM Hudi brings a partition back")
    assert days_ago(path, 0).services.expire_partitions(hudi_options={**DAYS, **BY_CREATION}) is None
    days_ago(path, 0).truncate()
    assert oracle.read(path).num_rows == 0
    oracle.write(path, batch("rome", 4), jvm_options(table_type))
    days_ago(path, 0).upsert(batch("oslo", 5))
    check({"oslo", "rome"}, "after the truncation")


def test_jvm_hudi_expires_the_partitions_that_the_plan_names_and_its_commits_are_read(
    tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, path = oracle_of("1.2.0"), tmp_path / path_name("cow")
    old_table(path, 9, "cow")
    oracle.sql("set hoodie.metadata.enable=false")
    oracle.sql(f"create table {path_name('cow')} using hudi location '{path}'")
    try:
        for strategy in ("KEEP_BY_TIME", "KEEP_BY_CREATION_TIME"):
            options = {**DAYS, "hoodie.partition.ttl.management.strategy.type": strategy}
            plan = pyhudi.HudiTable.for_path(path).services.plan_expiry(hudi_options=options).to_pylist()
            call = f"call run_ttl(table => '{path_name('cow')}', retain_days => 5, ttl_policy => '{strategy}')"
            dropped = {row["deleted_partitions"] for row in oracle.sql(call)}
            # By creation JVM Hudi names again what it has dropped before: the folders are still there.
            assert {row["partition_path"] for row in plan if row["expires"]} <= dropped
            assert not {row["partition_path"] for row in plan if not row["expires"]} & dropped
            ours = pyhudi.HudiTable.for_path(path).scan().to_arrow()
            assert_same_rows(oracle.read(path), ours, hint=strategy)
            assert set(ours["city"].to_pylist()) == set(BORN) - dropped
        # It completes each of these commits twice, in two files. Whichever counts, ours goes on from there.
        days_ago(path, 0).upsert(batch("bonn", 7))
        assert_same_rows(oracle.read(path), pyhudi.HudiTable.for_path(path).scan().to_arrow(), hint="ours")
    finally:
        oracle.sql(f"drop table {path_name('cow')}")
        oracle.sql("reset hoodie.metadata.enable")
