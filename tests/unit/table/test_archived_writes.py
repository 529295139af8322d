"""What the archive tells of writes, and what holds where it tells nothing."""

from __future__ import annotations

from tests.support.archives import archive_commits, completed_in_version_6
from tests.support.table_builder import every_version
from tests.support.tables import MOR, contents, new_table, open_table, rows

from pyhudi.format.timeline.table_version import table_version
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.archived_writes import load_archived_writes
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
