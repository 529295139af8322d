"""Why a commit under a lease says first what it is about to do: all interleavings of a small model.

The model is not the shipped code, which the simulator runs; it is the argument for it. Writers change one file group:
each loads what is completed, writes, takes the lock, looks, and puts its completed instant. A lease may end at any
moment, and somebody may take any pending writer for dead and roll it back.

A write is lost when another is completed that did not begin from it. A table is damaged when an instant is completed
whose files were deleted.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest


class Step(enum.IntEnum):
    """What a writer does next."""

    LOAD = 0
    LOCK = 1
    ANNOUNCE = 2
    SEE_INTENTS = 3
    SEE_TIMELINE = 4
    PUT = 5
    LOOK_BACK = 6
    UNLOCK = 7
    ENDED = 8


class Recovery(enum.IntEnum):
    """How far the rollback of a writer is."""

    NONE = 0
    LOCKED = 1
    PLANNED = 2
    DELETED = 3
    GIVEN_UP = 4


@dataclass(frozen=True)
class Rules:
    """The protocol. What is False is left out of it; `intents_first`: in which order one looks."""

    lease_ends: bool = True
    intents: bool = True
    intents_first: bool = True
    recovers: bool = False
    looks_back: bool = True
    recovery_looks: bool = True
    recovery_checks_lock: bool = True


@dataclass(frozen=True)
class Writer:
    """One writer: what it began from, whether it saw something in its way, and how far its rollback is."""

    step: Step = Step.LOAD
    base: frozenset[int] = frozenset()
    sees_rival: bool = False
    says_done: bool = False
    recovery: Recovery = Recovery.NONE


@dataclass(frozen=True)
class State:
    """Everything: `completed` in the order of the puts; who has the lock, a writer or (negative) a rollback of one."""

    writers: tuple[Writer, ...]
    completed: tuple[int, ...] = ()
    intents: frozenset[int] = frozenset()
    lock: int | None = None

    def with_writer(self, number: int, **changes: object) -> State:
        writer = replace(self.writers[number], **changes)  # type: ignore[arg-type]
        return replace(self, writers=(*self.writers[:number], writer, *self.writers[number + 1 :]))


def next_states(state: State, rules: Rules) -> Iterator[State]:
    if rules.lease_ends and state.lock is not None:
        yield replace(state, lock=None)
    for number in range(len(state.writers)):
        yield from writer_steps(state, number, rules)
        if rules.recovers:
            yield from recovery_steps(state, number, rules)


def writer_steps(state: State, n: int, rules: Rules) -> Iterator[State]:
    writer = state.writers[n]
    is_undone = writer.recovery in (Recovery.PLANNED, Recovery.DELETED)
    match writer.step:
        case Step.LOAD:
            yield state.with_writer(n, step=Step.LOCK, base=frozenset(state.completed))
        case Step.LOCK if state.lock is None:
            yield replace(state, lock=n).with_writer(n, step=Step.ANNOUNCE)
        case Step.ANNOUNCE:
            intents = state.intents | {n} if rules.intents else state.intents
            first = Step.SEE_INTENTS if rules.intents_first else Step.SEE_TIMELINE
            yield replace(state, intents=intents).with_writer(n, step=first)
        case Step.SEE_INTENTS:
            rival = writer.sees_rival or bool(state.intents - {n})
            after = Step.SEE_TIMELINE if rules.intents_first else Step.PUT
            yield state.with_writer(n, step=after, sees_rival=rival)
        case Step.SEE_TIMELINE:
            rival = writer.sees_rival or is_undone or not set(state.completed) <= writer.base
            after = Step.PUT if rules.intents_first else Step.SEE_INTENTS
            yield state.with_writer(n, step=after, sees_rival=rival)
        case Step.PUT if writer.sees_rival:
            yield ended(state, n)
        case Step.PUT:
            yield replace(state, completed=(*state.completed, n)).with_writer(n, step=Step.LOOK_BACK)
        case Step.LOOK_BACK if rules.looks_back and state.lock != n and is_undone:
            yield ended(replace(state, completed=tuple(c for c in state.completed if c != n)), n)
        case Step.LOOK_BACK:
            yield state.with_writer(n, step=Step.UNLOCK, says_done=True)
        case Step.UNLOCK:
            yield ended(state, n)


def ended(state: State, n: int) -> State:
    lock = None if state.lock == n else state.lock
    return replace(state, lock=lock, intents=state.intents - {n}).with_writer(n, step=Step.ENDED)


def recovery_steps(state: State, n: int, rules: Rules) -> Iterator[State]:
    """Somebody takes a pending writer for dead, rightly or not."""
    writer, token = state.writers[n], -1 - n
    match writer.recovery:
        case Recovery.NONE if state.lock is None and n not in state.completed and Step.LOAD < writer.step < Step.ENDED:
            yield replace(state, lock=token).with_writer(n, recovery=Recovery.LOCKED)
        case Recovery.LOCKED:
            yield state.with_writer(n, recovery=Recovery.PLANNED)
        case Recovery.PLANNED if rules.recovery_looks and n in state.completed:
            yield unlocked(state, token).with_writer(n, recovery=Recovery.GIVEN_UP)
        case Recovery.PLANNED if state.lock is None:
            # The lock was lost: the plan stays, and somebody else finishes the rollback.
            yield replace(state, lock=token)
        case Recovery.PLANNED if state.lock == token or not rules.recovery_checks_lock:
            yield unlocked(replace(state, intents=state.intents - {n}), token).with_writer(n, recovery=Recovery.DELETED)


def unlocked(state: State, token: int) -> State:
    return replace(state, lock=None) if state.lock == token else state


def damage(state: State) -> str | None:
    for number, writer in enumerate(state.writers):
        if writer.recovery is Recovery.DELETED:
            if writer.says_done:
                return "an acknowledged write is rolled back"
            if number in state.completed and writer.step is not Step.LOOK_BACK:
                return "a completed write has no files"
    standing = [number for number in state.completed if not is_about_to_vanish(state.writers[number])]
    for place, number in enumerate(standing):
        if not set(standing[:place]) <= state.writers[number].base:
            return "a write is lost"
    return None


def is_about_to_vanish(writer: Writer) -> bool:
    """Whether it was put after its rollback, and takes itself away next: the residue that the documentation tells."""
    return writer.recovery is Recovery.DELETED and writer.step is Step.LOOK_BACK


def explore(rules: Rules, writers: int = 2) -> tuple[str | None, int]:
    """The damage nearest to the beginning, if there is any, and how many states there are until then, or at all."""
    start = State((Writer(),) * writers)
    seen, queue = {start}, [start]
    for state in queue:
        if (found := damage(state)) is not None:
            return found, len(seen)
        for following in next_states(state, rules):
            if following not in seen:
                seen.add(following)
                queue.append(following)
    return None, len(seen)


@pytest.mark.parametrize("writers", [2, 3])
def test_a_lock_that_is_never_lost_needs_no_intents(writers: int) -> None:
    found, _ = explore(Rules(lease_ends=False, intents=False), writers)

    assert found is None


def test_a_lease_that_ends_before_the_put_loses_a_write() -> None:
    found, _ = explore(Rules(intents=False))

    assert found == "a write is lost"


@pytest.mark.parametrize("writers", [2, 3])
def test_with_intents_no_write_is_lost_whenever_leases_end(writers: int) -> None:
    found, states = explore(Rules(), writers)

    assert found is None
    assert states > 100 * writers


def test_looking_at_the_timeline_before_the_intents_loses_a_write() -> None:
    found, _ = explore(Rules(intents_first=False))

    assert found == "a write is lost"


def test_with_intents_no_write_is_lost_or_damaged_when_live_writers_are_rolled_back() -> None:
    found, states = explore(Rules(recovers=True))

    assert found is None
    assert states > 1_000


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(Rules(recovers=True, looks_back=False), id="the writer does not look back after its put"),
        pytest.param(Rules(recovers=True, recovery_looks=False), id="the rollback does not look after its plan"),
        pytest.param(Rules(recovers=True, recovery_checks_lock=False), id="the rollback deletes without the lock"),
    ],
)
def test_a_rollback_of_a_live_writer_damages_the_table_without_any_one_of_the_precautions(rules: Rules) -> None:
    found, _ = explore(rules)

    assert found is not None
