"""Tables of every shape: version x type x state of the timeline x layout x store, put together step by step.

    storage = TableBuilder(8, "mor").commit(rows=10).delta_commit(updates=3).pending_compaction().build()

A builder is a value: each step gives another one, and `build` makes the table in the store that it is given. See
tests/README.md for the shapes that the tests use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa
import pytest
from tests.support.tables import (
    DELETE_FLAG,
    MOR,
    SCHEMA,
    Row,
    StepClock,
    end_the_process_of,
    environment,
    new_table,
    open_table,
    rows,
)

import pyhudi
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage, SimulatedCrash

Action = Callable[[pyhudi.HudiTable], object]
Stage = Literal["requested", "inflight", "written"]
CITIES = ("oslo", "rome", "bern")
THREE_ROWS: tuple[Row, ...] = ((1, "oslo", 1, "a"), (2, "oslo", 1, "a"), (3, "rome", 1, "a"))
"""Two records in one partition, one in another."""

ONE_GROUP: tuple[Row, ...] = ((1, "oslo", 5, "a"), (2, "oslo", 5, "a"), (3, "oslo", 5, "a"))
"""Three records of one file group, with room for rows that come late."""
TWO_GROUPS: tuple[Row, ...] = ((1, "oslo", 5, "a"), (2, "oslo", 5, "a"), (3, "rome", 5, "a"))
"""Three records of two file groups, with room for rows that come late."""

_LAYOUTS = {True: "city", False: ""}


@dataclass(frozen=True)
class TableBuilder:
    """A table to be made, of (id, city, ts, note) rows with the key `id`.

    `options`: of the table and of every write to it. `has_delete_flag`: whether rows can ask for the deletion of their
    record. `clock`: that of its writers; by default each of them has one of its own.
    """

    version: int = 9
    kind: Literal["cow", "mor"] = "cow"
    is_partitioned: bool = True
    has_delete_flag: bool = False
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    clock: StepClock | None = field(default=None, compare=False)
    steps: tuple[Callable[[Storage], object], ...] = ()
    records: int = 0

    def __str__(self) -> str:
        return f"{self.kind}-{self.version}"

    @property
    def is_merge_on_read(self) -> bool:
        return self.kind == "mor"

    def insert(self, *values: Row, **options: str) -> TableBuilder:
        return self.then(lambda table: table.insert(self.batch(*values), hudi_options=options))

    def upsert(self, *values: Row, **options: str) -> TableBuilder:
        return self.then(lambda table: table.upsert(self.batch(*values), hudi_options=options))

    def delete(self, *values: Row) -> TableBuilder:
        return self.then(lambda table: table.delete(rows(*values)))

    def commit(self, *, rows: int) -> TableBuilder:
        """Insert this many new records, over all partitions."""
        new = [(n, CITIES[n % len(CITIES)], 1, "new") for n in range(self.records, self.records + rows)]
        return replace(self.insert(*new), records=self.records + rows)

    def delta_commit(self, *, updates: int) -> TableBuilder:
        """Upsert the first records that `commit` made, each newer than before."""
        turn = len(self.steps) + 1
        return self.upsert(*((n, CITIES[n % len(CITIES)], turn, "updated") for n in range(updates)))

    def pending_compaction(self) -> TableBuilder:
        """Plan a compaction, and leave it at that."""

        def plan(table: pyhudi.HudiTable) -> None:
            assert table.services.schedule() is not None

        return self.then(plan)

    def dead_writer(self, *values: Row, stage: Stage = "inflight") -> TableBuilder:
        """An upsert whose process ended: with a requested instant, an inflight one, or when its files were written."""
        batch = values or ((0, CITIES[0], 99, "dead"),)

        def die(storage: Storage) -> None:
            with suppress(SimulatedCrash):
                self.open(FaultStorage(storage, before=_death_at(stage))).upsert(self.batch(*batch))
            died = load_table(storage).timeline.pending_writes[-1]
            end_the_process_of(storage, died.requested_time)

        return replace(self, steps=(*self.steps, die))

    def then(self, action: Action) -> TableBuilder:
        """Do something else with the table."""
        return replace(self, steps=(*self.steps, lambda storage: action(self.open(storage))))

    def build(self, storage: Storage | None = None) -> Storage:
        """Make the table in this store, by default in memory."""
        storage = MemoryStorage() if storage is None else storage
        layout = {"hoodie.datasource.write.partitionpath.field": _LAYOUTS[self.is_partitioned]}
        schema = SCHEMA.append(DELETE_FLAG) if self.has_delete_flag else SCHEMA
        kind = MOR if self.is_merge_on_read else {}
        new_table(storage, version=self.version, schema=schema, **{**layout, **kind, **self.options})
        for step in self.steps:
            step(storage)
        return storage

    def open(self, storage: Storage) -> pyhudi.HudiTable:
        """The table that was built, for a writer who compacts only when he is told to."""
        env = None if self.clock is None else environment(self.clock)
        return open_table(storage, env=env, **{"hoodie.compact.inline": "false", **self.options})

    def batch(self, *values: Row) -> pa.Table:
        """Rows that fit into the table."""
        batch = rows(*values)
        return batch.append_column(DELETE_FLAG, pa.array([False] * len(values))) if self.has_delete_flag else batch


def _death_at(stage: Stage) -> Callable[[str, str], None]:
    """A hook in whose call a writer dies who has come this far."""
    first_left_out = {"requested": ".inflight", "inflight": ".parquet", "written": "commit"}[stage]

    def hook(operation: str, path: str) -> None:
        is_there = operation in {"put_if_absent", "open_output"} and path.endswith(first_left_out)
        if is_there or (stage == "inflight" and operation == "open_output" and ".log." in path):
            raise SimulatedCrash

    return hook


COW_TABLES = tuple(TableBuilder(version, "cow") for version in (6, 8, 9))
MOR_TABLES = tuple(TableBuilder(version, "mor") for version in (6, 8, 9))
every_version = pytest.mark.parametrize("version", [6, 8, 9])
