"""Random lives of tables whose columns change, against a model: writes, changes, compactions and clusterings."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from tests.support.tables import StepClock, environment, new_table, open_table

import pyhudi
from pyhudi.storage.memory import MemoryStorage

OPTIONS = {
    "hoodie.schema.on.read.enable": "true",
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.parquet.small.file.limit": "0",
}
WIDER = {pa.int32(): pa.int64(), pa.int64(): pa.string(), pa.string(): pa.string()}
CITIES = ("oslo", "rome")
STEPS = 22


@dataclass
class Column:
    """A column of the model: its name and type of today, and those inside of it if it is a struct."""

    id: int
    name: str
    type: pa.DataType = field(default_factory=pa.int32)
    inside: list[Column] = field(default_factory=list)
    wraps: str = ""

    @property
    def arrow(self) -> pa.DataType:
        if not self.inside:
            return self.type
        struct = pa.struct([pa.field(one.name, one.arrow) for one in self.inside])
        return {"list": pa.list_(struct), "map": pa.map_(pa.string(), struct)}.get(self.wraps, struct)

    @property
    def part(self) -> str:
        return {"list": ".element", "map": ".value"}.get(self.wraps, "")

    def shown(self, value: Any) -> Any:
        """A value as it is read today: `value` is a number, or those of the columns inside by id."""
        if value is None:
            return None
        if not self.inside:
            return str(value) if pa.types.is_string(self.type) else value
        struct = {one.name: one.shown(value.get(one.id)) for one in self.inside}
        return {"list": [struct], "map": [("k", struct)]}.get(self.wraps, struct)

    def value(self, chance: random.Random) -> Any:
        if self.inside:
            return {one.id: one.value(chance) for one in self.inside}
        return chance.randrange(1000)


class Life:
    """A table and what it should hold."""

    def __init__(self, seed: int, kind: str, version: int) -> None:
        self.chance = random.Random(f"{seed} {kind} {version}")
        self.kind = kind
        self.ids = 0
        inside = {name: [self.column(), self.column()] for name in ("", "list", "map")}
        self.columns = [self.column(), self.column(), *(self.column(part, wraps) for wraps, part in inside.items())]
        self.rows: dict[int, dict[int, Any]] = {}
        self.cities: dict[int, str] = {}
        self.storage = MemoryStorage()
        kinds = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
        options = {"hoodie.datasource.write.table.type": kinds[kind]}
        new_table(self.storage, version=version, schema=self.schema, **options)
        self.clock = StepClock()
        self.times: dict[int, int] = {}
        self.previous: set[str] = set()
        self.upsert(range(8))

    def column(self, inside: list[Column] | None = None, wraps: str = "") -> Column:
        self.ids += 1
        return Column(self.ids, f"c{self.ids}", inside=inside or [], wraps=wraps)

    @property
    def table(self) -> pyhudi.HudiTable:
        return open_table(self.storage, env=environment(self.clock), **OPTIONS)

    @property
    def schema(self) -> pa.Schema:
        own = [pa.field(one.name, one.arrow) for one in self.columns]
        return pa.schema([("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64()), *own])

    def upsert(self, keys: Any) -> None:
        for key in keys:
            self.rows[key] = {one.id: one.value(self.chance) for one in self.columns}
            self.cities.setdefault(key, self.chance.choice(CITIES))
            self.times[key] = self.times.get(key, 0) + 1
        rows = [row for row in self.expected() if row["id"] in keys]
        self.table.upsert(pa.Table.from_pylist(rows, schema=self.schema))

    def expected(self) -> list[dict[str, Any]]:
        return [
            {
                "id": key,
                "city": self.cities[key],
                "ts": self.times[key],
                **{one.name: one.shown(row.get(one.id)) for one in self.columns},
            }
            for key, row in sorted(self.rows.items())
        ]

    def step(self) -> None:
        act = self.chance.choice(("upsert", "upsert", "delete", "add", "drop", "rename", "widen", "move", "service"))
        siblings, prefix = self.chance.choice(
            [(self.columns, ""), *((one.inside, f"{one.name}{one.part}.") for one in self.columns if one.inside)]
        )
        one = self.chance.choice(siblings)
        alter = self.table.alter
        if act == "upsert":
            self.upsert(self.chance.sample(range(12), 3))
        elif act == "delete" and self.rows:
            key = self.chance.choice(sorted(self.rows))
            del self.rows[key]
            self.table.delete(pa.table({"id": [key], "city": [self.cities[key]], "ts": [self.times[key]]}))
        elif act == "add":
            # Under a name that an older column had, if there is one.
            new = self.column()
            free = sorted(self.previous - {each.name for each in siblings})
            new.name = self.chance.choice(free) if free else new.name
            siblings.append(new)
            alter.add_column(prefix + new.name, new.arrow)
        elif act == "drop" and len(siblings) > 1:
            siblings.remove(one)
            self.previous.add(one.name)
            alter.drop_column(prefix + one.name)
        elif act == "rename":
            name = one.name
            self.previous.add(name)
            self.ids += 1
            one.name = f"c{self.ids}"
            alter.rename_column(prefix + name, one.name)
        elif act == "widen" and not one.inside:
            one.type = WIDER[one.type]
            alter.change_type(prefix + one.name, one.type)
        elif act == "move" and len(siblings) > 1:
            siblings.remove(one)
            behind = self.chance.choice(siblings)
            siblings.insert(siblings.index(behind) + 1, one)
            alter.move_column(prefix + one.name, after=behind.name)
        elif act == "service":
            self.table.services.cluster() if self.kind == "cow" else self.table.services.compact()

    def check(self) -> None:
        table = self.table
        found = sorted(table.scan(table.schema.names).to_arrow().to_pylist(), key=lambda r: r["id"])
        assert found == self.expected()
        own = [name for name in table.schema.names if name not in ("id", "city", "ts")]
        assert own == [one.name for one in self.columns]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("kind", "version"), [("cow", 9), ("mor", 9), ("mor", 8), ("cow", 6), ("mor", 6)])
def test_a_table_holds_its_rows_whatever_happens_to_its_columns(seed: int, kind: str, version: int) -> None:
    life = Life(seed, kind, version)
    for _ in range(STEPS):
        life.step()
        life.check()
