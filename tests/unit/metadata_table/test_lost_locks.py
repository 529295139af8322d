"""A writer that lost the table lock: the metadata table ends as the timeline says of its instant."""

from __future__ import annotations

import pytest
from tests.support.crashes import opened, rows
from tests.support.metadata_tables import FOLDER, delta_commits, files_committed, files_known, with_files
from tests.support.table_builder import THREE_ROWS

from pyhudi.errors import LockLostError
from pyhudi.metadata_table.update import apply_change
from pyhudi.table.state import load_table
from pyhudi.transaction import transaction


@pytest.mark.parametrize("version", [9, 6])
def test_delta_commit_of_a_write_that_was_rolled_back_meanwhile_is_undone(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = with_files(version, "cow").insert(*THREE_ROWS).build()  # type: ignore[arg-type]
    before, known = load_table(storage).timeline.completed_times, files_known(storage)

    def late(*args: object, **options: object) -> None:
        (own,) = (one.requested_time for one in load_table(storage).timeline.pending_writes)
        apply_change(*args, **options)  # type: ignore[arg-type]
        assert own in delta_commits(storage)
        for info in storage.list_recursive(""):  # as the rollback of another process leaves it
            if own in info.path and not info.path.startswith(FOLDER):
                storage.delete(info.path)
        raise LockLostError("the lock is gone")

    monkeypatch.setattr(transaction, "apply_change", late)
    with pytest.raises(LockLostError):
        opened(storage).upsert(rows((1, "oslo", 3, "c")))

    assert load_table(storage).timeline.completed_times == before
    assert files_known(storage) == files_committed(storage) == known
    assert {time for time in delta_commits(storage) if not time.startswith("0" * 10)} == before
