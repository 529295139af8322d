"""Resizes of a consistent bucket index: planned, executed beside writers, interrupted at any call, undone."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from tests.support.crashes import assert_nothing_left_over, crash_images, opened
from tests.support.table_builder import TableBuilder, every_version
from tests.support.table_files import meeting
from tests.support.tables import StepClock, contents, environment, open_table, rows

import pyhudi
from pyhudi.config.options_clustering import ClusteringOptions
from pyhudi.errors import ConfigError, CorruptDataError, UnsupportedFeatureError, WriteConflictError
from pyhudi.format.buckets import INT_MAX, HashRing, initial_ring, ring_hashes
from pyhudi.format.file_names import LogFileName
from pyhudi.format.metadata.hashing import decode_nodes, encode_nodes
from pyhudi.services.clustering.hash_rings import heirs_of
from pyhudi.services.clustering.resizes import ResizeLimits, plan_resizes
from pyhudi.storage.protocol import Storage
from pyhudi.table.features import HASHING_METADATA_FOLDER
from pyhudi.table.file_slice import FileGroupId, FileSlice, LogFile
from pyhudi.table.hash_rings import load_ring, ring_path
from pyhudi.table.state import load_table

RINGS = {
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "3",
    "hoodie.compact.inline": "false",
}
SPLIT = {"hoodie.bucket.index.max.num.buckets": "5", "hoodie.parquet.max.file.size": "100"}
MERGE = {"hoodie.bucket.index.min.num.buckets": "1"}
PATH = "city=oslo"
CLOCK = StepClock()


def some(first: int, last: int, ts: int = 1, note: str = "a") -> pa.Table:
    return rows(*((n, "oslo", ts, note) for n in range(first, last)))


def table_of(storage: Storage, **options: str) -> pyhudi.HudiTable:
    return open_table(storage, env=environment(CLOCK), **{"hoodie.compact.inline": "false", **options})


def made(version: int = 9) -> Storage:
    storage = TableBuilder(version, "mor", options=RINGS, clock=CLOCK).build()
    table_of(storage).upsert(some(0, 30))
    return storage


def planned(storage: Storage, **options: str) -> str:
    instant = table_of(storage, **(options or SPLIT)).services.schedule("clustering")
    assert instant is not None
    return instant


def ring_of(storage: Storage) -> HashRing:
    ring, _ = load_ring(storage, load_table(storage).timeline, PATH)
    assert ring is not None
    return ring


def assert_in_the_ring(storage: Storage) -> None:
    """Every record is in the file group of its bucket, once, and there are no other file groups."""
    ring = ring_of(storage)
    found = open_table(storage).scan(["_hoodie_record_key", "_hoodie_file_name"]).to_arrow()
    nodes = ring.nodes_of(ring_hashes(found.column(0).combine_chunks(), ("id",))).tolist()
    names = found.column(1).to_pylist()
    assert all(name.startswith(ring.nodes[node].file_id) for name, node in zip(names, nodes, strict=True))
    assert found.num_rows == len(set(found.column(0).to_pylist()))
    groups = set(open_table(storage).inspect.files().column("file_id").to_pylist())
    assert groups <= {node.file_id for node in ring.nodes}


# -- plans ---------------------------------------------------------------------------------------------------------


def slice_of(file_id: str, size: int) -> FileSlice:
    name = LogFileName(file_id, "1", 1, "0-0-0")
    log = LogFile(PATH, name, f"{PATH}/{name}", size, "1")
    return FileSlice(FileGroupId(PATH, file_id), "1", None, (log,))


def ids(seed: random.Random) -> Iterator[str]:
    while True:
        yield f"{seed.getrandbits(32):08x}-0000-0000-0000-{seed.getrandbits(48):012x}"


def test_a_thousand_random_resizes_keep_every_hash_in_an_heir_of_its_bucket() -> None:
    chance = random.Random(3)
    names, ring = ids(chance), initial_ring(PATH, 4)
    hashes = np.array([chance.randint(0, INT_MAX) for _ in range(50)])
    kinds = set()
    for step in range(1000):
        least, most = sorted((chance.randint(1, 12), chance.randint(1, 12)))
        limits = ResizeLimits(
            split_bytes=chance.randint(20, 90), merge_bytes=chance.randint(5, 60), least=least, most=most
        )
        there = [node for node in ring.nodes if chance.random() < 0.9]
        sort = {"sort_columns": ("ts",)} if chance.random() < 0.3 else {}
        plan = plan_resizes(
            [slice_of(node.file_id, chance.randint(1, 100)) for node in there],
            {PATH: ring},
            {FileGroupId(PATH, node.file_id): "held" for node in there if chance.random() < 0.1},
            ClusteringOptions(**sort),
            limits,
            hour=0,
            new_id=lambda: next(names),
            base_file_bytes_max=100,
        )
        assert {each.file_slice.file_id for each in (*plan.chosen, *plan.skipped)} == {node.file_id for node in there}
        assert all(each.reason for each in (*plan.chosen, *plan.skipped))
        changes = [
            node
            for group in plan.plan.groups
            for node in decode_nodes(group.extra["clustering.group.child.node"], path="")
        ]
        kinds |= {(len(group.slices), group.output_files) for group in plan.plan.groups}
        after = ring.with_children(f"{step:014}", tuple(changes))
        values = [node.value for node in after.nodes]
        assert values == sorted(set(values))
        assert min(len(ring.nodes), least) <= len(after.nodes) <= max(len(ring.nodes), most), step
        heirs = heirs_of(plan.plan, "plan")
        assert {node.file_id for node in ring.nodes} - {node.file_id for node in after.nodes} == {
            group.file_id for group in heirs
        }
        for old, new in zip(ring.nodes_of(hashes).tolist(), after.nodes_of(hashes).tolist(), strict=True):
            was, now = ring.nodes[old].file_id, after.nodes[new].file_id
            assert now in {one.file_id for one in heirs.get(FileGroupId(PATH, was), {FileGroupId(PATH, was)})}, step
        ring = after
    assert kinds >= {(1, 2), (2, 1), (3, 1), (1, 1)}
    assert ring.sequence == 1000


def test_nodes_of_a_plan_are_spelled_as_by_jvm_hudi() -> None:
    text = (
        '[ {\n  "value" : 2147483647,\n  "fileIdPrefix" : null,\n  "tag" : "DELETE"\n}, {\n  "value" : 536870911,\n'
        '  "fileIdPrefix" : "2da1926d-5de7-4a10-9e30-db2f3867180b",\n  "tag" : "REPLACE"\n} ]'
    )
    assert encode_nodes(decode_nodes(text, path="")) == text


def test_each_bucket_has_a_reason_why_it_is_or_is_not_resized() -> None:
    storage = made()

    def reasons(**options: str) -> list[tuple[str, bool]]:
        plan = table_of(storage, **options).services.plan_clustering()
        return sorted(zip(plan["reason"].to_pylist(), plan["clusters"].to_pylist(), strict=True))

    by_end = {text.partition(", more than 200")[2]: clusters for text, clusters in reasons(**SPLIT)}
    assert by_end == {": it is split": True, ", and its partition may not have more than 5 buckets": False}
    assert all(text.endswith("it is merged") for text, _ in reasons(**MERGE))
    assert all(text.endswith("may not have fewer than 3 buckets") for text, _ in reasons())
    sizes = {"hoodie.parquet.max.file.size": "3000"}
    assert all(text.endswith("more than 600 and not more than 6000") for text, _ in reasons(**sizes, **MERGE))
    assert {text for text, _ in reasons(**{"hoodie.clustering.plan.strategy.sort.columns": "ts"})} == {
        "its rows are sorted"
    }
    planned(storage)
    assert {text for text, _ in reasons()} == {
        "a resize of its partition is pending",
        "a pending clustering holds its file group",
    }


def test_strategies_for_other_tables_are_refused() -> None:
    plan = "hoodie.clustering.plan.strategy.class"
    with pytest.raises(ConfigError, match="would not know the buckets"):
        table_of(made(), **{plan: "SparkSingleFileSortPlanStrategy"}).services.plan_clustering()
    other = TableBuilder(9, "mor", clock=CLOCK).insert((1, "oslo", 1, "a")).build()
    with pytest.raises(ConfigError, match="which this one has not"):
        table_of(other, **{plan: "SparkConsistentBucketClusteringPlanStrategy"}).services.plan_clustering()
    with pytest.raises(ConfigError, match="more than the maximum"):
        table_of(made(), **SPLIT, **{"hoodie.bucket.index.min.num.buckets": "9"}).services.plan_clustering()


# -- runs ----------------------------------------------------------------------------------------------------------


@every_version
def test_buckets_are_split_and_merged_and_rows_stay(version: int) -> None:
    storage = made(version)
    table_of(storage).upsert(some(20, 40, 2, "b"))
    table_of(storage).delete(some(0, 2))
    expected = contents(storage)
    times = open_table(storage).scan(["id", "_hoodie_commit_time", "_hoodie_commit_seqno"]).to_arrow().sort_by("id")
    for options, buckets in ((SPLIT, 5), (MERGE, 1), (SPLIT, 2)):
        assert table_of(storage, **options).services.cluster().num_rows == 1
        assert contents(storage) == expected
        assert len(ring_of(storage).nodes) == buckets
        assert_in_the_ring(storage)
        now = open_table(storage).scan(["id", "_hoodie_commit_time", "_hoodie_commit_seqno"]).to_arrow().sort_by("id")
        assert now.equals(times)
    assert storage.info(ring_path(PATH, ring_of(storage).instant, ".commit")) is not None
    table_of(storage).upsert(some(30, 50, 3, "c"))
    table_of(storage).services.compact()
    assert_in_the_ring(storage)
    assert len(contents(storage)) == 48


def test_rows_are_sorted_when_buckets_are_resized() -> None:
    storage = made()
    sort = {"hoodie.clustering.plan.strategy.sort.columns": "id"}
    table_of(storage, **SPLIT, **sort).services.cluster()
    found = open_table(storage).scan(["id", "_hoodie_file_name"]).to_arrow().to_pylist()
    by_file: dict[str, list[int]] = {}
    for row in found:
        by_file.setdefault(row["_hoodie_file_name"], []).append(row["id"])
    assert len(by_file) == 5
    assert all(values == sorted(values) for values in by_file.values())


@pytest.mark.parametrize("version", [8, 9])
def test_writes_before_and_during_the_run_of_a_planned_resize_are_in_the_new_buckets(version: int) -> None:
    storage = made(version)
    instant = planned(storage)
    table_of(storage).upsert(some(25, 35, 2, "b"))
    table_of(storage).delete(some(0, 3))

    def write(inside: Storage) -> None:
        table_of(inside).upsert(some(33, 45, 3, "c"))

    meets = meeting(storage, write, before=("put", ".hashing_meta"))
    assert table_of(meets).services.run(instant)["outcome"].to_pylist() == ["done"]

    notes = {key: note for key, _, _, note in contents(storage)}
    assert notes == {n: "a" if n < 25 else "b" if n < 33 else "c" for n in range(3, 45)}
    assert_in_the_ring(storage)
    table_of(storage).services.compact()
    assert {key: note for key, _, _, note in contents(storage)} == notes
    assert_in_the_ring(storage)


def test_no_resize_is_planned_while_a_write_is_running() -> None:
    storage = made()
    found = []

    def plan(inside: Storage) -> None:
        other = table_of(inside, **SPLIT, **{"hoodie.clean.failed.writes.policy": "LAZY"})
        found.append(other.services.schedule("clustering"))
        found.append(set(other.services.plan_clustering()["reason"].to_pylist()))

    table_of(meeting(storage, plan, before=("open_output", ".log."))).upsert(some(0, 3, 2))

    assert found == [None, {"a write is running, which does not know that its buckets are about to change"}]


def test_a_write_to_the_old_buckets_alone_makes_the_resize_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """As JVM Hudi writes whose options do not name the strategy for both buckets, and lets pending plans be."""
    storage = made()
    instant = planned(storage)
    with monkeypatch.context() as patched:
        patched.setattr("pyhudi.write.bucket_placement.pending_resizes", lambda *_: {})
        patched.setattr("pyhudi.transaction.conflicts.check.check_clusterings", lambda *_, **__: None)
        patched.setattr("pyhudi.transaction.transaction.check_clusterings", lambda *_, **__: None)
        table_of(storage).upsert(some(25, 35, 2, "b"))

    with pytest.raises(WriteConflictError, match="have changed since"):
        table_of(storage).services.run(instant)
    assert {key: note for key, _, _, note in contents(storage)} == {n: "a" if n < 25 else "b" for n in range(35)}
    assert not table_of(storage).services.pending().num_rows
    assert table_of(storage, **SPLIT).services.cluster().num_rows == 1
    assert_in_the_ring(storage)


@every_version
def test_a_process_that_dies_at_any_call_leaves_a_resize_that_the_next_one_finishes(version: int) -> None:
    storage = made(version)
    expected = contents(storage)
    late = some(28, 32, 2, "b")
    for hint, image in crash_images(storage, lambda table: table.services.cluster(hudi_options=SPLIT), every=4):
        assert contents(image) == expected, hint
        again = image.copy()
        opened(image, later=True).services.cluster(hudi_options=SPLIT)
        assert contents(image) == expected, hint
        assert len(ring_of(image).nodes) == 5, hint
        assert_in_the_ring(image)
        opened(image, later=True).upsert(late)
        assert_nothing_left_over(image)
        assert_in_the_ring(image)
        # Or it is given up, and nothing of it remains.
        for plan in opened(again).services.pending()["instant"].to_pylist():
            opened(again, later=True).recovery.rollback(plan)
            assert not [info.path for info in again.list_recursive(HASHING_METADATA_FOLDER) if plan in info.name], hint
        opened(again, later=True).upsert(late)
        assert len(contents(again)) == 32, hint
        assert_nothing_left_over(again)
        assert_in_the_ring(again)


def test_a_write_that_died_during_a_resize_leaves_nothing_in_its_buckets() -> None:
    """Its logs there are named after the resize: once both are archived, JVM Hudi would take their rows for written."""
    storage = made()
    instant = planned(storage)
    late = some(28, 40, 2, "b")
    expected, died = contents(storage), set()
    for hint, image in crash_images(storage, lambda table: table.upsert(late)):
        died.add(contents(image) == expected)
        before = {info.path for info in image.list_recursive(PATH)} if contents(image) != expected else set()
        opened(image, later=True).recovery.roll_back_failed_writes()
        listed = {path for path in before if instant in path}
        left = {info.path for info in image.list_recursive(PATH) if instant in info.name}
        assert left == listed, hint
        opened(image, later=True).services.run(instant)
        assert_in_the_ring(image)
        assert len(contents(image)) == (40 if listed else 30), hint
    assert died == {True, False}


def test_a_planned_resize_is_given_up_with_what_writes_put_into_its_buckets() -> None:
    storage = made()
    instant = planned(storage)
    table_of(storage).upsert(some(25, 35, 2, "b"))
    expected = contents(storage)

    table_of(storage).recovery.rollback(instant)

    assert contents(storage) == expected
    assert not [
        info.path for info in storage.list_recursive("") if instant in info.name and "rollback" not in info.name
    ]
    table_of(storage).upsert(some(30, 40, 3, "c"))
    assert_in_the_ring(storage)
    assert len(contents(storage)) == 40


def test_a_restore_to_before_a_resize_brings_its_buckets_back() -> None:
    storage = made()
    before, ring = open_table(storage).inspect.last_write(), ring_of(storage)
    assert before is not None
    expected = contents(storage)
    table_of(storage, **SPLIT).services.cluster()
    table_of(storage).upsert(some(25, 35, 2, "b"))

    table_of(storage).recovery.restore(before.instant)

    assert contents(storage) == expected
    assert ring_of(storage) == ring
    table_of(storage).upsert(some(25, 35, 2, "b"))
    assert_in_the_ring(storage)


def test_after_a_resize_was_archived_and_its_old_files_cleaned_no_new_file_group_comes() -> None:
    """JVM Hudi once took the first buckets again when the resize was archived, and had every record twice."""
    storage = made()
    table_of(storage, **SPLIT).services.cluster()
    resize = ring_of(storage).instant
    options = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    for n in range(8):
        table_of(storage, **options).upsert(some(n, n + 3, 2 + n))
    assert load_table(storage).timeline.starts_after(resize)
    assert ring_of(storage).instant == resize
    assert_in_the_ring(storage)
    assert len(contents(storage)) == 30


# -- bad input -----------------------------------------------------------------------------------------------------


def test_a_table_whose_hashed_fields_are_not_said_is_not_resized_by_the_wrong_ones() -> None:
    """A table of JVM Hudi does not keep them, and rows would go to buckets in which nobody looks for them."""
    two_keys = {**RINGS, "hoodie.datasource.write.recordkey.field": "id,ts", "hoodie.bucket.index.hash.field": "id"}
    storage = TableBuilder(9, "mor", options=two_keys, clock=CLOCK).build()
    table_of(storage).upsert(some(0, 30))
    expected = contents(storage)
    properties = storage.read(".hoodie/hoodie.properties").decode().splitlines()
    kept = [line for line in properties if not line.startswith(("hoodie.bucket.index.hash", "hoodie.table.checksum"))]
    storage.put(".hoodie/hoodie.properties", "\n".join(kept).encode())

    with pytest.raises(CorruptDataError, match=r"name them in hoodie\.bucket\.index\.hash\.field"):
        table_of(storage, **SPLIT).services.cluster()
    assert contents(storage) == expected
    table_of(storage, **SPLIT, **{"hoodie.bucket.index.hash.field": "id"}).services.cluster()
    assert contents(storage) == expected
    assert len(ring_of(storage).nodes) == 5


def test_a_plan_for_other_buckets_is_refused() -> None:
    storage = made()
    instant = planned(storage)
    for info in list(storage.list_recursive(HASHING_METADATA_FOLDER)):
        storage.delete(info.path)

    with pytest.raises(CorruptDataError, match="does not fit the buckets"):
        table_of(storage).services.run(instant)


def test_a_write_to_a_table_of_version_6_waits_for_the_resize() -> None:
    storage = made(6)
    instant = planned(storage)
    with pytest.raises(UnsupportedFeatureError, match="let it finish first"):
        table_of(storage).upsert(some(0, 3, 2))
    table_of(storage).services.run(instant)
    table_of(storage).upsert(some(0, 3, 2))
    assert_in_the_ring(storage)
