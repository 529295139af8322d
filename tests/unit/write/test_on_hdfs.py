"""The table on a real HDFS: no local disk, no local lock, and writers that are killed."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.hdfs import Hdfs, hdfs

import pyhudi
from pyhudi.commands.command_line import main

__all__ = ["hdfs"]
SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64())])
PROGRAM = Path(__file__).with_name("hdfs_killed_writer_program.py")


def rows(ids: list[int], ts: int, city: str = "oslo") -> pa.Table:
    return pa.table({"id": ids, "city": [city] * len(ids), "ts": [ts] * len(ids)}, schema=SCHEMA)


def new_table(root: str, table_type: str = "COPY_ON_WRITE") -> pyhudi.HudiTable:
    return pyhudi.HudiTable.create(
        root,
        schema=SCHEMA,
        record_key="id",
        partition_by="city",
        ordering_fields="ts",
        name="t",
        hudi_options={
            "hoodie.index.bloom.num_entries": "1000",
            "hoodie.datasource.write.table.type": table_type,
            "hoodie.compact.inline": "false",
            "hoodie.metadata.enable": "true",
        },
    )


def stored(table: pyhudi.HudiTable) -> list[tuple[int, int]]:
    found = table.refresh().scan(["id", "ts"]).to_arrow().to_pydict()
    return sorted(zip(found["id"], found["ts"], strict=True))


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_table_lives_on_hdfs(hdfs: Hdfs, table_type: str) -> None:
    table = new_table(hdfs.new_root(), table_type)

    first = table.insert(rows([1, 2, 3], 1))
    table.upsert(rows([3, 4], 2))
    table.delete(pa.table({"id": [1], "city": ["oslo"]}))
    assert stored(table) == [(2, 1), (3, 2), (4, 2)]
    assert sorted(table.scan(["id"], as_of=first.instant).to_arrow()["id"].to_pylist()) == [1, 2, 3]
    assert sorted(table.changes(first.completion_time, columns=["id"]).to_arrow()["id"].to_pylist()) == [3, 4]
    if table_type == "MERGE_ON_READ":
        assert table.services.compact() is not None
        assert stored(table) == [(2, 1), (3, 2), (4, 2)]

    table.upsert(rows([5], 3, "rome"), hudi_options={"hoodie.cleaner.commits.retained": "1"})
    table.services.clean()
    assert stored(table) == [(2, 1), (3, 2), (4, 2), (5, 3)]


def upsert_own_keys(root: str, writer: int) -> list[int]:
    table = pyhudi.HudiTable.for_path(root)
    keys = [writer * 100 + n for n in range(3)]
    for key in keys:
        table.upsert(rows([key], 1), hudi_options={"hoodie.write.num.retries.on.conflict.failures": "50"})
    return keys


def test_two_processes_without_any_setting_lose_nothing(hdfs: Hdfs) -> None:
    root = hdfs.new_root()
    new_table(root)

    with multiprocessing.get_context("spawn").Pool(2) as pool:
        written = pool.starmap(upsert_own_keys, [(root, writer) for writer in (1, 2)])

    assert stored(pyhudi.HudiTable.for_path(root)) == sorted((key, 1) for keys in written for key in keys)


@pytest.mark.parametrize("turn", [1, 4, 7, 10])
def test_writer_killed_in_its_commit_is_undone_by_the_next(hdfs: Hdfs, turn: int) -> None:
    root = hdfs.new_root()
    table = new_table(root)
    table.insert(rows([1, 2], 1))

    ended = subprocess.run([sys.executable, PROGRAM, root, str(turn)], check=False, timeout=120)
    assert ended.returncode == -signal.SIGKILL

    # The lease of the writer that is dead ends by itself, after a minute.
    other = pyhudi.HudiTable.for_path(root)
    assert stored(other) in ([(1, 1), (2, 1)], [(1, 9), (2, 1)])
    other.upsert(rows([3], 2), hudi_options={"hoodie.write.lock.wait_time_ms": "120000"})
    assert stored(other) in ([(1, 1), (2, 1), (3, 2)], [(1, 9), (2, 1), (3, 2)])


def test_commands_and_the_doctor_look_at_a_table_on_hdfs(hdfs: Hdfs, capsys: pytest.CaptureFixture[str]) -> None:
    root = hdfs.new_root()
    new_table(root).insert(rows([1, 2], 1))

    assert main(["describe", root]) == 0
    assert "last operation     insert" in capsys.readouterr().out
    assert main(["doctor", root]) == 0
    assert "nothing is wrong" in capsys.readouterr().out
