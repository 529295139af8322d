"""The record index by partition: each key of each partition is found, whatever was done to the table."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from tests.support.crashes import crash_images
from tests.support.index_changes import FLAGGED, act
from tests.support.tables import MOR, new_table, open_table, rows

from pyhudi.errors import ConfigError, InvalidRequestError
from pyhudi.metadata_table.partitions.record_index_by_partition import group_prefix, places_of
from pyhudi.metadata_table.record_locations import location_reader
from pyhudi.metadata_table.state import load_metadata_state
from pyhudi.storage.protocol import Storage
from pyhudi.table.index_definitions import load_index_definitions
from pyhudi.table.state import load_table

OPTIONS = {
    "hoodie.index.type": "RECORD_LEVEL_INDEX",
    "hoodie.metadata.record.level.index.enable": "true",
    "hoodie.parquet.small.file.limit": "0",
}


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_each_key_is_found_in_its_partition_after_random_actions(kind: str) -> None:
    chance = random.Random(kind)
    options = {**OPTIONS, **(MOR if kind == "mor" else {}), "hoodie.metadata.compact.max.delta.commits": "4"}
    storage = new_table(schema=FLAGGED, **options).handle.state.storage
    for step in range(12):
        act(chance, open_table(storage, **options), step)
        _check(storage)
    table = open_table(storage, **options)
    definition = load_index_definitions(table.handle.state)["record_index"]
    assert (definition.options, definition.version) == ({"isPartitioned": "true"}, "V1")
    table.indexes.refresh("record_index")
    _check(storage)
    assert any(group.base for group in load_metadata_state(load_table(storage)).slices("record_index"))


def test_same_key_in_two_partitions_is_two_records_that_are_updated_where_they_are() -> None:
    storage = new_table(**OPTIONS).handle.state.storage
    open_table(storage, **OPTIONS).upsert(rows((1, "oslo", 1, "a"), (1, "rome", 1, "b"), (2, "oslo", 1, "a")))
    result = open_table(storage, **OPTIONS).upsert(rows((1, "rome", 2, "c"), (1, "bern", 2, "d"), (2, "oslo", 2, "e")))
    assert (result.updated, result.inserted) == (2, 1)
    table = open_table(storage)
    scan = table.scan(["city", "note"], where=[("id", "==", 1)])
    assert sorted(map(tuple, (row.values() for row in scan.to_arrow().to_pylist()))) == [
        ("bern", "d"),
        ("oslo", "a"),
        ("rome", "c"),
    ]
    use = table.scan(where=[("id", "==", 2)]).explain().indexes[0]
    assert (use.index, use.file_slices) == ("record_index", 2)
    _check(storage)


def test_write_that_died_at_any_effect_leaves_an_index_that_is_true() -> None:
    given = new_table(**OPTIONS).handle.state.storage
    open_table(given, **OPTIONS).upsert(rows((1, "oslo", 1, "a")))
    batch = rows((1, "oslo", 2, "b"), (2, "bern", 2, "b"), (3, "rome", 2, "b"))
    for _, storage in crash_images(given, lambda table: table.upsert(batch), every=3):
        open_table(storage, **OPTIONS).upsert(rows((2, "bern", 5, "w"), (9, "lima", 5, "w")))
        _check(storage)
        assert open_table(storage).scan().count() in (3, 4)


def test_file_groups_are_named_as_those_of_jvm_hudi() -> None:
    """Taken from a table that Hudi 1.2.0 wrote."""
    paths = ("p=a b", "p=ü_x-0000", "2020/01/02", "")
    names = [
        "record-index-p%3Da b-",
        "record-index-p%3Dü%5Fx%2D0000-",
        "record-index-2020%2F01%2F02-",
        "record-index--",
    ]
    assert [group_prefix(path) for path in paths] == names
    ids = sorted([f"{name}{number:04d}-0" for name in names for number in range(2)])
    found = places_of(ids, (*paths, "other"))
    assert [ids[first] for first, _ in found.values()] == [f"{name}0000-0" for name in names]
    assert {count for _, count in found.values()} == {2}


def test_one_kind_of_record_index_at_a_time() -> None:
    table = new_table(**OPTIONS)
    storage = table.handle.state.storage
    table.upsert(rows((1, "oslo", 1, "a")))
    with pytest.raises(ConfigError, match="one record index"):
        open_table(storage, **OPTIONS, **{"hoodie.metadata.record.index.enable": "true"}).upsert(rows((2, "x", 1, "a")))
    with pytest.raises(InvalidRequestError, match="by partition"):
        open_table(storage).indexes.create("by_note", "secondary", "note")
    open_table(storage).indexes.drop("record_index")
    assert open_table(storage).indexes.create("record_index").file_groups == 10
    assert load_index_definitions(load_table(storage)) == {}
    old = new_table(version=6)
    with pytest.raises(ConfigError, match="version 6"):
        open_table(old.handle.state.storage, **OPTIONS).upsert(rows((1, "oslo", 1, "a")))


def _check(storage: Storage) -> None:
    """Compare what the index says of all keys of all partitions with the records."""
    table = load_table(storage)
    assert "record_index" in table.config.metadata_partitions
    reader = location_reader(load_metadata_state(table))
    assert reader.is_by_partition
    scan = open_table(storage).scan(["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"])
    held: dict[tuple[str, str], str] = {}
    for row in scan.to_arrow().to_pylist():
        held[row["_hoodie_partition_path"], row["_hoodie_record_key"]] = row["_hoodie_file_name"]
    found = {}
    for path in ("city=oslo", "city=rome", "city=bern", "city=lima", "city=none"):
        keys = pa.array(sorted({key for _, key in held} | {"absent"}))
        for group in sorted({*reader.groups_of(path, keys).tolist()} - {-1}):
            wanted = keys.filter(pa.array(reader.groups_of(path, keys) == group))
            locations = reader.find(storage, group, wanted)
            for key, number in zip(wanted.to_pylist(), locations.number.tolist(), strict=True):
                if number >= 0:
                    found[path, key] = locations.groups[number]
    assert found.keys() == held.keys()
    for (path, key), (partition, file_id) in found.items():
        assert partition == path
        assert held[path, key].startswith(file_id)
