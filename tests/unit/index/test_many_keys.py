"""The ways in which staged keys meet stored ones: each finds what the others find, also when tasks run again."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.support.tables import MOR, SCHEMA, contents, new_table, open_table, rehandled, rows

from pyhudi.engine.local import LocalEngine
from pyhudi.engine.protocol import TaskContext
from pyhudi.index import delivery, hash_join, search, tagging
from pyhudi.storage.memory import MemoryStorage

INDEXES = ["SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM"]
WAYS = ["read", "sent", "joined"]


def meet(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Let keys meet as those of large writes do."""
    if way == "read":
        return
    for module in (delivery, search):
        monkeypatch.setattr(module, "READ_KEYS_MAX", 0)
    monkeypatch.setattr(search, "JOIN_COSTS", 0 if way == "joined" else 1 << 30)
    monkeypatch.setattr(delivery, "KEYS_AT_ONCE", 5)
    monkeypatch.setattr(tagging, "TAGS_AT_ONCE", 3)
    monkeypatch.setattr(hash_join, "STORED_BYTES_PER_TASK", 200_000)
    monkeypatch.setattr(hash_join, "STAGED_KEYS_AT_ONCE", 4)


@dataclass(frozen=True)
class TwiceEngine(LocalEngine):
    """Runs each task twice, as an engine does that loses the result of the first attempt, and as if elsewhere."""

    @property
    def on_one_machine(self) -> bool:
        return False

    @property
    def repeats_tasks(self) -> bool:
        return True

    def map(self, function: Callable[[TaskContext, Any], Any], tasks: Sequence[Any], **how: Any) -> list[Any]:
        def run(context: TaskContext, task: Any) -> Any:
            function(context, task)
            return function(replace(context, attempt=context.attempt + 1), task)

        return super().map(run, tasks, **how)


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("way", WAYS)
def test_a_random_history_ends_with_the_rows_that_it_says(
    way: str, index: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    meet(monkeypatch, way)
    dice = random.Random(f"{index} {kind}")
    storage = MemoryStorage()
    options = {"hoodie.index.type": index, "hoodie.parquet.small.file.limit": "0", **(MOR if kind == "mor" else {})}
    new_table(storage, **options)
    expected: dict[Any, Any] = {}
    for turn in range(1, 9):
        batch = {}
        for _ in range(dice.randrange(1, 25)):
            row = (dice.randrange(40), dice.choice(("oslo", "rome", "bern")), turn, f"v{turn}")
            batch[row[0] if index.startswith("GLOBAL") else row[:2]] = row
        new = len(batch.keys() - expected.keys())
        table = rehandled(open_table(storage, **options), engine=TwiceEngine(parallelism=1))

        if turn % 4:
            result = table.upsert(rows(*batch.values()))
            assert (result.inserted, result.updated) == (new, len(batch) - new) or index.startswith("GLOBAL")
            expected.update(batch)
        else:
            table.delete(rows(*batch.values()))
            for key in batch:
                expected.pop(key, None)

        stored = open_table(storage).scan(SCHEMA.names).to_arrow().to_pylist()
        assert Counter(tuple(row.values()) for row in stored) == Counter(expected.values())


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("way", WAYS)
def test_each_of_many_versions_of_a_key_is_an_update_of_its_one_row(
    way: str, index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    meet(monkeypatch, way)
    storage = MemoryStorage()
    options = {"hoodie.index.type": index, "hoodie.combine.before.upsert": "false"}
    new_table(storage, **options)
    open_table(storage, **options).upsert(rows(*((key, "oslo", 1, "old") for key in range(10))))

    table = rehandled(open_table(storage, **options), engine=TwiceEngine(parallelism=1))
    table.upsert(rows(*((7, "oslo", 2 + n, "new") for n in range(30)), (11, "oslo", 1, "new")))

    assert contents(storage) == {
        *((key, "oslo", 1, "old") for key in range(10) if key != 7),
        (7, "oslo", 31, "new"),
        (11, "oslo", 1, "new"),
    }


def test_a_receiver_gets_the_keys_of_one_partition_and_about_as_many_as_the_others() -> None:
    receivers = hash_join.Receivers({"oslo": (0, 1), "rome": (1, 16)})
    keys = pa.array([f"key-{n:07}" for n in range(100_000)])

    in_oslo, in_rome = receivers.numbers("oslo", keys), receivers.numbers("rome", keys)

    assert in_oslo is not None
    assert in_rome is not None
    assert set(in_oslo) == {0}
    counts = np.bincount(in_rome, minlength=17)
    assert counts[0] == 0
    assert counts[1:].max() <= 1.1 * counts[1:].mean()
    assert receivers.numbers("bern", keys) is None


@pytest.mark.parametrize("rows_of_batches", [[], [3], [1, 1, 1, 9, 2]])
def test_keys_are_gathered_and_cut_without_loss(rows_of_batches: list[int]) -> None:
    ends = np.cumsum([0, *rows_of_batches])
    batches = [pa.record_batch({"n": pa.array(range(a, b), pa.int32())}) for a, b in pairwise(ends)]

    portions = list(delivery.in_portions(((batch, np.asarray(batch.column("n"))) for batch in batches), 4))
    joined = list(delivery.gathered(batches, 3))

    everything = list(range(sum(rows_of_batches)))
    assert [n for portion in portions for n in portion.rows.column("n").to_pylist()] == everything
    assert [n for portion in portions for n in portion.split.tolist()] == everything
    assert all(portion.rows.num_rows <= 4 for portion in portions)
    assert [n for batch in joined for n in batch.column("n").to_pylist()] == everything
    assert all(batch.num_rows >= 3 for batch in joined[:-1])
