"""Small tables in memory for tests, with a clock that the test owns."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

import pyhudi
from pyhudi.engine.local import LocalEngine
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.environment import Environment
from pyhudi.table.state import load_table

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64()), ("note", pa.string())])
Row = tuple[int, str, int, str]


@dataclass
class StepClock:
    """A clock that moves one millisecond at each look, and as the test says."""

    ms: int = 1_790_000_000_000
    _lock: object = field(default_factory=object)

    def now_ms(self) -> int:
        self.ms += 1
        return self.ms

    def monotonic(self) -> float:
        return self.now_ms() / 1000

    def sleep(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)


_numbers = itertools.count(1)


class CountedIds:
    """Ids without randomness, unique in the process."""

    def uuid(self) -> str:
        return str(uuid.UUID(int=next(_numbers)))


def environment(clock: StepClock | None = None) -> Environment:
    return Environment(clock=clock or StepClock(), ids=CountedIds())


def rows(*values: Row) -> pa.Table:
    """A batch of (id, city, ts, note) rows."""
    columns = list(zip(*values, strict=True)) or [()] * len(SCHEMA)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def new_table(storage: Storage | None = None, *, version: int = 9, **options: str) -> pyhudi.HudiTable:
    """An empty table of `SCHEMA`: key id, partitioned by city, ordered by ts."""
    storage = storage or MemoryStorage()
    described = {"hoodie.datasource.write.hive_style_partitioning": "true", **options}
    from pyhudi.config.write_config import WriteConfig
    from pyhudi.format.schema import arrow_to_avro
    from pyhudi.table.state import create_table
    from pyhudi.write.save import table_properties

    config = WriteConfig.from_options(
        {
            "hoodie.table.name": "t",
            "hoodie.write.table.version": str(version),
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "city",
            "hoodie.table.ordering.fields": "ts",
            **described,
        }
    )
    avro = arrow_to_avro(SCHEMA, table_name="t")
    create_table(storage, {**table_properties(config), "hoodie.table.create.schema": avro})
    return open_table(storage, **options)


def open_table(storage: Storage, *, env: Environment | None = None, **options: str) -> pyhudi.HudiTable:
    """The table in a store, with one thread and a clock of its own."""
    kept = {key: value for key, value in options.items() if "hive_style" not in key}
    return pyhudi.HudiTable(load_table(storage), kept, LocalEngine(parallelism=1), env or environment())


def contents(storage: Storage) -> set[Row]:
    """All rows that a reader who opens the table now sees."""
    table = open_table(storage).to_arrow(SCHEMA.names)
    return {tuple(row.values()) for row in table.to_pylist()}  # type: ignore[misc]


def values_of(table: pa.Table, names: Iterable[str]) -> list[tuple[object, ...]]:
    """Rows as sorted tuples of some columns."""
    return sorted(tuple(row[name] for name in names) for row in table.to_pylist())
