"""Partitions that come into the source of a bootstrapped table later: copied in one commit, once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.crashes import copied, crash_images, opened
from tests.support.sources import SOURCE_SCHEMA, parquet_source

import pyhudi
from pyhudi.errors import ConfigError, HudiError, InvalidRequestError, RecordKeyError, WriteConflictError
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage


def bootstrapped(folder: Path, **options: object) -> pyhudi.HudiTable:
    """A table of the cities a and b; c came into its source since."""
    source = parquet_source(folder / "source")
    table = pyhudi.HudiTable.bootstrap(source, folder / "table", record_key="id", **options)  # type: ignore[arg-type]
    parquet_source(source, cities="c")
    return table


def ids(table: pyhudi.HudiTable, city: str) -> list[str]:
    return sorted(table.refresh().scan(columns=["id"], where=[("city", "==", city)]).to_arrow()["id"].to_pylist())


IN_C = [f"c{file}{row}" for file in range(2) for row in range(5)]


@pytest.mark.parametrize(("version", "table_type"), [(9, "cow"), (8, "mor"), (6, "mor")])
def test_new_partition_is_planned_then_copied_and_then_known(tmp_path: Path, version: int, table_type: str) -> None:
    table = bootstrapped(tmp_path, table_version=version, table_type=table_type)
    bootstrap = table.inspect.last_write()
    assert bootstrap is not None

    plan = table.source.plan_new_partitions().to_pylist()
    written = table.source.copy_new_partitions(check_keys=True)

    assert [(part["partition_path"], part["mode"], part["rows"]) for part in plan] == [("city=c", "full_record", 10)]
    assert written is not None
    assert (written.inserted, ids(table, "c")) == (10, IN_C)
    assert table.refresh().scan().count() == 30
    assert table.changes(begin=bootstrap.completion_time).count() == 10
    assert table.scan(as_of="00000000000001").count() == 20
    assert table.source.copy_new_partitions() is None
    assert table.source.plan_new_partitions().num_rows == 0
    shutil.rmtree(tmp_path / "source" / "city=c")
    assert ids(table, "c") == IN_C


def test_named_partition_that_is_known_or_not_there_is_refused(tmp_path: Path) -> None:
    table = bootstrapped(tmp_path)

    with pytest.raises(InvalidRequestError, match="already"):
        table.source.copy_new_partitions(["city=a"])
    with pytest.raises(InvalidRequestError, match="no such partition"):
        table.source.plan_new_partitions(["city=x"])
    with pytest.raises(ConfigError, match="a list"):
        table.source.copy_new_partitions("city=c")

    assert table.refresh().scan().count() == 20


def test_table_that_was_not_bootstrapped_has_no_source() -> None:
    table = pyhudi.HudiTable.create("memory://later/t", schema=SOURCE_SCHEMA, record_key="id")
    with pytest.raises(InvalidRequestError, match="not bootstrapped"):
        table.source.copy_new_partitions()


def test_repeated_key_is_refused_on_request_and_nothing_is_visible(tmp_path: Path) -> None:
    table = bootstrapped(tmp_path)
    folder = tmp_path / "source" / "city=c"
    shutil.copy(folder / "part-0.parquet", folder / "part-2.parquet")

    with pytest.raises(RecordKeyError, match="more than once"):
        table.source.copy_new_partitions(check_keys=True)

    assert table.refresh().scan().count() == 20


def test_rows_of_another_partition_than_their_folder_are_refused(tmp_path: Path) -> None:
    table = bootstrapped(tmp_path)
    stray = pa.Table.from_pylist([{"id": "z", "city": "a"}])
    pq.write_table(stray, tmp_path / "source" / "city=c" / "stray.parquet")

    with pytest.raises(ConfigError, match="another partition"):
        table.source.copy_new_partitions()

    assert table.refresh().scan().count() == 20


def test_type_of_a_folder_is_that_of_the_table(tmp_path: Path) -> None:
    for folder in ("day=1", "day=2"):
        (tmp_path / "source" / folder).mkdir(parents=True)
        pq.write_table(pa.table({"id": [folder]}), tmp_path / "source" / folder / "f.parquet")
    table = pyhudi.HudiTable.bootstrap(tmp_path / "source", tmp_path / "table", record_key="id")
    (tmp_path / "source" / "day=99999999999").mkdir()
    pq.write_table(pa.table({"id": ["x"]}), tmp_path / "source" / "day=99999999999" / "f.parquet")

    with pytest.raises(HudiError, match=r"no value of its column") as refused:
        table.source.copy_new_partitions()

    assert refused.value.context["column"] == "day"
    assert table.refresh().scan().count() == 2


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_of_a_copy_and_an_upsert_into_the_partition_one_gives_way(tmp_path: Path, first: str) -> None:
    bootstrapped(tmp_path)
    inner = LocalStorage(tmp_path / "table")
    late = pa.table({"id": ["c00"], "city": ["c"]})
    options = {"hoodie.write.set.null.for.missing.columns": "true"}

    def upsert(storage: Storage) -> object:
        return opened(storage).upsert(late, hudi_options=options)

    def copy(storage: Storage) -> object:
        return opened(storage).source.copy_new_partitions()

    mine, other = (copy, upsert) if first == "theirs" else (upsert, copy)
    done: list[object] = []

    def meanwhile(name: str, path: str) -> None:
        if name == "close_output" and path.startswith("city=c/") and not done:
            done.append(other(inner))

    storage = FaultStorage(inner, before=meanwhile)
    with pytest.raises((WriteConflictError, InvalidRequestError)):
        mine(storage)

    assert done
    assert ids(opened(inner), "c") == (["c00"] if first == "theirs" else IN_C)


def test_copy_that_dies_anywhere_leaves_all_or_nothing_and_is_done_by_the_next_call(tmp_path: Path) -> None:
    bootstrapped(tmp_path)
    given = copied(LocalStorage(tmp_path / "table"))

    for where, image in crash_images(given, lambda table: table.source.copy_new_partitions(), every=2):
        before = rows_in(image)
        assert before in (20, 30), where

        again = opened(image, later=True).source.copy_new_partitions()

        assert (again is None) == (before == 30), where
        assert rows_in(image) == 30, where
        assert not load_table(image).timeline.pending_writes, where


def rows_in(storage: Storage) -> int:
    return opened(storage).scan(columns=["id"]).to_arrow().num_rows
