"""What the actors of a simulation asked for and were told: the evidence that invariants are checked against."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from pyhudi.errors import HudiError
from pyhudi.testing.simulation.key_value_writes import Attempt, Request


class Verdict(enum.Enum):
    """What a call told its caller."""

    DONE = "it was done"
    REFUSED = "nothing was done"
    UNKNOWN = "nobody knows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The end of one call. `began` and `ended` count the steps of the run.

    `instant` and `position` are those of a write. `rows`: what a reader saw; `seen`: the completed writes that it knew
    of, by instant time; `since`: of an incremental read, the position from which it asked.
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


@dataclass(slots=True)
class History:
    """All that was asked for, by actor, and all that was told, in the order of the answers.

    Names of actors have a number behind a dash; those of the writers that made the table have not. `undone`: completed
    writes that somebody asked to take back. `attempts`: of tasks whose writes do not wait for them.
    """

    requests: dict[str, Request] = field(default_factory=dict)
    told: list[Told] = field(default_factory=list)
    undone: set[str] = field(default_factory=set)
    attempts: list[Attempt] = field(default_factory=list)
