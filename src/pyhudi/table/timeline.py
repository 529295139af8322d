"""The active timeline of a table: an immutable list of instants, and how it is loaded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from pyhudi.errors import CorruptDataError, NotFoundError
from pyhudi.format.avro.container import CONTAINER_BYTES_MAX
from pyhudi.format.metadata.compaction import CompactionPlan, decode_compaction_plan
from pyhudi.format.metadata.rollback import RollbackPlan, decode_rollback_plan
from pyhudi.format.timeline.instant import (
    Action,
    Instant,
    InstantState,
    InstantTime,
    foreign_instants,
    instant_file_name,
    instants_of,
)
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.storage.bounded import read_decoded
from pyhudi.storage.protocol import Storage

WRITE_ACTIONS = frozenset({Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT})
"""The actions that write rows, as they are called when completed."""


@dataclass(frozen=True)
class Timeline:
    """The instants of a table at the moment of loading. `instants` has one entry per action, in its newest state.

    `foreign`: names of files that look like instants of an action that this release does not know.
    """

    version: TableVersion
    instants: tuple[Instant, ...]
    foreign: tuple[str, ...] = ()

    @cached_property
    def completed_writes(self) -> tuple[Instant, ...]:
        """Completed commits, delta commits and replace commits, by requested time."""
        return tuple(
            instant
            for instant in self.instants
            if instant.state is InstantState.COMPLETED and instant.action in WRITE_ACTIONS
        )

    @cached_property
    def pending_writes(self) -> tuple[Instant, ...]:
        """Requested or inflight commits, delta commits and replace commits, by requested time."""
        return tuple(
            instant
            for instant in self.instants
            if instant.state is not InstantState.COMPLETED and instant.action in WRITE_ACTIONS
        )

    @cached_property
    def pending_rollbacks(self) -> tuple[Instant, ...]:
        """Rollbacks that have begun and are not completed, by requested time."""
        return tuple(
            instant
            for instant in self.instants
            if instant.state is not InstantState.COMPLETED and instant.action is Action.ROLLBACK
        )

    @cached_property
    def pending_compactions(self) -> tuple[Instant, ...]:
        """Compactions and log compactions that are planned or running, by requested time."""
        return tuple(
            instant
            for instant in self.instants
            if instant.state is not InstantState.COMPLETED
            and instant.action in (Action.COMPACTION, Action.LOG_COMPACTION)
        )

    @cached_property
    def pending_clusterings(self) -> tuple[Instant, ...]:
        """Clusterings that are planned or running, by requested time.

        In version 6 they are among the pending replace commits, and only their plans show them
        (`pyhudi.table.pending_clusterings`).
        """
        return tuple(
            instant
            for instant in self.instants
            if instant.state is not InstantState.COMPLETED and instant.action is Action.CLUSTERING
        )

    @cached_property
    def completion_times(self) -> dict[str, str]:
        """When the completed writes became visible, by requested time; the requested time again in version 6."""
        return {instant.requested_time: position_of(instant) for instant in self.completed_writes}

    @cached_property
    def completed_times(self) -> frozenset[InstantTime]:
        """Requested times of the completed writes."""
        return frozenset(instant.requested_time for instant in self.completed_writes)

    @cached_property
    def first_time(self) -> InstantTime | None:
        """The oldest write of the active timeline."""
        times = [i.requested_time for i in self.instants if i.action in WRITE_ACTIONS]
        return min(times, default=None)

    @cached_property
    def latest_time(self) -> str:
        """The largest time on the timeline, requested or completed; an empty string on an empty one."""
        times = [i.requested_time for i in self.instants]
        times += [i.completion_time for i in self.instants if i.completion_time is not None]
        return max(times, default="")

    def is_committed(self, instant_time: str) -> bool:
        """Whether a write of the active timeline with this instant time is completed."""
        return instant_time in self.completed_times

    def starts_after(self, instant_time: str) -> bool:
        """Whether an instant is older than the active timeline: such an instant was archived, or never completed."""
        return self.first_time is not None and instant_time < self.first_time

    def until(self, instant_time: str) -> Timeline:
        """The timeline without the writes requested after an instant time (time travel)."""
        kept = tuple(i for i in self.instants if i.requested_time <= instant_time)
        return Timeline(self.version, kept, self.foreign)


def load_timeline(storage: Storage, version: TableVersion) -> Timeline:
    """The active timeline. Cost: one folder listing."""
    return timeline_of(version, storage.list_names(version.timeline_folder))


def timeline_of(version: TableVersion, names: Iterable[str]) -> Timeline:
    """The timeline of these file names; names of other files are skipped."""
    names = tuple(names)
    return Timeline(version, instants_of(names, version), foreign_instants(names, version))


def instant_path(instant: Instant, version: TableVersion) -> str:
    """The path of an instant's file, relative to the table."""
    return f"{version.timeline_folder}/{instant_file_name(instant, version)}"


def comes_once(instant: Instant, version: TableVersion) -> bool:
    """Whether no other write of any table at this path can have the instant, so that something may be kept by it.

    In version 6 the instants of bootstraps, and of the first commits of a metadata table, are the same for each table.
    """
    return version.has_completion_times or not instant.requested_time.startswith("0000")


def position_of(instant: Instant) -> InstantTime:
    """The position of a completed write for incremental reads: its completion time; in version 6 its instant time."""
    return instant.completion_time or instant.requested_time


def load_compaction_plan(storage: Storage, compaction: Instant, version: TableVersion) -> CompactionPlan:
    """The plan of a compaction. Cost: one read. Raises `CorruptDataError` naming the file."""
    path = instant_path(replace(compaction, state=InstantState.REQUESTED, completion_time=None), version)
    return read_decoded(storage, path, CONTAINER_BYTES_MAX, decode_compaction_plan)


def load_rollback_plan(storage: Storage, rollback: Instant, version: TableVersion) -> RollbackPlan:
    """The plan of a rollback. Cost: one read. Raises `CorruptDataError` naming the file."""
    path = instant_path(replace(rollback, state=InstantState.REQUESTED, completion_time=None), version)
    return read_decoded(storage, path, CONTAINER_BYTES_MAX, decode_rollback_plan)


def load_begun_rollback(storage: Storage, rollback: Instant, version: TableVersion) -> RollbackPlan | None:
    """The plan of a pending rollback; None where it has been withdrawn, as its write turned out to be completed.

    Cost: one read. Raises `CorruptDataError` naming the file, also where the rollback is there without its plan.
    """
    try:
        return load_rollback_plan(storage, rollback, version)
    except NotFoundError as error:
        if storage.info(instant_path(rollback, version)) is None:
            return None
        raise CorruptDataError(
            "a rollback has begun, and its plan is missing",
            path=instant_path(replace(rollback, state=InstantState.REQUESTED), version),
        ) from error


def begun_rollbacks(storage: Storage, timeline: Timeline) -> list[tuple[Instant, RollbackPlan]]:
    """The pending rollbacks with their plans. Cost and errors: those of `load_begun_rollback` for each."""
    plans = [load_begun_rollback(storage, rollback, timeline.version) for rollback in timeline.pending_rollbacks]
    found = zip(timeline.pending_rollbacks, plans, strict=True)
    return [(rollback, plan) for rollback, plan in found if plan is not None]
