"""Exchanges without Spark: which rows reach which task, in which order, and where they wait."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.support.exchanges import exchange, expected, failing

from pyhudi.engine.local import LocalEngine
from pyhudi.engine.protocol import AddressedRows, Exchange, TaskContext
from pyhudi.engine.spilled_rows import SpillSettings
from pyhudi.errors import RecordKeyError


@pytest.mark.parametrize("parallelism", [1, 4])
@pytest.mark.parametrize("memory", [1 << 30, 10_000, 1], ids=["in memory", "some spilled", "all spilled"])
def test_rows_reach_the_receiver_that_they_are_addressed_to_in_the_order_of_their_senders(
    memory: int, parallelism: int
) -> None:
    step = exchange(spill=SpillSettings(memory))

    results = LocalEngine(parallelism=parallelism).exchange(step)

    assert results == [("a", expected(0)), ("b", expected(1)), ("c", expected(2))]


def test_receivers_without_rows_do_not_run() -> None:
    def nothing(_: TaskContext, __: int) -> Iterator[AddressedRows]:
        yield from ()

    assert LocalEngine().exchange(exchange(send=nothing)) == []


def test_no_receiver_runs_when_a_sender_fails() -> None:
    ran = []

    def record(_: TaskContext, name: str, __: Iterator[pa.RecordBatch]) -> None:
        ran.append(name)

    with pytest.raises(RecordKeyError, match="no key") as caught:
        LocalEngine(parallelism=1).exchange(exchange(send=failing(2), receive=record))

    assert caught.value.context == {"sender": 2}
    assert ran == []


@pytest.mark.parametrize("fails", [False, True])
def test_spilled_rows_leave_no_file(tmp_path: Path, fails: bool) -> None:
    step = exchange(send=failing(3 if fails else 9), spill=SpillSettings(1, str(tmp_path)))

    if fails:
        with pytest.raises(RecordKeyError):
            LocalEngine().exchange(step)
    else:
        assert LocalEngine().exchange(step)

    assert list(tmp_path.iterdir()) == []


def test_spilled_rows_wait_in_the_folder_that_is_given(tmp_path: Path) -> None:
    seen = []

    def look(*_: Any) -> None:
        seen.append(len(list(tmp_path.rglob("rows.arrow"))))

    LocalEngine(parallelism=1).exchange(exchange(receive=look, spill=SpillSettings(1, str(tmp_path))))

    assert seen == [4, 4, 4]
    assert tempfile.gettempdir() != str(tmp_path)


def test_progress_counts_the_tasks_of_both_rounds() -> None:
    told = []
    engine = LocalEngine(parallelism=1, on_progress=lambda progress: told.append((progress.step, progress.tasks)))

    engine.exchange(exchange())

    assert told == [("sort rows, to exchange", 4)] * 4 + [("exchange", 3)] * 3


def test_receiver_of_an_exchange_runs_under_its_own_number() -> None:
    batch = pa.record_batch({"n": [1, 2]})

    def send(_: TaskContext, sender: int) -> Any:
        yield AddressedRows(batch, np.array([3, 1]))

    def receive(context: TaskContext, receiver: int, batches: Any) -> tuple[int, int]:
        del batches
        return context.partition, receiver

    step = Exchange(
        send=send,
        senders=[0],
        receive=receive,
        receivers=[10, 11, 12, 13],
        sizes=[1] * 4,
        sent_bytes=1,
        description="exchange",
    )
    assert LocalEngine().exchange(step) == [(1, 11), (3, 13)]
