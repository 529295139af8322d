"""The sync with a catalog: what it asks, what it changes, and that one that dies is made up for by the next."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.bootstraps import bootstrapped_anew
from tests.support.memory_catalog import MemoryCatalog

import pyhudi
from pyhudi.catalogs.entries import COMPLETION_STAMP, TIME_STAMP
from pyhudi.catalogs.sync import Synced, _path_of, sync_table
from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import CatalogError, ConfigError, InvalidRequestError, UnsupportedFeatureError

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("fare", pa.float64())])
PARQUET = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
PREFIX = "hoodie.datasource.hive_sync."
_numbers = itertools.count()


def new_table(kind: str = "cow", **how: Any) -> pyhudi.HudiTable:
    path = f"memory://catalog-sync-{next(_numbers)}/trips"
    given = {"record_key": "id", "partition_by": "city", "name": "trips", "table_type": kind, **how}
    return pyhudi.HudiTable.create(path, schema=SCHEMA, **given)


def trips(*cities: str, first: int = 1) -> pa.Table:
    rows = [{"id": number, "city": city, "fare": 1.0} for number, city in enumerate(cities, first)]
    return pa.Table.from_pylist(rows, SCHEMA)


def sync(table: pyhudi.HudiTable, catalog: MemoryCatalog, *, dry_run: bool = False, **options: Any) -> list[Synced]:
    config = WriteConfig.from_options({PREFIX + name: value for name, value in options.items()}).catalog
    return list(sync_table(table.handle.state, catalog, config, dry_run=dry_run))


def partitions(catalog: MemoryCatalog, table: str = "trips") -> list[str]:
    return sorted("/".join(values) for values in catalog.stored["default", table])


def stamp(catalog: MemoryCatalog, table: str = "trips") -> str | None:
    return catalog.tables["default", table].parameters.get(TIME_STAMP)


def test_first_sync_makes_database_entry_and_partitions_and_stamps_last() -> None:
    table, catalog = new_table(), MemoryCatalog()
    result = table.upsert(trips("oslo", "rome"))

    [done] = sync(table, catalog)

    assert (done.created, done.added, done.listed_all) == (True, 2, True)
    assert catalog.databases == {"default"}
    assert partitions(catalog) == ["oslo", "rome"]
    assert stamp(catalog) == result.instant
    assert catalog.tables["default", "trips"].parameters[COMPLETION_STAMP] == result.completion_time
    assert catalog.calls[-1] == "replace_table"
    assert "add 2" in catalog.calls[:-1]


def test_second_sync_without_a_write_changes_nothing() -> None:
    table, catalog = new_table(), MemoryCatalog()
    table.upsert(trips("oslo"))
    sync(table, catalog)
    catalog.calls.clear()

    [done] = sync(table, catalog)

    assert (done.created, done.altered, done.added, done.moved, done.dropped) == (False, False, 0, 0, 0)
    assert not [call for call in catalog.calls if call.startswith(("create", "replace", "add", "drop", "move"))]


def test_later_sync_asks_for_written_partitions_alone() -> None:
    table, catalog = new_table(), MemoryCatalog()
    table.upsert(trips("oslo", "rome", "bonn"))
    sync(table, catalog)
    result = table.upsert(trips("bern", first=9))
    catalog.calls.clear()

    [done] = sync(table, catalog)

    assert (done.added, done.listed_all) == (1, False)
    assert "1 partitions" in catalog.calls
    assert stamp(catalog) == result.instant
    assert partitions(catalog) == ["bern", "bonn", "oslo", "rome"]


def test_partition_that_lost_its_rows_is_dropped_and_one_that_is_replaced_stays() -> None:
    table, catalog = new_table(), MemoryCatalog()
    table.upsert(trips("oslo", "rome"))
    sync(table, catalog)
    table.delete_partition("rome")
    table.insert_overwrite(trips("oslo", first=7))

    [done] = sync(table, catalog)

    assert (done.added, done.moved, done.dropped) == (0, 0, 1)
    assert partitions(catalog) == ["oslo"]


def test_sync_after_a_restore_compares_all_partitions() -> None:
    table, catalog = new_table(), MemoryCatalog()
    first = table.upsert(trips("oslo"))
    table.savepoints.create(first.instant)
    table.upsert(trips("rome", first=5))
    sync(table, catalog)
    table.recovery.restore(first.instant)

    [done] = sync(table, catalog)

    assert (done.listed_all, done.dropped) == (True, 1)
    assert (partitions(catalog), stamp(catalog)) == (["oslo"], first.instant)


@pytest.mark.parametrize("version", [6, 9])
def test_sync_of_a_table_that_was_bootstrapped_anew_compares_all_partitions(tmp_path: Path, version: int) -> None:
    catalog, rows = MemoryCatalog(), pa.table({"id": [1]})
    sync(bootstrapped_anew(tmp_path / "t", tmp_path, rows, city="oslo", version=version), catalog)
    assert partitions(catalog) == ["oslo"]

    sync(bootstrapped_anew(tmp_path / "t", tmp_path, rows, city="rome", version=version), catalog)

    assert partitions(catalog) == ["rome"]


def test_sync_whose_stamp_was_archived_compares_all_partitions() -> None:
    keeps = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    table, catalog = new_table(hudi_options=keeps), MemoryCatalog()
    table.upsert(trips("oslo"))
    sync(table, catalog)
    for number in range(6):
        table.upsert(trips(f"c{number}", first=10 + number))
    table.services.archive()

    [done] = sync(table, catalog)

    assert (done.listed_all, done.added) == (True, 6)
    assert len(partitions(catalog)) == 7


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("ALL", {"trips_ro": ("true", ""), "trips_rt": ("false", "realtime."), "trips": ("false", "realtime.")}),
        ("RO", {"trips": ("true", "")}),
        ("RT", {"trips": ("false", "realtime.")}),
    ],
)
def test_merge_on_read_table_has_entries_by_strategy(strategy: str, expected: dict[str, tuple[str, str]]) -> None:
    table, catalog = new_table("mor"), MemoryCatalog()
    table.upsert(trips("oslo"))

    sync(table, catalog, **{"table.strategy": strategy})

    found = {
        name: (entry.serde_parameters["hoodie.query.as.ro.table"], entry.format.input_format)
        for (_, name), entry in catalog.tables.items()
    }
    names = {"": "HoodieParquetInputFormat", "realtime.": "realtime.HoodieParquetRealtimeInputFormat"}
    assert found == {name: (flag, f"org.apache.hudi.hadoop.{names[kind]}") for name, (flag, kind) in expected.items()}


def test_added_column_reaches_partitions_and_keeps_what_others_put_into_the_entry() -> None:
    table, catalog = new_table(), MemoryCatalog()
    table.upsert(trips("oslo"))
    sync(table, catalog)
    entry = catalog.tables["default", "trips"]
    kept = {**entry.parameters, "owner.team": "fares"}
    catalog.replace_table(type(entry)(**{**_fields(entry), "parameters": kept}), columns_of_partitions=False)
    table.alter.add_column("tip", pa.float64())
    catalog.calls.clear()

    [done] = sync(table, catalog)

    assert done.altered
    assert "replace_table with columns of partitions" in catalog.calls
    entry = catalog.tables["default", "trips"]
    assert [column.name for column in entry.columns][-1] == "tip"
    assert entry.parameters["owner.team"] == "fares"


def test_changed_property_alone_leaves_partitions_as_they_are() -> None:
    table, catalog = new_table(), MemoryCatalog()
    table.upsert(trips("oslo"))
    sync(table, catalog)
    catalog.calls.clear()

    [done] = sync(table, catalog, table_properties="team=fares\nno property")

    assert done.altered
    assert "replace_table" in catalog.calls
    assert not [call for call in catalog.calls if "columns of partitions" in call]
    assert catalog.tables["default", "trips"].parameters["team"] == "fares"


def _fields(entry: Any) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in type(entry).__dataclass_fields__}


def test_schema_of_spark_is_cut_into_parts_and_old_parts_go() -> None:
    table, catalog = new_table(), MemoryCatalog()
    table.upsert(trips("oslo"))
    sync(table, catalog, schema_string_length_thresh=100)
    parts = [name for name in catalog.tables["default", "trips"].parameters if ".part." in name]
    assert len(parts) > 5

    sync(table, catalog)

    parameters = catalog.tables["default", "trips"].parameters
    assert [name for name in parameters if ".part." in name] == ["spark.sql.sources.schema.part.0"]
    assert parameters["spark.sql.sources.schema.numParts"] == "1"


def test_partition_at_another_place_is_moved() -> None:
    table, catalog = new_table(), MemoryCatalog()
    table.upsert(trips("oslo"))
    sync(table, catalog)
    catalog.stored["default", "trips"]["oslo",] = "s3://old/oslo"
    table.upsert(trips("oslo"))

    [done] = sync(table, catalog)

    assert done.moved == 1
    assert catalog.stored["default", "trips"]["oslo",].endswith("/trips/oslo")


def test_partitions_are_sent_in_batches() -> None:
    table, catalog = new_table(), MemoryCatalog()
    table.bulk_insert(trips(*(f"c{number}" for number in range(25))))

    sync(table, catalog, batch_num=10)

    assert [call for call in catalog.calls if call.startswith("add")] == ["add 10", "add 10", "add 5"]


@pytest.mark.parametrize("batch_max", [100, 1000], ids=["glue", "hive"])
def test_sync_of_100_000_partitions_goes_in_batches_and_on_after_a_kill(batch_max: int) -> None:
    table, catalog = new_table(), MemoryCatalog(batch_max=batch_max)
    first = table.upsert(trips("oslo"))
    table.savepoints.create(first.instant)
    table.upsert(trips("rome", first=5))
    sync(table, catalog)
    table.recovery.restore(first.instant)  # so that all are compared
    catalog.stored["default", "trips"] |= {(f"c{number}",): f"memory://old/c{number}" for number in range(100_000)}
    catalog.calls.clear()
    catalog.dies_at = 50_000 // batch_max

    with pytest.raises(CatalogError, match="lost"):
        sync(table, catalog)
    left = len(partitions(catalog))
    catalog.dies_at = None
    [done] = sync(table, catalog)

    assert 40_000 < left < 60_000
    assert (done.listed_all, done.dropped) == (True, left - 1)
    assert (partitions(catalog), stamp(catalog)) == (["oslo"], first.instant)
    sizes = [int(call.removeprefix("drop ")) for call in catalog.calls if call.startswith("drop")]
    assert max(sizes) == batch_max
    assert len(catalog.calls) < 100_000 // batch_max + 20


def test_sync_that_dies_at_any_request_is_made_up_for_by_the_next() -> None:
    table = new_table("mor")
    table.upsert(trips("oslo", "rome"))
    whole = MemoryCatalog()
    sync(table, whole)
    for dies_at in range(1, len(whole.calls) + 1):
        catalog = MemoryCatalog(dies_at=dies_at)
        with pytest.raises(CatalogError, match="lost"):
            sync(table, catalog, batch_num=1)
        for (database, name), entry in catalog.tables.items():
            stamped = TIME_STAMP in entry.parameters
            assert not stamped or sorted(catalog.stored[database, name]) == [("oslo",), ("rome",)]

        sync(table, catalog)

        assert (catalog.tables, catalog.stored) == (whole.tables, whole.stored)


def test_stamp_never_speaks_for_a_commit_that_the_sync_did_not_look_at() -> None:
    table, catalog = new_table(), MemoryCatalog()
    first = table.upsert(trips("oslo"))
    beside = pyhudi.HudiTable.for_path(table.handle.storage.uri)

    class Beside(MemoryCatalog):
        def create_table(self, entry: Any) -> None:
            super().create_table(entry)
            beside.upsert(trips("rome", first=2))

    catalog = Beside()
    sync(table, catalog)
    assert (partitions(catalog), stamp(catalog)) == (["oslo"], first.instant)

    sync(table.refresh(), catalog)
    assert partitions(catalog) == ["oslo", "rome"]


def test_write_that_began_before_the_stamp_and_ended_after_it_is_synced() -> None:
    table, catalog = new_table(), MemoryCatalog()
    first = table.upsert(trips("oslo"))
    table.upsert(trips("rome", first=2))
    last = table.upsert(trips("bonn", first=3))
    sync(table, catalog)
    # As the entry is if the write of rome was still running when the last one was synced.
    _put_parameter(catalog, COMPLETION_STAMP, first.completion_time)
    del catalog.stored["default", "trips"]["rome",]

    [done] = sync(table, catalog)

    assert not done.listed_all
    assert (partitions(catalog), stamp(catalog)) == (["bonn", "oslo", "rome"], last.instant)


def test_sync_compares_all_partitions_where_a_write_of_before_the_stamp_was_undone() -> None:
    table, catalog = new_table(), MemoryCatalog()
    last = table.upsert(trips("oslo"))
    sync(table, catalog)
    # As the entry is after a write of rome that began before the last one, ended after it, and was undone by a restore.
    _put_parameter(catalog, COMPLETION_STAMP, str(int(last.completion_time) + 1))
    catalog.stored["default", "trips"]["rome",] = "memory://rome"

    [done] = sync(table, catalog)

    assert (done.listed_all, done.dropped) == (True, 1)
    assert partitions(catalog) == ["oslo"]


def test_what_an_older_sync_took_away_beside_a_newer_one_comes_with_the_next() -> None:
    table = new_table()
    table.upsert(trips("oslo"))
    older = pyhudi.HudiTable.for_path(table.handle.storage.uri)
    table.upsert(trips("rome", first=2))

    class Beside(MemoryCatalog):
        def add_partitions(self, entry: Any, added: Any) -> None:
            super().add_partitions(entry, added)
            if len(added) == 2:
                sync(older, self)

    catalog = Beside()
    sync(table, catalog)
    assert partitions(catalog) == ["oslo"]

    [done] = sync(table, catalog)

    assert done.listed_all
    assert partitions(catalog) == ["oslo", "rome"]


@pytest.mark.parametrize("old", ["s3://old/{path}", "memory://old/{path}", "memory://{bucket}/old"])
def test_table_at_another_place_has_its_entry_moved(old: str) -> None:
    table, catalog = new_table(partition_by=None), MemoryCatalog()
    table.upsert(trips("oslo"))
    sync(table, catalog, sync_as_datasource="false")
    entry = catalog.tables["default", "trips"]
    bucket, path = entry.location.removeprefix("memory://").split("/")
    catalog.tables["default", "trips"] = replace(entry, location=old.format(bucket=bucket, path=path))

    [done] = sync(table, catalog, sync_as_datasource="false")

    assert done.altered
    assert catalog.tables["default", "trips"].location == entry.location


@pytest.mark.parametrize("dies_at", [None, 4])
def test_table_that_was_moved_has_all_its_partitions_moved(tmp_path: Path, dies_at: int | None) -> None:
    options: dict[str, Any] = {"record_key": "id", "partition_by": "city", "name": "trips"}
    pyhudi.HudiTable.create(tmp_path / "old", schema=SCHEMA, **options).upsert(trips("oslo", "rome"))
    catalog = MemoryCatalog()
    sync(pyhudi.HudiTable.for_path(tmp_path / "old"), catalog)
    (tmp_path / "old").rename(tmp_path / "new")
    table = pyhudi.HudiTable.for_path(tmp_path / "new")
    catalog.calls.clear()
    if dies_at is not None:
        catalog.dies_at = dies_at
        with pytest.raises(CatalogError):
            sync(table, catalog)
        assert catalog.calls[:dies_at][-2:] == ["replace_table", "all partitions"]
        catalog.dies_at = None

    [done] = sync(table, catalog)

    assert (done.moved, done.listed_all) == (2, True)
    assert catalog.stored["default", "trips"] == {
        ("oslo",): f"{tmp_path}/new/oslo",
        ("rome",): f"{tmp_path}/new/rome",
    }
    assert stamp(catalog) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/lake/trips", "file:/lake/trips/"),
        ("file:///lake/trips", "/lake/trips"),
        ("s3://b/trips", "s3a://b/trips"),
        ("hdfs://name:8020/trips", "hdfs:/trips"),
        ("file:///with space/?#", "/with space/?#"),
    ],
)
def test_place_that_is_spelled_otherwise_is_the_same(one: str, other: str) -> None:
    assert _path_of(one) == _path_of(other)


def _put_parameter(catalog: MemoryCatalog, name: str, value: str) -> None:
    entry = catalog.tables["default", "trips"]
    catalog.tables["default", "trips"] = replace(entry, parameters={**entry.parameters, name: value})


def test_dry_run_says_what_a_sync_would_change_and_changes_nothing() -> None:
    table, catalog = new_table(), MemoryCatalog()
    table.upsert(trips("oslo"))

    planned = sync(table, catalog, dry_run=True)
    assert (catalog.databases, catalog.tables) == (set(), {})

    assert planned == sync(table, catalog)
    table.upsert(trips("rome", first=2))
    planned = sync(table, catalog, dry_run=True)
    assert partitions(catalog) == ["oslo"]
    assert planned == sync(table, catalog)


@pytest.mark.parametrize(
    ("parameters", "input_format", "place", "is_taken"),
    [
        ({}, PARQUET, "/lake/trips_of_others", False),
        ({"spark.sql.sources.provider": "delta"}, PARQUET, "/lake/trips_of_others", False),
        ({"spark.sql.sources.provider": "hudi"}, PARQUET, "/lake/trips_of_old", True),
        ({"table_type": "HUDI"}, PARQUET, "/lake/trips_of_old", True),
        ({}, "com.uber.hoodie.hadoop.HoodieInputFormat", "/lake/trips_of_old", True),
        ({}, PARQUET, None, True),
    ],
)
def test_entry_of_another_table_is_refused_unless_it_is_one_of_hudi(
    parameters: dict[str, str], input_format: str, place: str | None, is_taken: bool
) -> None:
    table, catalog = new_table(), MemoryCatalog()
    table.upsert(trips("oslo"))
    sync(table, catalog)
    own = catalog.tables["default", "trips"]
    entry = replace(
        own,
        location=place or own.location,
        format=replace(own.format, input_format=input_format),
        parameters=parameters,
    )
    catalog.tables["default", "trips"] = entry

    if is_taken:
        sync(table, catalog)
        assert catalog.tables["default", "trips"].location == own.location
    else:
        with pytest.raises(CatalogError, match="table elsewhere"):
            sync(table, catalog)
        assert catalog.tables["default", "trips"] == entry


def test_entry_with_other_partition_columns_is_refused_by_name() -> None:
    catalog = MemoryCatalog()
    table = new_table(partition_by=None)
    table.upsert(trips("oslo"))
    sync(table, catalog)
    other = new_table()
    other.upsert(trips("oslo"))
    with pytest.raises(CatalogError, match="other partition columns"):
        sync(other, catalog)


def test_table_without_columns_and_database_that_may_not_be_made_are_refused() -> None:
    table = new_table()
    table.upsert(trips("oslo"))
    with pytest.raises(CatalogError, match="auto_create_database"):
        sync(table, MemoryCatalog(), auto_create_database=False)
    nested = new_table(partition_by=["city", "id"])
    nested.upsert(trips("oslo"))
    with pytest.raises(ConfigError, match="2 values for 1 partition columns"):
        sync(nested, MemoryCatalog(), partition_fields="city", partition_extractor_class="MultiPartKeysValueExtractor")


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("mode", "jdbc", "no Hive server is asked"),
        ("mode", "HiveQL", "no Hive server is asked"),
        ("create_managed_table", "true", "deletes the table's files"),
    ],
)
def test_sync_that_pyhudi_does_not_make_is_refused_before_rows_are_written(option: str, value: str, why: str) -> None:
    table = new_table()

    with pytest.raises(UnsupportedFeatureError, match=why):
        table.upsert(trips("oslo"), hudi_options={PREFIX + "enable": "true", PREFIX + option: value})

    assert table.inspect.history().num_rows == 0


def test_comments_of_columns_are_synced_if_asked_and_else_kept() -> None:
    table, catalog = new_table(), MemoryCatalog()
    table.upsert(trips("oslo"))
    table.alter.comment_column("fare", "in euros")
    sync(table, catalog, sync_comment=True)
    assert catalog.tables["default", "trips"].columns[-1].comment == "in euros"

    table.alter.comment_column("fare", "in dollars")
    sync(table, catalog)
    assert catalog.tables["default", "trips"].columns[-1].comment == "in euros"


def test_folder_of_nothing_is_no_table_to_sync() -> None:
    table = new_table()
    values = {name: value for name, value in table.handle.state.config.values.items() if "create.schema" not in name}
    state = type(table.handle.state)(
        table.handle.storage,
        type(table.handle.state.config).from_properties(values, path="t"),
        table.handle.state.timeline,
    )
    with pytest.raises(InvalidRequestError, match="no columns yet"):
        sync_table(state, MemoryCatalog(), WriteConfig.from_options({}).catalog)
