"""Scenarios: a kind of table, a lock, and actors that run the shipped operations at the same time.

A scenario has a name that says all of it, `cow8/lease/update+drop`, so that a schedule can be run again by its text.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import cast

from pyhudi.environment import LockProvider
from pyhudi.errors import (
    CommitOutcomeUnknownError,
    ConfigError,
    HistoryNotRetainedError,
    HistoryNotSettledError,
    HudiError,
    InvalidRequestError,
    LockLostError,
    LockNotAcquiredError,
    NotFoundError,
    SchemaMismatchError,
    StorageError,
    WriteConflictError,
)
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.table_version import table_version
from pyhudi.services.archiving.archive import archive
from pyhudi.services.cleaning.execute import clean, execute_clean, pending_cleans
from pyhudi.services.clustering.execute import run_pending_clusterings
from pyhudi.services.clustering.schedule import schedule_clustering
from pyhudi.services.compaction.execute import run_pending_compactions
from pyhudi.services.compaction.schedule import schedule_compaction
from pyhudi.services.frame.service import ServiceCall
from pyhudi.services.indexing.create import keeping_indexes
from pyhudi.services.partition_ttl.expire import MS_PER_DAY, expire_partitions
from pyhudi.services.restore.execute import finish_what_died, restore
from pyhudi.services.restore.savepoint import create_savepoint
from pyhudi.services.rollback.rollback import roll_back, roll_back_failed_writes
from pyhudi.services.upgrade.change import change_version
from pyhudi.table.archive.history import archived_metadata
from pyhudi.table.state import load_table
from pyhudi.table.timeline import position_of
from pyhudi.testing.simulation import indexed_tables
from pyhudi.testing.simulation.bucket_tables import LOCK_LESS, ROLES_OF
from pyhudi.testing.simulation.changing_roles import ALTERING, CAPTURED, CAPTURED_IN_LOGS, CHANGING, COMPUTING
from pyhudi.testing.simulation.history import EXPIRY, History
from pyhudi.testing.simulation.key_value_writes import Request, TaskLostError
from pyhudi.testing.simulation.scheduler import AGES_MS, Powers
from pyhudi.testing.simulation.simulated import NoLocks
from pyhudi.testing.simulation.stage import Role, Stage, serve, values, write
from pyhudi.testing.simulation.start_tables import KINDS, Kind, Seat, kind_of
from pyhudi.transaction.locks.storage_based import StorageLocks
from pyhudi.transaction.settings import TransactionSettings

VERSION_THAT_CHANGES = 8
"""The tables that `versions` changes: their timelines stay where they are. Other changes have crash tests."""

PAST_MS = 50
"""After so long, a partition is past its time; no lease and no heartbeat ends."""

POLLS = 2
"""How often a reader looks at the table."""


class Lock(enum.StrEnum):
    """Who keeps the table lock; the value is its word in names of scenarios."""

    PERFECT = "lock"
    LEASE = "lease"
    NONE = "nolock"

    def provider(self) -> LockProvider | None:
        """The provider; None for the simulation's own perfect one."""
        match self:
            case Lock.PERFECT:
                return None
            case Lock.LEASE:
                return StorageLocks(validity_ms=1_000, renew_ms=250, audited=False)
            case Lock.NONE:
                return NoLocks()


