"""Looking keys up in many small files: the staged keys are hashed for many of them at once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.tables import contents, new_table, open_table, rows

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
