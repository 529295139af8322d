"""The life of a table: a fixed series of commits, and a plain Python model that says what must come out of it."""

from __future__ import annotations

import datetime as dt
import enum
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from tests.interop.shapes import Shape

Row = Mapping[str, Any]

#: The columns of the model's answer besides the data columns.
MODEL_META = ("_hoodie_commit_time", "_hoodie_record_key", "_hoodie_partition_path")


class Operation(enum.Enum):
    """Write operations, spelled as in `hoodie.datasource.write.operation`."""

    BULK_INSERT = "bulk_insert"
    INSERT = "insert"
    UPSERT = "upsert"
    DELETE = "delete"
    INSERT_OVERWRITE = "insert_overwrite"
    INSERT_OVERWRITE_TABLE = "insert_overwrite_table"
    DELETE_PARTITION = "delete_partition"


@dataclass(frozen=True, slots=True)
class Turn:
    """One commit. `rows` are full rows, also for deletes; `partition_paths` are those that DELETE_PARTITION removes."""

    operation: Operation
    rows: pa.Table
    partition_paths: tuple[str, ...] = ()


class ModelTable:
    """What the table must contain, kept in a dict; independent of any Hudi code."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._rows: dict[tuple[str, str], tuple[Row, int]] = {}
        self._commits = 0

    def apply(self, turn: Turn) -> None:
        """Take in one commit."""
        rows = [{"_hoodie_is_deleted": False, **row} for row in turn.rows.to_pylist()]
        touched = {self._shape.partition_path_of(row) for row in rows}
        match turn.operation:
            case Operation.DELETE:
                for row in rows:
                    self._rows.pop(self._key(row), None)
            case Operation.DELETE_PARTITION:
                self._drop(set(turn.partition_paths))
            case Operation.INSERT_OVERWRITE:
                self._drop(touched)
                self._put(rows)
            case Operation.INSERT_OVERWRITE_TABLE:
                self._rows.clear()
                self._put(rows)
            case _:
                self._put(rows)
        self._commits += 1

    def expected(self, instants: Sequence[str]) -> pa.Table:
        """All rows, with those meta columns that can be foretold; `instants` are the times of the commits so far."""
        assert len(instants) == self._commits, f"the timeline has {len(instants)} writes, the model {self._commits}"
        answer = [
            {"_hoodie_commit_time": instants[commit], "_hoodie_record_key": key, "_hoodie_partition_path": path, **row}
            for (path, key), (row, commit) in self._rows.items()
        ]
        schema = pa.schema([*((name, pa.string()) for name in MODEL_META), *self._shape.schema])
        return pa.Table.from_pylist(answer, schema=schema)

    def rows(self) -> list[Row]:
        """The rows there are, in the order of their keys."""
        return [row for _, (row, _) in sorted(self._rows.items())]

    def _put(self, rows: Sequence[Row]) -> None:
        for row in rows:
            key = self._key(row)
            stored = self._rows.get(key)
            if stored is not None and not self._wins(row, stored[0]):
                continue
            self._rows.pop(key, None)
            if not row["_hoodie_is_deleted"]:
                self._rows[key] = (row, self._commits)

    def _wins(self, incoming: Row, stored: Row) -> bool:
        return incoming["ts"] >= stored["ts"] or not self._shape.late_rows_lose

    def _drop(self, partition_paths: set[str]) -> None:
        self._rows = {key: row for key, row in self._rows.items() if key[0] not in partition_paths}

    def _key(self, row: Row) -> tuple[str, str]:
        return self._shape.partition_path_of(row), self._shape.record_key_of(row)


def life_of(shape: Shape, *, seed: int = 7) -> list[Turn]:
    """Eight commits that use every operation, with updates that come too late, nulls and new partitions."""
    makers = Maker(shape, random.Random(seed))
    first, second, third = shape.cities
    by_partition = bool(shape.partition_by)
    return [
        makers.new(Operation.BULK_INSERT, 24, shape.cities[:2]),
        makers.new(Operation.INSERT, 6, (first, third)),
        makers.change(updates=6, late=2, inserts=4),
        makers.remove(5),
        makers.new(Operation.INSERT_OVERWRITE, 7, (second,)),
        makers.change(updates=5, late=1, inserts=3),
        makers.remove_partition(first) if by_partition else makers.new(Operation.INSERT_OVERWRITE_TABLE, 9, (third,)),
        makers.change(updates=4, late=1, inserts=5),
    ]


class Maker:
    """Makes turns; keeps a model of its own to know which keys there are."""

    def __init__(self, shape: Shape, chance: random.Random) -> None:
        self._shape = shape
        self._chance = chance
        self._model = ModelTable(shape)
        self._made = 0
        self._gone: list[Row] = []

    def new(self, operation: Operation, count: int, cities: Sequence[str]) -> Turn:
        """Rows with keys that were never there."""
        return self._done(operation, [self._row(cities) for _ in range(count)])

    def change(
        self,
        *,
        updates: int,
        late: int = 0,
        inserts: int = 0,
        deletes: int = 0,
        late_deletes: int = 0,
        returns: int = 0,
    ) -> Turn:
        """An upsert. `late` ones have lower ordering values than what is there, `returns` keys that were deleted."""
        counts = {"update": updates, "late": late, "delete": deletes, "late delete": late_deletes}
        kinds = [kind for kind, count in counts.items() for _ in range(count)]
        chosen = self._chance.sample(self._model.rows(), len(kinds))
        rows: list[Row] = [
            {
                **row,
                "ts": row["ts"] + (-1 if kind.startswith("late") else 1),
                "fare": row["fare"] + 1,
                "note": f"{kind} {number}",
                "_hoodie_is_deleted": kind.endswith("delete"),
            }
            for number, (kind, row) in enumerate(zip(kinds, chosen, strict=True))
        ]
        back = self._chance.sample(self._gone, returns)
        self._gone = [row for row in self._gone if row not in back]
        rows += [{**row, "ts": row["ts"] + 3, "note": "back", "_hoodie_is_deleted": False} for row in back]
        rows += [self._row(self._shape.cities) for _ in range(inserts)]
        self._gone += [row for kind, row in zip(kinds, chosen, strict=True) if kind == "delete"]
        return self._done(Operation.UPSERT, rows)

    def remove(self, count: int) -> Turn:
        """Deletion by key."""
        chosen = self._chance.sample(self._model.rows(), count)
        self._gone += chosen
        return self._done(Operation.DELETE, chosen)

    def remove_partition(self, city: str) -> Turn:
        """Removal of the partitions with this city."""
        rows = [row for row in self._model.rows() if row["city"] == city]
        paths = sorted({self._shape.partition_path_of(row) for row in rows})
        return self._done(Operation.DELETE_PARTITION, rows[:1], tuple(paths))

    def _done(self, operation: Operation, rows: Sequence[Row], partition_paths: tuple[str, ...] = ()) -> Turn:
        table = pa.Table.from_pylist([dict(row) for row in rows], schema=self._shape.schema)
        turn = Turn(operation, table, partition_paths)
        self._model.apply(turn)
        return turn

    def _row(self, cities: Sequence[str]) -> Row:
        number = self._made
        self._made += 1
        second = dt.timedelta(seconds=number, microseconds=number * 7)
        return {
            "id": f"k{number:03}",
            "region": number % 4,
            "city": cities[number % len(cities)],
            "year": 2024 + number % 2,
            "ts": 1000 + number,
            "fare": number / 8,
            "note": None if number % 5 == 0 else f"note {number}",
            "tags": None if number % 7 == 0 else [f"t{i}" for i in range(number % 3)],
            "at": dt.datetime(2024, 2, 29, 23, 59, 59, tzinfo=dt.UTC) + second,
            "price": Decimal(number * 101) / 100,
            "_hoodie_is_deleted": False,
        }
