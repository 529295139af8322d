"""What mutants are made of: a defect replaces or wraps one shipped function where it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from pyhudi.table.state import TableState
from pyhudi.testing.simulation.explore import Budget, Result, explore, replay
from pyhudi.testing.simulation.scenarios import scenario_of
from pyhudi.testing.simulation.schedule import parse_schedule
from pyhudi.testing.simulation.start_tables import kind_of, prepared
from pyhudi.transaction.locks.table_lock import HeldLock

Patch = tuple[object, Any, object]
"""A module or a class, a function of it (itself, not its name), and what takes its place where that one uses it."""


def name_in(owner: object, function: Any) -> str:
    """The name by which a module or a class has this function."""
    return next(name for name, value in vars(owner).items() if value is function)


@contextmanager
def patched(*patches: Patch) -> Iterator[None]:
    """The shipped code with other functions in these places."""
    with ExitStack() as stack:
        for owner, function, replacement in patches:
            stack.enter_context(patch.object(owner, name_in(owner, function), replacement))
        yield


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A defect in one rule of the protocol, and why that rule is there.

    `family`: the scenario that is searched for it, within `budget`. `breaks`: the invariants of which it must violate
    one. `known`: choices that found it after a long search; they are tried before the search.
    """

    name: str
    why: str
    patches: tuple[Patch, ...]
    family: str
    budget: Budget
    breaks: tuple[str, ...]
    known: str = ""

    def __post_init__(self) -> None:
        for owner, function, replacement in self.patches:
            if function is replacement or all(value is not function for value in vars(owner).values()):
                raise ValueError(f"{self.name}: {function} is not in {owner}, or stays as it is")

    def __str__(self) -> str:
        return self.name.replace(" ", "-")

    def found(self) -> Result | None:
        """A run that violates an invariant, once the defect is put in; None if no schedule of the budget does."""
        if self.known:
            known = replay(parse_schedule(f"{self.family} : {self.known}"), self.budget.powers)
            if known.violation is not None:
                return known
        return explore(scenario_of(self.family), self.budget).failure

    @contextmanager
    def put_in(self) -> Iterator[None]:
        """The shipped code with the defect. The table of the family is made before, by the code as it is."""
        prepared(kind_of(self.family.partition("/")[0]))
        with patched(*self.patches):
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
