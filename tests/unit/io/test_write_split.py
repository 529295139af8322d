"""Bulk insert's tasks: what they write does not depend on the order that their rows come in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
from tests.support.tables import new_table, rows, values_of

from pyhudi.engine.local import LocalEngine
from pyhudi.engine.protocol import TaskContext
from pyhudi.storage.memory import MemoryStorage

ROWS = ((1, "oslo", 1, "a"), (2, "oslo", 1, "a"), (3, "rome", 1, "a"), (4, "rome", 1, "a"))


class SpeculatingEngine(LocalEngine):
    """Runs one attempt of a split, and keeps another that sees the rows in the opposite order."""

    def __init__(self) -> None:
        super().__init__()
        self.late_attempts: list[Callable[[], Any]] = []

    def map_splits(
        self,
        rows: pa.Table,
        function: Callable[[TaskContext, Any], Any],
        **_: Any,
    ) -> list[Any]:
        backwards = rows.take(list(range(len(rows)))[::-1])
        self.late_attempts.append(lambda: function(TaskContext(0, 1, attempt=1), iter(backwards.to_batches())))
        return [function(TaskContext(0, 1, attempt=0), iter(rows.to_batches()))]


def test_an_attempt_that_outlives_the_commit_and_saw_other_rows_first_adds_no_rows() -> None:
    engine = SpeculatingEngine()
    table = replace(new_table(MemoryStorage()), engine=engine)

    table.bulk_insert(rows(*ROWS))
    engine.late_attempts[0]()

    assert values_of(table.refresh().to_arrow(), ["id", "city", "ts", "note"]) == list(ROWS)
