"""Random lives of a table against a dictionary: all rows at all times, for every table version."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.audit import audit
from tests.support.tables import SplitEngine, StepClock, environment, new_table

import pyhudi
from pyhudi.errors import InvalidRequestError
from pyhudi.storage.memory import MemoryStorage

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
mixed_batches = st.lists(st.one_of(records, deletions), min_size=1, max_size=8)


def arrow(rows: Iterable[Record]) -> pa.Table:
    columns = list(zip(*(row.values[:5] for row in rows), strict=True)) or [()] * 5
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


class Model:
    """The rows of a table by identity: key and city, or key alone under a global index."""

    def __init__(self, *, is_global: bool) -> None:
        self.is_global = is_global
        self.rows: dict[Any, Record] = {}

    def identity(self, row: Record) -> Any:
        return row.id if self.is_global else (row.id, row.city)

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
            if stored is not None and row.age < stored.age:
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
        self.table = replace(table, engine=SplitEngine(), environment=environment(StepClock()))
        self.model = Model(is_global=self.index.startswith("GLOBAL"))
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
            arrow(fresh), **{"hoodie.bulkinsert.sort.mode": sort, "hoodie.combine.before.insert": False}
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
        if path not in self.table.files().column("partition_path").to_pylist():
            with pytest.raises(InvalidRequestError, match="no partition"):
                self.table.delete_partition(path)
            return
        result = self.table.delete_partition(path)
        self.model.drop([city])
        self._remember(result)

    @rule(rows=batches, whole=st.booleans())
    def overwrite(self, rows: Rows, whole: bool) -> None:
        rows = self.model.combined(rows) if self.model.is_global else rows
        gone = {"oslo", "rome", None} if whole else {row.city for row in rows}
        kept = {row.id for row in self.model.rows.values() if row.city not in gone}
        rows = [row for row in rows if not (self.model.is_global and row.id in kept)]
        gone = gone if whole else {row.city for row in rows}
        write = self.table.insert_overwrite_table if whole else self.table.insert_overwrite
        result = write(arrow(rows))
        self.model.drop(gone)
        self.model.insert(rows, result.instant)
        self._remember(result)

    @precondition(lambda self: self.past)
    @rule(data=st.data())
    def read_the_past(self, data: st.DataObject) -> None:
        instant, _, rows = data.draw(st.sampled_from(self.past))
        assert self._rows(self.table.to_arrow(as_of=instant)) == sorted(rows, key=repr)

    @precondition(lambda self: self.past)
    @rule(data=st.data())
    def read_changes(self, data: st.DataObject) -> None:
        end = data.draw(st.integers(0, len(self.past) - 1))
        begin = data.draw(st.integers(-1, end))
        written = {instant for instant, _, _ in self.past[begin + 1 : end + 1]}
        after = None if begin < 0 else self.past[begin][1]

        changes = self.table.changes(after, self.past[end][1])

        assert self._rows(changes) == sorted((row for row in self.past[end][2] if row[5] in written), key=repr)

    @invariant()
    def a_reader_sees_the_model(self) -> None:
        if not hasattr(self, "model"):
            return
        expected = sorted((row.values for row in self.model.rows.values()), key=repr)
        assert self._rows(self.table.to_arrow()) == expected

    def teardown(self) -> None:
        if hasattr(self, "storage"):
            audit(self.storage)

    def _rows(self, table: pa.Table) -> list[tuple[Any, ...]]:
        rows = table.select([*SCHEMA.names, "_hoodie_commit_time"]).to_pylist()
        return sorted((tuple(row.values()) for row in rows), key=repr)


def _life(version: int, index: str) -> type:
    machine = type(f"Life{version}{index}", (TableLife,), {"version": version, "index": index})
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
