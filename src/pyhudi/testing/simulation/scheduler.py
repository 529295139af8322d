"""Actors that take turns: each runs in a thread of its own, and only one at a time, until it hands over.

An actor hands over where it is about to call its store, its clock or its lock. There a *chooser* decides: nothing
(the actor goes on), another actor, a crash, a fault, a jump of time. With the same choices a run is the same run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from pyhudi.testing.faults import SimulatedCrash
from pyhudi.testing.simulation.schedule import (
    AHEAD,
    BACK,
    BEAT,
    CRASH,
    FAIL,
    FAIL_AFTER,
    FAIL_LATE,
    JUMP,
    LAND,
    PAUSE,
    SLEEP,
    TORN,
)
from pyhudi.testing.simulation.world import World

STEPS_MAX = 4_000
"""Steps after which a run counts as one that never ends."""
LEASE_MS = 5_000
"""Longer than the leases of simulated locks last, and shorter than heartbeats."""
AHEAD_MS = 400
"""How far the clock of one machine may be ahead of another's, in milliseconds; leases allow for 500."""
AGES_MS = 1_000_000
"""Longer than leases and heartbeats last, in milliseconds."""
GO_ON = ""
PUTS = frozenset({"put", "put_if_absent", "put_if_match"})
REQUESTS = PUTS | {
    "read",
    "read_with_etag",
    "open_input",
    "open_output",
    "close_output",
    "info",
    "list_folder",
    "list_names",
    "list_recursive",
    "delete",
    "delete_folder",
}


