"""Initial tables of simulations: copy-on-write and merge-on-read, of each table version, with a few rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache

import pyarrow as pa

from pyhudi.api.handle import TableHandle
from pyhudi.api.hudi_table import HudiTable
from pyhudi.config.options_clustering import ConflictStrategy
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.local import LocalEngine
from pyhudi.environment import Environment
from pyhudi.errors import InvalidRequestError
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.schema.avro_arrow import arrow_to_avro
from pyhudi.format.timeline.archived_log_writing import archive_file_name, archived_state, encode_archive_file
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.format.timeline.table_version import V6
from pyhudi.services.frame.inline import compact_before_write
from pyhudi.services.frame.service import ServiceCall
from pyhudi.services.metadata_table.run import ADDED_BY_A_WRITE
from pyhudi.services.restore.execute import finish_what_died
from pyhudi.services.rollback.rollback import roll_back_failed_writes
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import TableState, create_table, load_table
from pyhudi.testing.simulation import bucket_tables
from pyhudi.testing.simulation.captured_changes import CAPTURED_SCHEMA, read_captured
from pyhudi.testing.simulation.full_writes import SCHEMA, read_whole, write_whole
from pyhudi.testing.simulation.indexed_tables import Indexes, build_at_start
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
"""The initial rows of a table, in two file groups."""
_INSERT = Request(operation=WriteOperation.INSERT, values=START)
_APPEND = Request(operation=WriteOperation.UPSERT, values={"a2": "appended"})
_LONG = {
    "start": _INSERT,
    "replacer": Request(
        operation=WriteOperation.INSERT_OVERWRITE, values={"a1": "replaced", "a2": "replaced"}, replaces=("a",)
    ),
    "appender": _APPEND,
    "second": Request(operation=WriteOperation.UPSERT, values={"b1": "second"}),
    "third": Request(operation=WriteOperation.UPSERT, values={"a1": "third"}),
}
"""The initial writes of a table with instants to archive: one of them replaced a file group."""
_SHORT_TIMELINE = {
    "hoodie.keep.min.commits": "1",
    "hoodie.keep.max.commits": "2",
    "hoodie.timeline.compaction.batch.size": "2",
    "hoodie.archive.merge.files.batch.size": "2",
}


_WITH_METADATA_TABLE = {
    "hoodie.metadata.enable": "true",
    # Each write compacts it before it begins.
    "hoodie.metadata.compact.max.delta.commits": str(1 + ADDED_BY_A_WRITE),
}
_CAPTURING = {"hoodie.table.cdc.enabled": "true"}
_PREFERRED = {"hoodie.write.lock.conflict.resolution.strategy": ConflictStrategy.PREFER_WRITER.value}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of table. `str` returns its name: `cow8`, `mor6` and so on.

    `is_whole`: writes and reads go through `HudiTable` and Parquet; the name is then `whole-cow8`. `is_long`: it has
    more commits than its timeline is to keep; `long-cow8`. `is_listed`: it has a metadata table; `listed-cow8`.
    `indexes`: what is in its metadata table; `keyed-whole-cow9`.
    `is_captured`: it is whole, captures its changes, and has columns that change; `captured-cow8`.
    `buckets`: it has buckets, see `bucket_tables`; `ringed-whole-mor8`.
    """

    is_merge_on_read: bool
    version: int
    is_whole: bool = False
    is_long: bool = False
    is_listed: bool = False
    indexes: Indexes | None = None
    is_captured: bool = False
    buckets: str = ""

    def __str__(self) -> str:
        length = (
            "long-" if self.is_long else "listed-" if self.is_listed else f"{self.buckets}-" if self.buckets else ""
        )
        length = length if self.indexes is None else f"{self.indexes.value}-"
        whole = "captured-" if self.is_captured else "whole-" if self.is_whole else ""
        return f"{length}{whole}{'mor' if self.is_merge_on_read else 'cow'}{self.version}"

    @property
    def options(self) -> dict[str, str]:
        """The options of writes to such a table."""
        return {
            "hoodie.table.name": "t",
            "hoodie.write.table.version": str(self.version),
            "hoodie.datasource.write.table.type": "MERGE_ON_READ" if self.is_merge_on_read else "COPY_ON_WRITE",
            "hoodie.datasource.write.recordkey.field": "key",
            "hoodie.datasource.write.partitionpath.field": "part",
            "hoodie.table.ordering.fields": "ts",
            "hoodie.compact.inline": "false",
            "hoodie.clean.automatic": "false",
            "hoodie.clustering.plan.strategy.sort.columns": "key",
            "hoodie.clean.commits.retained": "1",
            "hoodie.index.bloom.num_entries": "100",
            "hoodie.write.num.retries.on.conflict.failures": "1",
            **(_SHORT_TIMELINE if self.is_long else {}),
            **(_WITH_METADATA_TABLE if self.is_listed else {}),
            **(self.indexes.options if self.indexes else {}),
            **(_CAPTURING if self.is_captured else {}),
            **bucket_tables.OPTIONS.get(self.buckets, {}),
        }

    @property
    def is_common(self) -> bool:
        """Whether it is of the kinds that all roles play on."""
        return not (self.is_long or self.is_listed or self.is_captured or self.indexes or self.buckets)

    @property
    def schema(self) -> pa.Schema:
        """The columns of such a table in the beginning."""
        return CAPTURED_SCHEMA if self.is_captured else SCHEMA

    @property
    def start(self) -> dict[str, Request]:
        """The initial writes of such a table, by their writers' names. A merge-on-read table gets a log."""
        if self.is_long:
            return dict(_LONG)
        return {"start": _INSERT, **({"appender": _APPEND} if self.is_merge_on_read else {})}

    @property
    def read(self) -> Callable[[TableState, str | None], list[tuple[str, str]]]:
        """The function that reads the rows of such a table."""
        if self.is_captured:
            return read_captured
        return read_whole if self.is_whole else read_thinly


