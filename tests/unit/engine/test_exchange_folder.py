"""Where the files between the tasks of a write are, and that they go with it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.tables import new_table, open_table, rows

from pyhudi.storage.memory import MemoryStorage
from pyhudi.testing.faults import FaultStorage


def test_write_puts_no_exchange_file_on_the_store() -> None:
    storage = MemoryStorage()
    new_table(storage).upsert(rows((1, "oslo", 1, "a")))
    store = FaultStorage(storage)
    open_table(store).upsert(rows((1, "oslo", 2, "b"), (2, "rome", 2, "b")))

    assert [operation.path for operation in store.operations if operation.path.endswith(".arrow")] == []


def test_exchange_files_are_in_the_folder_of_the_option_and_gone_after_the_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parents = []
    make = os.mkdir

    def mkdir(path: str | Path, *arguments: int) -> None:
        parents.append(Path(path).parent)
        make(path, *arguments)

    monkeypatch.setattr(os, "mkdir", mkdir)
    spills = tmp_path / "spills"
    storage = MemoryStorage()
    new_table(storage)
    open_table(storage, **{"hoodie.memory.spillable.map.path": str(spills)}).upsert(rows((1, "oslo", 1, "a")))

    assert spills in parents
    assert list(spills.iterdir()) == []


def test_exchange_files_that_cannot_be_removed_leave_the_write_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    table = new_table(storage)

    def refuse(path: object, **_: object) -> None:
        raise PermissionError(13, "not allowed", str(path))

    with monkeypatch.context() as patches:
        patches.setattr(os, "rmdir", refuse)
        table.upsert(rows((1, "oslo", 1, "a")))

    assert open_table(storage).scan().to_arrow().num_rows == 1
