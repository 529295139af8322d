"""The table on a real S3 server: no local disk, no local lock."""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.support.hooks import once
from tests.support.minio import minio
from tests.support.tables import rehandled

import pyhudi
from pyhudi.errors import WriteConflictError
from pyhudi.storage.open import open_storage
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage
from pyhudi.transaction.locks.storage_based import LOCK_PATH

if TYPE_CHECKING:
    from tests.support.minio import Minio

__all__ = ["minio"]
SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64())])


def rows(ids: list[int], ts: int, city: str = "oslo") -> pa.Table:
    return pa.table({"id": ids, "city": [city] * len(ids), "ts": [ts] * len(ids)}, schema=SCHEMA)


def new_table(root: str, options: dict[str, str]) -> pyhudi.HudiTable:
    return pyhudi.HudiTable.create(
        root,
        schema=SCHEMA,
        record_key="id",
        partition_by="city",
        ordering_fields="ts",
        name="t",
        hudi_options={**options, "hoodie.index.bloom.num_entries": "1000"},
    )


def test_a_table_lives_on_an_object_store(minio: Minio) -> None:
    table = new_table(minio.new_root(), minio.options)

    first = table.insert(rows([1, 2, 3], 1))
    table.upsert(rows([3, 4], 2))
    table.delete(pa.table({"id": [1], "city": ["oslo"]}))

    now = table.refresh()
    assert sorted(zip(*now.scan(["id", "ts"]).to_arrow().to_pydict().values(), strict=True)) == [(2, 1), (3, 2), (4, 2)]
    assert sorted(now.scan(["id"], as_of=first.instant).to_arrow()["id"].to_pylist()) == [1, 2, 3]
    assert sorted(now.changes(first.completion_time, columns=["id"]).to_arrow()["id"].to_pylist()) == [3, 4]


def test_the_lease_on_the_table_is_given_back(minio: Minio) -> None:
    root = minio.new_root()
    new_table(root, minio.options).insert(rows([1], 1))

    assert b'"expired":true' in open_storage(root, minio.options).read(LOCK_PATH)


def upsert_own_keys(root: str, options: dict[str, str], writer: int) -> list[int]:
    table = pyhudi.HudiTable.for_path(root, hudi_options=options)
    keys = [writer * 100 + n for n in range(3)]
    for key in keys:
        table.upsert(rows([key], 1), hudi_options={"hoodie.write.num.retries.on.conflict.failures": 50})
    return keys


def test_two_processes_without_any_setting_lose_nothing(minio: Minio) -> None:
    root = minio.new_root()
    new_table(root, minio.options)

    with multiprocessing.get_context("spawn").Pool(2) as pool:
        written = pool.starmap(upsert_own_keys, [(root, minio.options, writer) for writer in (1, 2)])

    stored = pyhudi.HudiTable.for_path(root, hudi_options=minio.options).scan(["id"]).to_arrow()["id"].to_pylist()
    assert sorted(stored) == sorted(key for keys in written for key in keys)


def test_a_write_from_a_stale_base_is_refused(minio: Minio) -> None:
    table = new_table(minio.new_root(), minio.options)
    table.insert(rows([1], 1))
    other_commits = once(
        lambda name, path: name == "put_if_absent" and path.endswith("inflight"), lambda: table.upsert(rows([1], 5))
    )
    stale = rehandled(table, loaded=load_table(FaultStorage(table.handle.state.storage, before=other_commits)))

    with pytest.raises(WriteConflictError):
        stale.upsert(rows([1], 9))

    assert table.refresh().scan(["ts"]).to_arrow()["ts"].to_pylist() == [5]
