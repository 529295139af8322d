"""Tables of which writes are taken back."""

from __future__ import annotations

import pytest
from tests.support.crashes import (
    COW,
    MOR,
    opened,
)
from tests.support.table_builder import THREE_ROWS, TableBuilder
from tests.support.tables import Row, contents

from pyhudi.errors import InvalidRequestError
from pyhudi.format.timeline import instant as timeline_format
from pyhudi.format.timeline.instant import Instant, InstantState, InstantTime
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path

FIRST: set[Row] = {*THREE_ROWS}


SECOND = FIRST - {(1, "oslo", 1, "a")} | {(1, "oslo", 2, "b"), (7, "bern", 2, "b")}


V6, V8, V9 = MOR


every_kind = pytest.mark.parametrize("kind", [*COW, *MOR], ids=str)


every_merge_on_read = pytest.mark.parametrize("kind", MOR, ids=str)


def prepared(kind: TableBuilder) -> Storage:
    """Two writes; the second updates, and adds a partition."""
    storage = kind.insert(*FIRST).upsert((1, "oslo", 2, "b"), (7, "bern", 2, "b")).build()
    assert contents(storage) == SECOND
    return storage


def writes_of(storage: Storage) -> list[InstantTime]:
    return [instant.requested_time for instant in load_table(storage).timeline.completed_writes]


def assert_refused(storage: Storage, instant: str, reason: str) -> None:
    """The rollback is refused for this reason, and nothing is changed."""
    before = {info.path: storage.read(info.path) for info in storage.list_recursive("")}
    with pytest.raises(InvalidRequestError, match=reason):
        opened(storage, later=True).recovery.rollback(instant)
    assert {info.path: storage.read(info.path) for info in storage.list_recursive("")} == before


def put_instant(storage: Storage, action: timeline_format.Action, state: InstantState, time: str | None = None) -> None:
    table = load_table(storage)
    completed = state is InstantState.COMPLETED and table.version.has_completion_times
    instant = Instant(
        InstantTime(time or "29990101000000000"), action, state, InstantTime("29990101000000001") if completed else None
    )
    storage.put(instant_path(instant, table.version), b"")
