"""Exploration of a scenario: all schedules with few deviations, or random schedules; failures are shrunk.

Exhaustive exploration runs the schedule without deviations, then all schedules with one deviation, and so on. Each run
replays a prefix of choices and then continues without deviations. A run ends when it reaches a state that an earlier
run has reached.
"""

from __future__ import annotations

import logging
import random
import re
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pyhudi.environment import SYSTEM
from pyhudi.errors import HudiError
from pyhudi.table.state import load_table
from pyhudi.testing.simulation.changing_roles import ALTERING
from pyhudi.testing.simulation.history import Answer, History
from pyhudi.testing.simulation.indexed_tables import IndexWatcher, check_indexes
from pyhudi.testing.simulation.invariants import (
    Watcher,
    check_at_rest,
    check_attempts,
    check_conflicts,
    check_recovered,
    facts_of,
)
from pyhudi.testing.simulation.scenarios import OUTLIVED, PLANNED, ROLES, Scenario, scenario_of, settle
from pyhudi.testing.simulation.schedule import Schedule
from pyhudi.testing.simulation.scheduler import (
    AGES_MS,
    GO_ON,
    Actor,
    Chooser,
    Point,
    Powers,
    Run,
    RunStoppedError,
    Workers,
    choices_at,
)
from pyhudi.testing.simulation.simulated import SimStorage, Watch, environment_of
from pyhudi.testing.simulation.stage import Stage
from pyhudi.testing.simulation.start_tables import Seat, observer, prepared
from pyhudi.testing.simulation.world import World, stable_digest

ALL_POWERS = Powers(crashes=True, torn=True, faults=True, pauses=True, sleeps=True, jumps=True, late=True)
_workers = Workers()


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The limits of an exploration. It ends at the first limit that it reaches.

    Attributes:
        deviations: the largest number of deviations in a schedule.
        mishaps: the largest number of deviations in a schedule that are not changes of actors.
        schedules: the largest number of schedules.
        seconds: the longest time.
        powers: the kinds of deviations that are not changes of actors.
    """

    deviations: int = 2
    mishaps: int = 1
    schedules: int = 10_000
    seconds: float = 60.0
    powers: Powers = field(default_factory=Powers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of one run.

    Attributes:
        schedule: the schedule of the run.
        violation: the invariant that was violated, if any.
        trace: the steps of the run, one line each.
        points: the number of choice points.
        is_cut: whether the run ended early, in a state that another run had reached.
    """

    schedule: Schedule
    violation: str | None
    trace: tuple[str, ...]
    points: int
    is_cut: bool = False

    @property
    def digest(self) -> str:
        """A digest of the trace and the violation. It is the same for the same run in every process."""
        return stable_digest([*self.trace, self.violation or ""])


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of an exploration.

    Attributes:
        scenario: the scenario.
        schedules: the number of runs.
        ended: the number of runs that were not cut.
        points: the number of choice points in all runs.
        is_complete: whether all schedules within the budget's deviations were run.
        failure: the run that violated an invariant, if any.
    """

    scenario: Scenario
    schedules: int
    ended: int
    points: int
    is_complete: bool
    failure: Result | None = None


def explore(scenario: Scenario, budget: Budget, *, seed: int | None = None) -> Outcome:
    """Explore until an invariant is violated or the budget is used up: exhaustively, or at random if there is a seed.

    The schedule of a failure is shrunk. Cost: some milliseconds per schedule.
    """
    with _quiet():
        outcome = _explore_all(scenario, budget) if seed is None else _explore_at_random(scenario, budget, seed)
        if outcome.failure is None:
            return outcome
        return replace(outcome, failure=shrunk(outcome.failure, budget.powers))


def replay(schedule: Schedule, powers: Powers = ALL_POWERS) -> Result:
    """Run a schedule again. Choices that are impossible at their points are ignored."""
    with _quiet():
        return execute(scenario_of(schedule.scenario), _following(dict(schedule.choices)), powers)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the warnings of writes that are expected to fail, which would be thousands."""
    logger = logging.getLogger("pyhudi")
    previous = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(previous)


