"""Many tables from one process: they take turns, and one that fails is paused alone."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from pyhudi.engine.local import LocalEngine
from pyhudi.environment import SYSTEM, Environment
from pyhudi.errors import ConfigError
from pyhudi.storage.open import open_storage
from pyhudi.streamer.config import StreamerConfig
from pyhudi.streamer.ingest import Ingestion, new_ingestion, run_round
from pyhudi.streamer.loop import IDLE_SECONDS, is_behind
from pyhudi.streamer.result import IngestedBatch, StreamerResult
from pyhudi.streamer.settings import settings_of
from pyhudi.streamer.sources.open import open_source
from pyhudi.streamer.sources.routed import in_one_run, released

_PAUSE_SECONDS_MAX: Final = 600.0
_TABLES_OF_A_CORE: Final = 4
"""A round of a small table waits for its store for longer than it computes. More rounds at once need more memory."""
_log = logging.getLogger("pyhudi")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableResult:
    """What a streamer of many did for one table.

    Attributes:
        path: the table.
        result: what was committed.
        error: what its last round failed with; None if that did not fail.
        failures: how many rounds have failed since the last one that did not.
    """

    path: str
    result: StreamerResult
    error: Exception | None
    failures: int


Ends: TypeAlias = Callable[[Sequence[TableResult]], bool]


@dataclass(slots=True)
class Turn:
    """A table among others: what it did, and when it is its turn again, by the clock of the environment."""

    ingestion: Ingestion
    config: StreamerConfig
    result: StreamerResult = field(default_factory=StreamerResult)
    error: Exception | None = None
    failures: int = 0
    next_at: float = 0.0

    def as_result(self) -> TableResult:
        """What was done so far."""
        return TableResult(
            path=self.ingestion.settings.path, result=self.result, error=self.error, failures=self.failures
        )


def run_many(
    tables: Sequence[StreamerConfig],
    *,
    continuous: bool = False,
    post_write_termination: Ends | None = None,
) -> tuple[TableResult, ...]:
    """Run the streamers of many tables in one process, a round of each, as many at a time as there are cores.

    A table whose round fails is paused, and the others go on: with `continuous` it is tried again after its
    `retry_interval_seconds`, after twice that when it fails again, and so on up to ten minutes. So every table gets its
    turn after at most one batch of each of the others; `source_limit` bounds these.

    Args:
        tables: the streamers, none of them `continuous`; each keeps its own `min_sync_interval_seconds`.
        continuous: go on until something stops it, in place of one round of each table.
        post_write_termination: with `continuous`: a function of the results so far, which is called when all tables
            whose turn it is have had it; the run ends when it returns True.

    Returns:
        What was done for each table, in the order of `tables`. An error of a table is in its result, and not raised.

    Raises:
        ConfigError: an argument or an option is not legal, or two streamers have one table; nothing was begun.
        UnsupportedFeatureError: as `run`.

    Cost: that of `run` for each table and round; nothing is written for a table without anything new.
    """
    turns = [turn_of(config) for config in tables]
    paths = [turn.ingestion.settings.path for turn in turns]
    if len(set(paths)) < len(paths):
        raise ConfigError(
            "two streamers write to one table", paths=sorted({path for path in paths if paths.count(path) > 1})
        )
    if post_write_termination is not None and not continuous:
        raise ConfigError("post_write_termination is for continuous=True: otherwise each table has one round")
    sources = in_one_run([turn.ingestion.source for turn in turns])
    for turn, source in zip(turns, sources, strict=True):
        turn.ingestion = replace(turn.ingestion, source=source)
    try:
        return take_turns(turns, continuous=continuous, ends=post_write_termination, threads=tables_at_a_time())
    finally:
        released(sources)


def tables_at_a_time() -> int:
    """How many tables have a round at the same time."""
    return _TABLES_OF_A_CORE * LocalEngine().parallelism


def turn_of(config: StreamerConfig, environment: Environment = SYSTEM) -> Turn:
    """A streamer among others. Raises what `run_many` raises; nothing is begun."""
    if config.continuous:
        raise ConfigError("of many tables run_many says whether they are continuous", path=str(config.target_base_path))
    settings = settings_of(config)
    storage = open_storage(settings.path, settings.options)
    return Turn(new_ingestion(settings, open_source(settings), storage, environment, spark=config.spark), config)


def take_turns(
    turns: Sequence[Turn], *, continuous: bool, ends: Ends | None, threads: int = 1
) -> tuple[TableResult, ...]:
    """Rounds of tables, as `run_many` describes them, so many at a time."""
    _rounds(turns, threads)
    while continuous and not (ends is not None and ends([turn.as_result() for turn in turns])):
        clock = turns[0].ingestion.environment.clock
        clock.sleep(max(0.0, min(turn.next_at for turn in turns) - clock.monotonic()))
        now = clock.monotonic()
        _rounds(sorted((turn for turn in turns if turn.next_at <= now), key=lambda turn: turn.next_at), threads)
    return tuple(turn.as_result() for turn in turns)


def _rounds(turns: Iterable[Turn], threads: int) -> None:
    """A round of each, in threads that the caller starts: so jobs of Spark have its job group.

    An interruption waits for the rounds that run, and not for the others.
    """
    free = threading.Semaphore(threads)
    started: list[threading.Thread] = []
    ended: list[BaseException] = []
    try:
        for turn in turns:
            free.acquire()
            if ended:
                break
            started.append(turn.ingestion.engine.thread(functools.partial(_round_of_some, free, ended, turn)))
            started[-1].start()
    finally:
        for thread in started:
            thread.join()
    if ended:
        raise ended[0]


def _round_of_some(free: threading.Semaphore, ended: list[BaseException], turn: Turn) -> None:
    """A round; what is to end the whole run, as an exit from a function of the user, is for the caller to raise."""
    try:
        _round(turn)
    except BaseException as error:  # noqa: BLE001 - a thread would lose it
        ended.append(error)
    finally:
        free.release()


def _round(turn: Turn) -> None:
    """One round of a table; whatever it fails with is kept, as the other tables have nothing to do with it."""
    clock, config = turn.ingestion.environment.clock, turn.config
    began = clock.monotonic()
    try:
        ended = run_round(turn.ingestion, functools.partial(is_behind, config=config))
    except Exception as error:  # noqa: BLE001 - see the docstring
        turn.error, turn.failures = error, turn.failures + 1
        pause = min(config.retry_interval_seconds * 2.0 ** min(turn.failures - 1, 20), _PAUSE_SECONDS_MAX)
        turn.next_at = clock.monotonic() + pause
        _log.warning("%s is paused for %.0f seconds: %s", turn.ingestion.settings.path, pause, error)
        return
    turn.error, turn.failures = None, 0
    least = config.min_sync_interval_seconds
    if isinstance(ended, IngestedBatch):
        turn.result = turn.result.after(ended)
    else:
        least = max(least, IDLE_SECONDS)
    turn.next_at = began + least
