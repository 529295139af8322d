"""The record index follows every action: applying its records to the former entries gives those of a new build."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

import pyarrow as pa
import pytest
from tests.support.tables import DELETE_FLAG, EVENT_TIME, MOR, SCHEMA, environment, new_table, open_table, rows

import pyhudi
from pyhudi.engine.local import LocalEngine
from pyhudi.format.metadata_table.locations import locations_of
from pyhudi.format.metadata_table.schema import RECORD_INDEX_COLUMN
from pyhudi.format.timeline.table_version import V9
from pyhudi.metadata_table.change import Change, change_of_commit
from pyhudi.metadata_table.file_group import GroupTarget, file_ids
from pyhudi.metadata_table.partition import Source
from pyhudi.metadata_table.record_index import GroupSizing, RecordIndexPartition
from pyhudi.storage.protocol import Storage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.state import TableState, load_table

Entries = dict[str, tuple[str, str]]
PARTITION = RecordIndexPartition()
_ACTIONS = ("upsert", "upsert", "flagged", "delete", "insert", "overwrite", "drop", "compact", "cluster")
FLAGGED = SCHEMA.append(DELETE_FLAG)


@pytest.mark.parametrize(
    ("records", "groups"),
    [(0, 10), (111_848_100, 10), (123_032_918, 11), (10_000_000_000, 894), (10**12, 10_000)],
)
def test_the_number_of_file_groups_follows_the_records_as_in_jvm_hudi(records: int, groups: int) -> None:
    assert GroupSizing().groups_for(records) == groups


def test_a_fixed_number_of_file_groups_is_kept() -> None:
    assert GroupSizing(groups_min=3, groups_max=3).groups_for(10**12) == 3


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


def test_a_late_delete_removes_neither_record_nor_entry() -> None:
    table = new_table(schema=FLAGGED, **MOR, **EVENT_TIME)
    storage = table.handle.state.storage
    table.upsert(_flagged((1, "oslo", 5, "a"), (2, "oslo", 5, "b")))
    entries = _built(load_table(storage))
    before = load_table(storage)
    open_table(storage, **MOR).upsert(_flagged((1, "oslo", 4, "a"), deleted=True))
    assert _followed(before, entries) == entries
    before = load_table(storage)
    open_table(storage, **MOR).upsert(_flagged((2, "oslo", 6, "b"), deleted=True))
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


def act(chance: random.Random, table: pyhudi.HudiTable, step: int, notes: Sequence[str | None] = ("x",)) -> None:
    """One random action on keys 0 to 39, which stay in their partitions if the index is not global."""
    moves = "GLOBAL" in table.handle.options["hoodie.index.type"]
    batch = [
        (
            number,
            chance.choice(["oslo", "rome"]) if moves else _city(number),
            chance.randrange(20),
            chance.choice(notes),
        )
        for number in chance.sample(range(40), chance.randint(1, 12))
    ]
    action = chance.choice(_ACTIONS)
    if step == 0:
        table.insert(_flagged(*((number, _city(number), 5, "x") for number in range(20))))
    elif action == "flagged":
        table.upsert(_flagged(*batch, deleted=True))
    elif action == "delete":
        table.delete(rows(*batch).select(["id", "city"]))
    elif action == "overwrite":
        table.insert_overwrite(_flagged(*batch))
    elif action == "drop" and step % 3 == 0:
        table.delete_partition(["city=rome"])
    elif action == "compact" and table.handle.state.config.table_type.value == "MERGE_ON_READ":
        table.services.compact()
    elif action == "cluster":
        table.services.cluster(hudi_options={"hoodie.clustering.plan.strategy.small.file.limit": "1000000000"})
    else:
        table.upsert(_flagged(*batch))


def _city(number: int) -> str:
    return "oslo" if number % 3 else "rome"


def _flagged(*values: tuple[int, str, int, str | None], deleted: bool = False) -> pa.Table:
    batch = rows(*values)  # type: ignore[arg-type] - a note may be missing
    return batch.append_column(DELETE_FLAG, pa.array([deleted] * batch.num_rows, pa.bool_()))


def source_of(table: TableState) -> Source:
    return Source(table, environment(), LocalEngine(parallelism=1), lambda: nullcontext(".hoodie/.aux/.exchange/a/a"))


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