@dataclass(frozen=True, slots=True)
class Scenario:
    """Some actors, by the names in `ROLES`, on a kind of table under a lock. `str` gives its name.

    `exclusive`: whether the store refuses to create what is there; without it `/overwriting` is in the name.
    """

    kind: Kind
    lock: Lock
    roles: tuple[str, ...]
    exclusive: bool = True

    def __str__(self) -> str:
        parts = [str(self.kind), self.lock.value, "+".join(self.roles)]
        return "/".join(parts if self.exclusive else [*parts, "overwriting"])

    @property
    def unique(self) -> bool:
        """Whether all of its writes promise unique keys."""
        return "insert" not in self.roles

    def possible(self, powers: Powers) -> Powers:
        """What of it can happen here.

        Where the lock ends with its process the store does not answer late either, and only local disk shows half a
        file.
        """
        return replace(powers, late=False) if self.lock is Lock.PERFECT else replace(powers, torn=False)

    def allowed_errors(self, powers: Powers) -> tuple[type[HudiError], ...]:
        """What actors may be told where such things go wrong: nothing else, and never a bug of ours."""
        allowed: tuple[type[HudiError], ...] = () if self.kind.buckets == LOCK_LESS else (WriteConflictError,)
        if self.lock is Lock.NONE or powers != Powers():
            allowed += (LockLostError, LockNotAcquiredError)
        if powers.faults:
            allowed += (StorageError, CommitOutcomeUnknownError)
        if "restore" in self.roles:
            # What a living writer is told whose own write, or one that it reads, is restored away.
            allowed += (LockLostError, InvalidRequestError, NotFoundError)
        if "attempt" in self.roles:
            allowed += (LockLostError, TaskLostError)
        if {*COMPUTING} & {*self.roles} and "undo" in self.roles and not self.kind.is_whole:
            allowed += (InvalidRequestError, NotFoundError)  # of a thin write whose rows are rolled back while it reads
        if "attempt" in self.roles and self.kind.is_whole:
            allowed += (NotFoundError,)  # of an attempt, when the rows are gone that its write had left to its tasks
        if "capture" in self.roles:
            allowed += (HistoryNotSettledError, HistoryNotRetainedError)
        if {*ALTERING} & {*self.roles}:
            allowed += (SchemaMismatchError, ConfigError)  # of rows that have the columns of before
        if self.kind.is_whole and "drop" in self.roles:
            allowed += (InvalidRequestError,)  # of a retry, when the partition is gone
        return allowed

    def is_ordered(self, powers: Powers) -> bool:
        """Whether completion times are promised to tell the order in which writes became visible.

        Without a lock they are not, nor where a writer may stand still in its last put while its lease ends.
        """
        may_lose = powers.pauses or powers.sleeps or powers.jumps or powers.faults
        return self.lock is Lock.PERFECT or (self.lock is Lock.LEASE and not may_lose)


def scenario_of(name: str) -> Scenario:
    """The scenario with this name. Raises `InvalidRequestError` where there is none."""
    parts = name.split("/")
    if len(parts) not in (3, 4) or parts[3:] not in ([], ["overwriting"]):
        raise InvalidRequestError("a scenario has a name like cow8/lease/update+drop", name=name)
    roles = tuple(parts[2].split("+"))
    if parts[1] not in {lock.value for lock in Lock} or not {*roles} <= ROLES.keys():
        raise InvalidRequestError(
            "there is no such lock, or no such role",
            name=name,
            locks=[member.value for member in Lock],
            roles=sorted(ROLES),
        )
    return Scenario(kind_of(parts[0]), Lock(parts[1]), roles, exclusive=len(parts) == 3)


def _call(*services: Callable[[ServiceCall], object]) -> Role:
    """Run services that need nothing but their calls, one after the other, until one of them fails."""

    def run(stage: Stage) -> None:
        for service in services:
            service(stage.seat.service_call())

    return lambda stage: serve(stage, run)


def _in_turn(*roles: Role) -> Role:
    """Play roles one after the other, whatever becomes of them."""

    def play(stage: Stage) -> None:
        for role in roles:
            role(stage)

    return play


def _as_another_write(role: Role) -> Role:
    """Play a role in the same process, whose write is told from its earlier ones."""
    return lambda stage: role(replace(stage, seat=replace(stage.seat, name=f"{stage.seat.name}-again")))


def _expire(stage: Stage) -> None:
    """Drop partition `a` because it is past its time, which is short in this world."""
    stage.run.pass_time(PAST_MS)
    stage.history.requests[EXPIRY] = Request(operation=WriteOperation.DELETE_PARTITION, replaces=("a",))

    def expire(stage: Stage) -> None:
        call = stage.seat.service_call()
        expiry = replace(call.config.expiry, days_retained=cast("int", 1 / MS_PER_DAY), partitions=("a",))
        expire_partitions(replace(call, config=replace(call.config, expiry=expiry)))

    serve(stage, expire)


