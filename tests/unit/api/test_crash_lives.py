"""Random lives of tables that capture their changes: all writes, changes of columns, services, versions, and deaths.

After each step the rows are those of a model in plain Python, and so are the captured changes, one after the other.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.crashes import TEMPORARY_FOLDERS
from tests.support.tables import DELETE_FLAG, MOR, SplitEngine, StepClock, environment, new_table, open_table, rehandled

import pyhudi
from pyhudi.api.writes import write_rows
from pyhudi.format.keys.partition_pattern import PartitionPattern
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.timeline import position_of
from pyhudi.testing.faults import FaultStorage, SimulatedCrash, at_effect

SCHEMA = pa.schema(
    [("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64()), ("note", pa.string()), ("count", pa.int32())]
)
FLAGGED = SCHEMA.append(DELETE_FLAG)
CITIES = ("oslo", "rome", "bern")
BY_IDS = {"hoodie.schema.on.read.enable": "true"}
WIDER = {pa.int32(): pa.int64(), pa.int64(): pa.string()}
SERVICES = ("compact", "schedule", "cluster", "clean", "archive")
LATER_MS = 3_600_000

Rows = dict[tuple[int, str], dict[str, Any]]
Step = Callable[[pyhudi.HudiTable], object]


@dataclass
class Life:
    """A table, the rows that it must have, and what its follower has made of the captured changes.

    `texts`: whether the column `count` holds texts by now.
    """

    seed: int
    kind: str
    version: int
    options: dict[str, str] = field(default_factory=dict)
    rows: Rows = field(default_factory=dict)
    turn: int = 0
    trace: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(f"{self.seed} {self.kind} {self.version}")  # nothing is secret here
        self.clock = StepClock()
        self.storage = MemoryStorage(clock=self.clock.now_ms)
        buckets = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
        table = {
            "hoodie.table.cdc.enabled": "true",
            "hoodie.table.cdc.supplemental.logging.mode": self.chance.choice(
                ["DATA_BEFORE_AFTER", "DATA_BEFORE", "OP_KEY_ONLY"]
            ),
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
            **(MOR if self.kind == "mor" else {}),
            **self.chance.choice([{}, {"hoodie.index.type": "BLOOM"}, buckets]),
        }
        self.options = {
            **{key: value for key, value in table.items() if key.startswith(("hoodie.index", "hoodie.bucket"))},
            "hoodie.compact.inline": "false",
            "hoodie.parquet.small.file.limit": self.chance.choice(["0", "104857600"]),
            "hoodie.clean.commits.retained": "200",
            "hoodie.keep.min.commits": "3",
            "hoodie.keep.max.commits": "4",
            "hoodie.archive.automatic": "false",
            "hoodie.clean.automatic": "false",
        }
        new_table(self.storage, version=self.version, schema=FLAGGED, **table)
        self.follower: Rows = {}
        self.position: str | None = None

    def table(self, storage: Storage | None = None) -> pyhudi.HudiTable:
        opened = open_table(storage or self.storage, **self.options)
        return rehandled(opened, engine=SplitEngine(), environment=environment(self.clock))

    @property
    def schema(self) -> pa.Schema:
        return self.table().schema

    @property
    def is_bucketed(self) -> bool:
        return self.options.get("hoodie.index.type") == "BUCKET"

    # -- what there is to do ---------------------------------------------------------------------------------------

    def fresh(self, ids: list[int], *, new: bool = False) -> list[dict[str, Any]]:
        """Rows for these records; a known record stays where it is, unless a `new` one is asked for."""
        schema, found = self.schema, {}
        for one in ids:
            city = CITIES[one % 3] if not new else self.chance.choice(CITIES)
            row = dict.fromkeys(schema.names)
            row |= {"id": one, "city": city, "ts": self.turn * 10, DELETE_FLAG.name: False}
            for name in {"note", "remark", "extra"} & {*schema.names}:
                row[name] = self.chance.choice(["a", "b", None])
            if "count" in schema.names:
                row["count"] = self.turn if schema.field("count").type != pa.string() else str(self.turn)
            found[one, city] = row
        return list(found.values())

    def arrow(self, rows: list[dict[str, Any]]) -> pa.Table:
        return pa.Table.from_pylist(rows, self.schema)

    def ids(self) -> list[int]:
        return sorted(self.chance.sample(range(12), self.chance.randint(1, 4)))

    def upsert(self) -> tuple[Step, Rows]:
        rows = self.fresh(self.ids())
        for row in rows:
            row[DELETE_FLAG.name] = self.chance.random() < 0.25
        after = dict(self.rows)
        for row in rows:
            after.pop(_key(row), None)
            after |= {} if row[DELETE_FLAG.name] else {_key(row): row}
        batch = self.arrow(rows)
        return lambda table: table.upsert(batch), after

    def insert(self, verb: str) -> tuple[Step, Rows]:
        first = 100 * self.turn
        rows = self.fresh([first, first + 1, first + 2])
        batch = self.arrow(rows)
        return lambda table: getattr(table, verb)(batch), {**self.rows, **{_key(row): row for row in rows}}

    def delete(self) -> tuple[Step, Rows]:
        rows = self.fresh(self.ids())
        gone = {_key(row) for row in rows}
        keys = self.arrow(rows).select(["id", "city"])
        return lambda table: table.delete(keys), {key: row for key, row in self.rows.items() if key not in gone}

    def overwrite(self, verb: str) -> tuple[Step, Rows]:
        first = 100 * self.turn
        rows = self.fresh([first])
        batch = self.arrow(rows)
        gone = {rows[0]["city"]}
        if verb == "insert_overwrite_table":
            gone = {city for _, city in self.rows}
        kept = {key: row for key, row in self.rows.items() if key[1] not in gone}
        if verb != "named":
            return lambda table: getattr(table, verb)(batch), {**kept, _key(rows[0]): rows[0]}
        other = self.chance.choice(CITIES)
        kept = {key: row for key, row in kept.items() if key[1] != other}
        pattern = PartitionPattern((f"city={other}",))
        action = WriteOperation.INSERT_OVERWRITE
        return lambda table: write_rows(table.handle, batch, action, None, overwritten=pattern), {
            **kept,
            _key(rows[0]): rows[0],
        }

    def drop(self) -> tuple[Step, Rows] | None:
        there = sorted({city for _, city in self.rows})
        if not there:
            return None
        city = self.chance.choice(there)
        kept = {key: row for key, row in self.rows.items() if key[1] != city}
        return lambda table: table.delete_partition(f"city={city}"), kept

    def merge(self) -> tuple[Step, Rows]:
        rows = self.fresh([*self.ids(), 100 * self.turn])
        batch = self.arrow(rows)
        deletes, alone = self.chance.random() < 0.5, self.chance.random() < 0.3
        after = {
            key: {**row, "ts": self.turn * 10} if alone else row
            for key, row in self.rows.items()
            if key not in {_key(row) for row in rows}
        }
        for row in rows:
            is_deleted = deletes and _key(row) in self.rows and row["id"] % 2 == 0
            after |= {} if is_deleted else {_key(row): row}
        ts = self.turn * 10

        def step(table: pyhudi.HudiTable) -> None:
            made = table.merge(batch, on=["id", "city"])
            if deletes:
                even = pc.equal(pc.bit_wise_and(pc.field("source.id"), pc.scalar(1)), pc.scalar(0))
                made = made.when_matched_delete(condition=even)
            made = made.when_matched_update_all().when_not_matched_insert_all()
            if alone:
                made = made.when_not_matched_by_source_update(set={"ts": pc.scalar(ts)})
            made.execute()

        return step, after

    def update(self) -> tuple[Step, Rows]:
        below, ts = self.chance.randint(0, 12), self.turn * 10
        after = {key: {**row, "ts": ts} if key[0] < below else row for key, row in self.rows.items()}
        return lambda table: table.update({"ts": pc.scalar(ts)}, [("id", "<", below)]), after

    def move(self) -> tuple[Step, Rows] | None:
        known = [key for key in self.rows if (key[0], "wien") not in self.rows]
        if not known:
            return None
        old = self.chance.choice(known)
        after = {key: row for key, row in self.rows.items() if key != old}
        after[old[0], "wien"] = {**self.rows[old], "city": "wien"}
        where = [("id", "==", old[0]), ("city", "==", old[1])]
        return lambda table: table.update({"city": pc.scalar("wien")}, where), after

    def delete_where(self) -> tuple[Step, Rows]:
        one = self.chance.randint(0, 12)
        return lambda table: table.delete_where([("id", "==", one)]), {
            key: row for key, row in self.rows.items() if key[0] != one
        }

    def alter(self, verb: str) -> tuple[Step, Rows] | None:
        schema = self.schema
        name = "note" if "note" in schema.names else "remark"
        if verb == "add" and "extra" not in schema.names:
            return lambda table: table.alter.add_column("extra", pa.string()), self._with(
                lambda row: {**row, "extra": None}
            )
        if verb == "drop column" and "extra" in schema.names:
            return lambda table: table.alter.drop_column("extra", hudi_options=BY_IDS), self._with(
                lambda row: {key: value for key, value in row.items() if key != "extra"}
            )
        if verb == "rename":
            to = {"note": "remark", "remark": "note"}[name]
            return lambda table: table.alter.rename_column(name, to, hudi_options=BY_IDS), self._with(
                lambda row: {to if key == name else key: value for key, value in row.items()}
            )
        if verb == "widen" and (wider := WIDER.get(schema.field("count").type)) is not None:
            text = str if wider == pa.string() else int
            return lambda table: table.alter.change_type("count", wider), self._with(
                lambda row: {**row, "count": None if row["count"] is None else text(row["count"])}
            )
        return None

    def _with(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Rows:
        return {key: change(row) for key, row in self.rows.items()}

    def service(self, verb: str) -> tuple[Step, Rows] | None:
        if verb in {"compact", "schedule"} and self.kind == "cow":
            return None
        return lambda table: getattr(table.services, verb)(), self.rows

    def version_change(self) -> tuple[Step, Rows] | None:
        number = self.table().handle.state.version.number
        if number == 6 or self.table().handle.state.timeline.pending_writes:
            return None
        to = 17 - number
        return lambda table: (table.alter.upgrade if to == 9 else table.alter.downgrade)(to=to), self.rows

    # -- living ----------------------------------------------------------------------------------------------------

    def steps(self) -> dict[str, Callable[[], tuple[Step, Rows] | None]]:
        steps: dict[str, Callable[[], tuple[Step, Rows] | None]] = {
            "upsert": self.upsert,
            "upsert again": self.upsert,
            "insert": lambda: self.insert("insert"),
            "bulk_insert": lambda: self.insert("bulk_insert"),
            "delete": self.delete,
            "overwrite": lambda: self.overwrite("insert_overwrite"),
            "overwrite named": lambda: self.overwrite("named"),
            "overwrite table": lambda: self.overwrite("insert_overwrite_table"),
            "drop": self.drop,
            "truncate": lambda: (lambda table: table.truncate(), {}),
            "merge": self.merge,
            "merge again": self.merge,
            "update": self.update,
            "move": self.move,
            "delete_where": self.delete_where,
            **{verb: functools.partial(self.alter, verb) for verb in ("add", "drop column", "rename", "widen")},
            **{verb: functools.partial(self.service, verb) for verb in SERVICES},
            "version": self.version_change,
        }
        if self.is_bucketed:
            del steps["cluster"]
        return steps

    def go_on(self) -> None:
        self.turn += 1
        steps = self.steps()
        name = self.chance.choice(sorted(steps))
        if (found := steps[name]()) is None:
            return
        act, after = found
        dies_at = self.chance.choice([None, None, self.chance.randint(1, 40)])
        self.trace.append(f"{self.turn}: {name}{'' if dies_at is None else f', dies at {dies_at}'}")
        died = self._run(act, dies_at)
        found_rows = self.snapshot()
        if died:
            assert found_rows in (_shown(self.rows), _shown(after)), name
            self.rows = after if found_rows == _shown(after) else self.rows
            self.clock.ms += LATER_MS
            self.table().recovery.roll_back_failed_writes()
            for instant in self.table().services.pending()["instant"].to_pylist():
                if name != "schedule":
                    self.table().services.run(instant)
        else:
            self.rows = after
        assert self.snapshot() == _shown(self.rows), name
        self.check_follower()

    def _run(self, act: Step, dies_at: int | None) -> bool:
        if dies_at is None:
            act(self.table())
            return False
        storage = FaultStorage(self.storage, before=at_effect(dies_at, SimulatedCrash()))
        with suppress(SimulatedCrash):
            act(self.table(storage))
        return storage.is_dead

    def snapshot(self) -> list[str]:
        return sorted(repr(sorted(row.items())) for row in map(_own, self.table().scan().to_arrow().to_pylist()))

    def check_follower(self) -> None:
        """Apply what is new; after a change of columns all changes, which then have the columns of today."""
        table = self.table()
        columns = {name for row in self.follower.values() for name in row}
        if (columns and columns != {*table.schema.names} - {DELETE_FLAG.name}) or "widen" in self.trace[-1]:
            self.follower, self.position = {}, None
        for change in table.changes(self.position, format="cdc_typed").to_arrow().to_pylist():
            if change["before"] is not None:
                before = _own(change["before"])
                assert self.follower.pop(_key(before)) == before, change
            if change["after"] is not None:
                after = _own(change["after"])
                assert _key(after) not in self.follower, change
                self.follower[_key(after)] = after
        self.position = max(map(position_of, table.handle.state.timeline.completed_writes), default=self.position)
        assert _shown(self.follower) == _shown(self.rows)


def _key(row: dict[str, Any]) -> tuple[int, str]:
    return row["id"], row["city"]


def _own(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not name.startswith("_hoodie")}


def _shown(rows: Rows) -> list[str]:
    return sorted(repr(sorted(_own(row).items())) for row in rows.values())


def live(seed: int, kind: str, version: int, steps: int) -> None:
    """A life of so many steps."""
    life = Life(seed, kind, version)
    try:
        for _ in range(steps):
            life.go_on()
        life.clock.ms += LATER_MS
        life.table().upsert(life.arrow(life.fresh([1])))
        assert not [info.path for folder in TEMPORARY_FOLDERS for info in life.storage.list_recursive(folder)]
    except BaseException as error:
        error.add_note(f"seed {seed}, {kind}, version {version}, {life.options}: " + "; ".join(life.trace))
        raise


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", [9, 8, 6])
def test_in_a_life_with_deaths_the_rows_and_the_captured_changes_are_those_of_a_model(kind: str, version: int) -> None:
    for seed in (1, 2):
        live(seed, kind, version, steps=12)
