"""Which rules a commit protocol needs: each is switched off in the shipped code, and the broken invariant is named.

What is switched off: the look at conflicts, that at new keys, exclusive creation, and instant times above all that is
there (then they are those of a clock that stands still). There is no salt in names and no lock per file group here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pytest
from tests.support.mutants import defects
from tests.support.mutants.tools import Patch, nothing, patched

from pyhudi.errors import HudiError
from pyhudi.table import instant_times
from pyhudi.testing.simulation.explore import Budget, explore
from pyhudi.testing.simulation.scenarios import Scenario, scenario_of
from pyhudi.testing.simulation.scheduler import Powers
from pyhudi.testing.simulation.start_tables import kind_of, prepared
from pyhudi.transaction import transaction
from pyhudi.transaction.conflicts import check as conflict_check

ORDER = Budget(deviations=2, schedules=400)
LEASES = Budget(deviations=2, schedules=400, powers=Powers(pauses=True))
PAIRS = ("update+update-2", "new+new")
READS, KEYS = "reads", "keys"
"""A read shows committed rows of one moment, and no key is in the table twice."""


@dataclass(frozen=True)
class Rules:
    """What of the protocol is on."""

    rising_times: bool = True
    conflicts: bool = True
    new_keys: bool = True
    exclusive: bool = True

    def __str__(self) -> str:
        off = [name for name, is_on in vars(self).items() if not is_on]
        return f"without {' '.join(off)}" if off else "all"

    @contextmanager
    def followed(self) -> Iterator[None]:
        prepared(kind_of("cow8"))
        # Only what becomes of the rows is asked: any typed error will do, and completion times may be equal.
        patches: list[Patch] = [
            (Scenario, Scenario.allowed_errors, lambda *_: (HudiError,)),
            (Scenario, Scenario.is_ordered, lambda *_: False),
        ]
        if not self.rising_times:
            patches.append((transaction, transaction.next_time, standing_clock(1)))
            patches.append((instant_times, instant_times.next_time, standing_clock(2)))
        if not self.conflicts:
            patches.append((transaction, transaction.check_conflicts, nothing))
        if not self.new_keys:
            modules = (transaction, conflict_check)
            patches += [(module, module.footprint_of, defects.footprint_without_promise) for module in modules]
        with patched(*patches):
            yield


def standing_clock(second: int) -> Any:
    """Every writer of a run begins at one moment and completes at the next."""
    return lambda _timeline, _config, _clock, **_: f"2026092114140000{second}"


def broken(rules: Rules) -> set[str]:
    """What some schedule of one of the pairs of writers breaks."""
    found = set()
    with rules.followed():
        for pair in PAIRS:
            scenario = replace(scenario_of(f"cow8/lock/{pair}"), exclusive=rules.exclusive)
            failure = explore(scenario, ORDER).failure
            if failure is not None:
                found.add(KEYS if (failure.violation or "").startswith("K4") else READS)
    return found


TABLE = [Rules(*on) for on in product((True, False), repeat=4)]


def expected(rules: Rules) -> set[str]:
    """What a model of these rules in TLA+ breaks, but for what is said below.

    The look at new keys is a part of that at conflicts, which the model has apart. The model's clock may go on as well
    as stand still; here it stands still, so that of several writers one writes and the others are refused.
    """
    if not rules.rising_times:
        return set() if rules.exclusive else {READS}
    if not rules.conflicts:
        return {READS, KEYS}
    return set() if rules.new_keys else {KEYS}


@pytest.mark.parametrize("rules", TABLE, ids=str)
def test_the_shipped_protocol_needs_the_rules_that_the_model_needs(rules: Rules) -> None:
    assert broken(rules) == expected(rules)


@pytest.mark.parametrize(("intents", "invariant"), [(True, None), (False, "K1")], ids=["intents", "no intents"])
def test_under_a_lease_that_ends_the_protocol_needs_intents(intents: bool, invariant: str | None) -> None:
    prepared(kind_of("cow8"))
    with nullcontext() if intents else patched((transaction, transaction.put_intent, nothing)):
        failure = explore(scenario_of("cow8/lease/update+update-2"), LEASES).failure
    assert (None if failure is None else (failure.violation or "").partition(":")[0]) == invariant
