"""Requests and answers of the actors of a simulation, against which the invariants are checked."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from pyhudi.errors import HudiError
from pyhudi.testing.simulation.key_value_writes import Attempt, Request

EXPIRY = "expiry-of-partitions"
"""In the place of an actor's name: who drops partitions that are past their time."""


class Verdict(enum.Enum):
    """The answer of a call to its caller."""

    DONE = "the call succeeded"
    REFUSED = "the call had no effect"
    UNKNOWN = "the effect of the call is unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of one call.

    Attributes:
        actor: the name of the actor that called.
        verdict: whether the call succeeded.
        began: the step of the run at which the call began.
        ended: the step of the run at which the call ended.
        error: the error that the call raised.
        instant: for a write, its instant time; None if it found nothing to write.
        position: for a write, its position in the history of the table.
        rows: for a read, the rows.
        seen: for a read, the instant times of the completed writes on its timeline.
        since: for an incremental read, the position from which it read.
        is_whole: whether `seen` is the whole history, with the archived writes.
        is_followed: whether `rows` were made from changes that were read since the last time.
    """

    actor: str
    verdict: Verdict
    began: int
    ended: int
    error: HudiError | None = None
    instant: str | None = None
    position: str = ""
    rows: tuple[tuple[str, str], ...] | None = None
    seen: frozenset[str] = frozenset()
    since: str | None = None
    is_whole: bool = False
    is_followed: bool = False


@dataclass(slots=True)
class History:
    """All requests and answers of a run.

    Attributes:
        requests: the request of each writer, by its name. Names of actors end with a dash and a number; names of the
            writers that created the table do not.
        answers: the answers, in their order.
        undone: the instant times of completed writes for which an actor requested a rollback.
        attempts: attempts of tasks for which their writes do not wait.
    """

    requests: dict[str, Request] = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)
    undone: set[str] = field(default_factory=set)
    attempts: list[Attempt] = field(default_factory=list)