def _change_versions(stage: Stage) -> None:
    """Take a table of version 8 to 9, and back; that something is pending is an answer."""
    for version in (9, 8):
        target = table_version(version)
        serve(stage, lambda stage, to=target: change_version(stage.seat.service_call(), to))  # type: ignore[misc]


def _recover(stage: Stage) -> None:
    serve(stage, lambda stage: recover(stage.seat))


def _recover_late(stage: Stage) -> None:
    """Recover when everybody else has ended, and everything that they kept alive has expired."""
    others = [actor for actor in stage.run.actors if actor is not stage.actor]
    stage.run.wait(
        stage.actor,
        until_ms=stage.run.world.now_ms + 100 * AGES_MS,
        condition=lambda: all(other.is_done for other in others),
    )
    stage.run.pass_time(2 * AGES_MS)
    serve(stage, lambda stage: finish(stage.seat))


def _run_attempts(stage: Stage) -> None:
    """Run the attempts of tasks that their writes do not wait for, from the moment when there are any."""
    others = [actor for actor in stage.run.actors if actor is not stage.actor]
    attempts = stage.history.attempts
    stage.run.wait(
        stage.actor,
        until_ms=stage.run.world.now_ms + 100 * AGES_MS,
        condition=lambda: bool(attempts) or all(other.is_done for other in others),
    )
    for attempt in attempts:
        serve(stage, lambda stage, run=attempt: run(stage.seat.storage))  # type: ignore[misc]


def recover(seat: Seat) -> None:
    """What every writer begins with: dead writers are rolled back, and what they left to their tasks is removed."""
    settings = TransactionSettings()
    table = finish_what_died(load_table(seat.storage), settings, seat.environment)
    roll_back_failed_writes(table, settings, seat.environment)


def finish(seat: Seat) -> None:
    """Recover, and execute what compactions, clusterings and cleans are planned."""
    recover(seat)
    if seat.kind.indexes:
        indexed_tables.finish_builds(seat.service_call())
    if seat.kind.is_merge_on_read:
        run_pending_compactions(seat.service_call())
    run_pending_clusterings(seat.service_call())
    call = seat.service_call()
    for instant in pending_cleans(call.table.timeline):
        execute_clean(call, instant)


def settle(seat: Seat, history: History) -> None:
    """Finish what others left; after attempts that outlived their writes one more write looks at all partitions."""
    finish(seat)
    if history.attempts:
        history.requests[seat.name] = Request(
            operation=WriteOperation.UPSERT, values={"a2": seat.name, "b1": seat.name}
        )
        seat.write(history.requests[seat.name])


def _undo(stage: Stage) -> None:
    """Take the newest completed write back; that it cannot be done, or not now, is an answer."""

    def undo(stage: Stage) -> None:
        table = load_table(stage.seat.storage)
        newest = max(table.timeline.completed_writes, key=position_of)
        stage.history.undone.add(newest.requested_time)
        try:
            with _kept_indexes(stage.seat):
                roll_back(table, newest.requested_time, TransactionSettings(), stage.seat.environment)
        except InvalidRequestError:
            stage.history.undone.discard(newest.requested_time)

    serve(stage, undo)


def _kept_indexes(seat: Seat) -> AbstractContextManager[None]:
    return keeping_indexes(seat.service_call()) if seat.kind.indexes else nullcontext()


def _restore(stage: Stage) -> None:
    """Go back to the state before the newest write; that it cannot be done is an answer."""

    def back(stage: Stage) -> None:
        table = load_table(stage.seat.storage)
        target = sorted(table.timeline.completed_writes, key=position_of)[-2:][0]
        with suppress(InvalidRequestError, HistoryNotRetainedError), _kept_indexes(stage.seat):
            restore(table, target.requested_time, TransactionSettings(), stage.seat.environment)

    serve(stage, back)


