"""`Service`: what the runner and a write have to know of a table service, and `ServiceRun`, what one run of it did."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, replace

from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.protocol import Engine
from pyhudi.environment import Environment
from pyhudi.format.timeline.instant import Action, Instant
from pyhudi.merge.rules import Merger
from pyhudi.metadata_table.partitions.protocol import Source
from pyhudi.table.lister import EngineLister
from pyhudi.table.state import TableState
from pyhudi.transaction.settings import TransactionSettings


@dataclass(frozen=True, slots=True)
class Due:
    """Whether to run a service now, and why, for the user."""

    is_due: bool
    reason: str


@dataclass(frozen=True, slots=True)
class ServiceCall:
    """The call of a table service: the table as it was loaded, options, engine, and the user's mergers."""

    table: TableState
    config: WriteConfig
    settings: TransactionSettings
    engine: Engine
    environment: Environment
    mergers: tuple[Merger, ...] = ()

    @property
    def lister(self) -> EngineLister:
        """What plans and their executions ask for files: the store itself, many folders in tasks of the engine."""
        return EngineLister(self.table.storage, self.engine)

    def source_of(self, table: TableState) -> Source:
        """Where partitions of the metadata table of a table find what a change does not say."""
        return Source(table, self.environment, self.settings.spill, self.engine)

    def reloaded(self) -> ServiceCall:
        """The same call on the table as it is now."""
        return replace(self, table=self.table.reload())


class Mode(enum.Enum):
    """What a write does with a service after its commit.

    `OFF`: nothing. `PLAN`: it puts a plan on the timeline when one is due. `INLINE`: it runs the service when that is
    due. `BACKGROUND`: as `INLINE`, in a thread of the process, and the write returns before.
    """

    OFF = enum.auto()
    PLAN = enum.auto()
    INLINE = enum.auto()
    BACKGROUND = enum.auto()


class RunOutcome(enum.StrEnum):
    """How a run of a service ended."""

    DONE = "done"
    NOTHING_TO_DO = "nothing to do"
    LEFT = "left to another process"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a service did under one instant: files, rows and bytes that it wrote, files that it deleted.

    `instant` is None for work that has no instant of its own.
    """

    instant: str | None
    files_written: int = 0
    files_deleted: int = 0
    rows: int = 0
    bytes: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRun:
    """One run of a service: how it ended, what it did, and how many seconds that took.

    `message` says why nothing was done, or what failed; it is empty otherwise.
    """

    service: str
    instant: str | None
    outcome: RunOutcome
    files_written: int = 0
    files_deleted: int = 0
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0
    message: str = ""


def _always(_: ServiceCall) -> bool:
    return True


def _no_plans(_: ServiceCall) -> tuple[Instant, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A table service. All functions get the table as it was loaded a moment ago.

    Attributes:
        name: its name in results and on the command line.
        mode: what a write does with it, by the options; not asked where all table services are switched off.
        due: whether to run it now. Costs a few reads at most, and writes nothing.
        run: begin something new, and finish it: work for each instant; nothing where there is nothing to do.
        pending: its plans that are not completed, oldest first.
        execute: execute one plan; None where another process does, or has completed it.
        plan: only put a plan on the timeline; its instant, or None where there is nothing to do.
        actions: the actions of its plans, before and after they are completed.
        is_first: whether it runs before all pending plans.
        has_work: whether a plan would have anything to do, where `due` does not show it. Those are asked who want to
            know whether it is due; `run` finds out as it plans.
    """

    name: str
    mode: Callable[[ServiceCall], Mode]
    due: Callable[[ServiceCall], Due]
    run: Callable[[ServiceCall], tuple[Work, ...]]
    pending: Callable[[ServiceCall], tuple[Instant, ...]] = _no_plans
    execute: Callable[[ServiceCall, str], Work | None] | None = None
    plan: Callable[[ServiceCall], str | None] | None = None
    actions: frozenset[Action] = frozenset()
    is_first: bool = False
    has_work: Callable[[ServiceCall], bool] = _always
