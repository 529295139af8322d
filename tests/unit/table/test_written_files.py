"""What completed writes did to files is read once per process."""

from __future__ import annotations

import pytest
from tests.support.tables import new_table, rows

from pyhudi.errors import NotFoundError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table import written_files
from pyhudi.table.state import TableState, load_table
from pyhudi.table.timeline import instant_path
from pyhudi.table.written_files import load_written_files
from pyhudi.testing.faults import FaultStorage


def written_table(storage: MemoryStorage, *, version: int = 9, commits: int = 3) -> None:
    table = new_table(storage, version=version)
    for turn in range(commits):
        table.upsert(rows((1, "oslo", turn, "x")))
        table = table.refresh()


def reads_of(storage: FaultStorage, table: TableState) -> list[str]:
    before = len(storage.operations)
    load_written_files(storage, table.version, table.timeline.completed_writes)
    return [one.path for one in storage.operations[before:]]


@pytest.mark.parametrize("version", [6, 9])
def test_each_completed_write_is_read_once_per_process(version: int) -> None:
    inner = MemoryStorage()
    written_table(inner, version=version)
    storage = FaultStorage(inner)
    table = load_table(storage)
    paths = [instant_path(instant, table.version) for instant in table.timeline.completed_writes]

    assert reads_of(storage, table) == paths
    assert reads_of(storage, table) == []

    table_again = load_table(inner)
    found = load_written_files(inner, table.version, table_again.timeline.completed_writes)
    assert [len(files.written["city=oslo"]) for files in found.values()] == [1, 1, 1]


def test_a_write_of_this_process_is_not_read_again() -> None:
    storage = FaultStorage(MemoryStorage())
    table = new_table(storage)
    table.insert(rows((1, "oslo", 1, "x")))

    assert reads_of(storage, load_table(storage)) == []


def test_only_so_much_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_files, "KEPT_ENTRIES_MAX", 4)
    inner = MemoryStorage()
    written_table(inner, commits=5)
    storage = FaultStorage(inner)
    table = load_table(storage)

    assert len(reads_of(storage, table)) == 5
    load_written_files(storage, table.version, table.timeline.completed_writes[-2:])
    before = len(storage.operations)
    load_written_files(storage, table.version, table.timeline.completed_writes[-2:])
    assert len(storage.operations) == before
    assert len(reads_of(storage, table)) == 3


def test_of_all_tables_together_only_so_much_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = MemoryStorage()
    written_table(inner, commits=5)
    tables = [load_table(FaultStorage(inner)) for _ in range(3)]
    for table in tables:
        load_written_files(table.storage, table.version, table.timeline.completed_writes)

    monkeypatch.setattr(written_files, "KEPT_ENTRIES_MAX", 14)
    load_written_files(tables[0].storage, tables[0].version, tables[0].timeline.completed_writes)

    def reads(table: TableState) -> int:
        assert isinstance(table.storage, FaultStorage)
        return len(reads_of(table.storage, table))

    assert [reads(tables[number]) for number in (0, 2, 1)] == [0, 3, 5]


def test_a_write_that_was_taken_back_is_not_found() -> None:
    storage = MemoryStorage()
    written_table(storage, commits=2)
    table = load_table(FaultStorage(storage))
    storage.delete(instant_path(table.timeline.completed_writes[-1], table.version))

    with pytest.raises(NotFoundError):
        load_written_files(table.storage, table.version, table.timeline.completed_writes)
