"""Files that completed writes name are there as they were written, or who reads or builds upon them gets an error."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
from tests.support.archives import archive_commits
from tests.support.table_builder import every_version
from tests.support.tables import MOR, contents, new_table, open_table, rows

import pyhudi
from pyhudi.errors import CorruptDataError, DamagedFileWarning, HistoryNotRetainedError, InvalidRequestError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path
from pyhudi.testing.faults import FaultStorage

SKIP = {"hoodie.pyhudi.read.skip.damaged.files": "true"}
OLD, NEW = (1, "oslo", 1, "old"), (1, "oslo", 2, "new")
KINDS = [pytest.param({}, id="cow"), pytest.param(MOR, id="mor")]


def written(version: int, kind: dict[str, str]) -> tuple[MemoryStorage, str]:
    """A table of one record in two versions, and the file of the newer one."""
    storage = MemoryStorage()
    new_table(storage, version=version, **kind).insert(rows(OLD))
    open_table(storage).upsert(rows(NEW))
    (one,) = open_table(storage).inspect.files().to_pylist()
    return storage, (one["logs"] or [one["path"]])[0]


def remove(storage: MemoryStorage, path: str) -> None:
    storage.delete(path)


def cut(storage: MemoryStorage, path: str) -> None:
    storage.put(path, storage.read(path)[:-1])


def empty(storage: MemoryStorage, path: str) -> None:
    storage.put(path, b"")


USES: list[Callable[[pyhudi.HudiTable], object]] = [
    lambda table: table.scan().to_arrow(),
    lambda table: table.upsert(rows((1, "oslo", 3, "newest"))),
    lambda table: table.insert(rows((2, "oslo", 1, "other"))),
    lambda table: table.delete(rows(NEW)),
]


@every_version
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", [remove, cut, empty])
@pytest.mark.parametrize("use", USES, ids=["read", "upsert", "insert", "delete"])
def test_newest_file_missing_or_cut_off_is_an_error_that_names_it(
    version: int,
    kind: dict[str, str],
    damage: Callable[[MemoryStorage, str], None],
    use: Callable[[pyhudi.HudiTable], object],
) -> None:
    storage, path = written(version, kind)
    damage(storage, path)
    before = {info.path: info.size for info in storage.list_recursive("city=oslo")}

    with pytest.raises(CorruptDataError) as refused:
        use(open_table(FaultStorage(storage), **{"hoodie.compact.inline": "false"}))  # as in another process

    assert refused.value.context["path"] == path
    assert {info.path: info.size for info in storage.list_recursive("city=oslo")} == before


@every_version
@pytest.mark.parametrize("damage", [remove, cut])
def test_base_file_below_logs_missing_or_cut_off_is_an_error_that_names_it(
    version: int, damage: Callable[[MemoryStorage, str], None]
) -> None:
    storage, _ = written(version, MOR)
    (one,) = open_table(storage).inspect.files().to_pylist()
    damage(storage, one["path"])

    for use in (lambda table: table.scan().to_arrow(), lambda table: table.services.compact()):
        with pytest.raises(CorruptDataError) as refused:
            use(open_table(storage))
        assert refused.value.context["path"] == one["path"]


@every_version
@pytest.mark.parametrize("damage", [remove, cut])
def test_compaction_over_a_damaged_log_changes_nothing(
    version: int, damage: Callable[[MemoryStorage, str], None]
) -> None:
    storage, log = written(version, MOR)
    open_table(storage).services.schedule()
    damage(storage, log)

    with pytest.raises(CorruptDataError):
        open_table(storage).services.compact()

    assert [info for info in storage.list_recursive("city=oslo") if info.path.endswith(".parquet")][1:] == []


@every_version
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", [remove, empty])
def test_an_option_reads_past_damaged_files_and_says_which(
    version: int, kind: dict[str, str], damage: Callable[[MemoryStorage, str], None]
) -> None:
    storage, path = written(version, kind)
    damage(storage, path)
    if damage is empty and not kind:
        return  # an empty base file cannot be read past: the slice is there, and it says nothing

    with pytest.warns(DamagedFileWarning, match=path):
        found = open_table(storage, **SKIP).scan().to_arrow()

    assert [row["note"] for row in found.to_pylist()] == ["old"]


def test_a_file_that_a_cleaner_removed_is_no_damage() -> None:
    storage = MemoryStorage()
    first = new_table(storage).insert(rows(OLD, (2, "rome", 1, "x")))
    stale = open_table(storage)
    (old,) = [path for path in stale.inspect.files().column("path").to_pylist() if "oslo" in path]
    open_table(storage).upsert(rows(NEW))
    storage.delete(old)

    assert contents(storage) == {NEW, (2, "rome", 1, "x")}
    for read in (lambda: stale.scan().to_arrow(), lambda: open_table(storage).scan(as_of=first.instant).to_arrow()):
        with pytest.raises(HistoryNotRetainedError, match="deleted") as refused:
            read()
        assert refused.value.context["path"] == old


def test_a_table_that_was_opened_before_its_newest_write_was_taken_back_says_so() -> None:
    storage = MemoryStorage()
    new_table(storage).insert(rows(OLD))
    newest = open_table(storage).upsert(rows(NEW))
    stale = open_table(storage)
    open_table(storage).recovery.rollback(newest.instant)

    with pytest.raises(InvalidRequestError, match="rolled back"):
        stale.scan().to_arrow()


# -- files that no write names ----------------------------------------------------------------------------------------


@every_version
def test_a_file_of_an_attempt_that_outlived_its_commit_never_counts(version: int) -> None:
    storage, path = written(version, {})
    folder, _, name = path.rpartition("/")
    _, token_and_time = name.split("_", 1)
    storage.put(f"{folder}/99999999-0000-0000-0000-000000000000-0_{token_and_time}", storage.read(path))

    assert contents(storage) == {NEW}


def archived(storage: MemoryStorage, version: int, *others: str) -> str:
    """Archive the oldest of the table's two writes beside others; its time."""
    table = load_table(storage)
    oldest = table.timeline.completed_writes[0]
    for name in storage.list_names(table.version.timeline_folder):
        if name.startswith(oldest.requested_time):
            storage.delete(f"{table.version.timeline_folder}/{name}")
    archive_commits(storage, oldest.requested_time, *others, version=version)
    return oldest.requested_time


