"""Writers of ours beside JVM Hudi: its pending clusterings, and what it makes of our folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle

import pyhudi
from pyhudi.errors import WriteConflictError
from pyhudi.transaction.intents import INTENT_FOLDER
from pyhudi.transaction.presence import WRITERS_FOLDER

OracleOf = Callable[[str], Oracle]
VERSIONS = [pytest.param(version, id=f"v{version}") for version in (6, 9)]


def rows(*values: tuple[int, str, int]) -> pa.Table:
    return pa.table(dict(zip(("id", "city", "ts"), map(list, zip(*values, strict=True)), strict=True)))


def table_at(path: Path, version: int) -> pyhudi.HudiTable:
    return pyhudi.HudiTable.create(
        str(path),
        schema=rows((1, "oslo", 1)).schema,
        name="t",
        record_key="id",
        partition_by="city",
        ordering_fields="ts",
        table_version=version,
        hudi_options={"hoodie.datasource.write.hive_style_partitioning": "true"},
    )


def options(version: int, **more: str) -> dict[str, str]:
    return {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.write.table.version": str(version),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.metadata.enable": "false",
        **more,
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_a_write_gives_way_to_a_clustering_that_jvm_hudi_has_planned(
    version: int, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle = oracle_of(RELEASE_OF_TABLE_VERSION[version])
    path = tmp_path / "t"
    table = table_at(path, version)
    table.insert(rows((1, "oslo", 1), (2, "rome", 1)))
    small = {"hoodie.parquet.small.file.limit": "0"}
    clustering = "hoodie.clustering.plan.strategy.single.group.clustering.enabled=true,hoodie.metadata.enable=false"

    oracle.sql(
        f"CALL run_clustering(path => '{path}', op => 'schedule', options => '{clustering}', "
        "selected_partitions => 'city=oslo')"
        if version == 9
        else f"CALL run_clustering(path => '{path}', op => 'schedule', options => '{clustering}', "
        "predicate => 'city = \"oslo\"')"
    )

    with pytest.raises(WriteConflictError, match="cluster"):
        table.upsert(rows((1, "oslo", 2)))
    with pytest.raises(WriteConflictError, match="cluster"):
        table.delete_partition("city=oslo")
    table.upsert(rows((2, "rome", 2), (3, "oslo", 1)), hudi_options=small)
    oracle.sql(f"CALL run_clustering(path => '{path}', op => 'execute', options => '{clustering}')")
    table.upsert(rows((1, "oslo", 3)))

    found = {(row["id"], row["ts"]) for row in table.refresh().scan(columns=["id", "ts"]).to_arrow().to_pylist()}
    theirs = {(row["id"], row["ts"]) for row in oracle.read(path).select(["id", "ts"]).to_pylist()}
    assert found == theirs == {(1, 3), (2, 2), (3, 1)}


@pytest.mark.parametrize("version", VERSIONS)
def test_jvm_hudi_passes_over_intents_and_signs_of_writers(version: int, tmp_path: Path, oracle_of: OracleOf) -> None:
    oracle = oracle_of(RELEASE_OF_TABLE_VERSION[version])
    path = tmp_path / "t"
    table = table_at(path, version)
    for turn in range(3):
        table.upsert(rows((1, "oslo", turn)))
    ours = [f"{INTENT_FOLDER}/20200101000000000", f"{WRITERS_FOLDER}/somebody"]
    for one in ours:
        table.handle.state.storage.put(one, b"x")
    short = {
        "hoodie.clean.commits.retained": "1",
        "hoodie.cleaner.commits.retained": "1",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.commits.archival.batch": "1",
    }

    for turn in range(3, 7):
        oracle.write(path, rows((1, "oslo", turn)), options(version, **short))

    assert oracle.read(path).column("ts").to_pylist() == [6]
    assert all((path / one).exists() for one in ours)
    active = table.refresh().inspect.timeline()
    assert len(active.filter(pc.equal(active["action"], "commit"))) < 7
