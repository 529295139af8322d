"""Markers of writes whose tasks run in this process: those of many file groups are stored ahead, in one file."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.crashes import COW, opened, prepared
from tests.support.crashes import rows as rows_of
from tests.support.tables import rehandled

import pyhudi
from pyhudi.engine.local import LocalEngine
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.markers import MARKERS_ROOT, MARKERS_TYPE_FILE
from pyhudi.storage.local import LocalStorage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.state import load_table
from pyhudi.tasks.markers import GATHERED_FILES_MIN
from pyhudi.testing.faults import FaultStorage, SimulatedCrash
from pyhudi.transaction.markers.reading import load_markers

STRATEGY = "hoodie.write.concurrency.early.conflict.detection.strategy"
MANY = GATHERED_FILES_MIN
CASES = [
    (version, kind, change_data)
    for version in (6, 8, 9)
    for kind, change_data in (("COPY_ON_WRITE", False), ("COPY_ON_WRITE", True), ("MERGE_ON_READ", False))
]


@dataclass(frozen=True)
class RepeatingEngine(LocalEngine):
    """An engine that does not promise to run a task once."""

    @property
    def repeats_tasks(self) -> bool:
        return True


def rows(partitions: int, ts: int, *, first: int = 0) -> pa.Table:
    """A row in each partition, whose key is the number of the partition and `first`."""
    numbers = range(partitions)
    return pa.table({"id": [first + n for n in numbers], "part": [f"p{n}" for n in numbers], "ts": [ts] * partitions})


def made(path: Path, partitions: int, version: int = 9, kind: str = "COPY_ON_WRITE", change_data: bool = False) -> None:
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.table.type": kind,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.write.table.version": str(version),
        "hoodie.table.cdc.enabled": str(change_data).lower(),
        "hoodie.metadata.enable": "false",
    }
    pyhudi.save(rows(partitions, 1), str(path), hudi_options=options)


def upsert(path: Path, batch: pa.Table, before: Callable[[str, str], object] | None = None, **more: Any) -> list[str]:
    """Run an upsert, whose process may die; the paths of the marker files that it put, in their order."""
    storage = FaultStorage(LocalStorage(path), before=before)
    options = more.pop("options", {})
    table = rehandled(pyhudi.HudiTable.for_path(str(path)), loaded=load_table(storage), **more)
    with suppress(SimulatedCrash):
        table.upsert(batch, hudi_options=options)
    puts = [one.path for one in storage.effects if one.name == "put" and one.path.startswith(MARKERS_ROOT)]
    return [path.rpartition("/")[2] for path in puts]


def read(path: Path) -> pa.Table:
    return pyhudi.HudiTable.for_path(str(path)).scan().to_arrow().sort_by("id")


def at_the_commit(operation: str, path: str) -> None:
    if operation == "put_if_absent" and path.endswith(("commit", "deltacommit")):
        raise SimulatedCrash


def at_the_first_data_file(operation: str, path: str) -> None:
    if operation == "open_output" and parse_data_file(path.rpartition("/")[2]) is not None:
        raise SimulatedCrash


@pytest.mark.parametrize(("version", "kind", "change_data"), CASES)
def test_upsert_of_many_file_groups_announces_just_the_files_that_it_writes(
    version: int, kind: str, change_data: bool, tmp_path: Path
) -> None:
    made(tmp_path, MANY, version, kind, change_data)
    there = {info.path for info in LocalStorage(tmp_path).list_recursive("")}

    puts = upsert(tmp_path, pa.concat_tables([rows(MANY, 2), rows(1, 2, first=100)]), before=at_the_commit)

    storage = LocalStorage(tmp_path)
    (pending,) = load_table(storage).timeline.pending_writes
    written = {info.path for info in storage.list_recursive("") if parse_data_file(info.name) is not None} - there
    assert len(written) >= MANY
    assert load_markers(storage, pending.requested_time) == written
    if version == 6 and kind == "MERGE_ON_READ":
        # JVM Hudi 0.15 writes rollback blocks into logs that were announced and not begun.
        assert len(puts) == len(written)
        assert all(".marker." in name for name in puts)
    else:
        assert puts == [MARKERS_TYPE_FILE, "MARKERS0"]


def test_new_file_groups_are_announced_beside_those_that_exist(tmp_path: Path) -> None:
    made(tmp_path, 2)

    puts = upsert(tmp_path, rows(MANY, 2), before=at_the_commit)

    storage = LocalStorage(tmp_path)
    (pending,) = load_table(storage).timeline.pending_writes
    assert puts == [MARKERS_TYPE_FILE, "MARKERS0", "MARKERS1"]
    assert len(load_markers(storage, pending.requested_time)) == MANY


@pytest.mark.parametrize(("version", "kind", "change_data"), CASES)
def test_write_that_dies_before_its_announced_files_is_rolled_back(
    version: int, kind: str, change_data: bool, tmp_path: Path
) -> None:
    made(tmp_path, MANY, version, kind, change_data)
    before = read(tmp_path)

    upsert(tmp_path, rows(MANY, 2), before=at_the_first_data_file)
    opened(LocalStorage(tmp_path), later=True).upsert(rows(1, 3))

    assert load_table(LocalStorage(tmp_path)).timeline.pending_writes == ()
    after = read(tmp_path)
    assert after.column("ts").to_pylist() == [3] + [1] * (MANY - 1)
    assert after.slice(1) == before.slice(1)
    assert LocalStorage(tmp_path).list_recursive(MARKERS_ROOT) == ()


def test_upsert_of_few_file_groups_puts_a_marker_for_each(tmp_path: Path) -> None:
    made(tmp_path, MANY)

    puts = upsert(tmp_path, rows(MANY - 1, 2))

    assert len(puts) == MANY - 1
    assert all(name.endswith(".marker.MERGE") for name in puts)


@pytest.mark.parametrize(
    "more",
    [
        {"options": {"hoodie.write.markers.type": "DIRECT"}},
        {"options": {STRATEGY: "SimpleDirectMarkerBasedDetectionStrategy"}},
        {"engine": RepeatingEngine(parallelism=1)},
    ],
    ids=["kind is named", "strategy of tasks is named", "tasks may run again"],
)
def test_upsert_of_many_file_groups_puts_a_marker_for_each_where(more: dict[str, Any], tmp_path: Path) -> None:
    made(tmp_path, MANY)

    puts = upsert(tmp_path, rows(MANY, 2), **more)

    assert len(puts) == MANY
    assert all(name.endswith(".marker.MERGE") for name in puts)


def test_strategy_of_the_service_alone_asks_for_the_service() -> None:
    storage = FaultStorage(prepared(COW[2]))
    opened(storage).upsert(
        rows_of((1, "oslo", 6, "x")),
        hudi_options={
            "hoodie.write.concurrency.early.conflict.detection.enable": "true",
            STRATEGY: "AsyncTimelineServerBasedDetectionStrategy",
        },
    )

    puts = [one.path.rpartition("/")[2] for one in storage.effects if one.path.startswith(MARKERS_ROOT)]
    assert MARKERS_TYPE_FILE in puts


def test_files_of_one_write_have_write_tokens_of_their_own(tmp_path: Path) -> None:
    made(tmp_path, MANY)
    upsert(tmp_path, rows(MANY, 2))

    table = load_table(LocalStorage(tmp_path))
    newest = table.timeline.completed_writes[-1]
    paths = load_commit_metadata(table.storage, newest, table.version).paths()
    tokens = {parse_data_file(path.rpartition("/")[2]).write_token for path in paths}  # type: ignore[union-attr]
    assert len(tokens) == len(paths) == MANY
