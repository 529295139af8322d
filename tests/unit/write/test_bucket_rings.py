"""Writes to tables with a consistent bucket index, before, during and after a resize by JVM Hudi."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.crashes import assert_nothing_left_over, crash_images, opened
from tests.support.golden import unpacked
from tests.support.table_builder import TableBuilder, every_version
from tests.support.table_files import ended, meeting
from tests.support.tables import StepClock, contents, environment, open_table, rows

import pyhudi
from pyhudi.errors import ConfigError, CorruptDataError, UnsupportedFeatureError, WriteConflictError
from pyhudi.format.buckets import HashNode, initial_ring, ring_hashes
from pyhudi.format.metadata.clustering import ClusteredSlice, ClusteringGroup, ClusteringPlan
from pyhudi.format.metadata.commit import CommitMetadata
from pyhudi.format.metadata.hashing import (
    CHILD_NODES_KEY,
    PARTITION_KEY,
    SEQUENCE_KEY,
    decode_nodes,
    decode_ring,
    encode_ring,
)
from pyhudi.format.metadata.replace import encode_requested_replace_metadata, requested_clustering
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.schema.meta_columns import META_COLUMNS
from pyhudi.format.timeline.instant import Action, Instant, InstantState
from pyhudi.storage.protocol import Storage
from pyhudi.table.features import HASHING_METADATA_FOLDER
from pyhudi.table.hash_rings import load_ring, ring_path
from pyhudi.table.instant_times import next_time
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path

RINGS = {
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "3",
    "hoodie.compact.inline": "false",
}
NO_COMPACTION = {"hoodie.compact.inline": "false"}
PATH = "city=oslo"
CLOCK = StepClock()


def some(first: int, last: int, ts: int = 1, note: str = "a") -> pa.Table:
    return rows(*((n, "oslo", ts, note) for n in range(first, last)))


def made(version: int = 9) -> Storage:
    storage = TableBuilder(version, "mor", options=RINGS, clock=CLOCK).build()
    write(storage, some(0, 30))
    return storage


def write(storage: Storage, batch: pa.Table, **options: str) -> None:
    open_table(storage, env=environment(CLOCK), **{**NO_COMPACTION, **options}).upsert(batch)


def assert_in_the_ring(storage: Storage) -> None:
    table = load_table(storage)
    ring, _ = load_ring(storage, table.timeline, PATH)
    assert ring is not None
    columns = ["_hoodie_record_key", "_hoodie_file_name"]
    found = open_table(storage).scan(columns, where=[("city", "==", "oslo")]).to_arrow()
    nodes = ring.nodes_of(ring_hashes(found.column(0).combine_chunks(), ("id",))).tolist()
    ids = [ring.nodes[node].file_id for node in nodes]
    assert all(name.startswith(file_id) for name, file_id in zip(found.column(1).to_pylist(), ids, strict=True))
    assert found.num_rows == len(set(found.column(0).to_pylist()))


@every_version
def test_rows_go_to_the_logs_of_their_buckets_and_stay_there_through_compaction(version: int) -> None:
    storage = made(version)
    write(storage, some(20, 40, 2, "b"))
    table = open_table(storage, env=environment(CLOCK), **NO_COMPACTION)
    table.refresh().delete(some(0, 2))
    table.refresh().insert(some(40, 45))
    table.refresh().bulk_insert(some(45, 50))

    expected = {(n, "oslo", 2 if 20 <= n < 40 else 1, "b" if 20 <= n < 40 else "a") for n in range(2, 50)}
    assert contents(storage) == expected
    assert_in_the_ring(storage)
    ids = set(table.refresh().inspect.files().column("file_id").to_pylist())
    assert ids == {node.file_id for node in initial_ring(PATH, 3).nodes}
    table.refresh().services.compact()
    write(storage, some(48, 52, 3, "c"))
    assert_in_the_ring(storage)
    assert len(contents(storage)) == 50


def test_the_file_of_a_ring_is_that_of_jvm_hudi(tmp_path: Path) -> None:
    folder = unpacked("mor/v9-consistent", tmp_path) / "table" / HASHING_METADATA_FOLDER
    files = sorted(folder.rglob("*.hashing_meta"))
    assert files

    for file in files:
        ring = decode_ring(file.read_bytes(), path=str(file))
        assert encode_ring(ring) == file.read_bytes()
        assert initial_ring(str(file.parent.relative_to(folder)), ring.initial_buckets) == ring


@every_version
def test_a_table_of_jvm_hudi_gets_no_new_file_group(version: int, tmp_path: Path) -> None:
    table = pyhudi.HudiTable.for_path(str(unpacked(f"mor/v{version}-consistent", tmp_path) / "table"))
    before = table.scan().to_arrow()
    data = before.drop_columns([name for name in before.column_names if name in META_COLUMNS])
    ids = set(table.inspect.files().column("file_id").to_pylist())

    table.upsert(data)

    assert set(table.refresh().inspect.files().column("file_id").to_pylist()) == ids
    assert table.refresh().scan().count() == before.num_rows


def test_a_scan_by_key_reads_the_bucket_of_the_key_alone() -> None:
    storage = made()
    write(storage, some(20, 40, 2, "b"))
    table = open_table(storage)

    for key in range(42):
        scan = table.scan(["id"], where=[("id", "==", key)])
        assert scan.to_arrow().column(0).to_pylist() == ([key] if key < 40 else [])
    (use,) = (use for use in scan.explain().indexes if use.index == "bucket_index")
    assert use.file_slices == 2


# -- resizes -------------------------------------------------------------------------------------------------------

CHILDREN = ("11111111-25c8-466a-9d8d-10dd609ff310", "22222222-25c8-466a-9d8d-10dd609ff310")


def planned(storage: Storage) -> str:
    """A resize as JVM Hudi plans it: the first bucket is split in two."""
    table = load_table(storage)
    first = initial_ring(PATH, 3).nodes[0]
    nodes = (HashNode(first.value // 2, CHILDREN[0], "REPLACE"), HashNode(first.value, CHILDREN[1], "REPLACE"))
    text = "[ " + ", ".join(
        f'{{"value" : {n.value}, "fileIdPrefix" : "{n.file_id_prefix}", "tag" : "{n.tag}"}}' for n in nodes
    ) + " ]"  # fmt: skip
    assert decode_nodes(text, path="") == nodes
    group = ClusteringGroup(
        slices=(ClusteredSlice(partition_path=PATH, file_id=first.file_id, data_file=None),),
        output_files=2,
        extra={CHILD_NODES_KEY: text, PARTITION_KEY: PATH, SEQUENCE_KEY: "0"},
    )
    plan = ClusteringPlan(groups=(group,), strategy_class="SparkConsistentBucketClusteringExecutionStrategy")
    instant = Instant(
        requested_time=next_time(table.timeline, table.config, CLOCK),
        action=Action.CLUSTERING if table.version.has_clustering_action else Action.REPLACE_COMMIT,
        state=InstantState.REQUESTED,
    )
    body = encode_requested_replace_metadata(requested_clustering(plan), table_uri=storage.uri)
    storage.put_if_absent(instant_path(instant, table.version), body)
    return instant.requested_time


def children_in(storage: Storage) -> list[str]:
    """The logs of the new buckets on disk: no view shows them yet."""
    names = (info.name for info in storage.list_recursive(PATH))
    return sorted(name for name in names if ".log." in name and any(child in name for child in CHILDREN))


def test_a_merge_goes_over_the_end_of_the_ring() -> None:
    """As JVM Hudi plans one: buckets that go have no file group."""
    ring = initial_ring(PATH, 3)
    gone = [f'{{"value": {node.value}, "fileIdPrefix": null, "tag": "DELETE"}}' for node in ring.nodes[1:]]
    kept = f'{{"value": {ring.nodes[0].value}, "fileIdPrefix": "{CHILDREN[0]}", "tag": "REPLACE"}}'

    merged = ring.with_children("1", decode_nodes(f"[{', '.join([*gone, kept])}]", path=""))

    assert [node.file_id_prefix for node in merged.nodes] == [CHILDREN[0]]
    assert set(merged.nodes_of(ring_hashes(pa.array([f"k{n}" for n in range(100)]), ("id",))).tolist()) == {0}


@pytest.mark.parametrize("version", [8, 9])
def test_during_a_resize_rows_go_to_the_old_and_to_the_new_buckets(version: int) -> None:
    storage = made(version)
    resize = planned(storage)

    write(storage, some(25, 35, 2, "b"))
    write(storage, some(30, 40, 3, "c"))

    # Readers see the old buckets; the new ones wait under the name of the resize, each write with a version of its own.
    assert {key: note for key, _, _, note in contents(storage)} == {
        n: "a" if n < 25 else "b" if n < 30 else "c" for n in range(40)
    }
    names = children_in(storage)
    assert names
    assert all(f"_{resize}.log." in name for name in names)
    assert len({name.partition("-0_")[0] + name.partition(".log.")[2].partition("_")[0] for name in names}) == len(
        names
    )
    first = initial_ring(PATH, 3).nodes[0]
    table = open_table(storage)
    assert {first.file_id} < set(table.inspect.files().column("file_id").to_pylist())


def test_a_resize_that_was_not_there_when_a_write_began_is_in_its_way() -> None:
    storage = made()

    with pytest.raises(WriteConflictError, match="clustering is planned"):
        write(meeting(storage, planned, before=("put_if_absent", ".inflight")), some(0, 30, 2))


def test_a_resize_of_version_6_is_left_to_jvm_hudi_first() -> None:
    storage = made(6)
    planned(storage)

    with pytest.raises(UnsupportedFeatureError, match="of version 6"):
        write(storage, some(0, 30, 2))


def test_a_crash_during_a_resize_leaves_all_rows_or_those_of_before() -> None:
    storage = made()
    planned(storage)
    before = contents(storage)
    late = some(25, 35, 2, "b")
    seen = set()

    for hint, image in crash_images(storage, lambda table: table.upsert(late), every=3):
        seen.add(frozenset(contents(image)))
        opened(image, later=True).upsert(late)
        assert len(contents(image)) == 35, hint
        assert_nothing_left_over(image)

    assert seen == {frozenset(before), frozenset(contents(image))}


def completed_resize(storage: Storage, *, marked: bool, metadata: bool = True) -> str:
    """A completed resize without files: its ring, and its instant on the timeline."""
    table = load_table(storage)
    first = initial_ring(PATH, 3)
    time = next_time(table.timeline, table.config, CLOCK)
    ring = first.with_children(time, (HashNode(first.nodes[0].value // 2, CHILDREN[0]),))
    storage.put(ring_path(PATH, time), encode_ring(ring))
    if marked:
        storage.put(ring_path(PATH, time, ".commit"), b"")
    if metadata:
        instant = Instant(requested_time=time, action=Action.REPLACE_COMMIT, state=InstantState.REQUESTED)
        storage.put_if_absent(instant_path(instant, table.version), b"")
        body = CommitMetadata(operation=WriteOperation.CLUSTER, stats_by_partition={}, replaced_file_ids={})
        ended(storage, instant, body)
    return time


def test_the_ring_of_a_completed_resize_counts_also_after_archiving_and_gets_its_mark() -> None:
    """JVM Hudi once went back to the first buckets when the resize was archived, and had every record twice."""
    storage = made()
    resize = completed_resize(storage, marked=False)
    archived = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    for n in range(8):
        write(storage, some(n, n + 3, 2 + n), **archived)
    table = load_table(storage)
    assert table.timeline.starts_after(resize)
    assert storage.info(ring_path(PATH, resize, ".commit")) is not None
    ring, _ = load_ring(storage, table.timeline, PATH)
    assert ring is not None
    assert (ring.instant, len(ring.nodes)) == (resize, 4)
    storage.delete(ring_path(PATH, resize, ".commit"))
    assert load_ring(storage, table.timeline, PATH) == (ring, True)


@pytest.mark.parametrize("marked", [False, True])
def test_the_ring_of_a_resize_that_was_undone_or_is_pending_does_not_count(marked: bool) -> None:
    storage = made()
    completed_resize(storage, marked=marked, metadata=False)

    ring, _ = load_ring(storage, load_table(storage).timeline, PATH)

    assert ring == initial_ring(PATH, 3)


# -- overwrites ----------------------------------------------------------------------------------------------------


@every_version
def test_overwritten_and_dropped_partitions_get_new_buckets_at_the_same_places(version: int) -> None:
    storage = made(version)
    write(storage, rows(*((n, "rome", 1, "r") for n in range(5))))
    first = load_ring(storage, load_table(storage).timeline, PATH)[0]
    assert first is not None

    def table() -> pyhudi.HudiTable:
        return open_table(storage, env=environment(CLOCK), **NO_COMPACTION)

    table().insert_overwrite(some(20, 30, 2, "b"))
    write(storage, some(25, 40, 3, "c"))
    expected = {(n, "oslo", 3 if n >= 25 else 2, "c" if n >= 25 else "b") for n in range(20, 40)}
    assert contents(storage) == expected | {(n, "rome", 1, "r") for n in range(5)}
    assert_in_the_ring(storage)
    table().delete_partition(PATH)
    assert {row[1] for row in contents(storage)} == {"rome"}
    write(storage, some(0, 9))
    assert_in_the_ring(storage)
    table().insert_overwrite_table(some(3, 5))
    write(storage, some(4, 6, 2))
    assert_in_the_ring(storage)
    table().truncate()
    assert contents(storage) == set()
    write(storage, some(0, 9))
    write(storage, some(0, 9, 2))
    assert len(contents(storage)) == 9
    assert_in_the_ring(storage)
    ring, lacks_mark = load_ring(storage, load_table(storage).timeline, PATH)
    assert ring is not None
    assert (ring.sequence, lacks_mark) == (4, False)
    assert [node.value for node in ring.nodes] == [node.value for node in first.nodes]


def test_an_overwrite_of_a_new_partition_and_of_a_new_table_fills_buckets_of_its_own() -> None:
    storage = TableBuilder(9, "mor", options=RINGS, clock=CLOCK).build()
    for batch in (some(0, 9), rows((1, "rome", 1, "r"))):
        open_table(storage, env=environment(CLOCK), **NO_COMPACTION).insert_overwrite(batch)
    write(storage, some(5, 12))
    assert len(contents(storage)) == 13
    assert_in_the_ring(storage)


def test_an_overwrite_ends_what_one_of_jvm_hudi_did_to_the_buckets() -> None:
    storage = made()
    overwritten_by_jvm_hudi(storage)
    open_table(storage, env=environment(CLOCK), **NO_COMPACTION).insert_overwrite(some(0, 3))
    write(storage, some(2, 6))
    assert len(contents(storage)) == 6


@pytest.mark.parametrize("own", ["overwrite", "drop"])
def test_a_write_into_a_bucket_without_rows_and_an_overwrite_give_way_to_each_other(own: str) -> None:
    """The file group of such a bucket is in no listing; it is replaced all the same."""
    storage = made()
    open_table(storage, env=environment(CLOCK), **NO_COMPACTION).truncate()
    write(storage, some(0, 1))
    empty = next(n for n in range(1, 50) if bucket_of(storage, n) != bucket_of(storage, 0))

    def act(inside: Storage) -> None:
        table = open_table(inside, env=environment(CLOCK), **NO_COMPACTION)
        table.insert_overwrite(some(0, 1, 2)) if own == "overwrite" else table.delete_partition(PATH)

    beside = meeting(storage, act, before=("put_if_absent", "deltacommit.inflight"))
    with pytest.raises(WriteConflictError):
        write(beside, some(empty, empty + 1))
    beside = meeting(
        storage,
        lambda inside: write(inside, some(empty, empty + 1)),
        before=("put_if_absent", "replacecommit.inflight"),
    )
    if own == "drop":
        write(storage, some(0, 1))
    with pytest.raises(WriteConflictError):
        act(beside)
    assert {row[0] for row in contents(storage)} == {0, empty}


def test_an_overwrite_beside_a_planned_resize_gives_way() -> None:
    storage = made()
    table = open_table(storage, env=environment(CLOCK), **NO_COMPACTION)
    limits = {"hoodie.bucket.index.max.num.buckets": "8", "hoodie.parquet.max.file.size": "1"}
    assert table.services.schedule("clustering", hudi_options=limits) is not None
    for act in (lambda: table.refresh().insert_overwrite(some(0, 1)), table.refresh().truncate):
        with pytest.raises(WriteConflictError, match="a clustering is planned"):
            act()
    table.refresh().services.run()
    table.refresh().insert_overwrite(some(0, 3))
    write(storage, some(2, 5))
    assert len(contents(storage)) == 5
    ring, _ = load_ring(storage, load_table(storage).timeline, PATH)
    assert ring is not None
    assert len(ring.nodes) == 6


@pytest.mark.parametrize("own", ["overwrite", "drop"])
def test_an_overwrite_that_dies_at_any_effect_leaves_rows_and_buckets_of_before_or_after(own: str) -> None:
    start = made()
    before = contents(start)

    def act(table: pyhudi.HudiTable) -> None:
        table.insert_overwrite(some(0, 3, 2, "b")) if own == "overwrite" else table.delete_partition(PATH)

    after = set() if own == "drop" else {(n, "oslo", 2, "b") for n in range(3)}
    seen = set()
    for point, storage in crash_images(start, act):
        found = contents(storage)
        assert found in (before, after), point
        seen.add(len(found))
        opened(storage, later=True).upsert(some(2, 40, 3, "c"))
        assert contents(storage) == {row for row in found if row[0] < 2} | {(n, "oslo", 3, "c") for n in range(2, 40)}
        assert_in_the_ring(storage)
    assert seen == {len(before), len(after)}


def test_a_restore_to_before_an_overwrite_brings_its_buckets_back() -> None:
    storage = made()
    open_table(storage, env=environment(CLOCK)).savepoints.create(name="before")
    open_table(storage, env=environment(CLOCK), **NO_COMPACTION).insert_overwrite(some(0, 3))
    open_table(storage, env=environment(CLOCK)).recovery.restore("before")
    write(storage, some(20, 40, 2, "b"))
    assert len(contents(storage)) == 40
    assert_in_the_ring(storage)
    ring, _ = load_ring(storage, load_table(storage).timeline, PATH)
    assert ring == initial_ring(PATH, 3)


def bucket_of(storage: Storage, number: int) -> int:
    ring, _ = load_ring(storage, load_table(storage).timeline, PATH)
    assert ring is not None
    return int(ring.nodes_of(ring_hashes(pa.array([str(number)]), ("id",)))[0])


def overwritten_by_jvm_hudi(storage: Storage) -> None:
    table = load_table(storage)
    time = next_time(table.timeline, table.config, CLOCK)
    instant = Instant(requested_time=time, action=Action.REPLACE_COMMIT, state=InstantState.REQUESTED)
    storage.put_if_absent(instant_path(instant, table.version), b"")
    gone = {PATH: tuple(node.file_id for node in initial_ring(PATH, 3).nodes)}
    operation = WriteOperation.INSERT_OVERWRITE
    ended(storage, instant, CommitMetadata(operation=operation, stats_by_partition={}, replaced_file_ids=gone))


# -- what is refused -----------------------------------------------------------------------------------------------


def test_buckets_that_an_overwrite_of_jvm_hudi_took_away_are_not_written() -> None:
    storage = made()
    overwritten_by_jvm_hudi(storage)

    with pytest.raises(CorruptDataError, match="left its buckets as they were"):
        write(storage, some(0, 3))


def test_a_new_partition_needs_a_number_of_buckets(tmp_path: Path) -> None:
    table = pyhudi.HudiTable.for_path(str(unpacked("mor/v9-consistent", tmp_path) / "table"))
    row = table.scan().to_arrow().slice(0, 1)
    data = row.drop_columns([name for name in row.column_names if name in META_COLUMNS])
    (path,) = table.handle.state.config.partition_fields or ()
    data = data.set_column(
        data.schema.get_field_index(path), path, pa.array(["new"]).cast(data.schema.field(path).type)
    )

    with pytest.raises(ConfigError, match=r"set hoodie\.bucket\.index\.num\.buckets"):
        table.upsert(data)
    before = table.scan().count()
    table.upsert(data, hudi_options={"hoodie.bucket.index.num.buckets": "2"})
    assert table.refresh().scan().count() == before + 1


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"nodes": []}', b'{"nodes": [{"value": 3}]}', b"\xff", b'{"version":0,"nodes":[1]}']
)
def test_a_damaged_ring_is_named(data: bytes) -> None:
    with pytest.raises(CorruptDataError, match="hashing metadata"):
        decode_ring(data, path="p.hashing_meta")
