"""The tables that simulations begin with: copy-on-write and merge-on-read, of each version, with a few keys in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache

from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.local import LocalEngine
from pyhudi.environment import Environment
from pyhudi.errors import InvalidRequestError
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.schema.avro_arrow import arrow_to_avro
from pyhudi.services.call import ServiceCall
from pyhudi.services.rollback.rollback import roll_back_failed_writes
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import TableState, create_table, load_table
from pyhudi.testing.simulation.full_writes import SCHEMA, read_whole, write_whole
from pyhudi.testing.simulation.key_value_writes import (
    Attempt,
    Request,
    ThinEngine,
    read_thinly,
    with_writer,
    write_thinly,
)
from pyhudi.testing.simulation.scheduler import Actor, Powers, Run
from pyhudi.testing.simulation.simulated import SimStorage, environment_of
from pyhudi.testing.simulation.world import World, world_of
from pyhudi.transaction.settings import transaction_settings
from pyhudi.write.create import table_properties
from pyhudi.write.job import WriteJob, prepare
from pyhudi.write.result import WriteResult

START = {"a1": "start", "a2": "start", "b1": "start"}
"""The rows that a table begins with: two file groups."""
_INSERT = Request(operation=WriteOperation.INSERT, values=START)
_APPEND = Request(operation=WriteOperation.UPSERT, values={"a2": "appended"})


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of table. `str` gives `cow8`, `mor6` and so on, or `whole-cow8` where `is_whole`: through `HudiTable`."""

    is_merge_on_read: bool
    version: int
    is_whole: bool = False

    def __str__(self) -> str:
        return f"{'whole-' if self.is_whole else ''}{'mor' if self.is_merge_on_read else 'cow'}{self.version}"

    @property
    def options(self) -> dict[str, str]:
        """The options of its writes."""
        return {
            "hoodie.table.name": "t",
            "hoodie.write.table.version": str(self.version),
            "hoodie.datasource.write.table.type": "MERGE_ON_READ" if self.is_merge_on_read else "COPY_ON_WRITE",
            "hoodie.datasource.write.recordkey.field": "key",
            "hoodie.datasource.write.partitionpath.field": "part",
            "hoodie.table.ordering.fields": "ts",
            "hoodie.compact.inline": "false",
            "hoodie.clean.automatic": "false",
            "hoodie.clean.commits.retained": "1",
            "hoodie.index.bloom.num_entries": "100",
            "hoodie.write.num.retries.on.conflict.failures": "1",
        }

    @property
    def start(self) -> dict[str, Request]:
        """The writes that such a table begins with, by their writers' names: a merge-on-read table has a log."""
        return {"start": _INSERT, **({"appender": _APPEND} if self.is_merge_on_read else {})}

    @property
    def read(self) -> Callable[[TableState, str | None], list[tuple[str, str]]]:
        """How the rows of such a table are read."""
        return read_whole if self.is_whole else read_thinly


KINDS = {
    str(kind): kind
    for is_whole in (False, True)
    for kind in (Kind(merge, version, is_whole) for merge in (False, True) for version in (6, 8))
}


def kind_of(name: str) -> Kind:
    """The kind with this name. Raises `InvalidRequestError` where there is none."""
    if name not in KINDS:
        raise InvalidRequestError("there is no such kind of table", name=name, known=sorted(KINDS))
    return KINDS[name]


@dataclass(frozen=True, slots=True)
class Seat:
    """What one actor sees of a simulation, and the job of its kind of table to make its own from.

    `attempts`: where its writes leave attempts of tasks that they do not wait for.
    """

    name: str
    kind: Kind
    storage: Storage
    environment: Environment
    attempts: list[Attempt] = field(default_factory=list)

    def write(self, request: Request) -> WriteResult:
        """Run a write. A thin one rolls dead writers back first, as whole ones do."""
        if self.kind.is_whole:
            return write_whole(
                self.storage, self.environment, self.kind.options, request, self.attempts, writer=self.name
            )
        return write_thinly(self._job(request), request, self.attempts)

    def _job(self, request: Request) -> WriteJob:
        template = _job(self.kind)
        table, heartbeat = load_table(self.storage), template.transaction_settings.heartbeat
        lock_wait_ms = template.transaction_settings.lock_wait_ms
        if roll_back_failed_writes(table, heartbeat, self.environment, lock_wait_ms=lock_wait_ms):
            table = table.reload()
        return with_writer(replace(template, table=table, environment=self.environment), self.name, request.batch)

    def service_call(self) -> ServiceCall:
        """A call of a table service by this actor."""
        config = _job(self.kind).config
        table = load_table(self.storage)
        engine = LocalEngine(parallelism=1) if self.kind.is_whole else ThinEngine()
        return ServiceCall(table, config, transaction_settings(config), engine, self.environment)


@cache
def _job(kind: Kind) -> WriteJob:
    """What all writes to a kind of table share. Made from a table of its own, which nobody writes to."""
    storage = _empty(kind)
    run = Run(World(), [], lambda _run, _point: "")
    actor = Actor(0, "nobody", lambda: None)
    config = WriteConfig.from_options(kind.options)
    return prepare(
        load_table(storage),
        config,
        SCHEMA,
        engine=LocalEngine(parallelism=1),
        environment=environment_of(run, actor, None),
        options=kind.options,
    )


def _empty(kind: Kind) -> MemoryStorage:
    storage = MemoryStorage()
    properties = table_properties(WriteConfig.from_options(kind.options))
    create_table(storage, {**properties, "hoodie.table.create.schema": arrow_to_avro(SCHEMA, table_name="t")})
    return storage


def observer(world: World) -> SimStorage:
    """The store of a world for somebody whose calls are no steps: to look at it from outside of a run."""
    actor = Actor(0, "observer", lambda: None, in_timer=True)
    return SimStorage(Run(world, [actor], lambda _run, _point: "", Powers()), actor, lambda *_: None)


@cache
def _prepared(kind: Kind) -> World:
    world = world_of(_empty(kind))
    seen = observer(world)
    run = Run(world, [], lambda _run, _point: "")
    actor = Actor(99, "nobody", lambda: None, in_timer=True)
    for writer, request in kind.start.items():
        Seat(writer, kind, seen, environment_of(run, actor, None)).write(request)
    return world


def prepared(kind: Kind) -> World:
    """A world with a table of this kind as it begins."""
    return _prepared(kind).copy()