def _save(stage: Stage) -> None:
    """Keep the state after the oldest write, of which a clean may take files away."""

    def keep(stage: Stage) -> None:
        call = stage.seat.service_call()
        oldest = min(call.table.timeline.completed_writes, key=position_of)
        with suppress(InvalidRequestError, HistoryNotRetainedError):
            create_savepoint(call, oldest.requested_time, name=stage.seat.name, comment="", user="")

    serve(stage, keep)


def _read(stage: Stage) -> None:
    def look(stage: Stage) -> None:
        began = stage.run.steps
        table = load_table(stage.seat.storage)
        stage.done(began, rows=tuple(stage.seat.kind.read(table, None)), seen=table.timeline.completed_times)

    for _ in range(POLLS):
        serve(stage, look)


def _recall(stage: Stage) -> None:
    """Ask for the whole history, of the active timeline and the archive."""

    def look(stage: Stage) -> None:
        began = stage.run.steps
        table = load_table(stage.seat.storage)
        archived = archived_metadata(table.storage, table.version)
        times = table.timeline.completed_times.union(write.requested_time for write, _ in archived)
        stage.done(began, seen=times, is_whole=True)

    for _ in range(POLLS):
        serve(stage, look)


def _follow(stage: Stage) -> None:
    """Read what is new, again and again."""
    position = ""

    def look(stage: Stage) -> None:
        nonlocal position
        began = stage.run.steps
        writes = load_table(stage.seat.storage).timeline.completed_writes
        new = [write for write in writes if position_of(write) > position]
        since, position = position, max([position, *(position_of(instant) for instant in new)])
        stage.done(began, position=position, seen=frozenset(instant.requested_time for instant in new), since=since)

    for _ in range(POLLS + 1):
        serve(stage, look)


def _partition(name: str) -> str:
    """One of two partitions, by the number of an actor."""
    return "ab"[int(name.rpartition("-")[2]) % 2]


ROLES: dict[str, Role] = {
    "update": values(WriteOperation.UPSERT, "a1"),
    "update-2": values(WriteOperation.UPSERT, "a2"),
    "update-b": values(WriteOperation.UPSERT, "b1"),
    "preferred": write(lambda name: Request(operation=WriteOperation.UPSERT, values={"a1": name}, is_preferred=True)),
    "new": values(WriteOperation.UPSERT, "a9"),
    "twice": _in_turn(values(WriteOperation.UPSERT, "a1"), _as_another_write(values(WriteOperation.UPSERT, "a2"))),
    "both": values(WriteOperation.UPSERT, "a1", "a9", "b1"),
    "insert": values(WriteOperation.INSERT, "a9"),
    "delete": write(lambda _: Request(operation=WriteOperation.DELETE, values={"a1": None})),
    "overwrite": values(WriteOperation.INSERT_OVERWRITE, "a1", replaces=("a",)),
    "drop": write(lambda _: Request(operation=WriteOperation.DELETE_PARTITION, replaces=("a",))),
    "batch": write(
        lambda name: Request(operation=WriteOperation.UPSERT, values={f"{_partition(name)}1": name}, batch="b")
    ),
    "retried": write(lambda name: Request(operation=WriteOperation.UPSERT, values={"a1": name}, loses_attempt=True)),
    "outlived": write(
        lambda name: Request(operation=WriteOperation.UPSERT, values={"a1": name, "a9": name}, is_outlived=True)
    ),
    "abandoned": write(
        lambda name: Request(
            operation=WriteOperation.UPSERT, values={"a1": name, "a9": name}, is_outlived=True, is_abandoned=True
        )
    ),
    **CHANGING,
    "attempt": _run_attempts,
    "schedule": _call(schedule_compaction),
    "compact": _call(schedule_compaction, run_pending_compactions),
    "cluster": _call(schedule_clustering, run_pending_clusterings),
    "clean": _in_turn(_call(clean), _call(clean)),
    "expire": _expire,
    "versions": _change_versions,
    "archive": _call(archive),
    "tidy": _in_turn(_call(clean), _call(archive)),
    "maintain": _call(indexed_tables.maintain),
    "index": _call(indexed_tables.build_by_part),
    "records": _call(indexed_tables.build_records),
    "parts": _call(indexed_tables.build_records_by_partition),
    "drop-index": _call(indexed_tables.drop_by_value),
    "recover": _recover,
    "late": _recover_late,
    "undo": _undo,
    "restore": _restore,
    "save": _save,
    "read": _read,
    "follow": _follow,
    "recall": _recall,
}
"""What an actor can be. Writes put their actor's name as the value of a key: `a1` and `a2` are there, in one file
group, and `b1` in another; `a9` is new.

`twice`: two writes of one process, which remembers what it listed for the first one. `batch`: all such actors write the
same batch, to different partitions. `retried`: a task of it is run twice. `outlived`: another attempt of each of its
tasks is left to an `attempt`, a process of its own; of `abandoned` no other attempt counts, so that it rolls itself
back. `preferred`: clusterings give way to it. `extend`, `discard`, `merge` and `claim` compute their rows from those of
the table. `add`, `rename` and `widen` change a column, and `capture` follows the captured changes, on tables that have
them.
"""

