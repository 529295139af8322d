"""Timers that move when the test says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class HandMovedTimer:
    """What is called by hand where an environment's timer would call by the clock."""

    call: Callable[[], bool]
    is_stopped: bool = False

    def stop(self) -> None:
        self.is_stopped = True


@dataclass
class HandMovedTimers:
    """The timers of an environment: none of them calls before `fire`."""

    made: list[HandMovedTimer] = field(default_factory=list)

    def every(self, seconds: float, call: Callable[[], bool], *, name: str) -> HandMovedTimer:
        del seconds, name
        self.made.append(HandMovedTimer(call))
        return self.made[-1]

    def fire(self) -> list[bool]:
        """Let every timer that was not stopped call once. Gives what the calls gave: whether they want another one."""
        return [timer.call() for timer in self.made if not timer.is_stopped]