class RunStoppedError(BaseException):  # no error of the code under test, so nothing in it may handle this
    """The rest of this run is of no interest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Powers:
    """What may go wrong in a run, beside the order of steps.

    `torn`: a crash may leave half of a file that is being streamed, as on local disk. `late`: a put that failed may
    take effect later, as on object stores. `pauses`: a process may stand
    still for longer than its lease lasts; `sleeps`: also for longer than its heartbeat. `jumps`: of the clocks.
    """

    crashes: bool = False
    torn: bool = False
    faults: bool = False
    late: bool = False
    pauses: bool = False
    sleeps: bool = False
    jumps: bool = False


@dataclass(frozen=True, slots=True)
class Point:
    """A place at which something is chosen: `number` counts from 0, `actor` is about to do `operation` on `path`.

    `others`: the numbers of actors that could go on instead. `is_free`: the actor itself cannot, so that a change of
    actors is no preemption; then the first of the others goes on unless another is chosen.
    """

    number: int
    actor: int
    operation: str
    path: str
    others: tuple[int, ...]
    is_free: bool


class Chooser(Protocol):
    """Decides at each point. Raises `RunStoppedError` to end the run."""

    def __call__(self, run: Run, point: Point) -> str:
        """`GO_ON`, or a choice of `schedule.MEANING` or the number of an actor among `point.others`."""
        ...


@dataclass(slots=True, eq=False)
class SimTimer:
    """A call that an actor wants repeated. See `pyhudi.environment.Timer`."""

    owner: Actor
    every_ms: int
    call: Callable[[], bool]
    due_ms: int

    def stop(self) -> None:
        """See `Timer.stop`."""
        if self in self.owner.timers:
            self.owner.timers.remove(self)


@dataclass(slots=True, eq=False)
class Actor:
    """One process of the simulation. `seen` is a digest of all that it has learned from outside.

    `was_away`: it stood still for so long that others had to take it for dead.
    `ahead_ms`: by how much its clock is ahead.
    `wakes_ms`: until when it sleeps; `waits_for`: what it waits for, unless that time comes first.
    """

    number: int
    name: str
    program: Callable[[], None]
    gate: threading.Lock = field(default_factory=threading.Lock)
    seen: int = 0
    ids: int = 0
    is_dead: bool = False
    is_done: bool = False
    is_paused: bool = False
    was_away: bool = False
    ahead_ms: int = 0
    in_timer: bool = False
    wakes_ms: int | None = None
    waits_for: Callable[[], bool] | None = None
    timers: list[SimTimer] = field(default_factory=list)

    def learn(self, *values: object) -> None:
        """Note what the actor learned, as everything that it does follows from that."""
        self.seen = hash((self.seen, *values))


@dataclass(slots=True)
class Run:
    """One run of some actors in a world, from its start to the end of the last of them."""

    world: World
    actors: list[Actor]
    choose: Chooser
    powers: Powers = field(default_factory=Powers)
    trace: list[str] = field(default_factory=list)
    points: int = 0
    steps: int = 0
    lock_holder: int | None = None
    choices: list[tuple[int, str]] = field(default_factory=list)
    violation: str | None = None
    is_stopped: bool = False
    _main: threading.Lock = field(default_factory=threading.Lock)
    error: BaseException | None = None

    def start(self, workers: Workers) -> None:
        """Run to the end. What an actor's program raises, but for `SimulatedCrash`, is in `error` then."""
        self._main.acquire()
        for actor in self.actors:
            actor.gate.acquire()
        workers.take(self)
        self._hand_to(self._next(None))
        self._main.acquire()
        for actor in self.actors:  # those that a stopped run left in the middle
            if not actor.is_done:
                actor.gate.release()
                self._main.acquire()

    def play(self, actor: Actor) -> None:
        """The life of an actor, in its thread."""
        actor.gate.acquire()
        following = None
        try:
            if not self.is_stopped:
                self._play(actor)
                following = self._next(actor)
        except RunStoppedError:
            self.is_stopped = True
        except BaseException as error:  # noqa: BLE001  # whoever started the run looks at it
            self.error, self.is_stopped = error, True
        actor.is_done = True
        self._hand_to(following)

    def _play(self, actor: Actor) -> None:
        with suppress(SimulatedCrash):
            actor.program()
        actor.is_done = True
        actor.timers.clear()
        self._release_lock_of(actor)

    def fail(self, violation: str) -> None:
        """Note what must not be, and end the run."""
        self.violation = self.violation or violation
        self.is_stopped = True

    def step(self, actor: Actor, operation: str, path: str) -> str:
        """A step that the actor is about to make. Returns the fault that hits it, if one is chosen.

        Raises `SimulatedCrash` in a dead actor, and `RunStoppedError` where the run has ended.
        """
        self._check_alive(actor)
        if actor.in_timer:
            return GO_ON
        self.steps += 1
        if self.steps > STEPS_MAX:
            self.fail("K13: the run does not end")
            raise RunStoppedError
        others = tuple(one.number for one in self.actors if one is not actor and self._may_go_on(one))
        choice = self._chosen(Point(self.points, actor.number, operation, path, others, is_free=False))
        fault = self._apply(actor, choice) if choice else GO_ON
        self.trace.append(f"{actor.name}: {operation} {path}{f'  [{fault}]' if fault else ''}")
        return fault

    def wait(self, actor: Actor, *, until_ms: int, condition: Callable[[], bool] | None = None) -> None:
        """Let others go on until a time, or until a condition holds."""
        self._check_alive(actor)
        if actor.in_timer:
            return
        actor.wakes_ms, actor.waits_for = until_ms, condition
        following = self._next(actor)
        if following is not None and following is not actor:
            self._switch(actor, following)
        actor.wakes_ms = actor.waits_for = None

    def state(self, actor: int) -> int:
        """A digest of the point at which the run is, if this actor is to go on."""
        world = self.world
        return hash(
            (
                actor,
                world.digest,
                world.now_ms,
                world.wall_ms,
                tuple(world.late),
                self.lock_holder,
                *(
                    (
                        one.seen,
                        one.is_done,
                        one.is_dead,
                        one.is_paused,
                        one.ahead_ms,
                        one.wakes_ms,
                        one.waits_for is None,
                        *(timer.due_ms for timer in one.timers),
                    )
                    for one in self.actors
                ),
            )
        )

    def pass_time(self, milliseconds: int, *, standing_still: Actor | None = None) -> None:
        """Move the clock on, and fire the timers of those who do not stand still, each as often as they fall due."""
        self.world.now_ms += milliseconds
        for owner in self.actors:
            if owner is not standing_still and not owner.is_paused:
                self._fire(owner)
            elif milliseconds >= AGES_MS:
                owner.was_away = True

    def _fire(self, owner: Actor) -> None:
        for timer in list(owner.timers):
            if timer.due_ms > self.world.now_ms or timer not in owner.timers:
                continue
            owner.in_timer = True
            try:
                goes_on = timer.call()
            finally:
                owner.in_timer = False
            timer.due_ms = self.world.now_ms + timer.every_ms
            if not goes_on:
                timer.stop()

    def _check_alive(self, actor: Actor) -> None:
        if self.is_stopped:
            raise RunStoppedError
        if actor.is_dead:
            raise SimulatedCrash

    def _chosen(self, point: Point) -> str:
        self.points += 1
        try:
            choice = self.choose(self, point)
        except RunStoppedError:
            self.is_stopped = True  # now, so that nothing that happens on the way out counts
            raise
        if choice:
            self.choices.append((point.number, choice))
            self.trace.append(f"-- {point.number}={choice}")
        return choice

    def _apply(self, actor: Actor, choice: str) -> str:
        """Do what was chosen; the faults that the call itself must do are returned."""
        match choice:
            case "c":
                self.kill(actor)
                raise SimulatedCrash
            case "p" | "h":
                actor.is_paused = True
                self.pass_time(LEASE_MS if choice == PAUSE else AGES_MS, standing_still=actor)
                others = [one for one in self.actors if one is not actor and self._may_go_on(one)]
                if others:
                    self._switch(actor, others[0])
                actor.is_paused = False
            case "j":
                self.pass_time(AGES_MS)
            case "b":
                self.world.wall_ms -= 3 * AGES_MS
            case "s":
                actor.ahead_ms = AHEAD_MS
            case "w":
                for owner in self.actors:
                    self._fire(owner)
            case "l":
                self.world.land_late_put()
            case "t" | "e" | "a" | "z":
                return choice
            case _:
                other = self.actors[int(choice)]
                self._wake(other)
                self._switch(actor, other)
        return GO_ON

    def kill(self, actor: Actor) -> None:
        """The process of the actor dies, and with it its timers, and the locks that the system keeps for it."""
        actor.is_dead = True
        actor.timers.clear()
        self._release_lock_of(actor)

    def _release_lock_of(self, actor: Actor) -> None:
        if self.lock_holder == actor.number:
            self.lock_holder = None

    def _may_go_on(self, actor: Actor) -> bool:
        """Whether it could run now, or once it has slept enough."""
        is_asleep = actor.wakes_ms is not None and actor.waits_for is None
        return not actor.is_done and (is_asleep or not self._is_blocked(actor))

    def _is_blocked(self, actor: Actor) -> bool:
        if actor.waits_for is not None and actor.waits_for():
            return False
        return actor.wakes_ms is not None and actor.wakes_ms > self.world.now_ms

    def _next(self, actor: Actor | None) -> Actor | None:
        """Who goes on when this actor cannot: somebody who is not waiting, or else whoever wakes first."""
        able = [one for one in self.actors if not one.is_done and not self._is_blocked(one)]
        asleep = [one for one in self.actors if not one.is_done and one.wakes_ms is not None and one not in able]
        if not able:
            able = sorted(asleep, key=lambda one: one.wakes_ms or 0)[:1]
        elif all(one.is_paused for one in able):
            # Whoever stands still may do so until the others have slept enough.
            able += [one for one in asleep if one.waits_for is None]
        if not able:
            return None
        others = tuple(one.number for one in able)
        chosen = able[0]
        if len(others) > 1:
            number = actor.number if actor is not None else -1
            choice = self._chosen(Point(self.points, number, "", "", others, is_free=True))
            if choice:
                chosen = self.actors[int(choice)]
        self._wake(chosen)
        return chosen

    def _wake(self, actor: Actor) -> None:
        """Let time pass until an actor that sleeps wakes."""
        if self._is_blocked(actor) and actor.wakes_ms is not None:
            self.pass_time(actor.wakes_ms - self.world.now_ms)

    def _switch(self, actor: Actor, other: Actor) -> None:
        self._hand_to(other)
        actor.gate.acquire()
        self._check_alive(actor)

    def _hand_to(self, actor: Actor | None) -> None:
        if actor is None:
            self._main.release()
        else:
            actor.gate.release()


