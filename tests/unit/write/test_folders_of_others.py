"""Folders that pyarrow, pandas, polars and Spark name after partition values become tables with these values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.errors import ConfigError

CITIES = ["København", "new york", "a/b", "50%", "日本", "C3%B8", "oslo"]
ROWS = pa.table({"id": list(range(len(CITIES))), "v": [1] * len(CITIES), "city": CITIES})


def by_pyarrow(folder: Path) -> None:
    pq.write_to_dataset(ROWS, folder, partition_cols=["city"])


def by_pandas(folder: Path) -> None:
    ROWS.to_pandas().to_parquet(folder, partition_cols=["city"])


def by_polars(folder: Path) -> None:
    pl.DataFrame(ROWS).write_parquet(folder, partition_by="city", mkdir=True)


def held(table: pyhudi.HudiTable) -> list[tuple[int, str, int]]:
    rows = table.refresh().scan(["id", "city", "v"]).to_arrow().to_pylist()
    return sorted((row["id"], row["city"], row["v"]) for row in rows)


@pytest.mark.parametrize("mode", ["metadata_only", "full_record"])
@pytest.mark.parametrize("written", [by_pyarrow, by_pandas, by_polars])
def test_folder_named_by_another_library_has_its_values_and_its_rows_are_updated(
    tmp_path: Path, written: Callable[[Path], None], mode: str
) -> None:
    written(tmp_path / "source")

    table = pyhudi.HudiTable.bootstrap(tmp_path / "source", tmp_path / "t", record_key="id", mode=mode)

    assert held(table) == [(number, city, 1) for number, city in enumerate(CITIES)]
    result = table.upsert(ROWS.set_column(1, "v", pa.array([2] * len(CITIES))))
    assert (result.inserted, result.updated) == (0, len(CITIES))
    assert held(table) == [(number, city, 2) for number, city in enumerate(CITIES)]


@pytest.mark.parametrize("mode", ["metadata_only", "full_record"])
def test_later_partitions_with_escapes_are_copied_once(tmp_path: Path, mode: str) -> None:
    source, table_path = tmp_path / "source", tmp_path / "t"
    pq.write_to_dataset(ROWS.slice(0, 2), source, partition_cols=["city"])
    table = pyhudi.HudiTable.bootstrap(source, table_path, record_key="id", mode=mode)
    pq.write_to_dataset(ROWS.slice(4, 1), source, partition_cols=["city"])
    table = table.refresh()

    assert table.source.plan_new_partitions().column("partition_path").to_pylist() == ["city=日本"]
    assert table.source.copy_new_partitions().inserted == 1
    assert table.refresh().source.plan_new_partitions().num_rows == 0
    assert [row[1] for row in held(table)] == ["København", "new york", "日本"]


@pytest.mark.parametrize("name", ["city=日本", "city=%E6%97%A5%E6%9C%AC"])
def test_later_partition_is_named_as_in_the_source_or_as_in_the_table(tmp_path: Path, name: str) -> None:
    source = tmp_path / "source"
    pq.write_to_dataset(ROWS.slice(0, 1), source, partition_cols=["city"])
    table = pyhudi.HudiTable.bootstrap(source, tmp_path / "t", record_key="id")
    pq.write_to_dataset(ROWS.slice(4, 2), source, partition_cols=["city"])

    assert table.refresh().source.copy_new_partitions([name, name]).inserted == 1
    assert [row[1] for row in held(table)] == ["København", "日本"]


def test_escape_of_hive_that_is_no_text_of_another_library_means_one_character(tmp_path: Path) -> None:
    folder = tmp_path / "source" / "city=caf%E9"
    folder.mkdir(parents=True)
    pq.write_table(ROWS.slice(0, 1).select(["id", "v"]), folder / "a.parquet")

    table = pyhudi.HudiTable.bootstrap(tmp_path / "source", tmp_path / "t", record_key="id")

    assert held(table) == [(0, "café", 1)]


def test_two_folders_of_one_value_are_refused(tmp_path: Path) -> None:
    for name in ("city=caf%C3%A9", "city=caf%E9"):
        (tmp_path / "source" / name).mkdir(parents=True)
        pq.write_table(ROWS.slice(0, 1).select(["id", "v"]), tmp_path / "source" / name / "a.parquet")

    with pytest.raises(ConfigError, match="one path without escapes"):
        pyhudi.HudiTable.bootstrap(tmp_path / "source", tmp_path / "t", record_key="id")
