"""Random histories with restores, rollbacks and savepoints, under every index, beside one that follows the changes.

Whatever was undone: the table has the rows of its model, each once; and `changes()` gives what a follower needs, from
each position that it may have, positions of writes that were undone among them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.support.audit import audit
from tests.support.indexes import CASES, IndexCase
from tests.support.tables import StepClock, environment, new_table, open_table, rows

import pyhudi
from pyhudi.errors import InvalidRequestError
from pyhudi.storage.memory import MemoryStorage

CITIES = ("oslo", "rome")
Values = tuple[int, str, int]
"""A row: key, city, and in the column `ts` the number of the write that has written it."""
Rows = dict[Any, Values]
"""By the identity of a row: its key, under an index that is not global with its city."""


@dataclass(frozen=True)
class Write:
    """A write that still counts, and all rows after it."""

    number: int
    result: pyhudi.WriteResult
    rows: Rows


CHANGES = ["upsert", "upsert all", "insert", "bulk_insert", "delete", "delete_partition"]
keys = st.lists(st.tuples(st.integers(0, 7), st.sampled_from(CITIES)), min_size=1, max_size=5)


class UndoneLife(RuleBasedStateMachine):
    """One table, and its rows after each write that still counts."""

    index: ClassVar[IndexCase]
    kind: ClassVar[str]
    version: ClassVar[int]

    @initialize()
    def create(self) -> None:
        moves = {self.index.moves_by: "true"} if self.index.moves_by else {}
        self.options = self.index.of(
            self.kind,
            **moves,
            **{
                "hoodie.table.cdc.enabled": "true",
                "hoodie.clean.automatic": "false",
                "hoodie.archive.automatic": "false",
                "hoodie.parquet.small.file.limit": "0",
                "hoodie.datasource.insert.dup.policy": "drop",
            },
        )
        self.storage, self.clock = MemoryStorage(), StepClock()
        new_table(self.storage, version=self.version, **self.options)
        self.turn = 0
        self.past: list[Write] = []
        self.undone: list[str] = []
        self.savepoints: list[str] = []
        # Twice, so that there is something to cluster; and not by the index, which so learns of it later.
        self.change("bulk_insert", [(n, CITIES[n % 2]) for n in range(3)])
        self.change("bulk_insert", [(n, CITIES[n % 2]) for n in range(3, 6)])

    @rule(kind=st.sampled_from(CHANGES), chosen=keys)
    def change(self, kind: str, chosen: list[tuple[int, str]]) -> None:
        """A write of a user's."""
        if kind == "upsert all":
            chosen = [row[:2] for row in self._rows().values()] or chosen
        if kind.startswith("upsert"):
            self._write(lambda table: table.upsert(self._batch(chosen)), self._with(chosen))
        elif kind == "insert":
            fresh = [each for each in chosen if self._identity(each) not in self._rows()]
            self._write(lambda table: table.insert(self._batch(chosen)), self._with(fresh))
        elif kind == "bulk_insert":
            fresh = [each for each in chosen if self._identity(each) not in self._rows()]
            if fresh:
                self._write(lambda table: table.bulk_insert(self._batch(fresh)), self._with(fresh))
        elif kind == "delete":
            gone = set(map(self._identity, chosen))
            self._write(lambda table: table.delete(self._batch(chosen)), self._without(lambda key, _: key in gone))
        else:
            city = chosen[0][1]
            if any(row[1] == city for row in self._rows().values()):
                rest = self._without(lambda _, row: row[1] == city)
                self._write(lambda table: table.delete_partition(f"city={city}"), rest)

    @rule()
    def rewrite(self) -> None:
        """A compaction or a clustering, which changes no row."""
        services = self._opened().services
        if self.kind == "mor" and self.turn % 2:
            services.compact()
        elif self.index.clusters:
            services.cluster()

    @rule(name=st.booleans())
    def savepoint(self, name: bool) -> None:
        """Make one, or delete the newest."""
        instant = self.past[-1].result.instant
        if name and instant not in self.savepoints:
            self._opened().savepoints.create(instant)
            self.savepoints.append(instant)
        elif self.savepoints:
            self._opened().savepoints.delete(self.savepoints.pop())

    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        """A restore, or the rollback of the newest write; then somebody upserts what is there."""
        number = data.draw(st.integers(0, len(self.past) - 1))
        target = self.past[number].result.instant
        table = self._opened()
        if {write.result.instant for write in self.past[number + 1 :]} & set(self.savepoints):
            with pytest.raises(InvalidRequestError, match="savepoint"):
                table.recovery.restore(target)
            return
        newest = table.handle.state.timeline.completed_writes[-1].requested_time
        if number == len(self.past) - 2 and newest == self.past[-1].result.instant:
            table.recovery.rollback(newest)
        else:
            table.recovery.restore(target)
        self.undone += [write.result.completion_time for write in self.past[number + 1 :]]
        del self.past[number + 1 :]
        self.change("upsert all", [(0, "oslo")])

    @rule(data=st.data())
    def follow(self, data: st.DataObject) -> None:
        """From a position of any time: the rows that were written since; and the changes since a state of then."""
        known = data.draw(st.sampled_from(self.past))
        position = data.draw(st.sampled_from([known.result.completion_time, *self.undone]))
        newer = {write.number for write in self.past if write.result.completion_time > position}
        found = self._opened().changes(position).to_arrow().to_pylist()
        assert sorted(map(_values, found)) == sorted(row for row in self._rows().values() if row[2] in newer)
        assert self._replayed(known) == self._rows()

    @invariant()
    def table_has_the_rows_of_the_model(self) -> None:
        if hasattr(self, "past"):
            found = self._opened().scan().to_arrow().to_pylist()
            assert sorted(map(_values, found)) == sorted(self._rows().values())

    def teardown(self) -> None:
        if hasattr(self, "past"):
            audit(self.storage)
            assert self._opened().inspect.metadata_check().num_rows == 0

    def _write(self, write: Callable[[pyhudi.HudiTable], pyhudi.WriteResult], rows_after: Rows) -> None:
        self.past.append(Write(self.turn, write(self._opened()), rows_after))
        self.turn += 1

    def _replayed(self, write: Write) -> Rows:
        """The rows after a write, with the changes since then."""
        known = dict(write.rows)
        for change in self._opened().changes(write.result.completion_time, format="cdc").to_arrow().to_pylist():
            before, after = (
                None if change[image] is None else json.loads(change[image]) for image in ("before", "after")
            )
            if before is not None:
                assert known.pop(self._identity((before["id"], before["city"]))) == _values(before)
            if after is not None:
                key = self._identity((after["id"], after["city"]))
                assert key not in known
                known[key] = _values(after)
        return known

    def _opened(self) -> pyhudi.HudiTable:
        return open_table(self.storage, env=environment(self.clock), **self.options)

    def _rows(self) -> Rows:
        return self.past[-1].rows if self.past else {}

    def _identity(self, row: tuple[int, str]) -> Any:
        return row[0] if self.index.is_global else row

    def _batch(self, chosen: list[tuple[int, str]]) -> pa.Table:
        """A row for each record; of several of one record the last one counts, by its column `ts`."""
        named = {self._identity(each): each for each in chosen}
        return rows(*((key, city, self.turn, "") for key, city in named.values()))

    def _with(self, chosen: list[tuple[int, str]]) -> Rows:
        return {**self._rows(), **{self._identity(each): (*each, self.turn) for each in chosen}}

    def _without(self, leaves: Any) -> Rows:
        return {key: row for key, row in self._rows().items() if not leaves(key, row)}


def _values(row: dict[str, Any]) -> Values:
    return row["id"], row["city"], row["ts"]


def _life(index: IndexCase, kind: str, version: int) -> type:
    name = f"UndoneLife{index}{kind}{version}"
    case = type(name, (UndoneLife,), {"index": index, "kind": kind, "version": version}).TestCase  # type: ignore[attr-defined]
    # No shrinking: a life can be read as it is, and shrinking one takes minutes.
    case.settings = settings(
        phases=[Phase.reuse, Phase.generate],
        max_examples=3,
        stateful_step_count=9,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    return case  # type: ignore[no-any-return]


for _number, (_index, _kind) in enumerate(CASES):
    _version = (9, 6, 8)[_number % 3]
    globals()[f"Test{_index}{_kind}{_version}".replace("-", "")] = _life(_index, _kind, _version)
