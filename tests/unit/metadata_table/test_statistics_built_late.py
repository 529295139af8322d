"""Statistics that are built at any time of a table's life, and what they are after updates, compactions and cleans."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from tests.support.crashes import opened, rows
from tests.support.statistics_of_tables import bound, statistics_known
from tests.support.table_builder import THREE_ROWS, TableBuilder
from tests.support.tables import open_table

import pyhudi
from pyhudi.metadata_table.partitions.column_stats import live_paths
from pyhudi.storage.protocol import Storage
from pyhudi.table.index_definitions import load_index_definitions
from pyhudi.table.state import load_table

_ON = {"hoodie.metadata.index.column.stats.enable": "true", "hoodie.metadata.index.partition.stats.enable": "true"}
_UNCLEANED = {"hoodie.clean.automatic": "false", "hoodie.compact.inline": "false"}


def _built(storage: Storage) -> Storage:
    """A table with two logs, one of them with deletes alone, and a write that died in the middle of a log."""
    opened(storage, **_UNCLEANED).delete(rows((2, "oslo", 1, "a")))
    opened(storage, **_UNCLEANED).upsert(rows((3, "rome", 7, "c")))
    return storage


def _files(storage: Storage) -> set[tuple[str, str]]:
    """The files and columns of which there are statistics."""
    known = statistics_known(storage, "column_stats").values()
    return {(payload["fileName"], payload["columnName"]) for (payload,) in known}


@pytest.mark.parametrize("version", [6, 8, 9])
def test_statistics_built_late_have_the_keys_and_values_of_those_built_early(version: int) -> None:
    early = _built(TableBuilder(version, "mor", has_delete_flag=True, options=_ON).insert(*THREE_ROWS).build())
    late = _built(TableBuilder(version, "mor", has_delete_flag=True).insert(*THREE_ROWS).build())
    assert not load_table(late).config.metadata_partitions

    for storage in (early, late):
        opened(storage, **_ON, **_UNCLEANED).upsert(rows((9, "rome", 9, "d")))

    found = [_values(storage) for storage in (early, late)]
    assert sorted(found[0].values()) == sorted(found[1].values())
    assert len(found[0]) == len(found[1]) > 20


@pytest.mark.parametrize("version", [6, 9])
def test_bounds_of_three_writes_to_one_group_hold_for_all_of_them(version: int) -> None:
    storage = TableBuilder(version, "mor", has_delete_flag=True).insert(*THREE_ROWS).build()
    for number in range(3, 12):
        opened(storage, **_UNCLEANED).insert(rows((number, f"city {number}", 1, "a")))
    for moment in (500, 900, 2):  # in version 6, blocks of one log
        opened(storage, **_UNCLEANED).upsert(rows((1, "oslo", moment, "b")))
    opened(storage, **_UNCLEANED).indexes.create("column_stats")
    for moment in (1500, 901):
        opened(storage, **_UNCLEANED).upsert(rows((3, "city 3", moment, "c")))

    table = opened(storage)
    for moment, city, opened_files in ((900, "oslo", 2), (1500, "city 3", 1)):
        scan = table.scan(["city"], where=[("ts", "==", moment)])
        assert scan.to_arrow().to_pylist() == [{"city": city}]
        assert scan.explain().base_files == opened_files
    assert table.inspect.metadata_check().to_pylist() == []


def _values(storage: Storage) -> dict[str, str]:
    """What the records say, without the names of files and sizes, which differ between tables."""
    known = statistics_known(storage, "column_stats")
    fields = ("columnName", "minValue", "maxValue", "valueCount", "nullCount", "valueType")
    return {
        key: repr([payload.get(name) for name in fields])
        for key, (payload,) in known.items()
        if payload["columnName"] != "_hoodie_commit_time"
    }


@pytest.mark.parametrize("version", [6, 9])
def test_statistics_are_those_of_live_files_after_a_compaction_and_a_clean(version: int) -> None:
    storage = _built(TableBuilder(version, "mor", has_delete_flag=True, options=_ON).insert(*THREE_ROWS).build())
    opened(storage, **_UNCLEANED).services.compact()
    opened(storage, **_UNCLEANED).upsert(rows((1, "oslo", 9, "d")))
    before = {name for name, _ in _files(storage)}

    opened(storage).services.clean(hudi_options={"hoodie.clean.commits.retained": "1"})

    names = {path.rpartition("/")[2] for path in live_paths(load_table(storage))}
    assert {name for name, _ in _files(storage)} == names < before


def test_bounds_of_a_partition_are_tight_again_after_a_compaction() -> None:
    storage = TableBuilder(9, "mor", has_delete_flag=True, options=_ON).insert((1, "oslo", 900, "a")).build()
    opened(storage, **_UNCLEANED).upsert(rows((1, "oslo", 901, "b")))
    assert _bounds_of_ts(storage) == (900, 901, False)

    opened(storage, **_UNCLEANED).services.compact()

    assert _bounds_of_ts(storage) == (901, 901, True)


def _bounds_of_ts(storage: Storage) -> tuple[int, int, bool]:
    known = statistics_known(storage, "partition_stats").values()
    (payloads,) = [each for each in known if each[0]["columnName"] == "ts"]
    lows, highs = [bound(one["minValue"]) for one in payloads], [bound(one["maxValue"]) for one in payloads]
    return min(lows), max(highs), len(payloads) == 1 and payloads[0]["isTightBound"]


@pytest.mark.parametrize("hive_style", ["true", "false"])
def test_a_condition_on_a_partition_of_dates_finds_its_rows(hive_style: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("v", pa.int64())])
    options = {**_ON, "hoodie.datasource.write.hive_style_partitioning": hive_style}
    table = pyhudi.HudiTable.create(
        f"memory://dates-{hive_style}", schema=schema, record_key="id", partition_by="day", hudi_options=options
    )
    days = [dt.date(2024, 1, day) for day in range(1, 11)]
    table.insert(pa.table([list(range(10)), days, list(range(10))], schema=schema))
    table = table.refresh()

    def found(where: Any) -> list[int]:
        return sorted(table.scan(where=where).to_arrow()["id"].to_pylist())

    assert found([("day", "==", dt.date(2024, 1, 4))]) == [3]
    assert found([("day", ">=", dt.date(2024, 1, 9)), ("v", ">", 8)]) == [9]
    assert found([("v", "==", 5)]) == [5]


def test_columns_of_the_option_are_indexed_nested_ones_too_and_no_others() -> None:
    schema = pa.schema([("id", pa.int64()), ("s", pa.struct([("a", pa.int64())])), ("l", pa.list_(pa.int64()))])
    listed = {**_ON, "hoodie.metadata.index.column.stats.column.list": "s.a,l,id"}
    table = pyhudi.HudiTable.create("memory://listed", schema=schema, record_key="id", hudi_options=listed)
    table.insert(pa.table([[1, 2], [{"a": 5}, {"a": None}], [[1], [2]]], schema=schema))

    storage = table.handle.state.storage
    definition = load_index_definitions(load_table(storage))["column_stats"]
    of_nested = [one for (one,) in statistics_known(storage, "column_stats").values() if one["columnName"] == "s.a"]

    assert definition.source_columns[3:] == ("s.a", "id")
    assert [(bound(one["minValue"]), one["valueCount"], one["nullCount"]) for one in of_nested] == [(5, 2, 1)]


def test_a_column_that_is_not_there_is_refused_before_anything_is_written() -> None:
    storage = TableBuilder(9, "cow").insert(*THREE_ROWS).build()
    before = {info.path for info in storage.list_recursive("")}
    table = open_table(storage, **_ON, **{"hoodie.metadata.index.column.stats.column.list": "nope"})

    with pytest.raises(pyhudi.errors.ConfigError, match="no such column"):
        table.upsert(pa.table([[7], ["oslo"], [1], ["a"]], names=["id", "city", "ts", "note"]))

    assert {info.path for info in storage.list_recursive("")} == before


def test_an_index_stays_when_the_options_of_a_writer_lack_it() -> None:
    storage = TableBuilder(9, "cow", options=_ON).insert(*THREE_ROWS).build()

    open_table(storage).upsert(pa.table([[7], ["oslo"], [1], ["a"]], names=["id", "city", "ts", "note"]))

    assert {"column_stats", "partition_stats"} <= set(load_table(storage).config.metadata_partitions)
    assert {name for name, _ in _files(storage)} == {
        path.rpartition("/")[2] for path in live_paths(load_table(storage))
    }
