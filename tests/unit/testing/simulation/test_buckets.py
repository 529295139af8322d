"""Lock-less writers, and writers beside resizes of rings: in every order, with crashes, and with broken rules."""

from __future__ import annotations

import pytest
from tests.support.mutants.buckets import BUCKETS
from tests.support.mutants.tools import Mutant

from pyhudi.testing.simulation.campaign import CRASHES, PAUSES
from pyhudi.testing.simulation.explore import Budget, explore, replay
from pyhudi.testing.simulation.scenarios import scenario_of
from pyhudi.testing.simulation.scheduler import Powers

ORDER = Powers()


@pytest.mark.parametrize(
    ("scenario", "powers"),
    [
        ("lockless-whole-mor8/lock/update+both+new", ORDER),
        ("lockless-whole-mor8/lease/both+delete+compact", ORDER),
        ("lockless-whole-mor8/lock/new+new+schedule+compact", CRASHES),
        ("lockless-whole-mor8/lease/update+both+late", PAUSES),
        ("ringed-whole-mor8/lock/both+cluster", ORDER),
        ("ringed-whole-mor8/lease/update+new+cluster", CRASHES),
        ("ringed-whole-mor8/lock/both+cluster+late", CRASHES),
        ("ringed-whole-mor8/lease/update+cluster+clean", PAUSES),
    ],
)
def test_writers_to_buckets_keep_all_invariants(scenario: str, powers: Powers) -> None:
    """Of lock-less writers none may be told of a conflict; beside a resize a write may be."""
    failure = explore(scenario_of(scenario), Budget(deviations=1, schedules=10, powers=powers)).failure
    assert failure is None, f"{failure.violation}\nreplay: '{failure.schedule}'\n" + "\n".join(failure.trace)


@pytest.mark.parametrize("mutant", BUCKETS, ids=str)
def test_a_broken_rule_of_buckets_is_found_out(mutant: Mutant) -> None:
    with mutant.put_in():
        outcome = explore(scenario_of(mutant.family), mutant.budget)
        assert outcome.failure is not None, f"{mutant.name} survived {outcome.schedules} schedules: {mutant.why}"
        assert outcome.failure.violation is not None
        assert outcome.failure.violation.partition(":")[0] in mutant.breaks, outcome.failure.violation
    assert replay(outcome.failure.schedule, mutant.budget.powers).violation is None
