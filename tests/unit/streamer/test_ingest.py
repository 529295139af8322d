"""Rounds of the streamer: each file is in the table once, whatever happens to the process."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.support.crashes import copied
from tests.support.ingestions import Landing, ids_in, ingestion, run_until_idle, settings
from tests.support.tables import LATER_MS, StepClock, environment, open_table

from pyhudi.errors import (
    CommitOutcomeUnknownError,
    ConfigError,
    SourceError,
    UnavailableError,
    WriteConflictError,
)
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.streamer.checkpoints import KEY_V1, KEY_V2, RESET_KEY_V1, Checkpoint, last_commit
from pyhudi.streamer.ingest import checkpoint_of, ingest, run_round
from pyhudi.streamer.result import Idle
from pyhudi.streamer.sources.protocol import Pull, Source
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage, SimulatedCrash, at_effect

FIRST = 1_700_000_000_000
KINDS = [(version, kind) for version in (6, 8, 9) for kind in ("cow", "mor")]


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    return Landing(tmp_path / "landing")


def options_of(version: int, kind: str) -> dict[str, str]:
    name = "MERGE_ON_READ" if kind == "mor" else "COPY_ON_WRITE"
    return {"hoodie.write.table.version": str(version), "hoodie.datasource.write.table.type": name}


@pytest.mark.parametrize(("version", "kind"), KINDS)
def test_killed_at_any_effect_each_file_is_in_the_table_once(landing: Landing, version: int, kind: str):
    landing.put("a", [1, 2], ms=FIRST)
    landing.put("b", [3], ms=FIRST)
    given = settings(landing, options_of(version, kind), source_limit=1)
    for begun in (False, True):
        before = MemoryStorage()
        if begun:
            ingest(ingestion(given, before))
        step = 1 if version == 9 else 7
        for number in itertools.count(1, step):
            inner = copied(before)
            storage = FaultStorage(inner, before=at_effect(number, SimulatedCrash()))
            with suppress(SimulatedCrash):
                ingest(ingestion(given, storage))
            is_over = not storage.is_dead
            later = environment(StepClock(LATER_MS))
            run_until_idle(ingestion(given, inner, later))
            assert ids_in(inner) == [1, 2, 3], f"effect {number}: {storage.effects[-1]}"
            if is_over:
                break


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_answer_that_is_lost_at_any_effect_brings_each_file_once(landing: Landing, kind: str):
    landing.put("a", [1, 2])
    given = settings(landing, options_of(9, kind))
    for number in itertools.count(1):
        inner = MemoryStorage()
        storage = FaultStorage(inner, after=at_effect(number, UnavailableError("no answer")))
        failed = True
        with suppress(UnavailableError, CommitOutcomeUnknownError):
            ingest(ingestion(given, storage))
            failed = False
        run_until_idle(ingestion(given, inner, environment(StepClock(LATER_MS))))
        assert ids_in(inner) == [1, 2], f"effect {number}"
        if not failed and len(storage.effects) < number:
            break


@pytest.mark.parametrize("behind_ms", [1, 86_400_000])
def test_streamers_whose_clocks_differ_write_each_file_once_and_in_order(landing: Landing, behind_ms: int):
    given, storage, now = settings(landing, source_limit=1), MemoryStorage(), LATER_MS
    for number, ms in enumerate([now, now - behind_ms, now + behind_ms, now - behind_ms]):
        landing.put(f"f{number}", [number], ms=FIRST + number)
        assert run_until_idle(ingestion(given, storage, environment(StepClock(ms)))) == 1
        assert checkpoint_of(ingestion(given, storage)) == str(FIRST + number)
        assert ids_in(storage) == list(range(number + 1))


def test_round_without_new_files_writes_nothing(landing: Landing):
    landing.put("a", [1])
    storage = FaultStorage(MemoryStorage())
    ingest(ingestion(settings(landing), storage))
    before = len(storage.effects)
    assert ingest(ingestion(settings(landing), storage)) is None
    assert len(storage.effects) == before


def test_round_without_new_files_asks_the_store_little(landing: Landing):
    landing.put("a", [1])
    inner = MemoryStorage()
    ingest(ingestion(settings(landing), inner))
    storage = FaultStorage(inner)
    assert ingest(ingestion(settings(landing), storage)) is None
    assert ingest(ingestion(settings(landing), storage)) is None
    assert len(storage.operations) <= 7


def test_of_two_streamers_from_one_commit_one_writes(landing: Landing):
    landing.put("a", [1], ms=FIRST)
    storage = MemoryStorage()
    ingest(ingestion(settings(landing), storage))
    landing.put("b", [2], ms=FIRST + 1)
    landing.put("c", [3], ms=FIRST + 2)
    done = []

    def second(operation: str, path: str) -> None:
        if not done and operation == "open_output" and path.endswith(".parquet"):
            done.append(ingest(ingestion(settings(landing, source_limit=1), storage)))

    first = ingestion(settings(landing), FaultStorage(storage, before=second))
    with pytest.raises(WriteConflictError):
        ingest(first)
    assert ids_in(storage) == [1, 2]
    run_until_idle(ingestion(settings(landing), storage))
    assert ids_in(storage) == [1, 2, 3]


def test_streamer_that_lost_says_so_even_when_the_other_has_gone_on(landing: Landing):
    landing.put("a", [1], ms=FIRST)
    storage = MemoryStorage()
    ingest(ingestion(settings(landing), storage))
    landing.put("b", [2], ms=FIRST + 1)
    landing.put("c", [3], ms=FIRST + 2)
    done = []

    def others(operation: str, path: str) -> None:
        if not done and operation == "open_output" and path.endswith(".parquet"):
            done.append(path)
            assert run_until_idle(ingestion(settings(landing, source_limit=1), storage)) == 2

    with pytest.raises(WriteConflictError):
        ingest(ingestion(settings(landing), FaultStorage(storage, before=others)))
    assert ids_in(storage) == [1, 2, 3]


def test_checkpoint_carried_along_by_a_plain_write_does_not_hide_a_newer_one(landing: Landing):
    """JVM Hudi does that with hoodie.write.rolling.metadata.keys."""
    landing.put("a", [1], ms=FIRST)
    storage = MemoryStorage()
    ingest(ingestion(settings(landing), storage))
    landing.put("b", [2], ms=FIRST + 1)
    done = []

    def carry(operation: str, path: str) -> None:
        if not done and operation == "open_output" and path.endswith(".parquet"):
            done.append(path)
            table = open_table(storage)
            prefix = {"hoodie.datasource.write.commitmeta.key.prefix": "deltastreamer."}
            table.insert(table.schema.empty_table(), hudi_options={**prefix, KEY_V1: str(FIRST)})

    env = environment(StepClock())
    ingest(ingestion(settings(landing), FaultStorage(storage, before=carry), env))
    assert done
    assert checkpoint_of(ingestion(settings(landing), storage)) == str(FIRST + 1)
    assert ingest(ingestion(settings(landing), storage)) is None
    assert ids_in(storage) == [1, 2]


def test_plain_writes_in_between_leave_the_checkpoint(landing: Landing):
    landing.put("a", [1], ms=FIRST)
    storage = MemoryStorage()
    ingest(ingestion(settings(landing), storage))
    for number in range(3):
        table = open_table(storage)
        table.insert(table.schema.empty_table())
        landing.put(f"b{number}", [10 + number], ms=FIRST + number)
    assert run_until_idle(ingestion(settings(landing), storage)) == 1
    assert ids_in(storage) == [1, 10, 11, 12]


def test_checkpoint_that_is_given_counts_once(landing: Landing):
    for number in range(3):
        landing.put(f"f{number}", [number], ms=FIRST + number)
    storage = MemoryStorage()
    run_until_idle(ingestion(settings(landing), storage))
    again = settings(landing, checkpoint=str(FIRST))
    assert run_until_idle(ingestion(again, storage)) == 1
    assert ids_in(storage) == [0, 1, 1, 2, 2]
    last = last_commit(load_table(storage))
    assert last is not None
    assert last.kept[RESET_KEY_V1] == str(FIRST)
    assert last.kept[KEY_V1] == str(FIRST + 2)
    assert KEY_V2 not in last.kept


def test_ignored_checkpoint_reads_from_the_begin_once(landing: Landing):
    landing.put("a", [1])
    storage = MemoryStorage()
    run_until_idle(ingestion(settings(landing), storage))
    assert run_until_idle(ingestion(settings(landing, ignore_checkpoint="x"), storage)) == 1
    assert ids_in(storage) == [1, 1]


def test_backfill_leaves_the_checkpoint_alone(landing: Landing):
    landing.put("a", [1], ms=FIRST)
    storage = MemoryStorage()
    ingest(ingestion(settings(landing), storage))
    landing.put("b", [2], ms=FIRST + 1)
    skipping = settings(landing, {"hoodie.streamer.checkpoint.force.skip": "true"})
    ingest(ingestion(skipping, storage))
    assert checkpoint_of(ingestion(skipping, storage)) == str(FIRST)


def test_damaged_file_stops_the_batch_and_advances_nothing(landing: Landing):
    landing.put("a", [1], ms=FIRST)
    landing.put_text("b", '{"id": 2', ms=FIRST + 1)
    storage = MemoryStorage()
    with pytest.raises(SourceError, match="cannot be read") as raised:
        ingest(ingestion(settings(landing), storage))
    assert raised.value.context["path"].endswith("/b")
    landing.put("b", [2], ms=FIRST + 1)
    run_until_idle(ingestion(settings(landing), storage))
    assert ids_in(storage) == [1, 2]


def test_filter_of_duplicates_drops_keys_that_the_table_or_the_batch_has(landing: Landing):
    landing.put("a", [1, 1, 2], ms=FIRST)
    landing.put("b", [2, 3], ms=FIRST + 1)
    storage = MemoryStorage()
    run_until_idle(ingestion(settings(landing, filter_dupes=True, source_limit=1), storage))
    assert ids_in(storage) == [1, 2, 3]


def test_filter_of_duplicates_is_refused_for_an_upsert(landing: Landing):
    with pytest.raises(ConfigError, match="op=INSERT"):
        settings(landing, filter_dupes=True, op="UPSERT")


def test_columns_that_a_batch_lacks_are_null(landing: Landing):
    landing.put_text("a", '{"id": 1, "note": "x", "late": null}', ms=FIRST)
    landing.put_text("b", '{"id": 2, "late": 2.5}', ms=FIRST + 1)
    storage = MemoryStorage()
    run_until_idle(ingestion(settings(landing, source_limit=1), storage))
    rows = open_table(storage).scan(["id", "note", "late"]).to_arrow().sort_by("id").to_pylist()
    assert rows == [{"id": 1, "note": "x", "late": None}, {"id": 2, "note": None, "late": 2.5}]


def test_empty_folder_makes_no_table(landing: Landing):
    landing.folder.mkdir()
    storage: Storage = MemoryStorage()
    assert ingest(ingestion(settings(landing), storage)) is None
    assert storage.list_recursive("") == ()


def test_commit_without_change_is_made_when_asked_for(landing: Landing):
    landing.put("a", [1])
    storage = MemoryStorage()
    given = settings(landing, allow_commit_on_no_checkpoint_change=True)
    ingest(ingestion(given, storage))
    batch = ingest(ingestion(given, storage))
    assert batch is not None
    assert batch.checkpoint == str(FIRST)
    assert ids_in(storage) == [1]


@dataclass(frozen=True)
class Overtaken:
    """A source after whose answer something else happens."""

    source: Source
    then: Callable[[], object]

    def pull(self, after: Checkpoint, *, limit: int | None) -> Pull | None:
        answer = self.source.pull(after, limit=limit)
        self.then()
        return answer


def test_batch_is_written_once_also_where_another_write_carries_the_checkpoint_along(landing: Landing):
    storage = MemoryStorage()
    landing.put("a", [1], ms=FIRST)
    given = ingestion(settings(landing), storage)
    run_until_idle(given)
    landing.put("b", [2], ms=FIRST + 1)

    def carry_and_ingest() -> None:
        table = open_table(storage)
        keys = {"hoodie.write.rolling.metadata.keys": KEY_V1}
        table.insert(table.schema.empty_table(), hudi_options=keys)
        run_until_idle(given)

    with suppress(WriteConflictError):  # or the commit of the other is taken for ours, which says the same
        ingest(replace(given, source=Overtaken(given.source, carry_and_ingest)))
    assert ids_in(storage) == [1, 2]


def test_checkpoint_that_another_run_has_set_back_is_noticed_within_a_minute(landing: Landing):
    landing.put("a", [1])
    storage, clock = MemoryStorage(), StepClock()
    streamer = ingestion(settings(landing), storage, environment(clock))
    assert run_until_idle(streamer) == 1
    before = FIRST - 1
    ingest(
        ingestion(
            settings(
                landing,
                {"hoodie.streamer.source.dfs.root": str(landing.folder / "none")},
                checkpoint=str(before),
                allow_commit_on_no_checkpoint_change=True,
            ),
            storage,
        )
    )
    assert checkpoint_of(streamer) == str(before)
    clock.sleep(60)
    assert run_until_idle(streamer) == 1
    assert ids_in(storage) == [1, 1]  # the operation is INSERT


@dataclass(frozen=True)
class Asked:
    """A source that keeps what it was asked."""

    inner: Source
    asked: list[Checkpoint]

    def pull(self, after: Checkpoint, *, limit: int | None) -> Pull | None:
        self.asked.append(after)
        return self.inner.pull(after, limit=limit)


def test_what_comes_after_a_quiet_time_is_asked_for_once(landing: Landing):
    landing.put("a", [1])
    storage, asked = MemoryStorage(), list[Checkpoint]()
    streamer = ingestion(settings(landing), storage)
    streamer = replace(streamer, source=Asked(streamer.source, asked))
    assert run_until_idle(streamer) == 1
    landing.put("b", [2], ms=FIRST + 1)
    assert run_until_idle(streamer) == 1
    assert ids_in(storage) == [1, 2]
    assert len(asked) == 4


def test_source_is_not_asked_while_table_services_are_behind(landing: Landing):
    landing.put("a", [1])
    storage, asked = MemoryStorage(), list[Checkpoint]()
    streamer = ingestion(settings(landing), storage)
    streamer = replace(streamer, source=Asked(streamer.source, asked))
    assert run_until_idle(streamer) == 1
    landing.put("b", [2], ms=FIRST + 1)
    asked.clear()
    assert [run_round(streamer, lambda _: True) for _ in range(3)] == [Idle.SERVICES_BEHIND] * 3
    assert len(asked) == 1  # by the round that found something new after a quiet time
    assert ids_in(storage) == [1]
    assert run_until_idle(streamer) == 1
    assert ids_in(storage) == [1, 2]


def test_batch_without_rows_is_committed_with_its_checkpoint_whatever_the_options_say(landing: Landing):
    landing.put("a", [1], ms=FIRST)
    landing.put("b", [1], ms=FIRST + 1)
    storage = MemoryStorage()
    given = settings(landing, {"hoodie.allow.empty.commit": "false"}, filter_dupes=True, source_limit=1)
    ingest(ingestion(given, storage))
    batch = ingest(ingestion(given, storage))
    assert batch is not None
    assert (batch.write.has_committed, batch.write.inserted) == (True, 0)
    assert batch.checkpoint == str(FIRST + 1)
    assert ingest(ingestion(given, storage)) is None
