"""Random lives of a table against a dictionary: all rows at all times, for every table version."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.audit import audit
from tests.support.crashes import TEMPORARY_FOLDERS, assert_nothing_left_over
from tests.support.tables import SplitEngine, StepClock, environment, new_table, open_table, rehandled

import pyhudi
from pyhudi.errors import InvalidRequestError
from pyhudi.format.timeline.instant import InstantState
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.timeline import position_of
from pyhudi.testing.faults import FaultStorage, SimulatedCrash, at_effect

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("city", pa.string()),
        ("ts", pa.int64()),
        ("note", pa.string()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class Record:
    """A row; `written` is the instant that last wrote it."""

    id: int
    city: str | None
    ts: int | None
    note: str | None
    is_deleted: bool | None = None
    written: str = ""

    @property
    def age(self) -> tuple[bool, int]:
        """Orders as the ordering column does: null is below everything."""
        return (self.ts is not None, self.ts or 0)

    @property
    def values(self) -> tuple[Any, ...]:
        return (self.id, self.city, self.ts, self.note, self.is_deleted, self.written)


Rows = list[Record]
cities = st.sampled_from(["oslo", "rome", None])
records = st.builds(
    Record,
    id=st.integers(0, 9),
    city=cities,
    ts=st.one_of(st.none(), st.integers(0, 3)),
    note=st.one_of(st.none(), st.sampled_from("abc")),
)
deletions = st.builds(replace, records, is_deleted=st.sampled_from([True, False, None]))
batches = st.lists(records, min_size=1, max_size=8)
deaths = st.one_of(st.none(), st.integers(1, 32))
"""The effect at which a process dies; most operations have fewer than thirty."""
mixed_batches = st.lists(st.one_of(records, deletions), min_size=1, max_size=8)
HOMES = ("oslo", "rome", None)
at_home = records.map(lambda row: replace(row, city=HOMES[row.id % 3]))
known_batches = st.lists(st.one_of(at_home, at_home, records), min_size=1, max_size=6)
known_mixed_batches = st.lists(st.one_of(at_home, deletions, records), min_size=1, max_size=6)
"""Most rows have a key that the table begins with."""


def arrow(rows: Iterable[Record]) -> pa.Table:
    columns = list(zip(*(row.values[:5] for row in rows), strict=True)) or [()] * 5
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


class Model:
    """The rows of a table by identity: key and city, or key alone under a global index."""

    def __init__(self, *, is_global: bool, null_is_zero: bool) -> None:
        self.is_global = is_global
        self.null_is_zero = null_is_zero
        self.rows: dict[Any, Record] = {}

    def identity(self, row: Record) -> Any:
        return row.id if self.is_global else (row.id, row.city)

    def stored_age(self, row: Record) -> tuple[bool, int]:
        """How a row compares with what is stored: from version 8 on null is zero there."""
        return (True, row.ts or 0) if self.null_is_zero else row.age

    def combined(self, rows: Rows) -> Rows:
        kept: dict[Any, Record] = {}
        for row in rows:
            other = kept.get(self.identity(row))
            if other is None or row.age >= other.age:
                kept[self.identity(row)] = row
        return list(kept.values())

    def upsert(self, rows: Rows, instant: str) -> None:
        for row in self.combined(rows):
            stored = self.rows.get(self.identity(row))
            # A deletion without an ordering value is one by key alone: it holds whatever is stored.
            by_key = row.is_deleted and row.ts is None
            if stored is not None and self.stored_age(row) < self.stored_age(stored) and not by_key:
                continue
            self.rows.pop(self.identity(row), None)
            if not row.is_deleted:
                self.rows[self.identity(row)] = replace(row, written=instant)

    def insert(self, rows: Rows, instant: str) -> None:
        for row in self.combined(rows):
            self.rows.setdefault(self.identity(row), replace(row, written=instant))

    def drop(self, cities: Iterable[str | None]) -> None:
        gone = set(cities)
        self.rows = {key: row for key, row in self.rows.items() if row.city not in gone}


class TableLife(RuleBasedStateMachine):
    """One table, one writer, and what it should hold; `past` has a copy of the rows per completed write."""

    version: ClassVar[int] = 9
    index: ClassVar[str] = "SIMPLE"

    @initialize()
    def create(self) -> None:
        self.storage = MemoryStorage()
        options = {
            "hoodie.index.type": self.index,
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
            "hoodie.combine.before.insert": "true",
            "hoodie.datasource.insert.dup.policy": "drop",
            # Small enough for several file groups per partition, some of them with room.
            "hoodie.parquet.max.file.size": "7000",
            "hoodie.parquet.small.file.limit": "6500",
            "hoodie.index.bloom.num_entries": "10",
            "hoodie.copyonwrite.record.size.estimate": "1500",
        }
        table = new_table(self.storage, version=self.version, schema=SCHEMA, **options)
        self.table = rehandled(table, engine=SplitEngine(), environment=environment(StepClock()))
        self.model = Model(is_global=self.index.startswith("GLOBAL"), null_is_zero=self.version > 6)
        self.past: list[tuple[str, str, frozenset[tuple[Any, ...]]]] = []

    def _remember(self, result: pyhudi.WriteResult) -> None:
        rows = frozenset(row.values for row in self.model.rows.values())
        self.past.append((result.instant, result.completion_time, rows))
        self.table = self.table.refresh()

    @rule(rows=mixed_batches)
    def upsert(self, rows: Rows) -> None:
        result = self.table.upsert(arrow(rows))
        self.model.upsert(rows, result.instant)
        self._remember(result)

    @rule(rows=batches)
    def insert_what_is_new(self, rows: Rows) -> None:
        result = self.table.insert(arrow(rows))
        self.model.insert(rows, result.instant)
        self._remember(result)

    @rule(rows=batches, sort=st.sampled_from(["NONE", "GLOBAL_SORT", "PARTITION_PATH_REPARTITION"]))
    def bulk_insert_new_keys(self, rows: Rows, sort: str) -> None:
        known = {row.id for row in self.model.rows.values()}
        fresh = self.model.combined([row for row in rows if row.id not in known])
        result = self.table.bulk_insert(
            arrow(fresh), hudi_options={"hoodie.bulkinsert.sort.mode": sort, "hoodie.combine.before.insert": False}
        )
        self.model.insert(fresh, result.instant)
        self._remember(result)

    @rule(rows=batches)
    def delete(self, rows: Rows) -> None:
        before = len(self.model.rows)
        for row in rows:
            self.model.rows.pop(self.model.identity(row), None)
        result = self.table.delete(arrow(rows).select(["id", "city"]))
        assert result.deleted == before - len(self.model.rows)
        self._remember(result)

    @rule(city=cities)
    def delete_partition(self, city: str | None) -> None:
        path = f"city={city or '__HIVE_DEFAULT_PARTITION__'}"
        if path not in self.table.inspect.files().column("partition_path").to_pylist():
            with pytest.raises(InvalidRequestError, match="no partition"):
                self.table.delete_partition(path)
            return
        result = self.table.delete_partition(path)
        self.model.drop([city])
        self._remember(result)

    @rule(rows=batches, whole=st.booleans())
    def overwrite(self, rows: Rows, whole: bool) -> None:
        rows = self.model.combined(rows) if self.model.is_global else rows
        gone: set[str | None] = {"oslo", "rome", None}
        while not whole and gone != (gone := {row.city for row in rows}):
            # An overwrite does not look for its keys: none may be in a partition that stays.
            kept = {row.id for row in self.model.rows.values() if row.city not in gone}
            rows = [row for row in rows if not (self.model.is_global and row.id in kept)]
        write = self.table.insert_overwrite_table if whole else self.table.insert_overwrite
        result = write(arrow(rows))
        self.model.drop(gone)
        self.model.insert(rows, result.instant)
        self._remember(result)

    @precondition(lambda self: self.past)
    @rule(data=st.data())
    def read_the_past(self, data: st.DataObject) -> None:
        instant, _, rows = data.draw(st.sampled_from(self.past))
        assert self._rows(self.table.scan(as_of=instant).to_arrow()) == sorted(rows, key=repr)

    @precondition(lambda self: self.past)
    @rule(data=st.data())
    def read_changes(self, data: st.DataObject) -> None:
        end = data.draw(st.integers(0, len(self.past) - 1))
        begin = data.draw(st.integers(-1, end))
        written = {instant for instant, _, _ in self.past[begin + 1 : end + 1]}
        after = None if begin < 0 else self.past[begin][1]

        changes = self.table.changes(after, self.past[end][1]).to_arrow()

        assert self._rows(changes) == sorted((row for row in self.past[end][2] if row[5] in written), key=repr)

    @invariant()
    def a_reader_sees_the_model(self) -> None:
        if not hasattr(self, "model"):
            return
        expected = sorted((row.values for row in self.model.rows.values()), key=repr)
        assert self._rows(self.table.scan().to_arrow()) == expected

    def teardown(self) -> None:
        if hasattr(self, "storage"):
            audit(self.storage)

    def _rows(self, table: pa.Table) -> list[tuple[Any, ...]]:
        rows = table.select([*SCHEMA.names, "_hoodie_commit_time"]).to_pylist()
        return sorted((tuple(row.values()) for row in rows), key=repr)


class MergeOnReadLife(RuleBasedStateMachine):
    """A merge-on-read table whose writers, compactors and rollbacks die at random effects.

    Records that were deleted once come back only with a higher ordering value: until the deletion is compacted it
    stands in the way of lower ones, by the rule of the merge mode.
    """

    version: ClassVar[int] = 9
    index: ClassVar[str] = "SIMPLE"

    @initialize()
    def create(self) -> None:
        self.clock = StepClock()
        self.storage = MemoryStorage(clock=self.clock.now_ms)
        self.options = {
            "hoodie.index.type": self.index,
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
            "hoodie.combine.before.insert": "true",
            "hoodie.datasource.insert.dup.policy": "drop",
            "hoodie.index.bloom.num_entries": "10",
            "hoodie.compact.inline": "false",
            # With room in small files new records would rewrite base files all the time, and logs be rare.
            "hoodie.parquet.small.file.limit": "0" if self.version != 8 else "104857600",
        }
        kind = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
        self.table = self._on(
            new_table(self.storage, version=self.version, schema=SCHEMA, **self.options, **kind).handle.state.storage
        )
        self.model = Model(is_global=self.index.startswith("GLOBAL"), null_is_zero=self.version > 6)
        self.turn = 0
        self.deleted: set[Any] = set()
        self.past: list[tuple[str, dict[Any, Record]]] = [("", {})]
        self.writes_since_compaction = 0
        first = [Record(number, HOMES[number % 3], 0, "first") for number in range(10)]
        self._write(lambda table: table.insert(arrow(first)), lambda instant: self.model.insert(first, instant), None)

    def _on(self, storage: Storage) -> pyhudi.HudiTable:
        return rehandled(open_table(storage, **self.options), engine=SplitEngine(), environment=environment(self.clock))

    def _dated(self, rows: Rows) -> Rows:
        """The rows with ordering values above all before; some that were never deleted stay as old as drawn."""
        self.turn += 1
        known = self.deleted | {self.model.identity(row) for row in rows if row.is_deleted}
        moved = {row.id for row in self.model.rows.values()} if self.model.is_global else set()
        return [
            row
            if row.ts == 0 and self.model.identity(row) not in known and row.id not in moved
            else replace(row, ts=10 * self.turn + (row.ts or 0))
            for row in rows
        ]

    def _after(self, instant: str) -> None:
        self.past.append((instant, dict(self.model.rows)))
        self.writes_since_compaction += 1

    @rule(rows=known_mixed_batches, dies_at=deaths)
    def upsert(self, rows: Rows, dies_at: int | None) -> None:
        rows = self._dated(rows)
        self._write(lambda table: table.upsert(arrow(rows)), lambda instant: self.model.upsert(rows, instant), dies_at)
        self.deleted |= {self.model.identity(row) for row in rows if row.is_deleted}

    @rule(rows=known_batches, dies_at=deaths)
    def delete(self, rows: Rows, dies_at: int | None) -> None:
        keys = arrow(rows).select(["id", "city"])

        def remove(instant: str) -> None:
            del instant
            for row in rows:
                self.model.rows.pop(self.model.identity(row), None)

        self._write(lambda table: table.delete(keys), remove, dies_at)
        self.deleted |= {self.model.identity(row) for row in rows}

    @rule(rows=known_batches, dies_at=deaths)
    def insert_what_is_new(self, rows: Rows, dies_at: int | None) -> None:
        rows = self._dated(rows)
        self._write(lambda table: table.insert(arrow(rows)), lambda instant: self.model.insert(rows, instant), dies_at)

    @rule(row=records, dies_at=deaths)
    def overwrite_partition(self, row: Record, dies_at: int | None) -> None:
        (row,) = self._dated([row])
        elsewhere = {one.id for one in self.model.rows.values() if one.city != row.city}
        if self.model.is_global and row.id in elsewhere:
            return

        def overwrite(instant: str) -> None:
            self.deleted |= {self.model.identity(one) for one in self.model.rows.values() if one.city == row.city}
            self.model.drop([row.city])
            self.model.insert([row], instant)

        self._write(lambda table: table.insert_overwrite(arrow([row])), overwrite, dies_at)

    @precondition(lambda self: self.writes_since_compaction > 1)
    @rule(dies_at=deaths)
    def compact(self, dies_at: int | None) -> None:
        if self._run(lambda table: table.services.compact(), dies_at):
            self._recover()
            self.table.services.compact()
        self.writes_since_compaction = 0
        timeline = self.table.refresh().handle.state.timeline
        assert not timeline.pending_compactions
        optimized = self.table.refresh().scan(query_type="read_optimized").to_arrow()
        assert self._rows(optimized) == self._expected()

    @precondition(lambda self: self.writes_since_compaction > 0)
    @rule(dies_at=deaths)
    def schedule_compaction(self, dies_at: int | None) -> None:
        if self._run(lambda table: table.services.schedule(), dies_at):
            self._recover()

    @rule(dies_at=deaths)
    def take_the_last_write_back(self, dies_at: int | None) -> None:
        """Refused only where something came after it: then nothing changes."""
        instant, _ = self.past[-1]
        timeline = self.table.refresh().handle.state.timeline
        newest = max(timeline.completed_writes, key=position_of, default=None)
        if newest is None or newest.requested_time != instant:
            return
        if any(one.requested_time > instant and one.state is not InstantState.COMPLETED for one in timeline.instants):
            return
        died = self._run(lambda table: table.recovery.rollback(instant), dies_at)
        if died:
            self._recover()
            self.table.recovery.roll_back_failed_writes()
        if self.table.refresh().recovery.outcome_of(instant) == "rolled back":
            self.past.pop()
            self.deleted |= self.model.rows.keys()
            self.model.rows = dict(self.past[-1][1])
        else:
            assert died

    @precondition(lambda self: len(self.past) > 1)
    @rule(data=st.data())
    def read_the_past(self, data: st.DataObject) -> None:
        instant, rows = data.draw(st.sampled_from(self.past[1:]))
        found = self.table.refresh().scan(as_of=instant).to_arrow()
        assert self._rows(found) == sorted((row.values for row in rows.values()), key=repr)

    @invariant()
    def a_reader_sees_the_model(self) -> None:
        if hasattr(self, "model"):
            assert self._rows(self.table.refresh().scan().to_arrow()) == self._expected()

    def teardown(self) -> None:
        if hasattr(self, "storage"):
            self._recover()
            self.table.recovery.roll_back_failed_writes()
            assert_nothing_left_over(self.storage, folders=TEMPORARY_FOLDERS[:2])

    def _write(
        self,
        write: Callable[[pyhudi.HudiTable], pyhudi.WriteResult],
        change: Callable[[str], None],
        dies_at: int | None,
    ) -> None:
        """Run a write that may die, and change the model if it is committed; the next writer finds the dead."""
        known = self.table.refresh().handle.state.timeline.completed_times
        if self._run(write, dies_at):
            self._recover()
        for instant in self.table.refresh().handle.state.timeline.completed_times - known:
            change(instant)
            self._after(instant)

    def _run(self, action: Callable[[pyhudi.HudiTable], object], dies_at: int | None) -> bool:
        """Run something that may die at one of its effects; whether it did."""
        if dies_at is None:
            action(self.table.refresh())
            return False
        storage = FaultStorage(self.storage, before=at_effect(dies_at, SimulatedCrash()))
        with suppress(SimulatedCrash):
            action(self._on(storage))
        return storage.is_dead

    def _recover(self) -> None:
        """Let so much time pass that the dead are known to be dead."""
        self.clock.ms += 3_600_000

    def _expected(self) -> list[tuple[Any, ...]]:
        return sorted((row.values for row in self.model.rows.values()), key=repr)

    def _rows(self, table: pa.Table) -> list[tuple[Any, ...]]:
        rows = table.select([*SCHEMA.names, "_hoodie_commit_time"]).to_pylist()
        return sorted((tuple(row.values()) for row in rows), key=repr)


def _life(version: int, index: str, kind: type[RuleBasedStateMachine] = TableLife) -> type:
    machine = type(f"{kind.__name__}{version}{index}", (kind,), {"version": version, "index": index})
    case = machine.TestCase  # type: ignore[attr-defined]
    # No shrinking: a life of twelve steps can be read as it is, and shrinking one takes minutes.
    case.settings = settings(
        phases=[Phase.reuse, Phase.generate],
        max_examples=9,
        stateful_step_count=12,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    return case  # type: ignore[no-any-return]


TestVersion6Simple = _life(6, "SIMPLE")
TestVersion8Bloom = _life(8, "BLOOM")
TestVersion9GlobalSimple = _life(9, "GLOBAL_SIMPLE")
TestVersion9GlobalBloom = _life(9, "GLOBAL_BLOOM")
TestMergeOnReadVersion6Simple = _life(6, "SIMPLE", MergeOnReadLife)
TestMergeOnReadVersion8GlobalSimple = _life(8, "GLOBAL_SIMPLE", MergeOnReadLife)
TestMergeOnReadVersion9Bloom = _life(9, "BLOOM", MergeOnReadLife)
