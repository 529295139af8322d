"""Files that another program has created and not filled yet, or is replacing, as JVM Hudi does on local disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.tables import contents, new_table, open_table, rows

from pyhudi.errors import CorruptDataError
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.state import PROPERTIES_BACKUP_PATH, PROPERTIES_PATH, load_table
from pyhudi.table.timeline import instant_path
from pyhudi.testing.faults import FaultStorage

ROW = (1, "oslo", 1, "a")


class StoreWithAFileThatIsFilledLate(FaultStorage):
    """A folder with a file that was begun a moment ago, and is filled while a reader waits for it."""

    def __init__(self, folder: Path, file: Path, whole: bytes) -> None:
        super().__init__(LocalStorage(folder))
        self._file, self._whole = file, whole

    def wait_for_writer(self, path: str) -> bool:
        os.utime(self._file)
        waits = super().wait_for_writer(path)
        self._file.write_bytes(self._whole)
        return waits


def written(folder: Path, version: int) -> Path:
    """A table with one commit; the file of this."""
    storage = LocalStorage(folder)
    new_table(storage, version=version).upsert(rows(ROW))
    (commit,) = load_table(storage).timeline.completed_writes
    return folder / instant_path(commit, load_table(storage).version)


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("part_that_is_there", [0, 0.5])
def test_a_commit_that_is_still_being_filled_is_read_when_it_is_whole(
    tmp_path: Path, version: int, part_that_is_there: float
) -> None:
    file = written(tmp_path, version)
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * part_that_is_there)])

    storage = StoreWithAFileThatIsFilledLate(tmp_path, file, whole)
    assert contents(storage) == {ROW}
    open_table(storage).upsert(rows((1, "oslo", 2, "b")))

    assert contents(storage) == {(1, "oslo", 2, "b")}
    assert any(one.name == "wait_for_writer" for one in storage.operations)


def test_commit_that_stays_empty_is_an_error_at_once(tmp_path: Path) -> None:
    file = written(tmp_path, 9)
    file.write_bytes(b"")
    os.utime(file, (0, 0))
    storage = FaultStorage(LocalStorage(tmp_path))

    with pytest.raises(CorruptDataError, match=r"empty.*\.commit"):
        contents(storage)

    assert sum(one.name == "wait_for_writer" for one in storage.operations) == 1


def test_properties_that_jvm_hudi_is_replacing_are_found_at_every_moment() -> None:
    """It makes a backup, deletes the file, makes it anew, fills it, and deletes the backup."""
    storage = MemoryStorage()
    new_table(storage).upsert(rows(ROW))
    whole = storage.read(PROPERTIES_PATH)
    storage.put(PROPERTIES_BACKUP_PATH, whole)
    storage.delete(PROPERTIES_PATH)
    assert contents(storage) == {ROW}

    def is_done(operation: str, path: str) -> None:
        if operation == "read" and path == PROPERTIES_BACKUP_PATH:
            storage.put(PROPERTIES_PATH, whole)
            storage.delete(PROPERTIES_BACKUP_PATH)

    assert contents(StoreWithAHookBeforeReads(storage, is_done)) == {ROW}
    storage.put(PROPERTIES_BACKUP_PATH, whole)
    storage.put(PROPERTIES_PATH, b"")
    assert contents(storage) == {ROW}


class StoreWithAHookBeforeReads(FaultStorage):
    """A store that lets somebody act before each read."""

    def __init__(self, inner: MemoryStorage, act: Callable[[str, str], None]) -> None:
        super().__init__(inner)
        self._act = act

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        self._act("read", path)
        return super().read(path, offset=offset, length=length)


def test_properties_of_a_table_that_is_being_made_are_waited_for(tmp_path: Path) -> None:
    written(tmp_path, 9)
    file = tmp_path / PROPERTIES_PATH
    whole = file.read_bytes()
    file.write_bytes(b"")

    assert contents(StoreWithAFileThatIsFilledLate(tmp_path, file, whole)) == {ROW}
