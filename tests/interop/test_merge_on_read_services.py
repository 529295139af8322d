"""What one side's table services do to merge-on-read tables of the other: cleaning, rollback, compaction by default."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop.compare import WRITER_META, assert_same_rows
from tests.interop.life import Maker, ModelTable, Operation, Turn
from tests.interop.parties import HudiRs, JvmHudi, Pyhudi, ReadOptimized
from tests.interop.shapes import Shape
from tests.interop.timeline_folder import (
    completed_compactions,
    completed_turns,
    planned_compactions,
    undo_last_completion,
)
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle

import pyhudi

OracleOf = Callable[[str], Oracle]

VERSIONS = [pytest.param(version, id=f"v{version}") for version in RELEASE_OF_TABLE_VERSION]


class Table:
    """A table under test, the model of it, and the two that work on it."""

    def __init__(self, path: Path, shape: Shape, oracle: Oracle) -> None:
        self.path, self.shape = path, shape
        self.us, self.jvm = Pyhudi(), JvmHudi(oracle)
        self.make = Maker(shape, random.Random(3))
        self.model = ModelTable(shape)

    def write(self, party: Pyhudi | JvmHudi, turn: Turn, **options: str) -> None:
        shape = replace(self.shape, more_options={**self.shape.more_options, **options})
        party.write(self.path, shape, turn)
        self.model.apply(turn)

    def check(self, hint: str) -> None:
        """All three must see the model's rows, and the same meta columns; ourselves and JVM Hudi also base files."""
        writes = [write.requested for write in completed_turns(self.path)]
        rows = self.jvm.read(self.path)
        assert_same_rows(self.model.expected(writes), rows, ignore=WRITER_META, hint=f"{hint}, read by {self.jvm}")
        for reader in (self.us, HudiRs()):
            assert_same_rows(rows, reader.read(self.path), hint=f"{hint}, read by {reader}")
        base = self.jvm.read(self.path, ReadOptimized())
        assert_same_rows(base, self.us.read(self.path, ReadOptimized()), hint=f"{hint}, base files alone")

    def files(self) -> set[str]:
        """Base and log files on disk, by name."""
        names = (file.name for file in self.path.rglob("*") if ".hoodie" not in file.parts and file.is_file())
        return {name for name in names if name.endswith(".parquet") or (".log." in name and not name.endswith(".crc"))}


@pytest.fixture
def table_of(tmp_path: Path, oracle_of: OracleOf) -> Callable[..., Table]:
    def make(version: int, **options: str) -> Table:
        shape = Shape(
            name="t",
            table_version=version,
            partition_by=("city",),
            metadata=False,
            merge_on_read=True,
            more_options={"hoodie.parquet.small.file.limit": "0", **options},
        )
        return Table(tmp_path / "t", shape, oracle_of(RELEASE_OF_TABLE_VERSION[version]))

    return make


@pytest.mark.parametrize("version", VERSIONS)
def test_table_of_ours_that_jvm_hudi_cleans_keeps_its_rows_and_is_compacted_on(
    version: int, table_of: Callable[..., Table]
) -> None:
    table = table_of(version)
    table.write(table.us, table.make.new(Operation.BULK_INSERT, 20, table.shape.cities[:2]))
    for _ in range(2):
        table.write(table.us, table.make.change(updates=12, deletes=2))
        pyhudi.HudiTable.for_path(str(table.path)).services.compact()
    before = table.files()

    cleans = {"hoodie.clean.automatic": "true", "hoodie.cleaner.commits.retained": "1"}
    table.write(table.jvm, table.make.change(updates=5), **cleans)

    gone = before - table.files()
    assert any(".log." in name for name in gone)
    assert any(name.endswith(".parquet") for name in gone)
    table.check("cleaned")
    table.write(table.us, table.make.change(updates=4, returns=2))
    assert pyhudi.HudiTable.for_path(str(table.path)).services.compact().num_rows == 1
    table.check("compacted after the cleaning")


@pytest.mark.parametrize("version", VERSIONS)
def test_write_of_ours_that_died_is_rolled_back_by_jvm_hudi(version: int, table_of: Callable[..., Table]) -> None:
    table = table_of(version)
    table.write(table.us, table.make.new(Operation.BULK_INSERT, 20, table.shape.cities[:2]))
    table.write(table.us, table.make.change(updates=6))
    # Of a maker of its own: the rows of this write must not count.
    table.us.write(table.path, table.shape, lost_turn(table))
    undo_last_completion(table.path)
    table.check("died")

    table.write(table.jvm, table.make.change(updates=5))
    table.check("rolled back")
    table.write(table.us, table.make.change(updates=5))
    table.check("written after the rollback")
    pyhudi.HudiTable.for_path(str(table.path)).services.compact()
    table.check("compacted after the rollback")


@pytest.mark.parametrize("version", VERSIONS)
def test_write_of_jvm_hudi_that_died_is_rolled_back_by_us(version: int, table_of: Callable[..., Table]) -> None:
    table = table_of(version)
    table.write(table.jvm, table.make.new(Operation.BULK_INSERT, 20, table.shape.cities[:2]))
    table.write(table.jvm, table.make.change(updates=6))
    table.jvm.write(table.path, table.shape, lost_turn(table))
    undo_last_completion(table.path)
    table.check("died")

    assert len(pyhudi.HudiTable.for_path(str(table.path)).recovery.roll_back_failed_writes(eager=True)) == 1
    table.check("rolled back")
    table.write(table.jvm, table.make.change(updates=5))
    table.check("written after the rollback")
    table.jvm.schedule(table.path, table.shape)
    table.jvm.run(table.path, table.shape, *planned_compactions(table.path))
    table.check("compacted after the rollback")


@pytest.mark.parametrize("version", VERSIONS)
def test_compactions_that_writes_bring_with_them_leave_the_same_rows(
    version: int, table_of: Callable[..., Table]
) -> None:
    table = table_of(version, **{"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "3"})
    table.write(table.us, table.make.new(Operation.BULK_INSERT, 20, table.shape.cities[:2]))
    compactions = 0
    for number in range(7):
        party = (table.jvm, table.us)[number % 2]
        table.write(party, table.make.change(updates=8, deletes=1))
        table.check(f"write {number} by {party}")
        done = len(completed_compactions(table.path))
        compactions, previous = done, compactions
        assert done - previous in (0, 1)
    assert compactions == 2


def lost_turn(table: Table) -> Turn:
    """Changes that nobody may see: updates and a deletion of rows that there are."""
    rows = table.model.rows()[:5]
    changed = [
        {**row, "ts": row["ts"] + 5, "note": "lost", "_hoodie_is_deleted": number == 0}
        for number, row in enumerate(rows)
    ]
    return Turn(Operation.UPSERT, pa.Table.from_pylist([dict(row) for row in changed], schema=table.shape.schema))
