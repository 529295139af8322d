"""Rounds of the streamer: when they begin, end, and are repeated."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.ingestions import Landing, ids_in, ingestion, settings
from tests.support.tables import StepClock, environment, open_table

from pyhudi.errors import ConfigError, SourceDataLostError, SourceError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.config import StreamerConfig
from pyhudi.streamer.ingest import Ingestion
from pyhudi.streamer.loop import run_continuously, with_retries
from pyhudi.streamer.result import StreamerResult
from pyhudi.streamer.sources.protocol import Pull, Source
from pyhudi.table.state import load_table


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    return Landing(tmp_path / "landing")


@dataclass
class FailingSource:
    """A source that fails as often as it has errors."""

    inner: Source
    errors: list[Exception] = field(default_factory=list)

    def pull(self, after: Checkpoint, *, limit: int | None) -> Pull | None:
        if self.errors:
            raise self.errors.pop(0)
        return self.inner.pull(after, limit=limit)


def config(**given: Any) -> StreamerConfig:
    return StreamerConfig("memory://t/table", **given)


def failing(given: Ingestion, *errors: Exception) -> Ingestion:
    return replace(given, source=FailingSource(given.source, list(errors)))


def test_source_that_fails_is_asked_again_after_a_pause(landing: Landing):
    landing.put("a", [1])
    clock = StepClock()
    streamer = failing(
        ingestion(settings(landing), MemoryStorage(), environment(clock)), SourceError("x"), SourceError("y")
    )
    began = clock.ms
    batch = with_retries(streamer, config(retry_on_source_failures=True, retry_interval_seconds=7, max_retry_count=2))
    assert batch is not None
    assert clock.ms - began >= 14_000


@pytest.mark.parametrize(
    ("error", "retries"), [(SourceError("x"), False), (SourceDataLostError("x"), True)], ids=["not asked for", "loss"]
)
def test_failure_of_the_source_is_raised(landing: Landing, error: Exception, retries: bool):
    landing.put("a", [1])
    streamer = failing(ingestion(settings(landing), MemoryStorage()), error)
    with pytest.raises(type(error)):
        with_retries(streamer, config(retry_on_source_failures=retries))


def test_source_that_fails_too_often_is_given_up(landing: Landing):
    landing.put("a", [1])
    streamer = failing(ingestion(settings(landing), MemoryStorage()), *(SourceError(str(n)) for n in range(3)))
    with pytest.raises(SourceError, match="2"):
        with_retries(streamer, config(retry_on_source_failures=True, max_retry_count=2))


def test_continuous_run_goes_on_with_what_comes_and_ends_when_it_is_enough(landing: Landing):
    landing.put("a", [1])
    storage = MemoryStorage()
    seen: list[tuple[int, int]] = []

    def ends(result: StreamerResult, idle: int) -> bool:
        seen.append((result.batches, idle))
        if result.batches == 1 and idle == 2:
            landing.put("b", [2])
        return result.batches == 2 and idle == 3

    result = run_continuously(
        ingestion(settings(landing), storage), config(continuous=True, post_write_termination=ends)
    )
    assert seen == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2), (2, 3)]
    assert (result.batches, result.items, result.rows) == (2, 2, 2)
    assert ids_in(storage) == [1, 2]


def test_rounds_keep_the_interval_that_is_asked_for(landing: Landing):
    landing.put("a", [1])
    clock = StepClock()
    streamer = ingestion(settings(landing), MemoryStorage(), environment(clock))
    times: list[int] = []

    def ends(_: StreamerResult, idle: int) -> bool:
        times.append(clock.ms)
        return idle == 3

    run_continuously(streamer, config(continuous=True, min_sync_interval_seconds=60, post_write_termination=ends))
    assert all(later - earlier >= 59_000 for earlier, later in itertools.pairwise(times))


def test_round_that_fails_for_a_reason_that_passes_is_repeated(landing: Landing):
    landing.put("a", [1])
    storage = MemoryStorage()
    streamer = failing(ingestion(settings(landing), storage), SourceError("x"))
    run_continuously(streamer, config(continuous=True, post_write_termination=lambda result, _: result.batches == 1))
    assert ids_in(storage) == [1]


def test_round_that_always_fails_ends_the_run(landing: Landing):
    landing.put("a", [1])
    streamer = failing(ingestion(settings(landing), MemoryStorage()), *(SourceError(str(n)) for n in range(9)))
    with pytest.raises(SourceError, match="3"):
        run_continuously(streamer, config(continuous=True))


def test_no_round_begins_while_compactions_are_behind(landing: Landing):
    storage = MemoryStorage()
    options = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}
    given = settings(landing, options, op="UPSERT")
    landing.put("a", [1])
    run_continuously(
        ingestion(given, storage), config(continuous=True, post_write_termination=lambda result, _: result.batches > 0)
    )
    landing.put("b", [1])
    run_continuously(
        ingestion(given, storage), config(continuous=True, post_write_termination=lambda result, _: result.batches > 0)
    )
    open_table(storage).services.schedule("compaction", hudi_options={"hoodie.compact.inline.max.delta.commits": "1"})
    assert len(load_table(storage).timeline.pending_compactions) == 1
    landing.put("c", [3])
    rounds = 0

    def ends(result: StreamerResult, _: int) -> bool:
        nonlocal rounds
        rounds += 1
        assert result.batches == 0 or rounds > 2
        if rounds == 2:
            open_table(storage).services.run(only="compaction")
        return result.batches > 0

    run_continuously(
        ingestion(given, storage), config(continuous=True, max_pending_compactions=1, post_write_termination=ends)
    )
    assert rounds == 3
    assert ids_in(storage) == [1, 3]


def test_compaction_of_a_continuous_run_is_beside_its_rounds(landing: Landing):
    assert settings(landing, continuous=True).options["hoodie.datasource.compaction.async.enable"] == "true"
    assert settings(landing, disable_compaction=True).options["hoodie.compact.inline"] == "false"
    given = settings(landing, {"hoodie.compact.inline": "true"}, continuous=True)
    assert "hoodie.datasource.compaction.async.enable" not in given.options


@pytest.mark.parametrize(
    "given",
    [
        {"max_pending_compactions": 0},
        {"min_sync_interval_seconds": -1},
        {"post_write_termination": lambda result, _: bool(result)},
    ],
)
def test_wrong_arguments_of_the_loop_are_refused(landing: Landing, given: dict[str, Any]):
    with pytest.raises(ConfigError):
        settings(landing, **given)
