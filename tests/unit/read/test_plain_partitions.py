"""Folders of a table whose Parquet files are not Hudi's: read on request, never written to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.config.read_config import ReadConfig
from pyhudi.errors import ConfigError, InvalidRequestError, SchemaMismatchError, UnsupportedFeatureError
from pyhudi.read.arrow import read_table
from pyhudi.read.table_of_path import plan_of_path

UNION = {"hoodie.pyhudi.read.plain.partitions": "true"}
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("fare", pa.float64())])


def rows(day: str, *ids: int) -> pa.Table:
    return pa.table({"id": [*ids], "day": [day] * len(ids), "fare": [float(one) for one in ids]}, SCHEMA)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table with the day 3, in a folder that had the days 1 and 2 before, without the column in their files."""
    folder = tmp_path / "trips"
    for number, day in enumerate(("d1", "d2"), start=1):
        (folder / f"day={day}").mkdir(parents=True)
        pq.write_table(rows(day, number, number + 10).drop_columns("day"), folder / f"day={day}" / "part-0.parquet")
    (folder / "day=d1" / "_SUCCESS").touch()
    style = {"hoodie.datasource.write.hive_style_partitioning": "true"}
    table = pyhudi.HudiTable.create(folder, schema=SCHEMA, record_key="id", partition_by="day", hudi_options=style)
    table.upsert(rows("d3", 3, 13))
    return folder


def ids(table: pyhudi.HudiTable, *where: tuple[str, str, object]) -> list[tuple[int, str]]:
    found = table.scan(columns=["id", "day"], where=list(where) or None).to_arrow()  # type: ignore[arg-type]
    return sorted(zip(found["id"].to_pylist(), found["day"].to_pylist(), strict=True))


@pytest.mark.parametrize("file", ["day=d1/part-0.parquet", "a/b/x.parq", "rows.parquet"])
def test_table_that_is_made_beside_plain_files_says_that_reads_leave_them_out(
    file: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for made_by_rows in (False, True):
        folder = tmp_path / str(made_by_rows)
        (folder / file).parent.mkdir(parents=True)
        (folder / "_delta_log").mkdir()
        (folder / file).touch()
        caplog.clear()
        if made_by_rows:
            options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
            pyhudi.save(rows("d3", 3), folder, hudi_options=options)
        else:
            pyhudi.HudiTable.create(folder, schema=SCHEMA, record_key="id")
        assert "hoodie.pyhudi.read.plain.partitions" in caplog.text
        assert file in caplog.text
    caplog.clear()
    pyhudi.HudiTable.create(tmp_path / "alone", schema=SCHEMA, record_key="id")
    assert not caplog.text


def test_rows_of_plain_folders_are_read_on_request_alone(path: Path) -> None:
    assert ids(pyhudi.HudiTable.for_path(path)) == [(3, "d3"), (13, "d3")]

    table = pyhudi.HudiTable.for_path(path, hudi_options=UNION)

    assert ids(table) == [(1, "d1"), (2, "d2"), (3, "d3"), (11, "d1"), (12, "d2"), (13, "d3")]
    assert table.scan().count() == 6
    assert ids(table, ("day", "==", "d2")) == [(2, "d2"), (12, "d2")]
    assert ids(table, ("fare", ">", 11.5)) == [(12, "d2"), (13, "d3")]
    assert table.scan(where=[("day", "==", "d2")]).files().num_rows == 1
    meta = table.scan(columns=["_hoodie_record_key", "day"]).to_arrow().to_pylist()
    assert {row["day"] for row in meta if row["_hoodie_record_key"] is None} == {"d1", "d2"}


def test_condition_on_the_key_is_not_answered_by_an_index_that_lacks_the_rows(path: Path) -> None:
    options = {"hoodie.metadata.enable": "true", "hoodie.metadata.record.index.enable": "true"}
    pyhudi.HudiTable.for_path(path).upsert(rows("d4", 4), hudi_options=options)

    assert ids(pyhudi.HudiTable.for_path(path, hudi_options=UNION), ("id", "==", 12)) == [(12, "d2")]
    explained = pyhudi.HudiTable.for_path(path, hudi_options=UNION).scan(where=[("id", "==", 12)]).explain()
    assert "not Hudi's" in str(explained)


def test_partition_that_is_loaded_by_its_path_has_its_own_rows(path: Path) -> None:
    for folder, expected in (("day=d2", [2, 12]), ("day=d3", [3, 13])):
        storage, plan = plan_of_path(f"{path}/{folder}", {}, ReadConfig.from_options(UNION))
        assert sorted(read_table(storage, plan, ["id"], None)["id"].to_pylist()) == expected


WRITES: dict[str, Callable[[pyhudi.HudiTable], object]] = {
    "upsert": lambda table: table.upsert(rows("d1", 1)),
    "insert": lambda table: table.insert(rows("d1", 99)),
    "bulk_insert": lambda table: table.bulk_insert(rows("d1", 99)),
    "delete": lambda table: table.delete(pa.table({"id": [1], "day": ["d1"]})),
    "insert_overwrite": lambda table: table.insert_overwrite(rows("d1", 1)),
}


@pytest.mark.parametrize("name", WRITES)
def test_write_into_a_plain_folder_is_refused_and_nothing_is_changed(path: Path, name: str) -> None:
    before = sorted(map(str, path.glob("day=*/*")))
    table = pyhudi.HudiTable.for_path(path, hudi_options=UNION)

    with pytest.raises(InvalidRequestError, match="not Hudi's") as refused:
        WRITES[name](table)

    assert refused.value.context["partition_path"] == "day=d1"
    assert sorted(map(str, path.glob("day=*/*"))) == before
    assert len(ids(table.refresh())) == 6


def test_other_partitions_are_written_to(path: Path) -> None:
    table = pyhudi.HudiTable.for_path(path, hudi_options=UNION)
    table.upsert(rows("d3", 3, 23))
    table.bulk_insert(rows("d5", 5))
    assert len(ids(table.refresh())) == 8


def test_rows_without_times_are_not_part_of_the_past(path: Path) -> None:
    table = pyhudi.HudiTable.for_path(path, hudi_options=UNION)
    for ask in (table.changes, lambda: table.scan(as_of="2999-01-01")):
        with pytest.raises(ConfigError, match="newest state"):
            ask()


def test_plain_file_of_another_type_is_refused_by_name(path: Path) -> None:
    pq.write_table(pa.table({"id": ["x"]}), path / "day=d1" / "part-1.parquet")
    with pytest.raises(SchemaMismatchError, match="not Hudi's") as refused:
        pyhudi.HudiTable.for_path(path, hudi_options=UNION).scan()
    assert refused.value.context["path"] == "day=d1/part-1.parquet"


@pytest.mark.parametrize("folder", ["loose", "day=d1/hour=2", "hour=d1"])
def test_plain_folder_that_is_named_otherwise_is_refused(path: Path, folder: str) -> None:
    (path / folder).mkdir()
    pq.write_table(rows("d1", 1), path / folder / "part-1.parquet")
    with pytest.raises(UnsupportedFeatureError, match="not named as"):
        pyhudi.HudiTable.for_path(path, hudi_options=UNION).scan().to_arrow()
