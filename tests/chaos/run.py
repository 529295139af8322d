"""Processes on one table, and somebody who kills them: `run`."""

from __future__ import annotations

import logging
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from typing import Any

from tests.chaos.journal import Work, read_journals
from tests.chaos.reader import run_follower, run_reader
from tests.chaos.setting import Setting
from tests.chaos.writer import run_writer

from pyhudi.testing.isolation import Ending

#: Processes begin as copies of one that has loaded everything, so that a new one costs milliseconds and not a second.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["tests.chaos.run"])

STOP_SECONDS = 180.0
"""For so long a process may go on with its last call; on a busy machine a call takes seconds."""


@dataclass(slots=True)
class Happened:
    """What was done to the processes, and how they ended who ended by themselves."""

    kills: int = 0
    seconds: float = 0.0
    ended_badly: list[str] = field(default_factory=list)


def run(
    setting: Setting,
    *,
    writers: int,
    kill_every: float,
    seconds: float = 0.0,
    kills: int = 0,
    beside: Sequence[str] = (),
) -> Happened:
    """Let writers, a reader and a follower work for some time, and kill a random writer every few seconds.

    Goes on for `seconds` and for `kills`, however long these take. `kill_every`: seconds between two kills on average;
    on a machine where calls take longer than that, a kill waits until some writer was told that it has written. In
    the end half of the writers are killed at once, and the others may finish their call. `beside`: further writers,
    "spark" or "jvm", which nobody kills.
    """
    dice = random.Random(setting.seed)
    happened = Happened()
    lives = [0] * writers
    readers = {name: _start(program, setting, name) for name, program in _READERS.items()}
    crew = [_start_writer(setting, slot, 0) for slot in range(writers)]
    helpers = [_start(_BESIDE[name], setting, name) for name in beside]
    for name in beside:
        _wait_for_first_call(setting, name)
    began = time.monotonic()
    try:
        while time.monotonic() < began + seconds or happened.kills < kills:
            before = _writes_done(setting)
            time.sleep(kill_every * dice.uniform(0.3, 1.7))
            _wait_for_more_done(setting, before)
            slot = dice.randrange(writers)
            _note_bad_end(crew[slot], happened)
            _kill(crew[slot])
            happened.kills += 1
            lives[slot] += 1
            crew[slot] = _start_writer(setting, slot, lives[slot])
        for process in crew[::2]:
            _kill(process)
            happened.kills += 1
        for processes in ([*crew[1::2], *helpers], list(readers.values())):
            _stop(processes, happened)
    finally:
        for process in [*crew, *helpers, *readers.values()]:
            _kill(process)
    happened.seconds = time.monotonic() - began
    return happened


_READERS: dict[str, Callable[[Setting, str], None]] = {"reader": run_reader, "follower": run_follower}


def _start(program: Callable[..., None], setting: Setting, name: str, *arguments: Any) -> BaseProcess:
    process = _PROCESSES.Process(target=_run, args=(program, setting.to_json(), name, arguments), name=name)
    process.start()
    return process


def _start_writer(setting: Setting, slot: int, life: int) -> BaseProcess:
    return _start(_write, setting, f"w{slot}-{life}", slot, life)


def _wait_for_first_call(setting: Setting, name: str) -> None:
    """A session takes a while to start; the writers work meanwhile, and nobody is killed."""
    deadline = time.monotonic() + STOP_SECONDS
    while not (setting.folder / f"{name}.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.2)


def _writes_done(setting: Setting) -> int:
    calls = read_journals(setting.folder, "w*")
    return sum(call.ending is Ending.OK and call.work is not Work.SERVICE for call in calls)


def _wait_for_more_done(setting: Setting, before: int) -> None:
    """Writers that get nothing done for so long are killed nevertheless: the judge will say what is wrong."""
    deadline = time.monotonic() + STOP_SECONDS
    while _writes_done(setting) <= before and time.monotonic() < deadline:
        time.sleep(0.1)


def _write(setting: Setting, _: str, slot: int, life: int) -> None:
    run_writer(setting, slot, life)


def _write_by_spark(setting: Setting, name: str) -> None:
    from tests.chaos.spark_writer import run_spark_writer

    run_spark_writer(setting, name)


def _write_by_jvm(setting: Setting, name: str) -> None:
    from tests.chaos.jvm_writer import run_jvm_writer

    run_jvm_writer(setting, name)


_BESIDE: dict[str, Callable[[Setting, str], None]] = {"spark": _write_by_spark, "jvm": _write_by_jvm}


def _run(program: Callable[..., None], setting: str, name: str, arguments: tuple[Any, ...]) -> None:
    """In the new process: what it says goes to a file of its own."""
    told = Setting.from_json(setting)
    errors = os.open(told.folder / f"{name}.err", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(errors, sys.stderr.fileno())
    logging.basicConfig(level=logging.WARNING)
    program(told, name, *arguments)


def _kill(process: BaseProcess) -> None:
    process.kill()
    process.join()


def _stop(processes: list[BaseProcess], happened: Happened) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(STOP_SECONDS)
        _note_bad_end(process, happened)


def _note_bad_end(process: BaseProcess, happened: Happened) -> None:
    """A process that still works when it should have stopped, or has stopped when it should work."""
    if process.exitcode not in (None, 0):
        happened.ended_badly.append(f"{process.name} ended by itself ({process.exitcode}): see {process.name}.err")
