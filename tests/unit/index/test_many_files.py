"""Looking keys up in many small files: the staged keys are hashed for many of them at once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.tables import contents, new_table, open_table, rows

from pyhudi.index import tagging
from pyhudi.index.tagging import KeyIndex
from pyhudi.storage.memory import MemoryStorage


@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE", "BLOOM"])
def test_keys_of_many_files_are_found_in_few_searches(index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    new_table(storage)
    for number in range(12):
        open_table(storage).bulk_insert(rows(*((10 * number + n, "oslo", 1, "old") for n in range(3))))
    hashed: list[int] = []
    search = KeyIndex.find

    def counted(self: KeyIndex, stored: Any) -> Any:
        hashed.append(len(self.distinct))
        return search(self, stored)

    monkeypatch.setattr(KeyIndex, "find", counted)
    given = [key for key in range(150) if key % 3]

    result = open_table(storage, **{"hoodie.index.type": index}).upsert(
        rows(*((key, "oslo", 2, "new") for key in given))
    )

    stored = {10 * number + n for number in range(12) for n in range(3)}
    assert contents(storage) == {(key, "oslo", 2, "new") for key in given} | {
        (key, "oslo", 1, "old") for key in stored.difference(given)
    }
    assert (result.updated, result.inserted) == (len(stored.intersection(given)), len(set(given) - stored))
    assert sum(hashed) <= 3 * len(given)  # all keys for each share of the files that fits, or its candidates for each


@pytest.mark.parametrize("keys_together", [1, 2, 5, 4096])
@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE", "BLOOM"])
def test_keys_that_are_the_same_in_several_partitions_meet_the_rows_of_their_own(
    index: str, keys_together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tagging, "KEYS_TOGETHER", keys_together)
    storage = MemoryStorage()
    new_table(storage)
    cities = ["oslo", "rome", "bonn", "wien"]
    stored = [(key, city, 1, "old") for place, city in enumerate(cities) for key in range(place, place + 4)]
    if index.startswith("GLOBAL"):
        stored = [(10 * place + key, city, ts, text) for place, (key, city, ts, text) in enumerate(stored)]
    open_table(storage).bulk_insert(rows(*stored))
    changed = [(key, city, 2, "new") for key, city, *_ in stored[::2]]
    added = [(1000 + place, city, 2, "new") for place, city in enumerate(cities)]

    result = open_table(storage, **{"hoodie.index.type": index}).upsert(rows(*changed, *added))

    assert contents(storage) == {*changed, *added, *stored[1::2]}
    assert (result.updated, result.inserted) == (len(changed), len(added))