WRITERS = ("update", "new", "both", "insert", "delete", "overwrite", "drop")
OTHERS = ("update-2", "update-b", "recover", "late", "read", "follow")
SERVICES = ("schedule", "compact")
PLANNED = (*SERVICES, "cluster")
"""Services whose plans other writes give way to."""
OUTLIVED = ("outlived", "abandoned")


def matrix(*, whole: bool = False, locks: tuple[Lock, ...] = (Lock.PERFECT, Lock.LEASE)) -> tuple[Scenario, ...]:
    """Every pair of writers, each with everything else, and some triples, on every kind of table under these locks.

    `whole`: through `HudiTable`, instead of thin writes.
    """
    found = []
    for kind in (kind for kind in KINDS.values() if kind.is_whole is whole and kind.is_common):
        others = (*OTHERS, "cluster", *(SERVICES if kind.is_merge_on_read else ()))
        pairs = [
            *combinations_with_replacement(WRITERS, 2),
            *((writer, other) for writer in WRITERS for other in others),
        ]
        pairs += [("twice", "update")] if whole else []  # thin writes remember no listings
        pairs += [("batch", "batch"), ("retried", "recover"), *((role, "attempt") for role in OUTLIVED)]
        triples = [("update", "update", "read"), ("update", "new", "follow"), ("both", "both", "recover")]
        triples += [(role, "attempt", other) for role in OUTLIVED for other in ("read", "update", "late")]
        triples += [("update", "update", "clean"), ("overwrite", "both", "clean"), ("both", "undo", "clean")]
        triples += [("update", "clean", "clean"), ("update", "clean", "late")]
        pairs += [("cluster", "cluster"), ("cluster", "late"), ("preferred", "cluster")]
        triples += [("preferred", "cluster", "cluster"), ("preferred", "update", "cluster")]
        triples += [("update", "cluster", "read"), ("update", "cluster", "follow"), ("update", "cluster", "clean")]
        pairs += [("both", "restore"), ("restore", "restore"), ("update", "save"), ("overwrite", "restore")]
        triples += [("update", "restore", role) for role in ("read", "late", "clean", "recover")]
        triples += [("overwrite", "save", "clean"), ("save", "restore", "update"), ("update", "cluster", "restore")]
        pairs += [("update", "expire"), ("both", "expire"), ("new", "expire"), ("expire", "expire"), ("expire", "late")]
        triples += [("update", "expire", role) for role in ("read", "follow", "clean", "cluster", "restore")]
        if kind.version == VERSION_THAT_CHANGES:
            pairs += [(role, "versions") for role in ("update", "both", "drop", "clean", "cluster", "versions", "late")]
            triples += [("update", "versions", role) for role in ("read", "update", "late")]
        pairs += [("extend", role) for role in ("extend", "update", "overwrite", "drop", "cluster", "late")]
        pairs += [("discard", role) for role in ("extend", "update", "delete", "new")]
        pairs += [("merge", role) for role in ("merge", "update", "update-b", "new", "drop", "overwrite", "late")]
        pairs += [("claim", role) for role in ("claim", "update-b", "merge", "drop", "late")]
        triples += [("claim", "claim", "read"), ("claim", "claim", "claim"), ("merge", "update-b", "read")]
        triples += [("extend", "merge", "recover"), ("merge", "undo", "update")]
        if kind.is_merge_on_read:
            pairs += [("extend", "compact"), ("merge", "compact"), ("discard", "compact")]
            pairs += [("compact", "compact"), ("compact", "late"), *([("twice", "compact")] if whole else [])]
            triples += [("outlived", "attempt", "compact")]
            triples += [("update", "compact", "clean"), ("update", "compact", "restore"), ("compact", "save", "clean")]
            triples += [("update", "compact", "cluster")]
            triples += [("update", "compact", "read"), ("update", "schedule", "compact"), ("update", "undo", "compact")]
        found += [Scenario(kind, lock, roles) for lock in locks for roles in (*pairs, *triples)]
    for kind in (kind for kind in KINDS.values() if kind.is_whole is whole and kind.is_long):
        roles_of = (*_BESIDE_ARCHIVING, *(_BESIDE_ARCHIVING_OF_LOGS if kind.is_merge_on_read else ()))
        found += [Scenario(kind, lock, roles) for lock in locks for roles in roles_of]
    for kind in (kind for kind in KINDS.values() if kind.is_whole is whole and kind.is_listed):
        roles_of = (*_WITH_METADATA_TABLE, *(_WITH_METADATA_TABLE_OF_LOGS if kind.is_merge_on_read else ()))
        found += [Scenario(kind, lock, roles) for lock in locks for roles in roles_of]
    for kind in (kind for kind in KINDS.values() if kind.is_whole is whole and kind.is_captured):
        roles_of = (*CAPTURED, *(CAPTURED_IN_LOGS if kind.is_merge_on_read else ()))
        found += [Scenario(kind, lock, roles) for lock in locks for roles in roles_of]
    for kind in (kind for kind in KINDS.values() if kind.is_whole is whole):
        version = table_version(kind.version)
        roles_of = kind.indexes.roles(version, is_merge_on_read=kind.is_merge_on_read) if kind.indexes else ()
        found += [Scenario(kind, lock, roles) for lock in locks for roles in roles_of]
    for kind in (kind for kind in KINDS.values() if kind.is_whole is whole and kind.buckets):
        found += [Scenario(kind, lock, roles) for lock in locks for roles in ROLES_OF[kind.buckets]]
    return tuple(found)