KINDS = {
    str(kind): kind
    for is_whole in (False, True)
    for kind in (Kind(merge, version, is_whole) for merge in (False, True) for version in (6, 8))
} | {str(kind): kind for kind in (Kind(merge, version, is_long=True) for merge in (False, True) for version in (6, 8))}
KINDS |= {
    str(kind): kind for kind in (Kind(merge, version, is_listed=True) for merge, version in ((False, 8), (True, 6)))
}
KINDS |= {
    str(kind): kind
    for kind in (
        Kind(merge, version, is_whole=True, indexes=indexes)
        for indexes, merge, version in (
            (Indexes.ALL, False, 9),
            (Indexes.ALL, True, 9),
            (Indexes.ALL, True, 8),
            (Indexes.ALL, False, 6),
            (Indexes.ALL, True, 6),
            (Indexes.BY_PARTITION, False, 9),
            (Indexes.BY_PARTITION, True, 9),
            (Indexes.NONE_YET, False, 9),
            (Indexes.NONE_YET, True, 9),
            (Indexes.NONE_YET, True, 6),
        )
    )
}


KINDS |= {
    str(kind): kind
    for kind in (
        Kind(merge, version, is_whole=True, is_captured=True)
        for merge, version in ((False, 8), (False, 6), (True, 8), (True, 6))
    )
}
KINDS |= {str(kind): kind for kind in (Kind(True, 8, is_whole=True, buckets=name) for name in bucket_tables.OPTIONS)}


def kind_of(name: str) -> Kind:
    """The kind of table with this name.

    Raises:
        InvalidRequestError: there is none.
    """
    if name not in KINDS:
        raise InvalidRequestError("unknown kind of table: use one of the known ones", name=name, known=sorted(KINDS))
    return KINDS[name]


