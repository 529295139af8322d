"""What the archive tells of writes, and what holds where it tells nothing."""

from __future__ import annotations

import json

import pytest
from tests.support.archives import archive_commits, completed_in_version_6
from tests.support.table_builder import every_version
from tests.support.tables import MOR, contents, new_table, open_table, rows

from pyhudi.errors import CorruptDataError
from pyhudi.format.timeline.lsm_history import HistoryRow, encode_history_file
from pyhudi.format.timeline.table_version import V9, table_version
from pyhudi.storage.bounded import read_at_most
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.archive import logs
from pyhudi.table.archive.history import ArchivedOutcome, archived_outcome
from pyhudi.table.archive.writes import load_archived_writes
from pyhudi.table.state import load_table

OLD, NEW = "20260101000000001", "20270101000000001"
ARCHIVE = ".hoodie/archived/.commits_.archive.1_1-0-1"


def test_an_archive_of_the_same_name_and_size_in_a_table_made_anew_is_read() -> None:
    storage = MemoryStorage()
    storage.put(ARCHIVE, completed_in_version_6(OLD))
    assert load_archived_writes(storage, table_version(6)).has(OLD)
    storage.delete_folder(".hoodie")
    storage.put(ARCHIVE, completed_in_version_6(NEW))

    assert set(load_archived_writes(storage, table_version(6)).completed) == {NEW}


def test_an_archive_of_version_6_is_read_once_per_process(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, archived = archived_beginning()
    storage.put(ARCHIVE, completed_in_version_6(archived))
    read: list[str] = []
    monkeypatch.setattr(
        logs,
        "read_at_most",
        lambda storage, path, most: read.append(path) or read_at_most(storage, path, most),
    )

    assert contents(storage) == contents(storage) == {(1, "oslo", 1, "a"), (2, "rome", 1, "a")}
    assert read == [ARCHIVE]


@every_version
def test_logs_of_writes_that_were_archived_beyond_a_savepoint_count(version: int) -> None:
    storage = MemoryStorage()
    first = new_table(storage, version=version, **MOR).insert(rows((1, "oslo", 1, "a"), (2, "oslo", 1, "a")))
    archived = open_table(storage).upsert(rows((1, "oslo", 2, "b")))
    open_table(storage).upsert(rows((2, "oslo", 2, "c")))
    folder = load_table(storage).version.timeline_folder
    for name in storage.list_names(folder):
        if name.startswith(archived.instant):
            storage.delete(f"{folder}/{name}")
    archive_commits(storage, archived.instant, version=version)
    ended = "" if version == 6 else f"_{first.completion_time}"
    storage.put(f"{folder}/{first.instant}{ended}.savepoint", b"of JVM Hudi")

    assert contents(storage) == {(1, "oslo", 2, "b"), (2, "oslo", 2, "c")}


def archived_beginning(**options: str) -> tuple[MemoryStorage, str]:
    """A table of version 6 whose first write has left the active timeline; the store, and that write."""
    storage = MemoryStorage()
    first = new_table(storage, version=6, **options).insert(rows((1, "oslo", 1, "a")))
    open_table(storage).insert(rows((2, "rome", 1, "a")))
    folder = load_table(storage).version.timeline_folder
    for name in storage.list_names(folder):
        if name.startswith(first.instant):
            storage.delete(f"{folder}/{name}")
    return storage, first.instant


def test_half_a_block_that_a_dead_archiver_left_hides_nothing() -> None:
    storage, archived = archived_beginning()
    whole = completed_in_version_6(archived)
    storage.put(ARCHIVE, whole + whole[: len(whole) // 2])

    assert contents(storage) == {(1, "oslo", 1, "a"), (2, "rome", 1, "a")}
    open_table(storage).upsert(rows((1, "oslo", 2, "b")))
    assert contents(storage) == {(1, "oslo", 2, "b"), (2, "rome", 1, "a")}


@pytest.mark.parametrize("kind", ["copy-on-write", "merge-on-read"])
def test_archive_that_was_cut_where_it_told_of_a_write_is_an_error_that_names_it(kind: str) -> None:
    storage, archived = archived_beginning(**(MOR if kind == "merge-on-read" else {}))
    whole = completed_in_version_6(archived)
    storage.put(ARCHIVE, whole[: len(whole) // 2])

    with pytest.raises(CorruptDataError, match="archive"):
        contents(storage)


def test_blocks_of_logs_are_not_judged_by_a_damaged_archive() -> None:
    storage, archived = archived_beginning(**MOR)
    open_table(storage).upsert(rows((1, "oslo", 2, "b")))
    whole = completed_in_version_6(archived)
    storage.put(ARCHIVE, whole + whole[: len(whole) // 2])

    with pytest.raises(CorruptDataError, match="archive"):
        contents(storage)


def test_write_in_a_history_file_whose_name_has_another_range_counts() -> None:
    """As JVM Hudi's upgrade names them: by the first and the last row, in the order of the old archive."""
    storage, version = MemoryStorage(), V9.in_folders("timeline", "history")
    times = [f"2024010100000000{number}" for number in range(10)]
    named = []
    for numbers in ((3, 2, 4), (8, 9, 6)):
        rows_of = [HistoryRow(times[number], times[number], "commit", b"x", None) for number in numbers]
        named.append(f"{times[numbers[0]]}_{times[numbers[-1]]}_0.parquet")
        storage.put(f"{version.history_folder}/{named[-1]}", encode_history_file(rows_of))
    manifest = {"files": [{"fileName": name, "fileLen": 1} for name in named]}
    storage.put(f"{version.history_folder}/manifest_1", json.dumps(manifest).encode())
    storage.put(f"{version.history_folder}/_version_", b"1")

    assert load_archived_writes(storage, version, [times[2]]).has(times[2])
    assert load_archived_writes(storage, version, [times[9]]).has(times[9])
    assert archived_outcome(storage, version, times[2]) is ArchivedOutcome.COMPLETED
    assert archived_outcome(storage, version, times[1]) is None