_WITH_METADATA_TABLE: tuple[tuple[str, ...], ...] = (
    ("update", "update"),
    ("both", "new"),
    ("overwrite", "update"),
    ("drop", "both"),
    ("update", "cluster"),
    ("update", "late"),
    ("both", "undo"),
    ("both", "restore"),
    ("abandoned", "attempt"),
    ("update", "update", "clean"),
    ("overwrite", "clean", "clean"),
    ("update", "clean", "late"),
)
_WITH_METADATA_TABLE_OF_LOGS: tuple[tuple[str, ...], ...] = (
    ("update", "compact"),
    ("compact", "compact"),
    ("update", "compact", "late"),
)


_BESIDE_ARCHIVING: tuple[tuple[str, ...], ...] = (
    *((writer, "archive") for writer in WRITERS),
    *((writer, "tidy") for writer in WRITERS),
    *((other, "tidy") for other in ("archive", "tidy", "read", "recall", "late")),
    ("update", "update-2", "update-b", "archive"),
    ("update", "tidy", "read"),
    ("update", "tidy", "recall"),
    ("update", "archive", "archive"),
    ("update", "tidy", "late"),
    ("overwrite", "clean", "archive"),
    ("both", "undo", "tidy"),
    ("batch", "batch", "tidy"),
)
_BESIDE_ARCHIVING_OF_LOGS: tuple[tuple[str, ...], ...] = (
    ("compact", "tidy"),
    ("update", "compact", "tidy"),
    ("schedule", "compact", "archive"),
)
