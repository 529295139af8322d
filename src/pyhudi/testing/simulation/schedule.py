"""Schedules: what a run did otherwise than to let each actor run on until it ends or has to wait.

    cow8/lease/upsert+upsert@same : 14=1 31=c

reads: in this scenario, before the fourteenth step actor 1 goes on, and before the thirty-first the actor whose turn it
is dies. The text is all that it takes to run the schedule again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pyhudi.errors import InvalidRequestError

CRASH: Final = "c"
TORN: Final = "t"
FAIL: Final = "e"
FAIL_AFTER: Final = "a"
FAIL_LATE: Final = "z"
LAND: Final = "l"
PAUSE: Final = "p"
SLEEP: Final = "h"
JUMP: Final = "j"
BACK: Final = "b"
AHEAD: Final = "s"
BEAT: Final = "w"

MEANING: Final = {
    CRASH: "the actor dies before the call",
    TORN: "the actor dies in the call, which leaves half a file",
    FAIL: "the call fails and does nothing",
    FAIL_AFTER: "the call succeeds, and its answer is lost",
    FAIL_LATE: "the call fails, and its put lands later",
    LAND: "the oldest late put lands",
    PAUSE: "the actor's process stands still, for longer than a lease lasts",
    SLEEP: "the actor's process stands still, for longer than leases and heartbeats last",
    JUMP: "time passes, for longer than leases and heartbeats last; timers go on",
    BACK: "everybody's clock is set back",
    AHEAD: "the actor's own clock is set ahead, by less than leases allow for",
    BEAT: "the timers of an actor that stood still fire",
}
"""Beside these a choice is the number of the actor that goes on."""

_CHOICE: Final = re.compile(r"(?P<point>[0-9]+)=(?P<choice>[0-9]+|[a-z])")


@dataclass(frozen=True, slots=True)
class Schedule:
    """A scenario by name, and the choices at numbered points of its run. `str` gives the text."""

    scenario: str
    choices: tuple[tuple[int, str], ...] = ()

    def __str__(self) -> str:
        return " ".join([self.scenario, ":", *(f"{point}={choice}" for point, choice in self.choices)])


def parse_schedule(text: str) -> Schedule:
    """The schedule that a text names. Raises `InvalidRequestError` for any other text."""
    scenario, colon, rest = text.partition(":")
    choices = []
    for word in rest.split():
        match = _CHOICE.fullmatch(word)
        if match is None:
            raise InvalidRequestError("this is no schedule; write it as a failed run printed it", word=word)
        choices.append((int(match["point"]), match["choice"]))
    if not colon or not scenario.strip():
        raise InvalidRequestError("this is no schedule; write it as a failed run printed it", text=text)
    return Schedule(scenario.strip(), tuple(sorted(choices)))