@dataclass(frozen=True, slots=True)
class Seat:
    """The view of one actor on a simulation: its store, its environment and its kind of table.

    `attempts` collects the attempts of tasks for which the actor's writes do not wait.
    """

    name: str
    kind: Kind
    storage: Storage
    environment: Environment
    attempts: list[Attempt] = field(default_factory=list)

    def write(self, request: Request) -> WriteResult:
        """Run a write. It first rolls back the failed writes of dead writers, and compacts the metadata table."""
        if self.kind.is_whole:
            options = {**self.kind.options, **(_PREFERRED if request.is_preferred else {})}
            return write_whole(self.storage, self.environment, options, request, self.attempts, writer=self.name)
        job = self._job(request)
        compact_before_write(ServiceCall(job.table, job.config, job.transaction_settings, job.engine, self.environment))
        return write_thinly(job, request, self.attempts)

    def _job(self, request: Request) -> WriteJob:
        template = _job(self.kind)
        if request.is_preferred:
            config = WriteConfig.from_options({**self.kind.options, **_PREFERRED})
            template = replace(template, config=config)
        settings = template.transaction_settings
        table = finish_what_died(load_table(self.storage), settings, self.environment)
        if roll_back_failed_writes(table, settings, self.environment):
            table = table.reload()
        return with_writer(replace(template, table=table, environment=self.environment), self.name, request.batch)

    def table(self) -> HudiTable:
        """The table of this actor, as users have it."""
        handle = TableHandle(
            load_table(self.storage), self.kind.options, SimulatedEngine(parallelism=1), self.environment
        )
        return HudiTable(handle)

    def service_call(self) -> ServiceCall:
        """The arguments of a table service that this actor calls."""
        config = _job(self.kind).config
        table = load_table(self.storage)
        engine = SimulatedEngine(parallelism=1) if self.kind.is_whole else ThinEngine()
        return ServiceCall(table, config, transaction_settings(config), engine, self.environment)


class SimulatedEngine(LocalEngine):
    """A local engine whose simulated writes make files of attempts that do not count, as tasks of a cluster do."""

    @property
    def repeats_tasks(self) -> bool:
        """See `Engine.repeats_tasks`."""
        return True


@cache
def _job(kind: Kind) -> WriteJob:
    """The common part of all writes to a kind of table. It belongs to a separate table without writes."""
    storage = _empty(kind)
    run = Run(World(), [], lambda _run, _point: "")
    actor = Actor(0, "builder", lambda: None)
    config = WriteConfig.from_options(kind.options)
    return prepare(
        load_table(storage),
        config,
        kind.schema,
        engine=SimulatedEngine(parallelism=1),
        environment=environment_of(run, actor, None),
        options=kind.options,
    )


def _empty(kind: Kind) -> MemoryStorage:
    storage = MemoryStorage()
    properties = table_properties(WriteConfig.from_options(kind.options))
    create_table(storage, {**properties, "hoodie.table.create.schema": arrow_to_avro(kind.schema, table_name="t")})
    return storage


def observer(world: World) -> SimStorage:
    """The store of a world for checks from outside of a run: its calls are not steps of the run."""
    actor = Actor(0, "observer", lambda: None, in_timer=True)
    return SimStorage(Run(world, [actor], lambda _run, _point: "", Powers()), actor, lambda *_: None)


@cache
def _prepared(kind: Kind) -> World:
    world = world_of(_empty(kind))
    seen = observer(world)
    run = Run(world, [], lambda _run, _point: "")
    actor = Actor(99, "builder", lambda: None, in_timer=True)
    for writer, request in kind.start.items():
        Seat(writer, kind, seen, environment_of(run, actor, None)).write(request)
    if kind.indexes is Indexes.ALL and kind.version >= 8:
        build_at_start(Seat("builder", kind, seen, environment_of(run, actor, None)).service_call())
    if kind.is_long and not load_table(seen).version.has_completion_times:
        seen.put(*_FORMER_ARCHIVE)
    return world


def _previous_archive() -> tuple[str, bytes]:
    """A file of the archive of version 6, with a commit before all others that wrote nothing: archives merge it."""
    path = f"{V6.history_folder}/{archive_file_name(1)}"
    first = Instant(InstantTime("20200101000000000"), Action.COMMIT, InstantState.COMPLETED)
    state = archived_state(first, b'{"partitionToWriteStats":{},"extraMetadata":{}}', first.requested_time, path=path)
    return path, encode_archive_file([state], path=path)


_FORMER_ARCHIVE = _previous_archive()


def prepared(kind: Kind) -> World:
    """A world with the initial table of this kind."""
    return _prepared(kind).copy()
