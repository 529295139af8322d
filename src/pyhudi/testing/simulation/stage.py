"""The stage of a role: what its program gets, and how it reports the answers of its calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyhudi.errors import CommitOutcomeUnknownError, HudiError
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.testing.simulation.history import Answer, History, Verdict
from pyhudi.testing.simulation.key_value_writes import Request
from pyhudi.testing.simulation.scheduler import Actor, Run
from pyhudi.testing.simulation.start_tables import Seat


@dataclass(frozen=True, slots=True)
class Stage:
    """What a role plays on: the run, its actor and seat, and the history that it adds to."""

    run: Run
    actor: Actor
    seat: Seat
    history: History

    def tell(self, answer: Answer) -> None:
        """Add the answer of a call, which becomes a part of what the actor knows."""
        self.history.answers.append(answer)

    def done(self, began: int, **facts: Any) -> None:
        """Add the answer of a call that raised nothing; `facts`: what else `Answer` has of it."""
        name, ended = self.seat.name, self.run.steps
        self.tell(Answer(actor=name, verdict=Verdict.DONE, began=began, ended=ended, **facts))


Role = Callable[[Stage], None]


def write(request: Callable[[str], Request]) -> Role:
    """A write, by the name of its actor."""

    def play(stage: Stage) -> None:
        seat, began = stage.seat, stage.run.steps
        asked = stage.history.requests[seat.name] = request(seat.name)
        try:
            result = seat.write(asked)
        except HudiError as error:
            stage.tell(failed(stage, began, error))
        else:
            is_new = result.has_committed
            instant, position = (result.instant, result.completion_time) if is_new else (None, "")
            stage.done(began, instant=instant, position=position)

    return play


def failed(stage: Stage, began: int, error: HudiError) -> Answer:
    """The answer of a call that raised an error."""
    is_unknown = isinstance(error, CommitOutcomeUnknownError)
    verdict = Verdict.UNKNOWN if is_unknown else Verdict.REFUSED
    return Answer(actor=stage.seat.name, verdict=verdict, began=began, ended=stage.run.steps, error=error)


def values(operation: WriteOperation, *keys: str, replaces: tuple[str, ...] = ()) -> Role:
    """A write of some keys, with its actor's name as their value."""
    return write(
        lambda name: Request(operation=operation, values=dict.fromkeys(keys, name), replaces=replaces),
    )


def serve(stage: Stage, service: Callable[[Stage], object]) -> None:
    """Run a service or a read; what a service is told is only of interest when it fails."""
    began = stage.run.steps
    try:
        service(stage)
    except HudiError as error:
        stage.tell(failed(stage, began, error))