class Workers:
    """Threads that play actors, used again in run after run. They end with the process."""

    def __init__(self) -> None:
        self._inboxes: list[list[tuple[Run, Actor]]] = []
        self._gates: list[threading.Lock] = []

    def take(self, run: Run) -> None:
        """Let each actor of the run wait in a thread for its turn."""
        while len(self._gates) < len(run.actors):
            self._add()
        for actor, inbox, gate in zip(run.actors, self._inboxes, self._gates, strict=False):
            inbox.append((run, actor))
            gate.release()

    def _add(self) -> None:
        inbox: list[tuple[Run, Actor]] = []
        gate = threading.Lock()
        gate.acquire()

        def work() -> None:
            while True:
                gate.acquire()
                run, actor = inbox.pop()
                run.play(actor)

        self._inboxes.append(inbox)
        self._gates.append(gate)
        threading.Thread(target=work, name=f"actor {len(self._gates)}", daemon=True).start()


def choices_at(run: Run, point: Point) -> Sequence[str]:
    """Everything that could be chosen at a point, `GO_ON` left out."""
    options = [str(number) for number in (point.others[1:] if point.is_free else point.others)]
    if point.is_free:
        return options
    powers = run.powers
    if powers.crashes:
        options.append(CRASH)
        if powers.torn and point.operation == "close_output":
            options.append(TORN)
    if powers.faults and point.operation in REQUESTS:
        options.append(FAIL)
        if point.operation in PUTS:
            options += [FAIL_AFTER, FAIL_LATE] if powers.late else [FAIL_AFTER]
        if run.world.late:
            options.append(LAND)
    if powers.pauses:
        options.append(PAUSE)
    if powers.sleeps:
        options.append(SLEEP)
    if powers.jumps:
        options += [JUMP, BACK] if run.actors[point.actor].ahead_ms else [JUMP, BACK, AHEAD]
    if (powers.pauses or powers.sleeps) and any(
        timer.due_ms <= run.world.now_ms for one in run.actors for timer in one.timers
    ):
        options.append(BEAT)
    return options
