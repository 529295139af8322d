"""What mutants are made of: a defect replaces or wraps one shipped function where it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from pyhudi.table.state import TableState
from pyhudi.testing.simulation.explore import Budget
from pyhudi.testing.simulation.start_tables import kind_of, prepared
from pyhudi.transaction.locks.table_lock import HeldLock

Patch = tuple[object, str, object]
"""A module or a class, the name of a function in it, and what takes its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A defect in one rule of the protocol, and why that rule is there.

    `family`: the scenario that is searched for it, within `budget`. `breaks`: the invariants of which it must violate
    one.
    """

    name: str
    why: str
    patches: tuple[Patch, ...]
    family: str
    budget: Budget
    breaks: tuple[str, ...]

    def __str__(self) -> str:
        return self.name.replace(" ", "-")

    @contextmanager
    def put_in(self) -> Iterator[None]:
        """The shipped code with the defect. The table of the family is made before, by the code as it is."""
        prepared(kind_of(self.family.partition("/")[0]))
        with ExitStack() as stack:
            for target, name, replacement in self.patches:
                stack.enter_context(patch.object(target, name, replacement))
            yield


def nothing(*_: Any, **__: Any) -> None:
    """A step that was forgotten."""


def always(answer: object) -> Callable[..., Any]:
    """Somebody who does not look."""
    return lambda *_, **__: answer


class StaleTable(TableState):
    """A table that stays as it was when it was loaded."""

    def reload(self) -> TableState:
        return self


def stale(table: TableState) -> StaleTable:
    return StaleTable(table.storage, table.config, table.timeline)


@contextmanager
def no_lock(*_: Any, **__: Any) -> Iterator[HeldLock]:
    """Nobody else is kept out."""
    yield HeldLock(can_be_lost=False)
