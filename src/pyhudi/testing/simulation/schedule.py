"""Schedules: the deviations of a run from the default, in which each actor runs until it ends or has to wait.

    cow8/lease/upsert+upsert@same : 14=1 31=c

means: in this scenario, at choice point 14 actor 1 continues instead of the running actor, and at choice point 31 the
running actor dies. The text is sufficient to replay the run.
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
    PAUSE: "the actor's process is suspended, for longer than a lease lasts",
    SLEEP: "the actor's process is suspended, for longer than leases and heartbeats last",
    JUMP: "time passes, for longer than leases and heartbeats last; timers fire",
    BACK: "the clocks of all actors are set back",
    AHEAD: "the actor's own clock is set ahead, by less than leases tolerate",
    BEAT: "the due timers of all actors fire",
}
"""The meaning of each choice that is a letter. A choice that is a number names the actor that continues."""

_CHOICE: Final = re.compile(r"(?P<point>[0-9]+)=(?P<choice>[0-9]+|[a-z])")


@dataclass(frozen=True, slots=True)
class Schedule:
    """The name of a scenario, and the choices at numbered points of its run. `str` returns the text."""

    scenario: str
    choices: tuple[tuple[int, str], ...] = ()

    def __str__(self) -> str:
        return " ".join([self.scenario, ":", *(f"{point}={choice}" for point, choice in self.choices)])


def parse_schedule(text: str) -> Schedule:
    """Parse the text of a schedule.

    Raises:
        InvalidRequestError: the text is not a schedule.
    """
    scenario, colon, rest = text.partition(":")
    choices = []
    for word in rest.split():
        match = _CHOICE.fullmatch(word)
        if match is None:
            raise InvalidRequestError("the text is not a schedule: write it as the failed run printed it", word=word)
        choices.append((int(match["point"]), match["choice"]))
    if not colon or not scenario.strip():
        raise InvalidRequestError("the text is not a schedule: write it as the failed run printed it", text=text)
    return Schedule(scenario.strip(), tuple(sorted(choices)))
