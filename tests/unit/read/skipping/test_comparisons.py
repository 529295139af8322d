"""What comparisons mean: the same rows with nulls and NaN, from base files and from logs, in one file or pruned."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.comparison_cases import CASES, REFUSED, ROWS
from tests.support.tables import MOR, new_table, open_table

from pyhudi.errors import ConfigError
from pyhudi.storage.memory import MemoryStorage


@pytest.fixture(scope="module", params=[{}, MOR], ids=["files", "logs"])
def storage(request: pytest.FixtureRequest) -> MemoryStorage:
    storage = MemoryStorage()
    new_table(storage, schema=ROWS.schema, **request.param).insert(ROWS)
    open_table(storage).upsert(ROWS.slice(1))
    return storage


@pytest.mark.parametrize(("where", "ids"), CASES, ids=str)
def test_comparison_finds_no_row_without_a_value(storage: MemoryStorage, where: Any, ids: list[int]) -> None:
    found = open_table(storage).scan(["id"], where).to_arrow()

    assert sorted(found["id"].to_pylist()) == ids


@pytest.mark.parametrize("where", REFUSED, ids=str)
def test_comparison_with_what_no_value_equals_is_refused(storage: MemoryStorage, where: Any) -> None:
    with pytest.raises(ConfigError, match="cannot be filtered"):
        open_table(storage).scan(where=where).to_arrow()
