"""Which table, and how much of it, a path of a read means."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.config.read_config import ReadConfig
from pyhudi.errors import TableNotFoundError, UnsupportedFeatureError
from pyhudi.read.arrow import read_table
from pyhudi.read.table_of_path import plan_of_path

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "year,day",
    "hoodie.datasource.write.keygenerator.type": "COMPLEX",
}


def ids_at(path: str) -> list[int]:
    storage, plan = plan_of_path(path, {}, ReadConfig())
    found: list[int] = read_table(storage, plan, ["id"], None)["id"].to_pylist()
    return sorted(found)


@pytest.fixture(params=["disk", "memory"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path = str(tmp_path / "lake" / "t") if request.param == "disk" else f"memory://{tmp_path.name}/lake/t"
    rows = {"id": [1, 2, 3, 4], "year": [2025, 2026, 2026, 20], "day": ["a", "a", "b", "[x]*"]}
    pyhudi.save(pa.table(rows), path, hudi_options=OPTIONS)
    return path


@pytest.mark.parametrize(
    ("below", "ids"),
    [
        ("", [1, 2, 3, 4]),
        ("/", [1, 2, 3, 4]),
        ("/2026", [2, 3]),
        ("/2026/", [2, 3]),
        ("/2026/a", [2]),
        ("/20", [4]),
    ],
)
def test_folder_below_a_table_means_the_partitions_in_it(base: str, below: str, ids: list[int]) -> None:
    assert ids_at(base + below) == ids


def test_partition_of_a_path_relative_to_the_working_folder(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not base.startswith("memory:"):
        monkeypatch.chdir(tmp_path / "lake" / "t")
        assert ids_at("2026") == [2, 3]


@pytest.mark.parametrize("below", ["/2027", "/2026/a/x", "/202", "/.hoodie", "/.hoodie/timeline"])
def test_folder_that_is_no_partition_is_an_error_and_not_empty(base: str, below: str) -> None:
    with pytest.raises(TableNotFoundError, match="no partition of this path"):
        ids_at(base + below)


def test_partition_whose_rows_are_gone_is_empty(base: str) -> None:
    pyhudi.HudiTable.for_path(base).delete_partition("2026/a")

    assert ids_at(f"{base}/2026/a") == []


@pytest.mark.parametrize("below", ["/*", "/*/*", "/2026/*", "/{2025,2026}", "/202[56]"])
def test_glob_is_refused_by_name(base: str, below: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match="globs are not supported"):
        ids_at(base + below)


def test_folder_outside_of_all_tables_is_no_table(base: str) -> None:
    with pytest.raises(TableNotFoundError, match="no Hudi table in this folder"):
        ids_at(base.rpartition("/")[0])


def test_table_in_a_folder_with_characters_of_a_glob_is_read(tmp_path: Path) -> None:
    path = str(tmp_path / "a[1]*{x}?")
    pyhudi.save(pa.table({"id": [1], "year": [1], "day": ["a"]}), path, hudi_options=OPTIONS)

    assert ids_at(path) == [1]
