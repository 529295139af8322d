"""JVM Hudi goes on with a table whose columns an overwrite of ours replaced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle

import pyhudi

VERSIONS = [pytest.param(8, id="v8"), pytest.param(9, id="v9", marks=pytest.mark.quick)]


def told(table: pa.Table) -> list[dict[str, Any]]:
    rows = table.drop_columns([name for name in table.column_names if name.startswith("_hoodie_")]).to_pylist()
    return sorted(rows, key=lambda row: str(row["id"]))


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", VERSIONS)
def test_jvm_hudi_reads_and_updates_a_table_whose_columns_were_replaced(
    version: int, kind: str, tmp_path: Path, oracle_of: Callable[[str], Oracle]
) -> None:
    oracle, path = oracle_of(RELEASE_OF_TABLE_VERSION[version]), tmp_path / "t"
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.table.type": kind,
    }
    ours = {**options, "hoodie.write.table.version": str(version)}
    pyhudi.save(pa.table({"id": [1, 2], "v": [1, 2]}), str(path), hudi_options=ours)
    pyhudi.save(pa.table({"id": ["k", "l"], "w": [1.5, 2.5]}), str(path), hudi_options=ours, mode="overwrite")

    assert told(oracle.read(path)) == [{"id": "k", "w": 1.5}, {"id": "l", "w": 2.5}]

    oracle.write(path, pa.table({"id": ["k", "m"], "w": [9.5, 3.5]}), {**options, "hoodie.metadata.enable": "false"})

    expected = [{"id": "k", "w": 9.5}, {"id": "l", "w": 2.5}, {"id": "m", "w": 3.5}]
    assert told(oracle.read(path)) == told(pyhudi.HudiTable.for_path(str(path)).scan().to_arrow()) == expected
