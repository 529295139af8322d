"""Lock-less writers: several write the same file groups at once, nobody gives way, and mergers decide."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pyarrow as pa
import pytest
from tests.support.crashes import assert_nothing_left_over, crash_images, opened
from tests.support.table_builder import TableBuilder
from tests.support.table_files import meeting
from tests.support.tables import StepClock, contents, environment, open_table, rows

import pyhudi
from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import ConfigError, UnsupportedFeatureError, WriteConflictError
from pyhudi.mergers import Merger, RecordCount, Stitching
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage, SimulatedCrash, at_effect
from pyhudi.write.create import create_for_schema

BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2", "hoodie.compact.inline": "false"}
LOCK_LESS = {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL", "hoodie.compact.inline": "false"}
CLOCK = StepClock()
Act = Callable[[Storage], object]
versions = pytest.mark.parametrize("version", [8, 9])


def bucketed(kind: str = "mor", version: int = 9, **options: str) -> Storage:
    return TableBuilder(version, kind, options={**BUCKETS, **options}, clock=CLOCK).build()


def table(storage: Storage, **options: str) -> pyhudi.HudiTable:
    return open_table(storage, env=environment(CLOCK), **{**LOCK_LESS, **options})


def upsert(*values: tuple[int, str, int, str], **options: str) -> Act:
    return lambda storage: table(storage, **options).upsert(rows(*values))


def beside(inner: Storage, others: Act) -> FaultStorage:
    """A store on which others act once, when a write has begun."""
    return meeting(inner, others, before=("put_if_absent", ".inflight"))


@versions
def test_writers_of_the_same_keys_all_commit_and_the_larger_ordering_value_wins(version: int) -> None:
    storage = bucketed(version=version)
    upsert((1, "oslo", 1, "start"))(storage)
    second = upsert((1, "oslo", 7, "second"), (2, "oslo", 3, "second"), (5, "rome", 1, "second"))

    upsert((1, "oslo", 5, "first"), (2, "oslo", 9, "first"), (5, "rome", 2, "first"))(beside(storage, second))

    assert contents(storage) == {(1, "oslo", 7, "second"), (2, "oslo", 9, "first"), (5, "rome", 2, "first")}
    groups = {(row["partition_path"], row["file_id"]) for row in table(storage).inspect.files().to_pylist()}
    assert len({(path, file_id[:8]) for path, file_id in groups}) == len(groups)
    assert len(load_table(storage).timeline.completed_writes) == 3


@versions
def test_of_equal_ordering_values_the_write_that_completes_last_wins(version: int) -> None:
    storage = bucketed(version=version)

    upsert((1, "oslo", 1, "began first, completed last"))(beside(storage, upsert((1, "oslo", 1, "in between"))))

    assert contents(storage) == {(1, "oslo", 1, "began first, completed last")}
    table(storage).services.compact()
    assert contents(storage) == {(1, "oslo", 1, "began first, completed last")}


@versions
def test_counts_of_writers_at_the_same_time_add_up(version: int) -> None:
    storage: Storage = MemoryStorage()
    schema = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("hoodie_record_count", pa.int64())])
    make_merged(storage, version, schema, RecordCount())
    views = pa.table({"id": [1, 2], "ts": [1, 1]})

    def others(inner: Storage) -> None:
        for _ in range(2):
            open_table(inner, **LOCK_LESS).upsert(views)

    open_table(beside(storage, others), **LOCK_LESS).upsert(views)

    for _ in range(2):
        counts = open_table(storage).scan(["id", "hoodie_record_count"]).to_arrow().sort_by("id").to_pydict()
        assert counts == {"id": [1, 2], "hoodie_record_count": [3, 3]}
        open_table(storage, **LOCK_LESS).services.compact()


@versions
def test_a_compaction_that_is_planned_and_run_meanwhile_takes_no_log_of_a_running_write(version: int) -> None:
    storage = bucketed(version=version)
    upsert((1, "oslo", 1, "start"), (3, "oslo", 1, "start"))(storage)

    def others(inner: Storage) -> None:
        upsert((1, "oslo", 4, "meanwhile"))(inner)
        assert table(inner).services.compact().num_rows == 1

    for moment in (("put_if_absent", ".inflight"), ("open_output", ".log.")):
        late = {".inflight": 5, ".log.": 6}[moment[1]]
        upsert((3, "oslo", late, "late"))(meeting(storage, others, before=moment))

        expected = {(1, "oslo", 4, "meanwhile"), (3, "oslo", late, "late")}
        assert contents(storage) == expected, moment
        table(storage).services.compact()
        assert contents(storage) == expected, moment


def test_deletes_and_inserts_append_too() -> None:
    storage = bucketed()
    upsert((1, "oslo", 1, "a"), (2, "oslo", 1, "a"))(storage)

    def others(inner: Storage) -> None:
        table(inner).delete(rows((2, "oslo", 1, "a")))

    table(beside(storage, others)).insert(rows((3, "oslo", 1, "c")))

    assert contents(storage) == {(1, "oslo", 1, "a"), (3, "oslo", 1, "c")}


@pytest.mark.parametrize("others_first", [True, False])
def test_an_overwrite_and_a_lock_less_write_of_its_groups_do_conflict(others_first: bool) -> None:
    storage = bucketed()
    upsert((1, "oslo", 1, "a"))(storage)

    def overwrite(inner: Storage) -> None:
        open_table(inner, env=environment(CLOCK)).insert_overwrite(rows((2, "oslo", 1, "o")))

    write = upsert((1, "oslo", 5, "w"))
    first, second = (overwrite, write) if others_first else (write, overwrite)
    with pytest.raises(WriteConflictError):
        second(beside(storage, first))


@pytest.mark.parametrize(
    ("kind", "version", "table_options", "operation", "options", "named"),
    [
        ("cow", 9, {}, "upsert", {}, "a merge-on-read table"),
        ("mor", 6, {}, "upsert", {}, "table version 8 or 9, not 6"),
        ("mor", 9, {"hoodie.index.type": "SIMPLE"}, "upsert", {}, "a simple bucket index"),
        ("mor", 9, {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}, "upsert", {}, "ordering fields or a merger"),
        ("mor", 9, {}, "bulk_insert", {}, "the operation upsert, insert or delete"),
        ("mor", 9, {}, "insert_overwrite", {}, "the operation upsert, insert or delete"),
        ("mor", 9, {}, "insert", {"hoodie.datasource.insert.dup.policy": "drop"}, "dup.policy=none"),
        (
            "mor",
            9,
            {},
            "upsert",
            {"hoodie.write.concurrency.early.conflict.detection.enable": "true"},
            "early.conflict.detection.enable=false",
        ),
    ],
)
def test_what_a_lock_less_write_needs_is_named_before_anything_is_written(
    kind: str, version: int, table_options: dict[str, str], operation: str, options: dict[str, str], named: str
) -> None:
    base = BUCKETS if table_options.get("hoodie.index.type") != "SIMPLE" else {"hoodie.compact.inline": "false"}
    storage = TableBuilder(version, kind, options={**base, **table_options}, clock=CLOCK).build()  # type: ignore[arg-type]
    watched = FaultStorage(storage)

    with pytest.raises((UnsupportedFeatureError, ConfigError), match=named):
        getattr(table(watched, **options), operation)(rows((1, "oslo", 1, "a")))

    assert watched.effects == ()


def test_all_that_is_missing_is_named_at_once() -> None:
    storage = TableBuilder(6, "cow", clock=CLOCK).build()

    with pytest.raises(UnsupportedFeatureError, match=r"merge-on-read.*version 8 or 9.*bucket index.*operation upsert"):
        table(storage).bulk_insert(rows((1, "oslo", 1, "a")))


def test_a_crash_at_any_moment_leaves_all_rows_or_those_of_before() -> None:
    given = bucketed()
    upsert((1, "oslo", 1, "a"), (2, "oslo", 1, "a"))(given)
    before = contents(given)
    late = rows((2, "oslo", 2, "b"), (3, "oslo", 2, "b"), (4, "rome", 2, "b"))
    seen = set()

    for hint, image in crash_images(given, lambda one: one.upsert(late, hudi_options=LOCK_LESS)):
        seen.add(frozenset(contents(image)))
        opened(image, later=True).upsert(late, hudi_options=LOCK_LESS)
        assert len(contents(image)) == 4, hint
        assert_nothing_left_over(image)

    assert seen == {frozenset(before), frozenset(contents(image))}


STREAMS = {"_t1": ["a1", "a2"], "_t2": ["b1"], "_t3": ["c1"]}
WIDE = pa.schema(
    [("id", pa.int64()), *((name, pa.int64()) for stream, columns in STREAMS.items() for name in (stream, *columns))]
)


def batches_of(stream: str, keys: int, chance: random.Random) -> list[pa.Table]:
    """The rows of a stream, in random order and batches, some of them late."""
    rows_of_stream = [(key, ts) for key in range(keys) for ts in chance.sample(range(1000), 3)]
    chance.shuffle(rows_of_stream)
    found = []
    for start in range(0, len(rows_of_stream), 7):
        part = rows_of_stream[start : start + 7]
        columns = {name: pa.array([key * 10_000 + ts for key, ts in part], pa.int64()) for name in STREAMS[stream]}
        found.append(
            pa.table(
                {
                    "id": pa.array([key for key, _ in part], pa.int64()),
                    stream: pa.array([ts for _, ts in part], pa.int64()),
                    **columns,
                }
            )
        )
    return found


def make_merged(storage: Storage, version: int, schema: pa.Schema, merger: Merger) -> None:
    config = WriteConfig.from_options(
        {
            "hoodie.table.name": "wide",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.write.table.version": str(version),
            **BUCKETS,
        }
    )
    create_for_schema(schema, storage, config, {}, merger)


def stitched(storage: Storage) -> pyhudi.HudiTable:
    return open_table(storage, **LOCK_LESS)


def joined(storage: Storage) -> dict[int, dict[str, object]]:
    found = open_table(storage).scan(WIDE.names).to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row for row in found}


@pytest.mark.parametrize(("version", "seed"), [(8, 1), (9, 2)])
def test_three_stitching_jobs_that_are_killed_and_restarted_make_the_full_outer_join(version: int, seed: int) -> None:
    """Each job sends its batches by name, dies at a random effect now and then, and sends the batch again."""
    chance, keys = random.Random(seed), 6
    storage: Storage = MemoryStorage()
    make_merged(storage, version, WIDE, Stitching(STREAMS))
    jobs = {stream: batches_of(stream, keys, chance) for stream in STREAMS}
    seeds = {stream: chance.randint(0, 2**31) for stream in STREAMS}
    start, compacting = threading.Barrier(len(jobs)), threading.Lock()

    def job(stream: str) -> None:
        mine = random.Random(seeds[stream])
        start.wait()
        for number, batch in enumerate(jobs[stream]):
            options = {"hoodie.write.batch.id": f"{stream}-{number}"}
            while mine.random() < 0.4:
                dying = FaultStorage(storage, before=at_effect(mine.randint(1, 12), SimulatedCrash()))
                with suppress(SimulatedCrash):
                    stitched(dying).upsert(batch, hudi_options=options)
            stitched(storage).upsert(batch, hudi_options=options)
            if mine.random() < 0.2:
                with compacting:
                    stitched(storage).services.compact()

    with ThreadPoolExecutor(len(jobs)) as pool:
        for done in [pool.submit(job, stream) for stream in jobs]:
            done.result()

    expected = {key: dict.fromkeys(WIDE.names) | {"id": key} for key in range(keys)}
    for stream, batches in jobs.items():
        for row in (row for batch in batches for row in batch.to_pylist()):
            if row[stream] >= (expected[row["id"]][stream] or -1):
                expected[row["id"]].update(row)
    assert joined(storage) == expected
    stitched(storage).services.compact()
    assert joined(storage) == expected
