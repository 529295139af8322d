"""Campaigns: all scenarios, in rounds of increasing depth, in several processes, for a given time."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

from pyhudi.environment import SYSTEM
from pyhudi.testing.simulation.explore import ALL_POWERS, Budget, Outcome, explore
from pyhudi.testing.simulation.scenarios import Scenario, matrix
from pyhudi.testing.simulation.scheduler import Powers

CRASHES = Powers(crashes=True, torn=True)
FAULTS = Powers(faults=True, late=True)
PAUSES = Powers(pauses=True, sleeps=True)
CLOCKS = Powers(pauses=True, jumps=True)
ROUNDS = (
    ("order, 1 deviation", Budget(deviations=1, schedules=400)),
    ("crashes, 1 deviation", Budget(deviations=1, schedules=400, powers=CRASHES)),
    ("pauses, 1 deviation", Budget(deviations=1, schedules=400, powers=PAUSES)),
    ("faults, 1 deviation", Budget(deviations=1, schedules=400, powers=FAULTS)),
    ("clocks, 1 deviation", Budget(deviations=1, schedules=400, powers=CLOCKS)),
    ("order, 2 deviations", Budget(deviations=2, schedules=2_000)),
    ("crashes, 2 deviations", Budget(deviations=2, schedules=3_000, powers=CRASHES)),
    ("pauses, 2 deviations", Budget(deviations=2, schedules=3_000, powers=PAUSES)),
)
"""The exhaustive rounds, with which a campaign begins."""
TWO_CRASHES = Budget(deviations=2, mishaps=2, schedules=2_000, powers=CRASHES)
"""The next round, for scenarios with a late recovery: a crash of a writer and a crash of the recovery."""
AT_RANDOM = Budget(deviations=5, mishaps=3, schedules=50, powers=ALL_POWERS)
"""The budget of one scenario in each random round. Random rounds follow until the time is up."""
WHOLE_AT_RANDOM = replace(AT_RANDOM, schedules=4)


@dataclass(frozen=True, slots=True)
class Task:
    """The exploration of one scenario in one round: exhaustive, or random if it has a seed."""

    round: str
    scenario: Scenario
    budget: Budget
    seed: int | None


@dataclass(slots=True)
class Report:
    """Counts of a campaign, by round, and its failures. `complete` counts the exhaustively explored scenarios."""

    schedules: Counter[str] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)
    scenarios: Counter[str] = field(default_factory=Counter)
    complete: Counter[str] = field(default_factory=Counter)
    failures: list[Outcome] = field(default_factory=list)

    def add(self, task: Task, outcome: Outcome) -> None:
        """Add the outcome of one exploration."""
        self.schedules[task.round] += outcome.schedules
        self.points[task.round] += outcome.points
        self.scenarios[task.round] += 1
        self.complete[task.round] += outcome.is_complete
        if outcome.failure is not None:
            self.failures.append(outcome)

    def __str__(self) -> str:
        lines = [f"{'round':24}{'scenarios':>10}{'complete':>10}{'schedules':>12}{'choice points':>16}"]
        lines += [
            f"{name:24}{self.scenarios[name]:>10}{self.complete[name]:>10}{number:>12,}{self.points[name]:>16,}"
            for name, number in self.schedules.items()
        ]
        lines.append(f"{'all':44}{self.schedules.total():>12,}{self.points.total():>16,}")
        for outcome in self.failures:
            assert outcome.failure is not None
            lines += [f"\nFAILED {outcome.failure.violation}", f"replay: '{outcome.failure.schedule}'"]
        return "\n".join(lines)


def tasks(seed: int, *, wanted: str = "") -> Iterator[Task]:
    """The endless sequence of a campaign's explorations. `wanted` selects the scenarios whose names contain it."""
    thin = [scenario for scenario in matrix() if wanted in str(scenario)]
    whole = [scenario for scenario in matrix(whole=True) if wanted in str(scenario)]
    for name, budget in ROUNDS:
        yield from (Task(name, scenario, budget, None) for scenario in thin)
    yield from (
        Task("crashes in recovery", scenario, TWO_CRASHES, None) for scenario in thin if "late" in scenario.roles
    )
    for number in count(seed):
        yield from (Task("random", scenario, AT_RANDOM, number) for scenario in thin)
        yield from (Task("random, whole writes", scenario, WHOLE_AT_RANDOM, number) for scenario in whole)
        if not thin and not whole:
            return


def run_campaign(*, seconds: float, seed: int, processes: int, wanted: str = "") -> Report:
    """Explore until the time is up or an invariant is violated.

    Every process explores one scenario at a time. The exploration of a scenario does not depend on the others.
    Therefore the same seed finds a failure again, even if the campaign runs for another time.
    """
    ends = SYSTEM.clock.monotonic() + seconds
    report = Report()
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        running = []
        for task in tasks(seed, wanted=wanted):
            left = ends - SYSTEM.clock.monotonic()
            if left <= 0 or report.failures:
                break
            running.append((task, pool.apply_async(_explored, (task, left))))
            if len(running) >= 2 * processes:
                first, answer = running.pop(0)
                report.add(first, answer.get())
        for task, answer in running:
            report.add(task, answer.get())
    return report


def _explored(task: Task, left: float) -> Outcome:
    return explore(task.scenario, replace(task.budget, seconds=min(task.budget.seconds, left)), seed=task.seed)
