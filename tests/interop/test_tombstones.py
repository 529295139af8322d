"""Base files that remember deletes are base files as others to JVM Hudi, and those that it rewrites forget."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle

import pyhudi

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("_hoodie_is_deleted", pa.bool_())])
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.metadata.enable": "false",
}


@pytest.mark.parametrize("version", [6, 8, 9])
def test_jvm_hudi_reads_and_rewrites_files_that_remember_deletes(
    version: int, tmp_path: Path, oracle_of: Callable[[str], Oracle]
) -> None:
    path, judge = str(tmp_path / "table"), oracle_of(RELEASE_OF_TABLE_VERSION[version])
    own = {"hoodie.write.table.version": str(version), "hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
    remembering = {**OPTIONS, **own, "hoodie.write.tombstones.retained.hours": "24"}
    payload = {"hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload"}

    def ours(*rows: tuple[str, int, bool]) -> None:
        pyhudi.save(_batch(*rows), path, hudi_options=remembering)

    def seen() -> list[tuple[str, int]]:
        theirs = sorted((row["id"], row["ts"]) for row in judge.read(path).to_pylist())
        mine = pyhudi.HudiTable.for_path(path).scan(["id", "ts"]).to_arrow().to_pylist()
        assert sorted((row["id"], row["ts"]) for row in mine) == theirs
        return theirs

    ours(("a", 5, False), ("z", 1, False))
    ours(("a", 10, True), ("early", 10, True))
    ours(("a", 7, False), ("early", 7, False))
    assert seen() == [("z", 1)]
    judge.write(path, _batch(("z", 2, False)), OPTIONS | (payload if version == 6 else {}))
    assert seen() == [("z", 2)]
    ours(("a", 7, False))
    assert seen() == [("a", 7), ("z", 2)]


def _batch(*rows: tuple[str, int, bool]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )
