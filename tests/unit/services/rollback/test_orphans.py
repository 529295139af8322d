"""What a task writes after its write was rolled back: no reader shows it, and the next write there removes it."""

from __future__ import annotations

import pytest
from tests.support.archives import archive_commits
from tests.support.table_builder import every_version
from tests.support.tables import MOR, StepClock, contents, environment, new_table, open_table, rows

from pyhudi.format.timeline.instant import Action, Instant, InstantState, next_instant_time
from pyhudi.services.rollback.orphans import remove_orphans
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.file_system_view import load_view
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path
from pyhudi.testing.faults import FaultStorage

LATER_MS = 1_790_000_100_000
FIRST, SECOND = (1, "oslo", 1, "a"), (2, "rome", 1, "b")


def table_with_orphan(version: int, **kind: str) -> tuple[MemoryStorage, str]:
    """A table of two writes, and a base file as of a time between them, of a group of its own."""
    storage = MemoryStorage()
    first = new_table(storage, version=version, **kind).insert(rows(FIRST))
    open_table(storage, env=environment(StepClock(LATER_MS))).insert(rows(SECOND))
    (path,) = (path for path in open_table(storage).inspect.files().column("path").to_pylist() if "oslo" in path)
    folder, _, name = path.rpartition("/")
    between = next_instant_time(first.instant)
    orphan = f"{folder}/99999999{name[8:]}".replace(first.instant, between)
    storage.put(orphan, storage.read(path))
    return storage, orphan


@every_version
@pytest.mark.parametrize("kind", [{}, MOR], ids=["cow", "mor"])
def test_a_write_that_meets_an_orphan_removes_it(version: int, kind: dict[str, str]) -> None:
    storage, orphan = table_with_orphan(version, **kind)
    assert contents(storage) == {FIRST, SECOND}

    open_table(storage).upsert(rows((3, "rome", 1, "elsewhere")))
    assert storage.info(orphan) is not None
    # In another process: the orphan came without an instant, so what this one remembers of the folder hides it.
    open_table(FaultStorage(storage)).upsert(rows((1, "oslo", 2, "c")))

    assert storage.info(orphan) is None
    assert contents(storage) == {(1, "oslo", 2, "c"), SECOND, (3, "rome", 1, "elsewhere")}


def instant_of(path: str) -> str:
    return path.rpartition("_")[2].removesuffix(".parquet")


@every_version
def test_a_file_of_an_archived_write_beyond_a_savepoint_is_no_orphan(version: int) -> None:
    storage, path = table_with_orphan(version)
    archive_commits(storage, instant_of(path), version=version)

    open_table(storage).upsert(rows((3, "oslo", 1, "d")))

    assert storage.info(path) is not None


@every_version
def test_a_file_older_than_the_active_timeline_is_left_alone(version: int) -> None:
    storage, path = table_with_orphan(version)
    table = load_table(storage)
    oldest = table.timeline.completed_writes[0].requested_time
    for name in storage.list_names(table.version.timeline_folder):
        if name.startswith(oldest):
            storage.delete(f"{table.version.timeline_folder}/{name}")
    archive_commits(storage, oldest, version=version)

    open_table(storage).upsert(rows((3, "oslo", 1, "d")))

    assert storage.info(path) is not None
    assert contents(storage) == {FIRST, SECOND, (3, "oslo", 1, "d")}


@every_version
def test_a_file_of_a_write_that_took_its_time_before_it_announced_itself_is_left_alone(version: int) -> None:
    storage, path = table_with_orphan(version)
    loaded = load_table(storage)
    pending = Instant(instant_of(path), Action.COMMIT, InstantState.REQUESTED)  # as JVM Hudi 0.15 does
    storage.put(instant_path(pending, loaded.version), b"")

    remove_orphans(load_view(storage, loaded.timeline))

    assert storage.info(path) is not None


def test_a_file_of_a_write_that_began_after_the_table_was_loaded_is_left_alone() -> None:
    storage = MemoryStorage()
    new_table(storage).insert(rows(FIRST))
    stale = open_table(storage)
    open_table(storage).insert(rows(SECOND))
    (path,) = (path for path in open_table(storage).inspect.files().column("path").to_pylist() if "rome" in path)

    stale.scan().to_arrow()

    assert storage.info(path) is not None


@pytest.mark.parametrize("folder", ["other", "city=oslo/other"])
def test_files_of_a_table_within_the_folder_of_this_one_are_left_alone(folder: str) -> None:
    storage, orphan = table_with_orphan(9)
    path = f"{folder}/city=oslo/{orphan.rpartition('/')[2]}"
    storage.put(path, storage.read(orphan))
    storage.put(f"{folder}/.hoodie/hoodie.properties", storage.read(".hoodie/hoodie.properties"))

    open_table(storage).insert_overwrite_table(rows((1, "oslo", 2, "c")))

    assert storage.info(orphan) is None
    assert storage.info(path) is not None
    assert contents(storage) == {(1, "oslo", 2, "c")}
