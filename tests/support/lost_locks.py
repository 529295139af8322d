"""A table whose lock can be lost at the worst moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.hooks import is_last_put, once
from tests.support.tables import LATER_MS, StepClock, environment, new_table, open_table, rows

import pyhudi
from pyhudi.environment import Environment
from pyhudi.errors import (
    LockLostError,
)
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.testing.faults import FaultStorage
from pyhudi.transaction.intents import INTENT_FOLDER

Write = Callable[[pyhudi.HudiTable], Any]


@dataclass
class TakenLocks:
    """A lock that anybody gets who asks for it: whoever had it has lost it then."""

    holder: object = None

    def acquire(self, storage: Storage, environment: Environment, *, wait_ms: int) -> HeldTaken:  # noqa: ARG002
        self.holder = held = HeldTaken(self)
        return held


@dataclass(eq=False)
class HeldTaken:
    locks: TakenLocks

    def check_held(self) -> None:
        if self.locks.holder is not self:
            raise LockLostError("the lock was taken by somebody else; run the write again")

    def release(self) -> None:
        if self.locks.holder is self:
            self.locks.holder = None


@dataclass
class TableWithALockToLose:
    """A table whose lock can be lost, for writers of one clock."""

    version: int = 9
    options: dict[str, str] = field(default_factory=dict)
    clock: StepClock = field(default_factory=StepClock)
    locks: TakenLocks = field(default_factory=TakenLocks)
    storage: MemoryStorage = field(default_factory=MemoryStorage)

    def __post_init__(self) -> None:
        new_table(self.storage, version=self.version, **self.options)
        self.opened().insert(rows((1, "oslo", 1, "a"), (2, "oslo", 1, "a"), (3, "rome", 1, "a")))

    def opened(self, storage: Storage | None = None, *, later: bool = False) -> pyhudi.HudiTable:
        clock = StepClock(LATER_MS) if later else self.clock
        env = replace(environment(clock), locks=self.locks)
        return open_table(storage or self.storage, env=env, **{"hoodie.compact.inline": "false"})

    def paused_at_its_put(self, meanwhile: Callable[[], object], *, after: bool = False) -> pyhudi.HudiTable:
        """The table for a writer who pauses right before (or in the middle of) its last put."""
        hook = once(is_last_put, meanwhile)
        store = FaultStorage(self.storage, after=hook) if after else FaultStorage(self.storage, before=hook)
        return self.opened(store)

    def intents(self) -> list[str]:
        return [info.name for info in self.storage.list_folder(INTENT_FOLDER).files]


def upsert(*values: tuple[int, str, int, str], **options: str) -> Write:
    return lambda table: table.upsert(rows(*values), hudi_options=options)


MINE: Write = upsert((1, "oslo", 9, "mine"))
