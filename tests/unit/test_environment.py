"""The parts of this machine that tests replace otherwise."""

from __future__ import annotations

import threading

from pyhudi.environment import SYSTEM


def test_timer_calls_again_and_again_until_it_is_stopped() -> None:
    calls = threading.Semaphore(0)

    def call() -> bool:
        calls.release()
        return True

    timer = SYSTEM.timers.every(0.01, call, name="a timer of a test")
    assert [calls.acquire(timeout=60) for _ in range(3)] == [True] * 3
    timer.stop()

    assert "a timer of a test" not in [thread.name for thread in threading.enumerate()]


def test_timer_whose_call_wants_no_other_calls_once() -> None:
    calls = list[int]()
    ended = threading.Event()

    def call() -> bool:
        calls.append(1)
        ended.set()
        return False

    timer = SYSTEM.timers.every(0.01, call, name="a timer of a test")
    assert ended.wait(60)
    timer.stop()

    assert calls == [1]
