"""Upgrades and downgrades beside JVM Hudi: it reads and goes on writing what we changed, and we what it changed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.interop.compare import assert_same_rows
from tests.interop.timeline_folder import undo_last_completion
from tests.support.oracle import Oracle

import pyhudi
from pyhudi.errors import WriteConflictError

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.metadata.enable": "false",
    "hoodie.datasource.compaction.async.enable": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "5",
    "hoodie.cleaner.commits.retained": "3",
}
KIND = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
RELEASE = {6: "0.15.0", 8: "1.0.2", 9: "1.2.0"}
EVERY_KIND = pytest.mark.parametrize("kind", [*KIND])


def rows(ids: range, partition: str, ts: int) -> pa.Table:
    count = len(ids)
    return pa.table({"id": [f"k{i}" for i in ids], "p": [partition] * count, "v": [ts] * count, "ts": [ts] * count})


class Table:
    """A table that JVM Hudi and pyhudi write in turns, with a model of its rows."""

    def __init__(self, path: Path, kind: str, oracles: dict[str, Oracle]) -> None:
        self.path, self.kind, self.oracles = path, kind, oracles
        self.model: dict[str, tuple[str, int]] = {}
        self.ts = 0

    def options(self, version: int, **more: str) -> dict[str, str]:
        keeps = {"hoodie.write.table.version": str(version), "hoodie.write.auto.upgrade": "false"}
        return {**OPTIONS, "hoodie.datasource.write.table.type": KIND[self.kind], **keeps, **more}

    def write(self, version: int, ids: range, partition: str, operation: str = "upsert", **more: str) -> None:
        self.ts += 1
        options = self.options(version, **{"hoodie.datasource.write.operation": operation}, **more)
        self.oracles[RELEASE[version]].write(self.path, rows(ids, partition, self.ts), options)
        self.note(ids, partition, operation)

    def write_here(self, ids: range, partition: str, operation: str = "upsert") -> None:
        self.ts += 1
        getattr(self.here(), operation)(rows(ids, partition, self.ts))
        self.note(ids, partition, operation)

    def note(self, ids: range, partition: str, operation: str) -> None:
        if operation == "insert_overwrite":
            self.model = {key: value for key, value in self.model.items() if value[0] != partition}
        for i in ids:
            if operation == "delete":
                self.model.pop(f"k{i}")
            else:
                self.model[f"k{i}"] = (partition, self.ts)

    def here(self) -> pyhudi.HudiTable:
        return pyhudi.HudiTable.for_path(self.path)

    def check(self, version: int) -> None:
        """We and a release of the table's version read the model, and the same meta columns."""
        ours = self.here().scan().to_arrow()
        theirs = self.oracles[RELEASE[version]].read(self.path)
        found = {row["id"]: (row["p"], row["v"]) for row in ours.to_pylist()}
        assert found == self.model
        assert_same_rows(theirs.select(ours.schema.names), ours)

    def jvm_changes(self, to: int) -> None:
        new = self.oracles["1.2.0"]
        name = f"t_{abs(hash(str(self.path)))}"
        new.sql(f"CREATE TABLE IF NOT EXISTS {name} USING hudi LOCATION '{self.path}'")
        is_upgrade = to > self.here().handle.state.version.number
        word = {6: "SIX", 8: "EIGHT", 9: "NINE"}[to]
        procedure = "upgrade_table" if is_upgrade else "downgrade_table"
        [told] = new.sql(f"CALL {procedure}(table => '{name}', to_version => '{word}')")
        assert told["result"] == "True"
        assert self.here().handle.state.version.number == to


def lived(table: Table, version: int) -> None:
    """Commits, deletes, replacements, cleans, archivings and a clustering, by the release of a version."""
    table.write(version, range(4), "a", "insert")
    table.write(version, range(10, 14), "b", "insert")
    for _ in range(5):
        table.write(version, range(2), "a")
    table.write(version, range(10, 11), "b", "delete")
    table.write(version, range(20, 23), "c", "insert_overwrite")
    clusters = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
    table.write(version, range(30, 33), "d", "insert", **clusters)
    if table.kind == "mor":
        compacts = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
        table.write(version, range(30, 32), "d", **compacts)
        table.write(version, range(30, 32), "d")
    table.write(version, range(31, 33), "d")


@pytest.fixture
def oracles(oracle_of: Any) -> dict[str, Oracle]:
    return {release: oracle_of(release) for release in RELEASE.values()}