@every_version
def test_a_file_of_a_rolled_back_write_stays_invisible_when_its_time_is_archived(version: int) -> None:
    storage = MemoryStorage()
    new_table(storage, version=version).insert(rows(OLD))
    (path,) = open_table(storage).inspect.files().column("path").to_pylist()
    open_table(storage).insert(rows((2, "rome", 1, "x")))
    oldest = archived(storage, version)
    orphan_time = str(int(oldest) + 1)
    orphan = path.replace(oldest, orphan_time).replace(path.rpartition("/")[2][:8], "99999999")
    storage.put(orphan, storage.read(path))

    assert contents(storage) == {OLD, (2, "rome", 1, "x")}


@every_version
def test_a_file_older_than_all_that_the_archive_tells_of_counts(version: int) -> None:
    storage = MemoryStorage()
    new_table(storage, version=version).insert(rows(OLD))
    open_table(storage).insert(rows((2, "rome", 1, "x")))
    table = load_table(storage)
    oldest = table.timeline.completed_writes[0].requested_time
    archived(storage, version)
    archive_commits(storage, str(int(oldest) + 1), version=version)

    assert contents(storage) == {OLD, (2, "rome", 1, "x")}


# -- the metadata themselves ------------------------------------------------------------------------------------------


@every_version
def test_a_damaged_commit_anywhere_on_the_timeline_is_an_error_that_names_it(version: int) -> None:
    storage, _ = written(version, {})
    table = load_table(storage)
    path = instant_path(table.timeline.completed_writes[0], table.version)
    storage.put(path, b"")
    copy = MemoryStorage()
    for info in storage.list_recursive(""):
        copy.put(info.path, storage.read(info.path))

    with pytest.raises(CorruptDataError) as refused:
        contents(copy)
    assert refused.value.context["path"] == path


def test_a_table_whose_write_was_archived_since_it_was_opened_still_answers() -> None:
    storage = MemoryStorage()
    new_table(storage).insert(rows(OLD))
    open_table(storage).insert(rows((2, "rome", 1, "x")))
    copy = MemoryStorage()
    for info in storage.list_recursive(""):
        copy.put(info.path, storage.read(info.path))
    stale = open_table(copy)
    archived(copy, 9)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert stale.scan().to_arrow().num_rows == 2
