"""Events: what happens to a table, as values, for those who observe a process.

The engine calls `Environment.observe` with each event. Metrics and commit callbacks are made of events, and nothing of
the engine knows them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # commands that need a clock alone start without pyarrow
    from pyhudi.format.metadata.commit import CommitMetadata
    from pyhudi.format.timeline.instant import Action, Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionCompleted:
    """An action is completed, and visible.

    Attributes:
        action: the action as its pending instants name it: a compaction is one, although it completes as a commit.
        instant: its requested time; that of a rollback, not of what was rolled back.
        base_path: the URI of the table.
        completed_ms: when it was completed, in milliseconds since the epoch by the clock of this process.
        seconds: how long it took; of a write, from its call on.
        metadata: what a write, compaction or clustering stored in its completed instant; None for other actions.
        files_deleted: how many files a clean or rollback deleted.
    """

    action: Action
    instant: str
    base_path: str
    completed_ms: int
    seconds: float
    metadata: CommitMetadata | None = None
    files_deleted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantsArchived:
    """Instants left the active timeline."""

    instants: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysLookedUp:
    """The index has found the file groups of the keys of a write."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesFinalized:
    """The files of a commit are known, and those of failed task attempts deleted."""

    files: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictsChecked:
    """A write was compared with those that were completed while it ran. `is_resolved`: it may be committed."""

    is_resolved: bool
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSynced:
    """A sync with a catalog has ended. `tool`: the simple name of JVM Hudi's class for this catalog."""

    tool: str
    seconds: float
    has_failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineLoaded:
    """The instants of the active timeline before a write, oldest first."""

    instants: tuple[Instant, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAsked:
    """A streamer has asked a topic what is new: how many messages it gets, of all that come after its checkpoint."""

    messages: int
    behind: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorTableWritten:
    """A streamer has written what could not be read to its error table."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundEnded:
    """A round of a streamer has ended.

    Attributes:
        ended_ms: when, in milliseconds since the epoch by the clock of this process.
        seconds: how long it took.
        has_failed: whether an error ended it.
        has_committed: whether it made a commit; without one nothing was new, or it failed.
    """

    ended_ms: int
    seconds: float
    has_failed: bool
    has_committed: bool


Event = (
    ActionCompleted
    | InstantsArchived
    | KeysLookedUp
    | FilesFinalized
    | ConflictsChecked
    | CatalogSynced
    | TimelineLoaded
    | TopicAsked
    | ErrorTableWritten
    | RoundEnded
)
Observe = Callable[[Event], None]
"""Called with each event, in the thread where it happens. It must neither raise nor wait."""


def ignore(_: Event) -> None:
    """Observe nothing."""


def all_of(observers: Sequence[Observe]) -> Observe:
    """One observer in the place of several."""

    def observe(event: Event) -> None:
        for observer in observers:
            observer(event)

    return observers[0] if len(observers) == 1 else observe
