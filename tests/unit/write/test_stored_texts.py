"""Timestamps in record keys and partition paths: a write never stores a row of JVM Hudi's a second time."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.golden import unpacked

import pyhudi
from pyhudi.errors import ConfigError, UnsupportedFeatureError

LOGICAL = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"
NOON = dt.datetime(2024, 1, 31, 12, tzinfo=dt.UTC)


def table_of(name: str, folder: Path, **options: Any) -> pyhudi.HudiTable:
    return pyhudi.HudiTable.for_path(str(unpacked(f"keys/{name}", folder) / "table"), hudi_options=options)


def own_rows(table: pyhudi.HudiTable) -> pa.Table:
    rows = table.scan().to_arrow()
    return rows.select([name for name in rows.schema.names if not name.startswith("_hoodie")])


@pytest.mark.parametrize("write", ["upsert", "insert", "bulk_insert", "delete"])
@pytest.mark.parametrize("name", ["v9-sql-by-timestamp", "v9-bulk-timestamp-key"])
def test_write_to_a_table_whose_timestamps_are_local_times_is_refused(name: str, write: str, tmp_path: Path) -> None:
    table = table_of(name, tmp_path)
    before = table.scan().to_arrow()

    with pytest.raises(UnsupportedFeatureError, match="local times"):
        getattr(table, write)(own_rows(table))

    assert table.refresh().scan().to_arrow().equals(before)


@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM"])
def test_upsert_that_meets_a_file_with_keys_of_local_times_is_refused(index: str, tmp_path: Path) -> None:
    table = table_of("v9-mixed-timestamp-keys", tmp_path, **{"hoodie.index.type": index})

    with pytest.raises(UnsupportedFeatureError, match="local times"):
        table.upsert(own_rows(table))

    assert table.refresh().scan().to_arrow().num_rows == 4


def test_upsert_that_meets_only_keys_of_microseconds_updates_them(tmp_path: Path) -> None:
    table = table_of("v9-mixed-timestamp-keys", tmp_path)
    rows = own_rows(table)

    result = table.upsert(rows.filter(pa.compute.equal(rows["p"], "x")))

    assert (result.updated, result.inserted) == (2, 0)
    assert table.refresh().scan().to_arrow().num_rows == 4


@pytest.mark.parametrize("layout", [{"record_key": "at"}, {"record_key": "id", "partition_by": "at"}])
def test_logical_timestamps_of_a_timestamp_in_keys_or_paths_are_refused(layout: dict[str, str], tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "at": pa.array([NOON], pa.timestamp("us", "UTC"))})
    table = pyhudi.HudiTable.create(str(tmp_path), schema=rows.schema, hudi_options={LOGICAL: "true"}, **layout)

    with pytest.raises(UnsupportedFeatureError, match=LOGICAL.replace(".", r"\.")):
        table.upsert(rows)


def test_logical_timestamps_of_another_column_are_without_effect(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "at": pa.array([NOON], pa.timestamp("us", "UTC"))})
    table = pyhudi.HudiTable.create(str(tmp_path), schema=rows.schema, record_key="id", hudi_options={LOGICAL: "true"})

    table.upsert(rows)

    assert table.refresh().scan(["_hoodie_record_key"]).to_arrow().to_pylist() == [{"_hoodie_record_key": "1"}]


@pytest.mark.parametrize("value", ["false", None])
def test_timestamps_in_keys_and_paths_are_found_again(value: str | None, tmp_path: Path) -> None:
    rows = pa.table(
        {
            "id": [1, 2],
            "at": pa.array([NOON, None], pa.timestamp("us")),
            "w": pa.array([NOON, NOON], pa.timestamp("ms")),
        }
    )
    options = {} if value is None else {LOGICAL: value}
    table = pyhudi.HudiTable.create(
        str(tmp_path), schema=rows.schema, record_key=["id", "w"], partition_by="at", hudi_options=options
    )
    table.upsert(rows)

    result = table.refresh().upsert(rows)

    assert (result.updated, result.inserted) == (2, 0)


def test_logical_timestamps_of_neither_true_nor_false_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="logical"):
        pyhudi.HudiTable.create(
            str(tmp_path), schema=pa.schema([("id", pa.int64())]), record_key="id", hudi_options={LOGICAL: "perhaps"}
        )


# -- dates as folders --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", ["upsert", "insert", "bulk_insert", "delete", "insert_overwrite"])
def test_write_to_a_table_whose_dates_are_folders_is_refused(write: str, tmp_path: Path) -> None:
    table = table_of("v9-slash-dates", tmp_path)
    before = table.scan().to_arrow()

    with pytest.raises(UnsupportedFeatureError, match="partition folders of the form 2026/01/31"):
        getattr(table, write)(own_rows(table))

    assert table.refresh().scan().to_arrow().equals(before)


@pytest.mark.parametrize("write", ["upsert", "insert", "bulk_insert", "insert_overwrite"])
@pytest.mark.parametrize("hive_style", [True, False])
def test_write_of_a_date_beside_folders_of_dates_is_refused(hive_style: bool, write: str, tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "day": ["2026/01/31", "oslo"]})
    table = pyhudi.HudiTable.create(
        str(tmp_path),
        schema=rows.schema,
        record_key="id",
        partition_by="day",
        hudi_options={"hoodie.datasource.write.hive_style_partitioning": str(hive_style).lower()},
    )
    table.insert(rows)

    with pytest.raises(UnsupportedFeatureError, match="folders like 2024/01/31"):
        getattr(table.refresh(), write)(pa.table({"id": [1, 3], "day": ["2026-01-31", "oslo"]}))

    assert sorted(table.refresh().scan(["id"]).to_arrow()["id"].to_pylist()) == [1, 2]


# -- the timestamp key generator ---------------------------------------------------------------------------------------


def test_upsert_of_times_that_sql_has_made_text_finds_their_rows(tmp_path: Path) -> None:
    table = table_of("v9-by-time-updated-by-sql", tmp_path)
    rows = own_rows(table)
    paths = table.scan(["id", "_hoodie_partition_path"]).to_arrow().sort_by("id")

    result = table.upsert(rows)

    table = table.refresh()
    assert (result.updated, result.inserted) == (3, 0)
    assert own_rows(table).sort_by("id") == rows.sort_by("id")
    assert table.scan(["id", "_hoodie_partition_path"]).to_arrow().sort_by("id") == paths


def test_text_that_is_no_number_is_refused_where_numbers_make_the_partition(tmp_path: Path) -> None:
    table = table_of("v9-by-time-updated-by-sql", tmp_path)
    rows = own_rows(table)
    wrong = pa.array(["2024-01-31"] * len(rows))

    with pytest.raises(ConfigError, match="has text that is not a number"):
        table.upsert(rows.set_column(rows.schema.get_field_index("p"), "p", wrong))


KINDS = {"hoodie.datasource.write.partitionpath.field": "city:simple,at:timestamp"}
FORMAT = {
    "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
    "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd",
}


@pytest.mark.parametrize(
    ("version", "given", "missing"),
    [(9, {}, "timebased"), (8, {}, "timebased"), (6, {}, "kinds"), (6, FORMAT, "kinds"), (6, KINDS, "timebased")],
)
def test_custom_partitions_by_time_without_what_only_options_say_are_not_written(
    version: int, given: dict[str, str], missing: str, tmp_path: Path
) -> None:
    rows = pa.table({"id": [1], "city": ["oslo"], "at": [1_706_695_200_500]})
    options = {
        "hoodie.table.name": "t",
        "hoodie.write.table.version": str(version),
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.keygenerator.type": "CUSTOM",
        **KINDS,
        **FORMAT,
    }
    pyhudi.save(rows, str(tmp_path), hudi_options=options)
    table = pyhudi.HudiTable.for_path(str(tmp_path), hudi_options=given)

    with pytest.raises(ConfigError, match=missing):
        table.upsert(rows)

    complete = pyhudi.HudiTable.for_path(str(tmp_path), hudi_options={**KINDS, **FORMAT})
    assert complete.upsert(rows).updated == 1
    assert complete.refresh().scan(["_hoodie_partition_path"]).to_arrow().to_pylist() == [
        {"_hoodie_partition_path": "oslo/2024-01-31"}
    ]


def test_timestamp_partitions_whose_type_the_table_does_not_keep_are_not_written(tmp_path: Path) -> None:
    """Version 6 of JVM Hudi does not keep it; reading needs no more than the files."""
    archive = unpacked("v6-by-time", tmp_path)
    table = pyhudi.HudiTable.for_path(str(archive / "table"))
    rows = own_rows(table)

    with pytest.raises(ConfigError, match=r"timebased\.timestamp\.type is missing"):
        table.upsert(rows)

    told = pyhudi.HudiTable.for_path(
        str(archive / "table"), hudi_options={"hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS"}
    )
    assert told.upsert(rows).inserted == 0
