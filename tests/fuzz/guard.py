"""One input under watch: a second of processor time, and a bound on memory; what came of it, as a signature."""

from __future__ import annotations

import enum
import faulthandler
import resource
import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import pyarrow as pa
from tests.fuzz.target import Target, judge

SECONDS_MAX = 1.0
"""Processor time for one input: wall time would blame the parser for a busy machine."""
MEMORY_BYTES_MAX = 256 * 1024 * 1024
_SOURCE = "/src/pyhudi/"
_STATM = Path("/proc/self/statm")
_PAGE_BYTES = resource.getpagesize()


class HangError(BaseException):
    """An input took longer than `SECONDS_MAX`. Not an `Exception`, which the code under test might catch."""


class Outcome(enum.Enum):
    """What came of one input that found nothing."""

    ACCEPTED = "accepted"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Failure:
    """What came of one that did: `signature` is the same for inputs that fail in the same way at the same place."""

    signature: str
    detail: str


def run(target: Target, data: bytes) -> Outcome | Failure:
    """Parse one input."""
    try:
        with _memory_limit(), _time_limit():
            accepted = judge(target, data)
    except (Exception, HangError) as error:  # noqa: BLE001 - whatever it is, it is what this program looks for
        return _failure(error)
    return Outcome.ACCEPTED if accepted else Outcome.REFUSED


@contextmanager
def prepared() -> Iterator[None]:
    """What `run` needs of the process: that its clock may interrupt, which it may only in the main thread."""
    previous = signal.signal(signal.SIGPROF, _hang)
    try:
        yield
    finally:
        signal.signal(signal.SIGPROF, previous)


def isolate() -> None:
    """Make this process a place for parsers that may crash: it says where, leaves no file, and begins no threads."""
    faulthandler.enable()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@contextmanager
def _memory_limit() -> Iterator[None]:
    """So much address space above what the process has by now."""
    pages = int(_STATM.read_bytes().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * _PAGE_BYTES + MEMORY_BYTES_MAX, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@contextmanager
def _time_limit() -> Iterator[None]:
    signal.setitimer(signal.ITIMER_PROF, SECONDS_MAX)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _hang(_: int, __: FrameType | None) -> None:
    raise HangError


def _failure(error: BaseException) -> Failure:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _SOURCE in frame.filename]
    place = own[-1] if own else frames[-1]
    where = f"{place.filename.rpartition('/src/')[2] or place.filename}:{place.lineno} in {place.name}"
    if isinstance(error, HangError):
        # Where it was stopped is chance; which function never came back is not.
        where = own[0].name if own else where
    detail = "".join(traceback.format_exception(error))[-4000:]
    first_line = str(error).split("\n", maxsplit=1)[0][:120]
    is_value = type(error).__name__ == "WrongOutcomeError"
    return Failure(f"{type(error).__name__}{': ' + first_line if is_value else ''} at {where}", detail)
