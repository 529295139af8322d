"""The record index by partition, of JVM Hudi and of pyhudi, kept and asked by both in turn: no key is twice in one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from tests.support.oracle import Oracle

import pyhudi

TABLE: Final = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.compact.inline": "false",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.record.level.index.enable": "true",
    "hoodie.index.type": "RECORD_LEVEL_INDEX",
    "hoodie.parquet.small.file.limit": "0",
}
OURS: Final = {
    "hoodie.metadata.record.level.index.enable": "true",
    "hoodie.index.type": "RECORD_LEVEL_INDEX",
    "hoodie.parquet.small.file.limit": "0",
}


@pytest.mark.parametrize(("kind", "first"), [("COPY_ON_WRITE", "jvm"), ("MERGE_ON_READ", "ours")])
def test_both_find_the_keys_that_the_other_wrote(
    oracle_of: Callable[[str], Oracle], tmp_path: Path, kind: str, first: str
) -> None:
    judge, path = oracle_of("1.2.0"), tmp_path / "t"
    theirs = {**TABLE, "hoodie.datasource.write.table.type": kind}
    expected: dict[tuple[str, str], int] = {}

    def jvm(numbers: range, partition: str, ts: int) -> None:
        judge.write(path, _rows(numbers, partition, ts), theirs, mode="append" if expected else "overwrite")
        note(numbers, partition, ts)

    def ours(numbers: range, partition: str, ts: int) -> None:
        table = pyhudi.HudiTable.for_path(str(path), hudi_options=OURS)
        known = sum((partition, f"k{number}") in expected for number in numbers)
        result = table.upsert(_rows(numbers, partition, ts))
        assert (result.updated, result.inserted) == (known, len(numbers) - known)
        note(numbers, partition, ts)

    def note(numbers: range, partition: str, ts: int) -> None:
        expected.update({(partition, f"k{number}"): ts for number in numbers})
        seen = pyhudi.HudiTable.for_path(str(path)).scan(["p", "id", "ts"])
        for rows in (seen.to_arrow(), judge.read(path)):
            found = [((row["p"], row["id"]), row["ts"]) for row in rows.select(["p", "id", "ts"]).to_pylist()]
            assert sorted(found) == sorted(expected.items())

    if first == "ours":
        pyhudi.HudiTable.create(
            str(path),
            schema=_rows(range(1), "a", 1).schema,
            record_key="id",
            partition_by="p",
            ordering_fields="ts",
            name="t",
            table_type="mor" if kind == "MERGE_ON_READ" else "cow",
            hudi_options={"hoodie.datasource.write.hive_style_partitioning": "false"},
        )
        ours(range(6), "a b", 1)
    jvm(range(4), "a b", 2)
    ours(range(2, 8), "a b", 3)
    ours(range(2, 8), "x_y-1", 3)
    jvm(range(4, 10), "x_y-1", 4)
    pyhudi.HudiTable.for_path(str(path)).services.cluster(
        hudi_options={"hoodie.clustering.plan.strategy.small.file.limit": "100000000"}
    )
    jvm(range(8), "a b", 5)
    ours(range(12), "x_y-1", 6)
    names = pyhudi.HudiTable.for_path(str(path)).indexes.list().column("name").to_pylist()
    assert names == ["record_index"]


def _rows(numbers: range, partition: str, ts: int) -> pa.Table:
    columns = [[f"k{number}" for number in numbers], [partition] * len(numbers), [ts] * len(numbers)]
    return pa.table(columns, schema=pa.schema([("id", pa.string()), ("p", pa.string()), ("ts", pa.int64())]))