@EVERY_KIND
def test_jvm_hudi_goes_on_with_what_we_upgraded_and_downgraded(kind: str, tmp_path: Path, oracles: Any) -> None:
    table = Table(tmp_path / "t", kind, oracles)
    lived(table, 6)
    for to in (8, 9, 8, 6, 8, 9):
        alter = table.here().alter
        present = table.here().handle.state.version.number
        (alter.upgrade if to > present else alter.downgrade)(to)
        table.check(to)
        table.write(to, range(1, 3), "a")
        table.check(to)
        table.write_here(range(20, 22), "c")
        table.check(to)


@EVERY_KIND
def test_we_go_on_with_what_jvm_hudi_upgraded_and_downgraded(kind: str, tmp_path: Path, oracles: Any) -> None:
    table = Table(tmp_path / "t", kind, oracles)
    lived(table, 6)
    for to in (8, 9, 8):
        table.jvm_changes(to)
        table.check(to)
        table.write_here(range(20, 22), "c")
        table.write(to, range(1, 3), "a")
        table.check(to)


@EVERY_KIND
def test_jvm_hudi_keeps_a_metadata_table_on_what_we_downgraded_with_its_dead_write(
    kind: str, tmp_path: Path, oracles: Any
) -> None:
    table = Table(tmp_path / "t", kind, oracles)
    has_index = {"hoodie.metadata.enable": "true"}
    for number in range(3):
        table.write(9, range(number, number + 3), "a", **has_index)
    model = dict(table.model)
    table.write(9, range(2), "a", **has_index)
    undo_last_completion(table.path)
    table.model = model
    with pytest.raises(WriteConflictError):
        table.here().alter.downgrade(to=6) if kind == "cow" else table.here().alter.downgrade(to=8)
    table.here().recovery.roll_back_failed_writes(eager=True)
    table.here().alter.downgrade(to=6)
    table.check(6)
    for number in range(15):
        table.write(6, range(number, number + 2), "a", **has_index)
    assert (table.path / ".hoodie/metadata").exists()
    table.check(6)
    with_index = oracles["0.15.0"].read(table.path, {"hoodie.metadata.enable": "true"})
    assert {row["id"]: (row["p"], row["v"]) for row in with_index.to_pylist()} == table.model


@EVERY_KIND
@pytest.mark.parametrize("way", [pytest.param((6, 8), marks=pytest.mark.thorough), (6, 9)], ids=str)
def test_our_upgrade_leaves_the_properties_and_instants_of_jvm_hudis(
    kind: str, way: tuple[int, int], tmp_path: Path, oracles: Any
) -> None:
    ours = Table(tmp_path / "ours", kind, oracles)
    lived(ours, way[0])
    theirs = Table(tmp_path / "theirs", kind, oracles)
    shutil.copytree(ours.path, theirs.path, copy_function=shutil.copy2)
    theirs.jvm_changes(way[1])
    ours.here().alter.upgrade(to=way[1])
    ours_now, theirs_now = (dict(each.here().handle.state.config.values) for each in (ours, theirs))
    if way == (6, 9):
        # In one go JVM Hudi names the payload class of version 6 here, which its own version 8 has replaced.
        del ours_now["hoodie.table.legacy.payload.class"], theirs_now["hoodie.table.legacy.payload.class"]
    assert ours_now == theirs_now
    assert instants(ours) == instants(theirs)
    # The upgrade itself compacts a merge-on-read table, so there the files of the two have names of their own.
    rows_of = [each.here().scan().to_arrow() for each in (ours, theirs)]
    if kind == "mor":
        rows_of = [found.drop_columns(["_hoodie_file_name"]) for found in rows_of]
    assert_same_rows(*rows_of)
    assert history(ours) == history(theirs)


def history(table: Table) -> list[dict[str, Any]]:
    """What history says of all writes, archived ones among them, but the compaction of the upgrade, by instant."""
    told = table.here().inspect.history().to_pylist()
    newest = max(row["instant"] for row in told)
    by_instant = sorted(told, key=lambda row: row["instant"])
    return [row for row in by_instant if table.kind == "cow" or row["instant"] != newest]


def instants(table: Table) -> list[str]:
    """The names on the timeline, without the upgrade's own compaction; JVM Hudi renames what replaced file groups."""
    names = sorted(file.name for file in (table.path / ".hoodie/timeline").iterdir() if not file.name.startswith("."))
    before = [name for name in names if not is_of_upgrade(table, name)]
    return sorted(name.replace(".clustering.", ".replacecommit.") for name in before)


def is_of_upgrade(table: Table, name: str) -> bool:
    newest = max((table.path / ".hoodie/timeline").glob("*.compaction.requested"), default=None)
    return table.kind == "mor" and newest is not None and name.startswith(newest.name[:17])
