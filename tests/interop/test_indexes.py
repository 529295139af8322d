"""Indexes that remember keys beside JVM Hudi, whose writes they have to notice: inserts in logs, moves, clusterings."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop.compare import assert_same_rows
from tests.support.indexes import INDEXES, IndexCase
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle
from tests.support.tables import MOR, rows

import pyhudi

OURS = [index for index in INDEXES if index.name in ("INMEMORY", "HBASE", "own", "own-global")]
CITIES = ("oslo", "rome", "bern")


@pytest.mark.parametrize("version", [9, 8, 6])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_keys_that_jvm_hudi_wrote_with_its_indexes_are_found(
    version: int, kind: str, tmp_path: Path, oracle_of: Callable[[str], Oracle]
) -> None:
    path, judge = str(tmp_path / "table"), oracle_of(RELEASE_OF_TABLE_VERSION[version])
    described = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ" if kind == "mor" else "COPY_ON_WRITE",
        "hoodie.metadata.enable": "false",
        "hoodie.parquet.small.file.limit": "0",
    }
    # A process of JVM Hudi with INMEMORY knows the keys that it wrote itself, and puts new ones into logs.
    theirs = {**described, "hoodie.index.type": "INMEMORY"}
    dice, expected, home = random.Random(version), {}, {}

    def batch(turn: int, count: int) -> pa.Table:
        chosen = [
            (key, home.setdefault(key, dice.choice(CITIES)), turn, f"{turn}") for key in dice.sample(range(60), count)
        ]
        expected.update({row[0]: row for row in chosen})
        return rows(*chosen)

    def check(by: str) -> None:
        mine = pyhudi.HudiTable.for_path(path).scan().to_arrow()
        assert_same_rows(judge.read(path), mine, hint=f"version {version}, after {by}")
        found = sorted(tuple(row[name] for name in ("id", "city", "ts", "note")) for row in mine.to_pylist())
        assert found == sorted(expected.values()), by

    def upsert(index: IndexCase, turn: int) -> None:
        options = {**(MOR if kind == "mor" else {}), **index.options, "hoodie.parquet.small.file.limit": "0"}
        pyhudi.HudiTable.for_path(path, hudi_options=options).upsert(batch(turn, 8))

    judge.write(path, batch(0, 20), theirs)
    for turn, index in enumerate(OURS, 1):
        upsert(index, turn)
    check("inserts of JVM Hudi in logs")
    if kind == "mor":
        # The other indexes of JVM Hudi do not look into logs without a base file, and would insert such keys again.
        pyhudi.HudiTable.for_path(path).services.compact()
    for turn, index in enumerate(OURS, 10):
        judge.write(path, batch(2 * turn, 8), {**described, "hoodie.index.type": "BLOOM"})
        upsert(index, 2 * turn + 1)
    check("writes in turn")
