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


# -- consistent buckets --------------------------------------------------------------------------------------------

RINGS = {**BUCKETS, "hoodie.index.bucket.engine": "CONSISTENT_HASHING", "hoodie.bucket.index.num.buckets": "3"}
PACKAGE = "org.apache.hudi.client.clustering"
BOTH = {"hoodie.clustering.updates.strategy": f"{PACKAGE}.update.strategy.SparkConsistentBucketDuplicateUpdateStrategy"}
RESIZE = {
    **BOTH,
    "hoodie.bucket.index.max.num.buckets": "8",
    "hoodie.bucket.index.min.num.buckets": "2",
    "hoodie.clustering.plan.strategy.class": f"{PACKAGE}.plan.strategy.SparkConsistentBucketClusteringPlanStrategy",
    "hoodie.clustering.execution.strategy.class": (
        f"{PACKAGE}.run.strategy.SparkConsistentBucketClusteringExecutionStrategy"
    ),
}


def rings_of(path: Path) -> dict[str, bytes]:
    folder = path / ".hoodie" / ".bucket_index" / "consistent_hashing_metadata"
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*.hashing_meta")}


def resize(jvm: Oracle, path: Path, step: str, *, splits: bool) -> None:
    options = {**TABLE, **RINGS, **RESIZE, "hoodie.parquet.max.file.size": "100000" if splits else "120000000"}
    text = ",".join(f"{key}={value}" for key, value in options.items())
    jvm.sql(f"call run_clustering(path => '{path}', op => '{step}', options => '{text}')")


def test_a_table_with_consistent_buckets_is_written_in_turn_through_resizes(
    tmp_path: Path, oracle_of: OracleOf
) -> None:
    """Buckets are split, then merged; both sides write before, during and after."""
    jvm, chance, model = oracle_of("1.2.0"), random.Random(4), Model()
    path, made_by_jvm = tmp_path / "t", tmp_path / "jvm"
    described = {**TABLE, "hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.table.ordering.fields": "ts"}
    numbers = iter(range(1000))

    def turn(ours: bool) -> None:
        number = next(numbers)
        rows = batch(sorted(chance.sample(range(200), 80)), number, chance)
        if ours:
            pyhudi.save(rows, path, hudi_options={**described, **RINGS, "hoodie.compact.inline": "false"})
        else:
            jvm.write(path, rows, {**described, **BOTH})
        apply(model, rows, "upsert")
        check(f"{number} {'ours' if ours else 'of JVM Hudi'}")

    def check(hint: str) -> None:
        assert read(pyhudi.HudiTable.for_path(str(path)).scan().to_arrow()) == model, hint
        assert read(jvm.read(path)) == model, hint

    turn(True)
    jvm.write(made_by_jvm, batch([1, 2, 3], 0, chance), {**described, **RINGS})
    assert rings_of(path) == rings_of(made_by_jvm)
    turn(False)
    for splits in (True, False):
        pyhudi.HudiTable.for_path(str(path)).services.compact()
        check("compacted")
        before = groups(path)
        resize(jvm, path, "schedule", splits=splits)
        turn(True)
        turn(False)
        turn(True)
        assert groups(path) == before
        resize(jvm, path, "execute", splits=splits)
        check("resized")
        assert groups(path).isdisjoint(before)
        resized = groups(path)
        turn(True)
        turn(False)
        assert groups(path) == resized
