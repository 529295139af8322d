"""Each broken rule of the protocol is found by exploring a family of schedules, and the protocol as it is passes."""

from __future__ import annotations

import pytest
from tests.support.mutants.catalogue import MUTANTS
from tests.support.mutants.tools import Mutant

from pyhudi.testing.simulation.explore import Budget, explore, replay
from pyhudi.testing.simulation.scenarios import scenario_of
from pyhudi.testing.simulation.scheduler import Powers


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_protocol_with_a_broken_rule_is_found_out(mutant: Mutant) -> None:
    with mutant.put_in():
        failure = mutant.found()
        assert failure is not None, f"{mutant.name} survived: {mutant.why}"
        assert failure.violation is not None
        assert failure.violation.partition(":")[0] in mutant.breaks, failure.violation
        assert replay(failure.schedule, mutant.budget.powers).violation == failure.violation
    assert replay(failure.schedule, mutant.budget.powers).violation is None


FAMILIES = sorted({(one.family, one.budget.powers) for one in MUTANTS}, key=str)


@pytest.mark.parametrize(("family", "powers"), FAMILIES, ids=str)
def test_the_protocol_as_it_is_passes_where_mutants_fail(family: str, powers: Powers) -> None:
    outcome = explore(scenario_of(family), Budget(deviations=1, schedules=30, powers=powers))
    assert outcome.failure is None, f"{outcome.failure.violation}\nreplay: '{outcome.failure.schedule}'"


def test_no_two_mutants_have_one_name() -> None:
    names = [one.name for one in MUTANTS]
    assert len(names) == len({*names}) >= 40
