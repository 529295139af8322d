"""Small tables in memory for tests, with a clock that the test owns."""

from __future__ import annotations

import itertools
import json
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pyarrow as pa
from tests.support.timers import HandMovedTimers

import pyhudi
from pyhudi.api.handle import TableHandle
from pyhudi.config.enums import Arrangement
from pyhudi.config.read_config import ReadConfig
from pyhudi.config.table_config import TableConfig
from pyhudi.engine.exchange_files import ExchangeFolder
from pyhudi.engine.local import LocalEngine, as_table
from pyhudi.engine.protocol import Distribution, TaskContext
from pyhudi.environment import SYSTEM, Environment
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.read.scan import ScanPlan, plan_table_scan
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.state import TableState, load_table
from pyhudi.table.timeline import timeline_of
from pyhudi.transaction.heartbeat import Heartbeat, HeartbeatSettings, heartbeat_path
from pyhudi.transaction.locks.in_process import HeldMutex, InProcessLocks

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64()), ("note", pa.string())])
Row = tuple[int, str, int, str]
MOR = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}
"""Options of a merge-on-read table that compacts only when it is told to."""
EVENT_TIME = {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
DELETE_FLAG = pa.field("_hoodie_is_deleted", pa.bool_())
"""The column of rows that ask for the deletion of their record."""
LATER_MS = 1_900_000_000_000
"""A time at which the heartbeats of all writers have expired."""
R = TypeVar("R")


NO_PROCESS = 4_200_000
"""A pid above the largest of Linux."""


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


@dataclass
class ClockOfTimers(StepClock):
    """A clock that lets its timers call whenever somebody sleeps."""

    timers: HandMovedTimers = field(default_factory=HandMovedTimers)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.timers.fire()


@dataclass
class CountingLocks:
    """The table's mutex, and how often it was taken."""

    taken: int = 0
    inner: InProcessLocks = field(default_factory=InProcessLocks)

    def acquire(self, storage: Storage, environment: Environment, *, wait_ms: int) -> HeldMutex:
        self.taken += 1
        return self.inner.acquire(storage, environment, wait_ms=wait_ms)


_numbers = itertools.count(1)


class CountedIds:
    """Ids without randomness, unique in the process."""

    def uuid(self) -> str:
        return str(uuid.UUID(int=next(_numbers)))


@dataclass(frozen=True)
class SplitEngine(LocalEngine):
    """Runs everything over several splits in batches of a few rows, as a cluster would; one thread."""

    parallelism: int = 1
    splits: int = 3

    def map_splits(
        self,
        rows: Any,
        function: Callable[[TaskContext, Iterator[pa.RecordBatch]], R],
        *,
        distribution: Distribution,
        description: str,
        folder: ExchangeFolder | None = None,
    ) -> list[R]:
        count = distribution.splits or self.splits
        if distribution.arrangement is not Arrangement.BY_KEY:
            is_stream = isinstance(rows, pa.RecordBatchReader)
            chosen = distribution if is_stream else replace(distribution, splits=count)
            return super().map_splits(rows, function, distribution=chosen, description=description, folder=folder)
        table = as_table(rows)
        keys = zip(*(table.column(name).to_pylist() for name in distribution.key_columns), strict=True)
        split_of = [zlib.crc32(repr(key).encode()) % count for key in keys]
        contexts = [TaskContext(partition=n, stage=0, attempt=0) for n in range(count)]
        parts = [table.filter(pa.array([split == n for split in split_of], pa.bool_())) for n in range(count)]
        return self._run(function, contexts, [iter(part.to_batches(max_chunksize=3)) for part in parts])


def environment(clock: StepClock | None = None) -> Environment:
    return Environment(clock=clock or StepClock(), ids=CountedIds())


def rows(*values: Row) -> pa.Table:
    """A batch of (id, city, ts, note) rows."""
    columns = list(zip(*values, strict=True)) or [()] * len(SCHEMA)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def loaded(config: TableConfig, *names: str) -> TableState:
    """An empty table of these properties, with files of these names on its timeline."""
    return TableState(MemoryStorage(), config, timeline_of(config.version, names))


def new_table(
    storage: Storage | None = None, *, version: int = 9, schema: pa.Schema = SCHEMA, **options: str
) -> pyhudi.HudiTable:
    """An empty table of `schema`: key id, partitioned by city, ordered by ts."""
    storage = storage or MemoryStorage()
    described = {"hoodie.datasource.write.hive_style_partitioning": "true", **options}
    from pyhudi.config.write_config import WriteConfig
    from pyhudi.format.schema.avro_arrow import arrow_to_avro
    from pyhudi.table.state import create_table
    from pyhudi.write.create import table_properties

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
    avro = arrow_to_avro(schema, table_name="t")
    create_table(storage, {**table_properties(config), "hoodie.table.create.schema": avro})
    return open_table(storage, env=None, **options)


def open_table(storage: Storage, *, env: Environment | None = None, **options: str) -> pyhudi.HudiTable:
    """The table in a store, with one thread and a clock of its own."""
    kept = {key: value for key, value in options.items() if "hive_style" not in key}
    small_filters = {"hoodie.index.bloom.num_entries": "500", **kept}
    return pyhudi.HudiTable(
        TableHandle(load_table(storage), small_filters, LocalEngine(parallelism=1), env or environment())
    )


def rehandled(table: pyhudi.HudiTable, **changes: Any) -> pyhudi.HudiTable:
    """The same table with another engine, environment or state."""
    return pyhudi.HudiTable(replace(table.handle, **changes))


@dataclass(frozen=True)
class _EngineWithHook(LocalEngine):
    at_staging: Callable[[], object] = bool

    def map_splits(self, *given: Any, **named: Any) -> list[Any]:
        """See `Engine.map_splits`."""
        self.at_staging()
        return super().map_splits(*given, **named)


def acting_at_staging(table: pyhudi.HudiTable, act: Callable[[], object]) -> pyhudi.HudiTable:
    """The table, whose writes act when they have loaded it and are about to stage their rows, before they begin."""
    return rehandled(table, engine=_EngineWithHook(parallelism=1, at_staging=act))


def plan_of(table: pyhudi.HudiTable, **asked: Any) -> ScanPlan:
    """What reading this table would take; `asked` are fields of `ReadConfig`."""
    return plan_table_scan(table.handle.state, ReadConfig(**asked), table.handle.mergers)


def contents(storage: Storage) -> set[Row]:
    """All rows that a reader who opens the table now sees."""
    table = open_table(storage).scan(SCHEMA.names).to_arrow()
    return {tuple(row.values()) for row in table.to_pylist()}  # type: ignore[misc]


def aged(storage: Storage, path: str, *, by_ms: int) -> MemoryStorage:
    """The same objects in another store, the one whose path ends like this older."""
    born: list[int] = []
    copy = MemoryStorage(clock=lambda: born[0] if born else SYSTEM.clock.now_ms())
    found = [(i.modified_ms - (by_ms if i.path.endswith(path) else 0), i.path) for i in storage.list_recursive("")]
    for modified_ms, name in sorted(found):
        born[:] = [modified_ms]
        copy.put(name, storage.read(name))
    born.clear()
    return copy


def heartbeat_of(storage: Storage, instant_time: str, **changes: Any) -> None:
    """Change what the heartbeat says of its writer."""
    path = heartbeat_path(instant_time)
    storage.put(path, json.dumps({**json.loads(storage.read(path)), **changes}).encode())


def end_the_process_of(storage: Storage, instant_time: str) -> None:
    """Let everything that the writer keeps fresh name a process that is no more."""
    heartbeat_of(storage, instant_time, pid=NO_PROCESS)


def own_beat() -> dict[str, Any]:
    """What a heartbeat of this process says."""
    storage = MemoryStorage()
    Heartbeat(storage, "beat", HeartbeatSettings(), replace(environment(), timers=HandMovedTimers())).start()
    return json.loads(storage.read("beat"))  # type: ignore[no-any-return]


def log_files(storage: Storage) -> list[str]:
    """The paths of the logs in the newest slices, in merge order within each."""
    return [path for logs in open_table(storage).inspect.files().column("logs").to_pylist() for path in logs]


def newest_stats(storage: Storage) -> list[WriteStat]:
    """What the newest completed write says of the files that it wrote."""
    table = load_table(storage)
    metadata = load_commit_metadata(storage, table.timeline.completed_writes[-1], table.version)
    return [stat for stats in metadata.stats_by_partition.values() for stat in stats]


def values_of(table: pa.Table, names: Iterable[str]) -> list[tuple[object, ...]]:
    """Rows as sorted tuples of some columns."""
    return sorted(tuple(row[name] for name in names) for row in table.to_pylist())
