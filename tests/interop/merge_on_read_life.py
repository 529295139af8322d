"""The life of a merge-on-read table: writes, and compactions that either side plans and either side runs."""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
from tests.interop.life import Maker, Operation, Turn
from tests.interop.shapes import Shape


class Service(enum.Enum):
    """What is done to a table besides writing."""

    COMPACT = "plan a compaction and run it"
    SCHEDULE = "plan a compaction"
    RUN = "run the compaction that is planned"


class Side(enum.Enum):
    """Who takes a step: a life is written for two parties, and lived with the parts given both ways."""

    A = "a"
    B = "b"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a life."""

    side: Side
    does: Turn | Service

    def __str__(self) -> str:
        return self.does.operation.value if isinstance(self.does, Turn) else self.does.value


def merge_on_read_life_of(shape: Shape, *, seed: int = 7) -> list[Step]:
    """Updates, late ones too, deletes of every kind, keys that come back, and writes over pending plans.

    Version 6 has no late deletes: whether one takes effect depends there on where the record lies.
    """
    make = Maker(shape, random.Random(seed))
    first, second, third = shape.cities
    late = 1 if shape.late_rows_lose else 0
    late_deletes = 2 if shape.table_version > 6 else 0
    a, b = Side.A, Side.B
    overwritten = (
        (Operation.INSERT_OVERWRITE, (second,)) if shape.partition_by else (Operation.INSERT_OVERWRITE_TABLE, (third,))
    )
    return [
        Step(a, make.new(Operation.BULK_INSERT, 24, (first, second))),
        Step(b, make.change(updates=8, late=2 * late, inserts=4)),
        Step(a, make.remove(3)),
        Step(b, make.change(updates=4, late=late, deletes=2, late_deletes=late_deletes)),
        Step(a, Service.COMPACT),
        Step(b, make.change(updates=5, late=late, returns=3)),
        Step(a, make.change(updates=6, deletes=1)),
        Step(b, Service.SCHEDULE),
        Step(a, make.change(updates=6, inserts=3, deletes=1)),
        Step(b, make.remove(2)),
        Step(a, Service.RUN),
        Step(b, make.new(Operation.INSERT, 5, (first, third))),
        Step(a, make.new(overwritten[0], 7, overwritten[1])),
        Step(b, make.change(updates=4, late=late, inserts=2)),
        Step(a, make.change(updates=4)),
        Step(a, Service.SCHEDULE),
        Step(b, make.change(updates=5, returns=1)),
        Step(b, Service.RUN),
        Step(a, make.change(updates=3, late_deletes=late_deletes)),
    ]


def wild_life_of(shape: Shape, *, seed: int, steps: int = 10) -> list[Step]:
    """Random steps over ten keys with small ordering values: late ones, ties, deletes and returns in any order.

    What comes out depends on which versions lie in base files, so no simple model foretells it: JVM Hudi is the judge.
    """
    chance = random.Random(seed)
    row_of = RowMaker(shape)
    planned = False
    life = [Step(Side.A, Turn(Operation.BULK_INSERT, row_of.table([row_of(key, ts=5) for key in range(0, 10, 2)])))]
    while len(life) < steps:
        side = chance.choice(list(Side))
        choices: list[Operation | Service] = [*[Operation.UPSERT] * 6, *[Operation.DELETE] * 2]
        choices += [Service.RUN] * 2 if planned else [Service.COMPACT, Service.SCHEDULE]
        does = chance.choice(choices)
        if isinstance(does, Service) and not isinstance(life[-1].does, Turn):
            # There is nothing to compact.
            continue
        if isinstance(does, Service):
            planned = does is Service.SCHEDULE
            life.append(Step(side, does))
            continue
        keys = chance.sample(range(10), 5 if does is Operation.UPSERT else 2)
        rows = [
            row_of(key, ts=chance.randrange(1, 10), deleted=does is Operation.UPSERT and chance.random() < 0.3)
            for key in keys
        ]
        life.append(Step(side, Turn(does, row_of.table(rows))))
    return life


class RowMaker:
    """Rows of few keys, each in a partition of its own choice for good; every row says which one it is."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._made = 0

    def __call__(self, key: int, *, ts: int, deleted: bool = False) -> dict[str, object]:
        self._made += 1
        return {
            "id": f"k{key}",
            "region": key % 2,
            "city": self._shape.cities[key % 2],
            "year": 2024,
            "ts": ts,
            "fare": float(ts),
            "note": f"row {self._made}",
            "tags": [f"t{self._made}"] if self._made % 3 else None,
            "price": Decimal(self._made),
            "_hoodie_is_deleted": deleted,
        }

    def table(self, rows: list[dict[str, object]]) -> pa.Table:
        return pa.Table.from_pylist(rows, schema=self._shape.schema)
