"""Tables with a bucket index that we and JVM Hudi write in turn: every key once, one file group for each bucket."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle

import pyhudi

OracleOf = Callable[[str], Oracle]
TABLE = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.metadata.enable": "false",
}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "5"}
Model = dict[tuple[str, str], tuple[int, float]]


def batch(keys: list[int], ts: int, chance: random.Random) -> pa.Table:
    return pa.table(
        {
            "id": [f"k-é{key}" for key in keys],
            "p": [str(key % 2) for key in keys],
            "ts": pa.array([ts] * len(keys), pa.int32()),  # deletes of JVM Hudi 1.0 do not go with a long one
            "v": [chance.random() for _ in keys],
        }
    )


def apply(model: Model, rows: pa.Table, operation: str) -> None:
    for key, path, ts, value in zip(*rows.to_pydict().values(), strict=True):
        if operation == "delete":
            model.pop((path, key), None)
        else:
            model[path, key] = (ts, value)


def read(rows: pa.Table) -> Model:
    found = [tuple(row[name] for name in ("p", "id", "ts", "v")) for row in rows.to_pylist()]
    assert len({row[:2] for row in found}) == len(found), "a key is there twice"
    return {(path, key): (ts, value) for path, key, ts, value in found}


def groups(path: Path) -> set[tuple[str, str]]:
    files = pyhudi.HudiTable.for_path(str(path)).inspect.files().to_pylist()
    return {(row["partition_path"], row["file_id"]) for row in files}


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", RELEASE_OF_TABLE_VERSION, ids=lambda version: f"v{version}")
@pytest.mark.parametrize("maker", ["us", "jvm"])
def test_a_table_with_simple_buckets_is_written_in_turn(
    maker: str, version: int, kind: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    """We name the buckets only when we make the table: later its properties say them, or the files of JVM Hudi."""
    jvm, chance, model = oracle_of(RELEASE_OF_TABLE_VERSION[version]), random.Random(version), Model()
    path = tmp_path / "t"
    described = {**TABLE, "hoodie.datasource.write.table.type": kind}
    of_jvm = described if maker == "us" else {**described, **BUCKETS}
    for number in range(8):
        ours = (number % 2 == 0) is (maker == "us")
        operation = ("upsert", "upsert", "upsert", "delete", "upsert", "upsert", "delete", "upsert")[number]
        rows = batch(sorted(chance.sample(range(120), 60)), number, chance)
        options = {"hoodie.datasource.write.operation": operation}
        if not ours:
            jvm.write(path, rows, {**of_jvm, **options})
        elif number == 0:
            new = {"hoodie.write.table.version": str(version), "hoodie.table.ordering.fields": "ts"}
            pyhudi.save(rows, path, hudi_options={**described, **BUCKETS, **options, **new})
        else:
            opened = pyhudi.HudiTable.for_path(str(path), hudi_options={"hoodie.compact.inline": "false"})
            getattr(opened, operation)(rows.select(["id", "p"]) if operation == "delete" else rows)
        apply(model, rows, operation)
        assert read(pyhudi.HudiTable.for_path(str(path)).scan().to_arrow()) == model, (number, operation)
        assert read(jvm.read(path)) == model, (number, operation)
        found = groups(path)
        assert len({(path, file_id[:8]) for path, file_id in found}) == len(found) <= 10
