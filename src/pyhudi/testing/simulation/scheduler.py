"""Deterministic scheduler of actors. Each actor has a thread, but only one actor runs at a time.

A running actor can be interrupted only before a call of its store, its clock or its lock. There a *chooser* decides
whether the actor continues, another actor continues, or a crash, a fault or a jump of time happens. The choices
determine the run.
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
"""The number of steps after which a run counts as endless."""
LEASE_MS = 5_000
"""A time in milliseconds that is longer than the leases of simulated locks and shorter than heartbeats."""
AHEAD_MS = 400
"""The time by which an actor's clock may be ahead of the others, in milliseconds. Leases tolerate 500."""
AGES_MS = 1_000_000
"""A time in milliseconds that is longer than leases and heartbeats."""
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


class RunStoppedError(BaseException):  # not an `Exception`, so that no handler of the tested code catches it
    """The run has ended; its actors stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Powers:
    """The kinds of faults that a run may have, in addition to any order of steps.

    Attributes:
        crashes: an actor may die.
        torn: a crash may leave a half of a file that is being streamed, as on local disk.
        faults: a call of the store may fail, before or after its effect.
        late: a put that failed may take effect later, as on object stores.
        pauses: a process may be suspended for longer than its lease.
        sleeps: a process may be suspended for longer than its heartbeat.
        jumps: clocks may jump.
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
    """A choice point of a run.

    Attributes:
        number: the number of the point, from 0.
        actor: the number of the running actor.
        operation: the operation that this actor is about to run.
        path: the path of the operation.
        others: the numbers of the actors that could continue instead.
        is_free: whether the running actor cannot continue, so that a change of actors is not a deviation. By default
            the first of `others` continues.
    """

    number: int
    actor: int
    operation: str
    path: str
    others: tuple[int, ...]
    is_free: bool


class Chooser(Protocol):
    """A function that decides at each choice point."""

    def __call__(self, run: Run, point: Point) -> str:
        """Return `GO_ON`, a letter of `schedule.MEANING`, or the number of an actor among `point.others`.

        Raises:
            RunStoppedError: the run shall end.
        """
        ...


