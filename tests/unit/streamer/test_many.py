"""Many tables from one process."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.ingestions import FIRST_MS, Landing
from tests.support.tables import StepClock, environment

import pyhudi
from pyhudi.engine.local import LocalEngine
from pyhudi.errors import ConfigError, SourceError
from pyhudi.streamer import StreamerConfig, TableResult, run_many
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.many import take_turns, turn_of
from pyhudi.streamer.sources.protocol import Pull, Source
from pyhudi.testing.faults import FaultStorage


def table(folder: Path, name: str, **given: Any) -> StreamerConfig:
    return StreamerConfig(
        str(folder / "tables" / name),
        hoodie_conf={
            "hoodie.streamer.source.dfs.root": str(folder / name),
            "hoodie.datasource.write.recordkey.field": "id",
        },
        **given,
    )


def ids(folder: Path, name: str) -> list[int]:
    found = pyhudi.HudiTable.for_path(folder / "tables" / name).scan(["id"]).to_arrow()
    return sorted(found["id"].to_pylist())


def test_table_that_fails_stops_no_other(tmp_path: Path):
    Landing(tmp_path / "a").put("f", [1])
    Landing(tmp_path / "b").put_text("f", "{")
    Landing(tmp_path / "c").put("f", [3])
    results = run_many([table(tmp_path, name) for name in "abc"])
    assert [result.result.batches for result in results] == [1, 0, 1]
    assert [type(result.error) for result in results] == [type(None), SourceError, type(None)]
    assert (ids(tmp_path, "a"), ids(tmp_path, "c")) == ([1], [3])


def test_tables_that_wait_for_their_stores_do_not_wait_for_each_other(tmp_path: Path):
    count = 4 * LocalEngine().parallelism
    names = [str(number) for number in range(count)]
    for name in names:
        Landing(tmp_path / name).put("f", [1])
    all_are_there = threading.Barrier(count)

    def wait(rows: pa.Table) -> pa.Table:
        all_are_there.wait(30)
        return rows

    results = run_many([table(tmp_path, name, transformer_class=wait) for name in names])
    assert [result.error for result in results] == [None] * count


def test_function_of_one_table_that_fails_stops_no_other(tmp_path: Path):
    for name in "ab":
        Landing(tmp_path / name).put("f", [1])
    results = run_many([table(tmp_path, "a", transformer_class=lambda rows: rows["no such"]), table(tmp_path, "b")])
    assert [type(result.error) for result in results] == [KeyError, type(None)]


@pytest.mark.parametrize("continuous", [False, True])
def test_exit_from_a_function_of_one_table_ends_the_run(tmp_path: Path, continuous: bool):
    Landing(tmp_path / "a").put("f", [1])

    def leave(rows: Any) -> Any:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        run_many([table(tmp_path, "a", transformer_class=leave)], continuous=continuous)
    assert not (tmp_path / "tables" / "a" / ".hoodie").exists()


def test_table_that_fails_is_paused_alone_and_longer_each_time(tmp_path: Path):
    Landing(tmp_path / "a").put_text("f", "{")
    good = Landing(tmp_path / "b")
    good.put("f", [1])
    env = environment(StepClock())
    turns = [turn_of(table(tmp_path, name, retry_interval_seconds=10), env) for name in "ab"]
    tries: list[float] = []
    failures = 0

    def ends(results: Sequence[TableResult]) -> bool:
        nonlocal failures
        if results[0].failures > failures:
            failures = results[0].failures
            tries.append(env.clock.monotonic())
            good.put(f"g{failures}", [10 + failures])
        return failures == 5

    results = take_turns(turns, continuous=True, ends=ends)
    pauses = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert [round(pause / 10) for pause in pauses] == [1, 2, 4, 8]
    assert results[1].failures == 0
    assert ids(tmp_path, "b") == [1, 11, 12, 13, 14]
    Landing(tmp_path / "a").put("f", [7])
    results = take_turns(turns, continuous=True, ends=lambda results: not results[0].failures)
    assert ids(tmp_path, "a") == [7]
    assert results[0].error is None


def test_tables_take_turns_batch_by_batch(tmp_path: Path):
    order: list[str] = []
    for name in "ab":
        for number in range(3):
            Landing(tmp_path / name).put(f"f{number}", [number])

    def noting(name: str) -> Any:
        def note(rows: Any) -> Any:
            order.append(name)
            return rows

        return note

    tables = [table(tmp_path, name, source_limit=1, transformer_class=noting(name)) for name in "ab"]
    env = environment(StepClock())
    turns = [turn_of(config, env) for config in tables]
    take_turns(turns, continuous=True, ends=lambda results: all(one.result.batches == 3 for one in results))
    assert order == ["a", "b"] * 3


def test_idle_tables_make_no_commits(tmp_path: Path):
    Landing(tmp_path / "a").put("f", [1])
    for _ in range(3):
        run_many([table(tmp_path, "a")])
    assert pyhudi.HudiTable.for_path(tmp_path / "tables" / "a").inspect.history().num_rows == 1


def test_wrong_arguments_are_refused_before_anything_begins(tmp_path: Path):
    Landing(tmp_path / "a").put("f", [1])
    for tables, more in (
        ([table(tmp_path, "a"), table(tmp_path, "a")], {}),
        ([table(tmp_path, "a"), table(tmp_path, "b", continuous=True)], {}),
        ([table(tmp_path, "a")], {"post_write_termination": lambda _: True}),
    ):
        with pytest.raises(ConfigError):
            run_many(tables, **more)  # type: ignore[arg-type]
    assert not (tmp_path / "tables").exists()


def test_rounds_of_two_tables_run_side_by_side(tmp_path: Path):
    both = threading.Barrier(2, timeout=60)

    def meet(rows: pa.Table) -> pa.Table:
        both.wait()
        return rows

    for name in "ab":
        Landing(tmp_path / name).put("f", [1])
    turns = [turn_of(table(tmp_path, name, transformer_class=meet)) for name in "ab"]
    results = take_turns(turns, continuous=False, ends=None, threads=2)
    assert [result.error for result in results] == [None, None]


@dataclass(frozen=True)
class Asked:
    """A source that notes when it is asked."""

    source: Source
    name: str
    asked: list[str]

    def pull(self, after: Checkpoint, *, limit: int | None) -> Pull | None:
        self.asked.append(self.name)
        return self.source.pull(after, limit=limit)


def test_hundreds_of_idle_tables_cost_no_commit_and_a_busy_one_waits_for_no_second_turn(tmp_path: Path):
    names = [f"t{number}" for number in range(200)]
    for name in names:
        (tmp_path / name).mkdir()
    for number in range(3):
        Landing(tmp_path / "t7").put(f"f{number}", [number])
    Landing(tmp_path / "t8").put_text("f", "{")
    Landing(tmp_path / "t9").put("f", [9])
    env = environment(StepClock())
    asked: list[str] = []
    turns = [turn_of(table(tmp_path, name, source_limit=1, retry_interval_seconds=10_000), env) for name in names]
    for turn, name in zip(turns, names, strict=True):
        turn.ingestion = replace(turn.ingestion, source=Asked(turn.ingestion.source, name, asked))
    rounds = 4
    for _ in range(rounds):
        results = take_turns(turns, continuous=False, ends=None)
    assert asked == names * rounds  # each table in turn, in each round
    assert [Path(found.path).name for found in results if found.result.batches] == ["t7", "t9"]
    assert ids(tmp_path, "t7") == [0, 1, 2]
    assert [Path(found.path).name for found in results if found.error is not None] == ["t8"]
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == ["t7", "t9"]


def test_idle_tables_cost_no_request_of_their_stores_but_two_in_a_minute(tmp_path: Path):
    names = [f"t{number}" for number in range(10)]
    for name in names:
        Landing(tmp_path / name).put("f", [1])
    clock = StepClock()
    turns = [turn_of(table(tmp_path, name), environment(clock)) for name in names]
    take_turns(turns, continuous=False, ends=None)
    stores = [FaultStorage(turn.ingestion.storage) for turn in turns]
    for turn, store in zip(turns, stores, strict=True):
        turn.ingestion = replace(turn.ingestion, storage=store)
    take_turns(turns, continuous=False, ends=None)  # reads the newest commit, which is kept

    def requests_of(rounds: int) -> set[int]:
        before = [len(store.operations) for store in stores]
        for _ in range(rounds):
            take_turns(turns, continuous=False, ends=None)
        return {len(store.operations) - count for store, count in zip(stores, before, strict=True)}

    assert requests_of(rounds=3) == {0}
    clock.sleep(60)
    assert requests_of(rounds=1) == {2}
    assert requests_of(rounds=3) == {0}
    Landing(tmp_path / "t3").put("g", [2], ms=FIRST_MS + 1)
    assert 0 in requests_of(rounds=1)
    assert ids(tmp_path, "t3") == [1, 2]
    assert ids(tmp_path, "t4") == [1]