def _following(choices: Mapping[int, str]) -> Chooser:
    def choose(run: Run, point: Point) -> str:
        wanted = choices.get(point.number, GO_ON)
        return wanted if wanted in choices_at(run, point) else GO_ON

    return choose


def shrunk(failure: Result, powers: Powers) -> Result:
    """A failure of the same kind with fewer deviations: those that are not needed for it are removed."""
    kind = (failure.violation or "")[:3]
    best, size = failure, max(1, len(failure.schedule.choices) // 2)
    while size:
        for start in range(0, len(best.schedule.choices), size):
            choices = best.schedule.choices
            fewer = Schedule(best.schedule.scenario, choices[:start] + choices[start + size :])
            tried = replay(fewer, powers)
            if tried.violation is not None and tried.violation[:3] == kind:
                best = tried
                break
        else:
            size //= 2
    return best


@dataclass(frozen=True, slots=True)
class _Prefix:
    """The first choices of a run, with the number of deviations and of mishaps among them, see `Budget`."""

    choices: tuple[tuple[int, str], ...] = ()
    deviations: int = 0
    mishaps: int = 0

    def then(self, point: Point, choice: str) -> _Prefix:
        """The prefix with one more choice."""
        return _Prefix(
            (*self.choices, (point.number, choice)),
            self.deviations + (not point.is_free),
            self.mishaps + (not choice.isdigit()),
        )


def _explore_all(scenario: Scenario, budget: Budget) -> Outcome:
    visited: set[int] = set()
    tally = _Tally(scenario, budget)
    todo: list[deque[_Prefix]] = [deque() for _ in range(budget.deviations + 1)]
    todo[0].append(_Prefix())
    while (queue := next((branch for branch in todo if branch), None)) is not None and not tally.is_over:
        prefix = queue.popleft()
        tally.run(_branching(prefix, budget, visited, todo))
    return tally.outcome(is_complete=not any(todo))


def _branching(prefix: _Prefix, budget: Budget, visited: set[int], todo: list[deque[_Prefix]]) -> Chooser:
    """Follow a prefix, then continue without deviations, and add all other choices at each new state to `todo`."""
    choices = dict(prefix.choices)
    last = prefix.choices[-1][0] if prefix.choices else -1

    def choose(run: Run, point: Point) -> str:
        if point.number <= last:
            return choices.get(point.number, GO_ON)
        # Prefixes with fewer deviations run first: the earlier run in this state had at least as many deviations left.
        state = hash((run.state(point.actor), point.is_free, prefix.mishaps))
        if state in visited:
            raise RunStoppedError
        visited.add(state)
        for choice in choices_at(run, point):
            longer = prefix.then(point, choice)
            if longer.deviations <= budget.deviations and longer.mishaps <= budget.mishaps:
                todo[longer.deviations].append(longer)
        return GO_ON

    return choose


def _explore_at_random(scenario: Scenario, budget: Budget, seed: int) -> Outcome:
    tally = _Tally(scenario, budget)
    while not tally.is_over:
        # The seed is a text, because the hash of a tuple differs between processes.
        source = random.Random(f"{seed} {scenario} {tally.schedules}")  # noqa: S311  # nothing is secret here
        length = tally.points // tally.schedules if tally.schedules else 60
        tally.run(_random(source, budget, source.randint(1, budget.deviations) / max(length, 1)))
    return tally.outcome(is_complete=False)


def _random(source: random.Random, budget: Budget, share: float) -> Chooser:
    """Deviate at random: at this share of the points, and at half of the points where the actor cannot continue."""
    mishaps = 0

    def choose(run: Run, point: Point) -> str:
        nonlocal mishaps
        if source.random() >= (0.5 if point.is_free else share):
            return GO_ON
        options = choices_at(run, point)
        switches = [choice for choice in options if choice.isdigit()]
        others = [choice for choice in options if not choice.isdigit()] if mishaps < budget.mishaps else []
        if others and (not switches or source.random() < 0.5):
            mishaps += 1
            return source.choice(others)
        return source.choice(switches) if switches else GO_ON

    return choose


@dataclass(slots=True)
class _Tally:
    """Counts of the runs of one scenario. `checked`: digests of final states that were checked already."""

    scenario: Scenario
    budget: Budget
    schedules: int = 0
    ended: int = 0
    points: int = 0
    failure: Result | None = None
    checked: set[int] = field(default_factory=set)
    _began: float = field(default_factory=SYSTEM.clock.monotonic)

    @property
    def is_over(self) -> bool:
        """Whether an invariant was violated or the budget is used up."""
        seconds = SYSTEM.clock.monotonic() - self._began
        return self.failure is not None or self.schedules >= self.budget.schedules or seconds > self.budget.seconds

    def run(self, chooser: Chooser) -> None:
        """Run one schedule."""
        result = execute(self.scenario, chooser, self.budget.powers, checked=self.checked)
        self.schedules += 1
        self.ended += not result.is_cut
        self.points += result.points
        if result.violation is not None:
            self.failure = result

    def outcome(self, *, is_complete: bool) -> Outcome:
        """The result of the exploration so far."""
        return Outcome(
            scenario=self.scenario,
            schedules=self.schedules,
            ended=self.ended,
            points=self.points,
            is_complete=is_complete and self.failure is None,
            failure=self.failure,
        )


def execute(scenario: Scenario, chooser: Chooser, powers: Powers, *, checked: set[int] | None = None) -> Result:
    """Run one schedule, roll back the writes of dead actors, and check all invariants.

    `checked`: digests of final states that were checked already, and are not checked again.
    """
    powers = scenario.possible(powers)
    world = prepared(scenario.kind)
    world.exclusive = scenario.exclusive
    history = History(requests=scenario.kind.start)
    run = Run(world, [], chooser, powers)
    watcher = Watcher(run, load_table(observer(world)), ordered=scenario.is_ordered(powers))
    watch = IndexWatcher(watcher, run.fail, watcher.table) if scenario.kind.indexes else watcher
    for number, role in enumerate(scenario.roles):
        _seat(run, scenario, history, watch, number, role)
    run.start(_workers)
    schedule = Schedule(str(scenario), tuple(run.choices))
    violation = run.violation or _wrong_end(scenario, run, history) or _neglected(run, watcher)
    is_cut = run.is_stopped and violation is None
    if violation is None and not is_cut:
        end = hash((world.digest, tuple(content_of_answer(answer) for answer in history.answers)))
        if checked is None or end not in checked:
            violation = _check(scenario, run, history, _excused(scenario, run, watcher))
            if checked is not None:
                checked.add(end)
    return Result(schedule=schedule, violation=violation, trace=tuple(run.trace), points=run.points, is_cut=is_cut)


def _seat(run: Run, scenario: Scenario, history: History, watch: Watch, number: int, role: str) -> None:
    name = f"{role}-{number}"
    play = ROLES[role]
    actor = Actor(number, name, lambda: play(Stage(run, actor, seat, history)))
    storage = SimStorage(run, actor, watch)
    environment = environment_of(run, actor, scenario.lock.provider())
    seat = Seat(name, scenario.kind, storage, environment, history.attempts)
    run.actors.append(actor)


def _wrong_end(scenario: Scenario, run: Run, history: History) -> str | None:
    """K13: every actor ends, and every error that it gets is one that the scenario allows."""
    if run.error is not None:
        return f"K13: an actor ended by {run.error!r}"
    allowed = scenario.allowed_errors(run.powers)
    for answer in history.answers:
        if answer.error is not None and not isinstance(answer.error, allowed):
            return f"K13: {answer.actor} got {type(answer.error).__name__}: {answer.error}"
    return (
        None
        if {*PLANNED, *ALTERING, "undo", "restore", "versions"} & {*scenario.roles}
        else next(check_conflicts(history), None)
    )


def _neglected(run: Run, watcher: Watcher) -> str | None:
    """K15: a task that puts a file for an ended write removes it again, unless its process dies or its store fails."""
    if run.is_stopped or run.powers.faults:
        return None
    return next((f"K15: {path} was put when its write had ended, and stays" for path in watcher.neglected), None)


def _excused(scenario: Scenario, run: Run, watcher: Watcher) -> frozenset[str]:
    """The instants and files that `check_recovered` excuses: those of suspended actors, outlived writes, late puts.

    If a suspended actor runs plans, all instants are excused, because it may execute the plan of another actor.
    """
    runs_plans = any(
        actor.was_away and role in PLANNED for actor, role in zip(run.actors, scenario.roles, strict=False)
    )
    away = (
        time
        for time, number in watcher.owners.items()
        if runs_plans or run.actors[number].was_away or scenario.roles[number] in OUTLIVED
    )
    late = [*run.world.landed, *(put.path for put in run.world.late)]
    return frozenset([*away, *late, *(re.split(r"[._]", path.rpartition("/")[2])[0] for path in late)])


def _check(scenario: Scenario, run: Run, history: History, excused: frozenset[str]) -> str | None:
    """Check the final state of a run, let a last actor finish the pending actions, and check again."""
    world = run.world
    while world.land_late_put() is not None:
        pass
    ordered = scenario.is_ordered(run.powers)
    found = _problem(world, scenario, history, ordered=ordered, excused=None)
    if found is not None:
        return found
    last = Run(world, [], lambda _run, _point: GO_ON)
    world.now_ms, world.wall_ms = world.now_ms + 2 * AGES_MS, 0
    # Its ids must not be those that the first actor took.
    actor = Actor(0, "last", lambda: settle(seat, history), ids=_IDS_OF_AN_ACTOR)
    storage = SimStorage(last, actor, Watcher(last, load_table(observer(world))))
    seat = Seat("last", scenario.kind, storage, environment_of(last, actor, scenario.lock.provider()))
    last.actors.append(actor)
    last.start(_workers)
    run.trace.extend(last.trace)
    if last.violation is not None or last.error is not None:
        return last.violation or f"K13: the recovery ended by {last.error!r}"
    return _problem(world, scenario, history, ordered=ordered, excused=excused)


_IDS_OF_AN_ACTOR = 1 << 32
"""More than any actor takes."""


def _problem(
    world: World, scenario: Scenario, history: History, *, ordered: bool, excused: frozenset[str] | None
) -> str | None:
    """The first violated invariant. `excused`: see `check_recovered`; None before the recovery."""
    try:
        facts = facts_of(load_table(observer(world)), scenario.kind.read, history)
        problems = [*check_attempts(facts, are_swept=excused is not None)] if history.attempts else []
        problems += check_indexes(facts.table) if scenario.kind.indexes else ()
        problems += check_at_rest(facts, unique=scenario.unique, ordered=ordered)
        problems += check_recovered(facts, excused=excused) if excused is not None else ()
    except HudiError as error:
        return f"K6: the table cannot be read: {type(error).__name__}: {error}"
    return problems[0] if problems else None


def content_of_answer(answer: Answer) -> tuple[object, ...]:
    """The content of an answer. Its time is part of it only for reads, whose result depends on the time."""
    when = (answer.began, answer.ended) if answer.rows is not None or answer.is_whole else ()
    return (
        answer.actor,
        answer.verdict,
        type(answer.error),
        answer.instant,
        answer.position,
        answer.rows,
        answer.seen,
        answer.since,
        *when,
    )
