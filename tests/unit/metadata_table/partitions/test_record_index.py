"""The record index follows every action: applying its records to the previous entries gives those of a new build."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.support.index_changes import FLAGGED, act, flagged, source_of
from tests.support.tables import EVENT_TIME, MOR, new_table, open_table, rows

from pyhudi.engine.local import LocalEngine
from pyhudi.errors import RecordKeyError
from pyhudi.format.metadata_table.locations import locations_of
from pyhudi.format.metadata_table.schema import RECORD_INDEX_COLUMN
from pyhudi.format.timeline.table_version import V9
from pyhudi.metadata_table.file_changes import Change, change_of_commit
from pyhudi.metadata_table.file_group import GroupTarget, file_ids
from pyhudi.metadata_table.partitions import record_index
from pyhudi.metadata_table.partitions.record_index import GroupSizing, RecordIndexPartition, groups_for_parts
from pyhudi.metadata_table.slice_changes import current_slices
from pyhudi.storage.protocol import Storage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.state import TableState, load_table

Entries = dict[str, tuple[str, str]]
PARTITION = RecordIndexPartition()


@pytest.mark.parametrize(
    ("records", "groups"),
    [(0, 10), (111_848_100, 10), (123_032_918, 11), (10_000_000_000, 894), (10**12, 10_000)],
)
def test_the_number_of_file_groups_follows_the_records_as_in_jvm_hudi(records: int, groups: int) -> None:
    assert GroupSizing().groups_for(records) == groups


def test_a_fixed_number_of_file_groups_is_kept() -> None:
    assert GroupSizing(groups_min=3, groups_max=3).groups_for(10**12) == 3


class CountingTasks(LocalEngine):
    """Notes the tasks of each step."""

    def __init__(self) -> None:
        super().__init__(parallelism=1)
        object.__setattr__(self, "steps", {})

    def map(self, function: Any, tasks: Any, **how: Any) -> Any:
        self.steps[how["description"]] = len(tasks)  # type: ignore[attr-defined]
        return super().map(function, tasks, **how)


def test_records_of_many_base_files_are_counted_in_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_index, "FILES_PER_TASK", 4)
    table = new_table(**{"hoodie.table.services.enabled": "false"})
    table.insert(rows(*((number, f"c{number % 9}", 1, "") for number in range(90))))
    engine = CountingTasks()
    source = replace(source_of(load_table(table.handle.state.storage)), engine=engine)
    slices = defaultdict(list)
    for file_slice in current_slices(source):
        slices[file_slice.group.partition_path].append(file_slice)

    groups = groups_for_parts(source, slices, GroupSizing(groups_min=1, growth=1.0, group_bytes_max=48))

    assert groups == dict.fromkeys(slices, 10)
    assert engine.steps == {"count records": 3}
    assert groups_for_parts(replace(source, engine=None), slices, GroupSizing()) == dict.fromkeys(slices, 10)


@pytest.mark.parametrize(
    ("version", "kind", "index"),
    [
        (6, "mor", "SIMPLE"),
        (6, "cow", "GLOBAL_SIMPLE"),
        (8, "mor", "GLOBAL_SIMPLE"),
        (9, "cow", "GLOBAL_SIMPLE"),
        (9, "mor", "GLOBAL_SIMPLE"),
        (9, "mor", "SIMPLE"),
    ],
)
def test_entries_follow_random_actions(version: int, kind: str, index: str) -> None:
    chance = random.Random(f"{version}{kind}{index}")
    options = {"hoodie.index.type": index, "hoodie.parquet.small.file.limit": "0", **EVENT_TIME}
    if kind == "mor":
        options |= MOR
    table = new_table(version=version, schema=FLAGGED, **options)
    storage = table.handle.state.storage
    entries: Entries = {}
    for step in range(9):
        before = load_table(storage)
        act(chance, open_table(storage, **options), step)
        entries = _followed(before, entries)
        assert entries == _built(load_table(storage)), f"after step {step}"
        assert len(entries) > 0


LONGEST = (1 << 15) - 1


@pytest.mark.parametrize("version", [9, 6])
def test_keys_as_long_as_an_hfile_can_have_are_found_and_longer_ones_are_refused(version: int) -> None:
    """The format keeps the length of a key in two bytes with a sign."""
    schema = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64())])
    options = {
        "hoodie.index.type": "RECORD_INDEX",
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.metadata.record.index.min.filegroup.count": "2",
        "hoodie.metadata.compact.max.delta.commits": "2",
    }
    storage = new_table(version=version, schema=schema, **options).handle.state.storage
    begin = "\U00010000" * (LONGEST // 4)  # four bytes each; they differ at their ends
    keys = [begin + "a", begin + "ab", begin + "abc", "k" * LONGEST, "short"]

    def batch(ids: list[str], moment: int) -> pa.Table:
        return pa.table({"id": ids, "city": ["oslo"] * len(ids), "ts": [moment] * len(ids)}, schema)

    open_table(storage, **options).upsert(batch(keys, 1))
    open_table(storage, **options).upsert(batch(keys[1:], 2))
    open_table(storage, **options).upsert(batch(keys[2:], 3))

    for size in (LONGEST + 1, 1 << 16):
        with pytest.raises(RecordKeyError, match="at most 32767 bytes"):
            open_table(storage, **options).upsert(batch(["x" * size], 4))
    open_table(storage, **options).delete(batch(keys[3:4], 5))

    table = open_table(storage, **options)
    left = [*keys[:3], keys[4]]
    assert sorted(table.scan(["id"]).to_arrow()["id"].to_pylist()) == sorted(left)
    found = table.lookup([*keys, "x" * (1 << 16)], ["id", "ts"]).to_pylist()
    assert {row["id"]: row["ts"] for row in found} == dict(zip(left, (1, 2, 3, 3), strict=True))
    assert table.inspect.metadata_check().to_pylist() == []


def test_keys_of_64_kib_are_kept_without_a_record_index() -> None:
    schema = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64())])
    options = {"hoodie.metadata.index.column.stats.enable": "true"}
    storage = new_table(schema=schema, **options).handle.state.storage
    keys = ["k" * (1 << 16) + end for end in "ab"]
    for moment in (1, 2):
        batch = pa.table({"id": keys, "city": ["oslo"] * 2, "ts": [moment] * 2}, schema)
        open_table(storage, **options).upsert(batch)
    table = open_table(storage)
    assert table.lookup(keys[1:], ["id", "ts"]).to_pylist() == [{"id": keys[1], "ts": 2}]
    assert table.inspect.metadata_check().to_pylist() == []


def test_a_late_delete_removes_neither_record_nor_entry() -> None:
    table = new_table(schema=FLAGGED, **MOR, **EVENT_TIME)
    storage = table.handle.state.storage
    table.upsert(flagged((1, "oslo", 5, "a"), (2, "oslo", 5, "b")))
    entries = _built(load_table(storage))
    before = load_table(storage)
    open_table(storage, **MOR).upsert(flagged((1, "oslo", 4, "a"), deleted=True))
    assert _followed(before, entries) == entries
    before = load_table(storage)
    open_table(storage, **MOR).upsert(flagged((2, "oslo", 6, "b"), deleted=True))
    assert sorted(_followed(before, entries)) == ["1"]


def test_updates_that_keep_their_file_group_write_nothing() -> None:
    table = new_table()
    storage = table.handle.state.storage
    table.upsert(rows((1, "oslo", 1, "a"), (2, "rome", 1, "b")))
    before = load_table(storage)
    open_table(storage).upsert(rows((1, "oslo", 2, "c"), (2, "rome", 2, "d")))
    assert list(PARTITION.records_of(_change(storage), source_of(before))) == []


def test_tasks_write_the_records_that_the_driver_would_make() -> None:
    table = new_table()
    storage = table.handle.state.storage
    table.upsert(rows(*((number, f"city{number % 3}", 1, "a") for number in range(200))))
    before = load_table(storage)
    open_table(storage).upsert(rows(*((number, f"city{number % 3}", 2, "b") for number in range(150, 260))))
    change, source = _change(storage), source_of(before)
    target = GroupTarget(
        storage=storage.spec,
        partition="record_index",
        file_ids=file_ids(PARTITION.file_id_prefix, 4),
        instant_time=change.instant_time,
        version=V9,
    )
    stats = PARTITION.write_ahead(change, source, target)
    assert sum(stat.num_writes for stat in stats) == 60
    assert sum(stat.num_deletes for stat in stats) == 0
    assert len({stat.file_id for stat in stats}) == 4


def _change(storage: Storage) -> Change:
    table = load_table(storage)
    instant = table.timeline.completed_writes[-1]
    metadata = load_commit_metadata(storage, instant, table.version)
    return change_of_commit(instant.requested_time, metadata)


def _followed(before: TableState, entries: Mapping[str, tuple[str, str]]) -> Entries:
    """The entries after all that was completed since `before`."""
    found, table = dict(entries), load_table(before.storage)
    done = set(before.timeline.completed_times)
    for instant in table.timeline.completed_writes:
        if instant.requested_time in done:
            continue
        metadata = load_commit_metadata(table.storage, instant, table.version)
        change = change_of_commit(instant.requested_time, metadata)
        for batch in PARTITION.records_of(change, source_of(before)):
            for key, place in _decoded(batch).items():
                if place is None:
                    found.pop(key, None)
                else:
                    found[key] = place
    return found


def _built(table: TableState) -> Entries:
    return {
        key: place
        for batch in PARTITION.initial_records(source_of(table))
        for key, place in _decoded(batch).items()
        if place is not None
    }


def _decoded(batch: pa.RecordBatch) -> dict[str, tuple[str, str] | None]:
    keys = batch.column("key").to_pylist()
    assert len(keys) == len(set(keys))
    payloads = batch.column(RECORD_INDEX_COLUMN)
    partitions, ids = locations_of(payloads.dictionary, path="x")
    places = list(zip(partitions.to_pylist(), ids.to_pylist(), strict=True))
    return {
        key: None if number is None else places[number]
        for key, number in zip(keys, payloads.indices.to_pylist(), strict=True)
    }
