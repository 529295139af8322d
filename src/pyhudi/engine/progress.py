"""Progress of a step of a write: how many of its tasks have ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from pyhudi.environment import SYSTEM
from pyhudi.markup import bar


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the tasks of a step are.

    Attributes:
        step: what the tasks do.
        done: how many of them have ended.
        tasks: how many there are.
        seconds: time since the step began.
        seconds_left: what the step may still take, if its other tasks are like those that have ended.
    """

    step: str
    done: int
    tasks: int
    seconds: float
    seconds_left: float

    @property
    def words(self) -> str:
        """How far the step is, in a line."""
        is_last = self.done == self.tasks
        time = f"{self.seconds:.1f} s" if is_last else f"about {self.seconds_left:.0f} s left"
        return f"{self.step}: {self.done} of {self.tasks} tasks, {time}"

    def _repr_html_(self) -> str:
        return bar(self.done, self.tasks, self.words)


OnProgress = Callable[[Progress], object]
"""Called when a task has ended, by one thread at a time. What it raises ends the step."""


class ProgressOfStep:
    """Counts the tasks of a step that have ended."""

    def __init__(self, step: str, tasks: int, tell: OnProgress) -> None:
        self._step, self._tasks, self._tell = step, tasks, tell
        self._done, self._begin, self._guard = 0, SYSTEM.clock.monotonic(), threading.Lock()

    def task_ended(self) -> None:
        """Count one more, and tell it."""
        with self._guard:
            self._done += 1
            seconds = SYSTEM.clock.monotonic() - self._begin
            left = seconds / self._done * (self._tasks - self._done)
            self._tell(Progress(self._step, self._done, self._tasks, seconds, left))
