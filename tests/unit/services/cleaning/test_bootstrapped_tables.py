"""Cleaning bootstrapped tables: skeletons go, the index stays as it is, files of the source go only if asked for."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.crashes import copied, crash_images, opened
from tests.support.sources import SOURCE_SCHEMA, parquet_source

import pyhudi
from pyhudi.errors import CorruptDataError
from pyhudi.format.bootstrap_index import (
    FILE_IDS_PATH,
    PARTITIONS_PATH,
    SourcePartition,
    decode_source_partition,
    write_partitions,
)
from pyhudi.format.hfile.reader import read_hfile
from pyhudi.format.metadata.clean import decode_clean_plan, encode_clean_plan
from pyhudi.services.cleaning.execute import execute_clean, load_clean_plan
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.bootstrap import load_sources
from pyhudi.table.file_system_view import load_view
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path

RETAIN_ONE = {"hoodie.clean.commits.retained": "1", "hoodie.clean.automatic": "false"}
WITH_SOURCES = {**RETAIN_ONE, "hoodie.clean.delete.bootstrap.base.file": "true"}
PARTITIONS = ("city=a", "city=b")


def rows(city: str, *ids: str) -> pa.Table:
    schema = pa.schema([*SOURCE_SCHEMA, ("city", pa.string())])
    return pa.Table.from_pylist([{"id": one, "n": 99, "ts": 99, "city": city} for one in ids], schema)


def bootstrapped(folder: Path, table_type: str = "cow") -> LocalStorage:
    """Of the four files of the source one was rewritten twice: its skeleton is what a clean deletes."""
    source = parquet_source(folder / "source")
    table = pyhudi.HudiTable.bootstrap(source, folder / "table", record_key="id", table_type=table_type)
    for _ in range(2):
        table.upsert(rows("a", "a00"), hudi_options={"hoodie.clean.automatic": "false"})
        if table_type == "mor":
            table.refresh().services.compact()
    return LocalStorage(folder / "table")


def in_index(storage: Storage) -> list[str]:
    return sorted(source.uri.rpartition("/source/")[2] for source in load_sources(storage, PARTITIONS).values())


def partitions_in_index(storage: Storage) -> list[SourcePartition]:
    values = read_hfile(storage.read(PARTITIONS_PATH), path=PARTITIONS_PATH).values.to_pylist()
    return [decode_source_partition(value, path=PARTITIONS_PATH) for value in values]


def skeletons(storage: Storage) -> int:
    return sum(info.name.endswith("_00000000000001.parquet") for info in list_data_files(storage))


def in_source(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder / "source")) for path in (folder / "source").rglob("*.parquet"))


ALL = [f"city={city}/part-{number}.parquet" for city in "ab" for number in range(2)]


def answers(storage: Storage) -> list[tuple[object, ...]]:
    found = opened(storage).scan(columns=["id", "n", "city"]).to_arrow().to_pylist()
    return sorted(tuple(row.values()) for row in found)


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_clean_that_deletes_a_skeleton_leaves_its_source_and_the_index_as_they_are(
    tmp_path: Path, table_type: str
) -> None:
    storage = bootstrapped(tmp_path, table_type)
    before = answers(storage)
    index = {path: storage.info(path) for path in (PARTITIONS_PATH, FILE_IDS_PATH)}

    opened(storage).services.clean(hudi_options=RETAIN_ONE)

    assert skeletons(storage) == 3
    assert in_index(storage) == ALL
    assert {path: storage.info(path) for path in index} == index
    assert in_source(tmp_path) == ALL
    assert answers(storage) == before


def test_source_of_a_deleted_skeleton_goes_where_an_option_asks_for_it(tmp_path: Path) -> None:
    storage = bootstrapped(tmp_path)
    before = answers(storage)

    opened(storage).services.clean(hudi_options=WITH_SOURCES)

    assert in_source(tmp_path) == ALL[1:]
    assert answers(storage) == before


def test_savepoint_of_the_bootstrap_keeps_skeleton_entry_and_source(tmp_path: Path) -> None:
    storage = bootstrapped(tmp_path)
    opened(storage).savepoints.create("00000000000001")

    opened(storage).services.clean(hudi_options=WITH_SOURCES)

    assert in_index(storage) == in_source(tmp_path) == ALL
    assert opened(storage).scan(as_of="00000000000001").count() == 20


@pytest.mark.parametrize("options", [RETAIN_ONE, WITH_SOURCES], ids=["index", "sources"])
def test_clean_that_dies_anywhere_changes_no_row_and_is_finished_by_the_next(
    tmp_path: Path, options: dict[str, str]
) -> None:
    given = copied(bootstrapped(tmp_path))
    before = answers(given)
    shutil.copytree(tmp_path / "source", tmp_path / "kept")

    for where, image in crash_images(given, lambda table: table.services.clean(hudi_options=options)):
        shutil.copytree(tmp_path / "kept", tmp_path / "source", dirs_exist_ok=True)  # with their times
        assert answers(image) == before, where

        opened(image, later=True).services.clean(hudi_options=options)

        assert answers(image) == before, where
        assert skeletons(image) == 3, where
        assert in_index(image) == ALL, where


def test_plan_that_names_another_file_of_the_source_deletes_it_not(tmp_path: Path) -> None:
    storage = bootstrapped(tmp_path)
    instant = opened(storage).services.schedule("clean", hudi_options=WITH_SOURCES)
    table = load_table(storage)
    (planned,) = [one for one in table.timeline.instants if one.requested_time == instant]
    plan = load_clean_plan(storage, planned, table)
    assert plan is not None
    assert [len(uris) for uris in plan.sources.values()] == [1]
    wrong = (f"{tmp_path}/source/{ALL[1]}", f"{tmp_path}/source/{ALL[3]}", "/etc/passwd")
    forged = replace(plan, sources={"city=a": wrong})
    body = encode_clean_plan(forged, table_uri=storage.uri)
    storage.put(instant_path(planned, table.version), body)

    execute_clean(opened(storage).handle.service_call(WITH_SOURCES, call="clean"), planned)

    assert in_source(tmp_path) == ALL
    assert decode_clean_plan(body, path="x").sources == {"city=a": wrong}
    assert decode_clean_plan(body, path="x").files == plan.files


def test_skeleton_that_was_cleaned_after_it_was_listed_is_no_damage(tmp_path: Path) -> None:
    storage = bootstrapped(tmp_path)
    listed = list_data_files(storage)

    class Former:
        """What a reader has listed before the clean."""

        def partitions(self, paths: Sequence[str]) -> list:
            return [info for path in paths for info in listed if info.path.startswith(f"{path}/")]

        def table(self) -> list:
            return listed

    opened(storage).services.clean(hudi_options=RETAIN_ONE)
    timeline = load_table(storage).timeline
    view = load_view(storage, timeline, lister=Former())
    assert sum(len(slices) for slices in view.latest.values()) == 4

    of_city_a = [partition for partition in partitions_in_index(storage) if partition.partition_path == "city=a"]
    storage.delete(PARTITIONS_PATH)
    with storage.open_output(PARTITIONS_PATH) as sink:
        write_partitions(of_city_a, sink.write, source_folder=f"{tmp_path}/source", created_ms=1)
    with pytest.raises(CorruptDataError, match="does not name"):
        load_view(storage, timeline, lister=Former())
