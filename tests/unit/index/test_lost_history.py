"""Indexes that remember keys, on tables whose history is not what they saw: restored, put back, or made anew."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.indexes import DictIndex

import pyhudi
from pyhudi.errors import StorageError

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("n", pa.int64())])
STORE = DictIndex()
KEPT = {"hoodie.clean.automatic": "false"}


class NoSequence(DictIndex):
    """A store whose answers have no length."""

    def get(self, keys: Any) -> Any:
        return (found for found in super().get(keys))


NO_SEQUENCE = NoSequence()


@pytest.fixture(params=["memory", "sqlite", "own"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    STORE.entries.clear()
    return {
        "memory": {"hoodie.index.type": "INMEMORY"},
        "sqlite": {"hoodie.index.type": "HBASE", "hoodie.index.hbase.store": f"sqlite://{tmp_path}/keys.db"},
        "own": {"hoodie.index.class": "tests.unit.index.test_lost_history:STORE"},
    }[request.param] | KEPT


def batch(*values: tuple[int, str, int]) -> pa.Table:
    columns = list(zip(*values, strict=True))
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def created(path: Path, version: int, kind: Any, options: dict[str, str]) -> pyhudi.HudiTable:
    return pyhudi.HudiTable.create(
        path,
        schema=SCHEMA,
        record_key="id",
        partition_by="city",
        table_type=kind,
        table_version=version,
        hudi_options=options,
    )


def cluster(table: pyhudi.HudiTable) -> None:
    table.services.cluster(hudi_options={"hoodie.clustering.plan.strategy.sort.columns": "n"})


def overwrite(table: pyhudi.HudiTable) -> None:
    table.insert_overwrite(batch((3, "oslo", 3)))


def drop(table: pyhudi.HudiTable) -> None:
    table.delete_partition("oslo")


def delete(table: pyhudi.HudiTable) -> None:
    table.delete(batch((1, "oslo", 0)).select(["id", "city"]))


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("change", [cluster, overwrite, drop, delete])
@pytest.mark.parametrize("goes_back_by", ["restore", "rollback"])
def test_record_that_comes_back_with_its_file_group_is_updated(
    tmp_path: Path,
    options: dict[str, str],
    version: int,
    kind: str,
    change: Callable[[pyhudi.HudiTable], None],
    goes_back_by: str,
) -> None:
    table = created(tmp_path / "t", version, kind, options)
    table.upsert(batch((5, "rome", 5)))
    first = table.upsert(batch((1, "oslo", 1), (2, "oslo", 2)))
    change(table.refresh())
    undone = table.refresh().inspect.history(1).column("instant")[0].as_py()
    later = table.upsert(batch((5, "rome", 6)))  # the index looks, and never sees what the change has taken away
    if goes_back_by == "restore":
        table.refresh().recovery.restore(first.instant)
    else:
        table.refresh().recovery.rollback(later.instant)
        table.refresh().recovery.rollback(undone)

    result = table.upsert(batch((1, "oslo", 100)))

    assert (result.inserted, result.updated) == (0, 1)
    assert sorted(table.refresh().scan(["id", "n"]).to_arrow().column("n").to_pylist()) == [2, 5, 100]


@pytest.mark.parametrize("version", [6, 8, 9])
def test_record_of_a_table_that_was_bootstrapped_again_is_updated(
    tmp_path: Path, options: dict[str, str], version: int
) -> None:
    for count in (2, 4):
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        shutil.rmtree(tmp_path / "source", ignore_errors=True)
        (tmp_path / "source").mkdir()
        ids = list(range(count))
        pq.write_table(pa.table({"id": ids, "n": ids}), tmp_path / "source" / "a.parquet")
        table = pyhudi.HudiTable.bootstrap(
            tmp_path / "source", tmp_path / "t", record_key="id", table_version=version, hudi_options=options
        )

        result = table.upsert(pa.table({"id": [count - 1], "n": [100]}))

        assert (result.inserted, result.updated) == (0, 1)


@pytest.mark.parametrize("version", [6, 9])
def test_record_of_a_table_that_was_put_back_from_a_copy_is_updated(
    tmp_path: Path, options: dict[str, str], version: int
) -> None:
    table = created(tmp_path / "t", version, "cow", options)
    table.upsert(batch((1, "oslo", 1), (2, "oslo", 2)))
    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    cluster(table.refresh())
    table.upsert(batch((5, "rome", 5)))
    shutil.rmtree(tmp_path / "t")
    shutil.move(tmp_path / "copy", tmp_path / "t")

    result = pyhudi.HudiTable.for_path(tmp_path / "t", hudi_options=options).upsert(batch((1, "oslo", 100)))

    assert (result.inserted, result.updated) == (0, 1)


def test_store_whose_answers_have_no_length_is_an_error_of_the_store(tmp_path: Path) -> None:
    options = {"hoodie.index.class": "tests.unit.index.test_lost_history:NO_SEQUENCE"}
    table = created(tmp_path / "t", 9, "cow", options)
    table.upsert(batch((1, "oslo", 1)))

    with pytest.raises(StorageError, match="must return one collection of entries for each key"):
        table.upsert(batch((1, "oslo", 1)))