@dataclass(slots=True, eq=False)
class SimTimer:
    """A call that is repeated for an actor. See `pyhudi.environment.Timer`."""

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
    """One process of the simulation.

    Attributes:
        number: its number in the run.
        name: its name.
        program: the code that it runs.
        gate: the lock on which its thread waits for its turn.
        seen: a digest of everything that it has read from its environment.
        ids: the number of ids that it has created.
        is_dead: whether it has crashed.
        is_done: whether its program has ended.
        is_paused: whether it is suspended.
        was_away: whether it was suspended for so long that others had to consider it dead.
        ahead_ms: the time by which its clock is ahead.
        in_timer: whether one of its timers is running.
        wakes_ms: the time until which it sleeps.
        waits_for: a condition that ends its sleep before this time.
        timers: its timers.
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
        """Add values to `seen`, which determines everything that the actor does."""
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
        """Run all actors to their end. `error` then holds an error of an actor's program (not `SimulatedCrash`)."""
        self._main.acquire()
        for actor in self.actors:
            actor.gate.acquire()
        workers.take(self)
        self._hand_to(self._next(None))
        self._main.acquire()
        for actor in self.actors:  # end the threads of actors that a stopped run interrupted
            if not actor.is_done:
                actor.gate.release()
                self._main.acquire()

    def play(self, actor: Actor) -> None:
        """Run an actor in its thread, from its start to its end."""
        actor.gate.acquire()
        following = None
        try:
            if not self.is_stopped:
                self._play(actor)
                following = self._next(actor)
        except RunStoppedError:
            self.is_stopped = True
        except BaseException as error:  # noqa: BLE001  # the caller of `start` handles it
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
        """Record the violation of an invariant, and end the run."""
        self.violation = self.violation or violation
        self.is_stopped = True

    def step(self, actor: Actor, operation: str, path: str) -> str:
        """Begin a step of the actor, and return the fault that the chooser has chosen for it, if any.

        Raises:
            SimulatedCrash: the actor is dead.
            RunStoppedError: the run has ended.
        """
        self._check_alive(actor)
        if actor.in_timer:
            return GO_ON
        self.steps += 1
        if self.steps > STEPS_MAX:
            self.fail("K13: the run does not end")
            raise RunStoppedError
        others = tuple(other.number for other in self.actors if other is not actor and self._may_go_on(other))
        choice = self._chosen(Point(self.points, actor.number, operation, path, others, is_free=False))
        fault = self._apply(actor, choice) if choice else GO_ON
        self.trace.append(f"{actor.name}: {operation} {path}{f'  [{fault}]' if fault else ''}")
        return fault

    def wait(self, actor: Actor, *, until_ms: int, condition: Callable[[], bool] | None = None) -> None:
        """Let other actors run until a time, or until a condition is true."""
        self._check_alive(actor)
        if actor.in_timer:
            return
        actor.wakes_ms, actor.waits_for = until_ms, condition
        following = self._next(actor)
        if following is not None and following is not actor:
            self._switch(actor, following)
        actor.wakes_ms = actor.waits_for = None

    def state(self, actor: int) -> int:
        """A digest of the state of the run in which this actor is about to continue."""
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
                        actor.seen,
                        actor.is_done,
                        actor.is_dead,
                        actor.is_paused,
                        actor.ahead_ms,
                        actor.wakes_ms,
                        actor.waits_for is None,
                        *(timer.due_ms for timer in actor.timers),
                    )
                    for actor in self.actors
                ),
            )
        )

    def pass_time(self, milliseconds: int, *, standing_still: Actor | None = None) -> None:
        """Advance the clock, and fire the due timers of all actors that are not suspended, each once."""
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
            self.is_stopped = True  # at once, so that later effects of the unwinding code are ignored
            raise
        if choice:
            self.choices.append((point.number, choice))
            self.trace.append(f"-- {point.number}={choice}")
        return choice

    def _apply(self, actor: Actor, choice: str) -> str:
        """Apply a choice. Returns it if it is a fault that the store's call itself must produce."""
        match choice:
            case "c":
                self.kill(actor)
                raise SimulatedCrash
            case "p" | "h":
                actor.is_paused = True
                self.pass_time(LEASE_MS if choice == PAUSE else AGES_MS, standing_still=actor)
                others = [other for other in self.actors if other is not actor and self._may_go_on(other)]
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
        """End the actor's process: its timers stop, and its lock is released."""
        actor.is_dead = True
        actor.timers.clear()
        self._release_lock_of(actor)

    def _release_lock_of(self, actor: Actor) -> None:
        if self.lock_holder == actor.number:
            self.lock_holder = None

    def _may_go_on(self, actor: Actor) -> bool:
        """Whether the actor can run now, or after it has slept."""
        is_asleep = actor.wakes_ms is not None and actor.waits_for is None
        return not actor.is_done and (is_asleep or not self._is_blocked(actor))

    def _is_blocked(self, actor: Actor) -> bool:
        if actor.waits_for is not None and actor.waits_for():
            return False
        return actor.wakes_ms is not None and actor.wakes_ms > self.world.now_ms

    def _next(self, actor: Actor | None) -> Actor | None:
        """The actor that continues if this one cannot: one that is not waiting, else the one that wakes first."""
        able = [actor for actor in self.actors if not actor.is_done and not self._is_blocked(actor)]
        asleep = [
            actor for actor in self.actors if not actor.is_done and actor.wakes_ms is not None and actor not in able
        ]
        if not able:
            able = sorted(asleep, key=lambda actor: actor.wakes_ms or 0)[:1]
        elif all(actor.is_paused for actor in able):
            # Suspended actors may stay suspended until the sleeping ones wake.
            able += [actor for actor in asleep if actor.waits_for is None]
        if not able:
            return None
        others = tuple(actor.number for actor in able)
        chosen = able[0]
        if len(others) > 1:
            number = actor.number if actor is not None else -1
            choice = self._chosen(Point(self.points, number, "", "", others, is_free=True))
            if choice:
                chosen = self.actors[int(choice)]
        self._wake(chosen)
        return chosen

    def _wake(self, actor: Actor) -> None:
        """Let time pass until a sleeping actor wakes."""
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
    """Threads that run actors. They are reused by all runs, and end with the process."""

    def __init__(self) -> None:
        self._inboxes: list[list[tuple[Run, Actor]]] = []
        self._gates: list[threading.Lock] = []

    def take(self, run: Run) -> None:
        """Assign a thread to each actor of the run, in which the actor waits for its turn."""
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
    """All possible choices at a point, except `GO_ON`."""
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
        timer.due_ms <= run.world.now_ms for actor in run.actors for timer in actor.timers
    ):
        options.append(BEAT)
    return options
