"""Tables with a bucket index that we and JVM Hudi write in turn: every key once, one file group for each bucket."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle, OracleError
from tests.support.table_files import meeting
from tests.support.tables import open_table

import pyhudi
from pyhudi.storage.open import open_storage
from pyhudi.storage.protocol import Storage

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
    options = {**TABLE, **RINGS, **RESIZE, "hoodie.parquet.max.file.size": "1000" if splits else "120000000"}
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


@pytest.mark.parametrize(
    ("version", "planner", "runner"),
    [(9, "us", "jvm"), (9, "us", "us"), (9, "jvm", "us"), (8, "us", "jvm"), (8, "jvm", "us"), (6, "us", "us")],
)
def test_buckets_that_one_side_plans_to_resize_and_the_other_resizes_are_written_in_turn(
    version: int, planner: str, runner: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    """Buckets are split, then merged. From version 8 on both sides write while the resize is pending."""
    jvm, chance, model = oracle_of(RELEASE_OF_TABLE_VERSION[version]), random.Random(version), Model()
    path, described = tmp_path / "t", {**TABLE, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    new = {"hoodie.table.ordering.fields": "ts", "hoodie.write.table.version": str(version)}
    sizes = {"hoodie.bucket.index.max.num.buckets": "8", "hoodie.bucket.index.min.num.buckets": "2"}
    numbers = iter(range(1000))

    def turn(*, ours: bool) -> None:
        number = next(numbers)
        rows = batch(sorted(chance.sample(range(200), 80)), number, chance)
        if ours:
            pyhudi.save(rows, path, hudi_options={**described, **RINGS, **new, "hoodie.compact.inline": "false"})
        else:
            jvm.write(path, rows, {**described, **RINGS, **BOTH})
        apply(model, rows, "upsert")
        check(f"{number} {'ours' if ours else 'of JVM Hudi'}")

    def check(hint: str) -> None:
        opened = pyhudi.HudiTable.for_path(str(path))
        assert read(opened.scan().to_arrow()) == model, hint
        assert read(jvm.read(path)) == model, hint
        for key in ("k-é1", "k-é2"):
            found = {(p, one): value for (p, one), value in model.items() if one == key}
            assert read(opened.lookup([key])) == found, hint

    def step(side: str, action: str, *, splits: bool) -> None:
        if side == "jvm":
            resize(jvm, path, action, splits=splits)
            return
        limit = {"hoodie.parquet.max.file.size": "1000" if splits else "120000000"}
        opened = pyhudi.HudiTable.for_path(str(path), hudi_options={**sizes, **limit})
        if action == "schedule":
            assert opened.services.schedule("clustering") is not None
        else:
            (pending,) = opened.services.pending().column("instant").to_pylist()
            assert opened.services.run(pending).column("outcome").to_pylist() == ["done"]

    turn(ours=True)
    turn(ours=False)
    for splits in (True, False):
        before = groups(path)
        step(planner, "schedule", splits=splits)
        if version > 6:
            turn(ours=True)
            turn(ours=False)
        step(runner, "execute", splits=splits)
        check("resized")
        resized = groups(path)
        assert len(resized) > len(before) if splits else len(resized) < len(before)
        turn(ours=False)
        turn(ours=True)
        assert groups(path) == resized
        pyhudi.HudiTable.for_path(str(path)).services.compact()
        check("compacted")


@pytest.mark.parametrize("version", RELEASE_OF_TABLE_VERSION, ids=lambda version: f"v{version}")
def test_partitions_of_consistent_buckets_that_we_overwrite_or_drop_are_written_on_by_jvm_hudi(
    version: int, tmp_path: Path, oracle_of: OracleOf
) -> None:
    """JVM Hudi goes by the rings that our replace commits make, and from 1.0 on resizes them."""
    jvm, chance, model = oracle_of(RELEASE_OF_TABLE_VERSION[version]), random.Random(version), Model()
    path, described = tmp_path / "t", {**TABLE, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    new = {"hoodie.table.ordering.fields": "ts", "hoodie.write.table.version": str(version)}
    numbers = iter(range(1000))

    def rows_of_turn() -> pa.Table:
        return batch(sorted(chance.sample(range(200), 80)), next(numbers), chance)

    def opened() -> pyhudi.HudiTable:
        return pyhudi.HudiTable.for_path(str(path), hudi_options={"hoodie.compact.inline": "false"})

    def both_write(hint: str) -> None:
        check(hint)
        for ours in (False, True, False):
            rows = rows_of_turn()
            if ours:
                opened().upsert(rows)
            else:
                jvm.write(path, rows, {**described, **RINGS, **BOTH})
            apply(model, rows, "upsert")
            check(f"{hint}, then written")

    def check(hint: str) -> None:
        assert read(opened().scan().to_arrow()) == model, hint
        assert read(jvm.read(path)) == model, hint

    first = rows_of_turn()
    pyhudi.save(first, path, hudi_options={**described, **RINGS, **new})
    apply(model, first, "upsert")
    both_write("made")
    rows = rows_of_turn().filter(pc.field("p") == "1")
    opened().insert_overwrite(rows)
    for key in [key for key in model if key[0] == "1"]:
        del model[key]
    apply(model, rows, "upsert")
    both_write("overwritten")
    opened().delete_partition("0")
    for key in [key for key in model if key[0] == "0"]:
        del model[key]
    both_write("dropped")
    before = groups(path)
    if version == 6:
        # Where a ring has its mark, 0.15.0 does not find it during its own next resize.
        limits = {"hoodie.bucket.index.max.num.buckets": "8", "hoodie.parquet.max.file.size": "1000"}
        opened().services.cluster(hudi_options=limits)
    else:
        resize(jvm, path, "scheduleAndExecute", splits=True)
    assert len(groups(path)) > len(before)
    both_write("resized")
    opened().truncate()
    model.clear()
    both_write("truncated")


def test_jvm_hudi_reads_by_key_one_bucket_of_ours(tmp_path: Path, oracle_of: OracleOf) -> None:
    """Of the other buckets nothing is left to read."""
    jvm, path = oracle_of("1.2.0"), tmp_path / "pruned"
    rows = batch(list(range(0, 60, 2)), 1, random.Random(1))
    described = {**TABLE, **BUCKETS, "hoodie.table.name": "pruned"}
    pyhudi.save(rows, path, hudi_options={**described, "hoodie.table.ordering.fields": "ts"})
    key = rows.column("id")[5].as_py()
    (kept,) = pyhudi.HudiTable.for_path(str(path)).scan(where=[("id", "==", key)]).files().column("path").to_pylist()
    for file in (path / "0").glob("*.parquet"):
        if not kept.endswith(file.name):
            file.write_bytes(b"nothing")
    jvm.sql(f"create table pruned using hudi location '{path}'")
    options = {**BUCKETS, "hoodie.index.bucket.engine": "SIMPLE", "hoodie.bucket.index.hash.field": "id"}
    try:
        for name, value in options.items():
            jvm.sql(f"set {name}={value}")
        assert [row["id"] for row in jvm.sql(f"select id from pruned where id = '{key}'")] == [key]
        with pytest.raises(OracleError):
            jvm.sql("select id from pruned")
    finally:
        for name in options:
            jvm.sql(f"reset {name}")
        jvm.sql("drop table pruned")


@pytest.mark.parametrize("version", [8, 9])
def test_logs_of_lock_less_writers_are_read_and_added_to_by_jvm_hudi(
    version: int, tmp_path: Path, oracle_of: OracleOf
) -> None:
    jvm, chance, model, path = oracle_of(RELEASE_OF_TABLE_VERSION[version]), random.Random(8), Model(), tmp_path / "t"
    described = {**TABLE, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    new = {"hoodie.write.table.version": str(version), "hoodie.table.ordering.fields": "ts"}
    first, inner, outer, last = (batch(sorted(chance.sample(range(60), 30)), ts, chance) for ts in range(4))
    lock_less = {
        "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
        "hoodie.compact.inline": "false",
    }
    pyhudi.save(first, path, hudi_options={**described, **BUCKETS, **new, **lock_less})
    storage = open_storage(str(path), {})

    def others(inside: Storage) -> None:
        open_table(inside, **lock_less).upsert(inner)

    beside = meeting(storage, others, before=("put_if_absent", ".inflight"))
    open_table(beside, **lock_less).upsert(outer)
    for rows in (first, inner, outer):
        apply(model, rows, "upsert")
    assert read(jvm.read(path)) == model == read(pyhudi.HudiTable.for_path(str(path)).scan().to_arrow())
    before = groups(path)
    jvm.write(
        path, last, {**described, "hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    )
    apply(model, last, "upsert")
    assert read(jvm.read(path)) == model == read(pyhudi.HudiTable.for_path(str(path)).scan().to_arrow())
    assert groups(path) == before


def upsert_beside_itself(jvm: Oracle, path: Path, rows: pa.Table, options: dict[str, str]) -> None:
    """Its tasks fill a map of all rules without a lock (`PartitionBucketIndexCalculator`), and the loser fails."""
    upsert = {**options, "hoodie.datasource.write.operation": "upsert"}
    try:
        jvm.write(path, rows, upsert)
    except OracleError as error:
        if "ConcurrentModificationException" not in str(error):
            raise
        jvm.write(path, rows, upsert)


@pytest.mark.parametrize(("maker", "kind"), [("us", "MERGE_ON_READ"), ("jvm", "COPY_ON_WRITE")])
def test_a_table_with_other_numbers_of_buckets_in_some_partitions_is_written_in_turn(
    maker: str, kind: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    """JVM Hudi does not keep the rules, so for its table we name them, too; a table of ours says them to both."""
    jvm, chance, model, path = oracle_of("1.2.0"), random.Random(kind), Model(), tmp_path / "t"
    rules = {**BUCKETS, "hoodie.bucket.index.partition.expressions": "^1$,2", "hoodie.compact.inline": "false"}
    of_jvm = {**TABLE, "hoodie.datasource.write.table.type": kind, **({} if maker == "us" else rules)}
    for number in range(4):
        rows = batch(sorted(chance.sample(range(120), 60)), number, chance)
        if (number % 2 == 0) is not (maker == "us"):
            upsert_beside_itself(jvm, path, rows, of_jvm)
        elif number == 0:
            new = {"hoodie.datasource.write.table.type": kind, "hoodie.table.ordering.fields": "ts"}
            pyhudi.save(rows, str(path), hudi_options={**TABLE, **new, **rules})
        else:
            pyhudi.HudiTable.for_path(str(path), hudi_options={} if maker == "us" else rules).upsert(rows)
        apply(model, rows, "upsert")
        assert read(jvm.read(path).select(["id", "p", "ts", "v"])) == model
        assert read(pyhudi.HudiTable.for_path(str(path)).scan(["id", "p", "ts", "v"]).to_arrow()) == model
        assert {(group, file_id[:8]) for group, file_id in groups(path)} <= {
            *(("0", f"{bucket:08}") for bucket in range(5)),
            *(("1", f"{bucket:08}") for bucket in range(2)),
        }
    assert len(groups(path)) == 7
