"""Folders that a session has listed: listed again by its next commit only if others may have changed them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.table_builder import TableBuilder
from tests.support.tables import MOR, Row, StepClock, contents, environment, new_table, open_table, rows

import pyhudi
from pyhudi.engine.local import LocalEngine
from pyhudi.errors import CorruptDataError, InvalidRequestError
from pyhudi.format.timeline.instant import InstantTime
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table import remembered_files as memory
from pyhudi.table.lister import FOLDERS_PER_TASK, EngineLister, StorageLister, list_data_files
from pyhudi.table.remembered_files import RememberingLister, remembered_files
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage

CLOCK = StepClock()
CITIES = ("bern", "lima", "oslo", "rome")
KINDS = {
    f"{kind}, {table}": ({**options, "hoodie.metadata.enable": enabled})
    for kind, options in (("cow", {}), ("mor", MOR))
    for table, enabled in (("no metadata table", "false"), ("metadata table", "true"))
}
every_kind = pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)


def opened(store: FaultStorage | MemoryStorage) -> pyhudi.HudiTable:
    return open_table(store, env=environment(CLOCK))


def hundred(turn: int) -> list[Row]:
    return [(number, CITIES[number % 4], turn, "") for number in range(100)]


def listed(store: FaultStorage) -> Counter[str]:
    """How often each folder outside of `.hoodie` was listed since the last look."""
    calls = Counter(
        one.path for one in store.operations if one.name.startswith("list") and not one.path.startswith(".hoodie")
    )
    store.operations.clear()
    return calls


def assert_memory_is_true(store: FaultStorage) -> int:
    """What is remembered is in the store, name by name and byte by byte; how many files that are."""
    known = remembered_files(store, load_table(store.inner).timeline)
    there: dict[str, dict[str, int]] = {folder: {} for folder in known}
    for info in list_data_files(store.inner):
        folder = info.path.rpartition("/")[0]
        if folder in known and not info.name.startswith(".hoodie_partition_metadata"):
            there[folder][info.name] = info.size
    remembered = {
        folder: {name: info.size for name, info in files.items() if not name.startswith(".hoodie_partition_metadata")}
        for folder, files in known.items()
    }
    assert remembered == there
    return sum(map(len, remembered.values()))


@every_kind
def test_first_commit_lists_each_folder_once_and_later_ones_none(options: dict[str, str]) -> None:
    """Cleans begin with the twelfth commit, archiving and compaction of the metadata table are on the way."""
    store = FaultStorage(MemoryStorage())
    table, services = new_table(store, **options), {"hoodie.keep.max.commits": "13", "hoodie.keep.min.commits": "12"}
    counts = []
    for turn in range(14):
        table.upsert(rows(*hundred(turn)), hudi_options=options | services)
        counts.append({path: count for path, count in listed(store).items() if path})
        assert assert_memory_is_true(store)

    assert counts[0] == {f"city={city}": 1 for city in CITIES}
    assert counts[1:] == [{}] * 13
    assert contents(store.inner) == set(hundred(13))
    assert len(load_table(store).timeline.completed_writes) < 14


@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE", "BUCKET"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_verbs_and_services_of_one_session_hand_on_what_is_there(kind: str, index: str) -> None:
    options = {**(MOR if kind == "mor" else {}), "hoodie.index.type": index, "hoodie.bucket.index.num.buckets": "2"}
    store = FaultStorage(MemoryStorage())
    table = new_table(store, **options)
    verbs: dict[str, Callable[[], object]] = {
        "upsert": lambda: table.upsert(rows(*hundred(1)), hudi_options=options),
        "insert": lambda: table.insert(rows((200, "oslo", 1, "")), hudi_options=options),
        "new partition": lambda: table.upsert(rows((201, "kyiv", 1, "")), hudi_options=options),
        "bulk insert": lambda: table.bulk_insert(rows((202, "oslo", 1, "")), hudi_options=options),
        "delete": lambda: table.delete(rows((1, "lima", 0, "")), hudi_options=options),
        "overwrite": lambda: table.insert_overwrite(rows((203, "rome", 1, "")), hudi_options=options),
        "drop": lambda: table.delete_partition("city=bern"),
        "clean": lambda: table.services.clean(hudi_options={"hoodie.clean.commits.retained": "1"}),
        "last upsert": lambda: table.upsert(rows((200, "oslo", 9, "u"), (203, "rome", 9, "u")), hudi_options=options),
    }
    if kind == "mor":
        verbs["compaction"] = table.services.compact
        verbs["upsert after it"] = verbs["last upsert"]
    table.upsert(rows(*hundred(0)), hudi_options=options)
    for name, run in verbs.items():
        listed(store)
        run()
        remembered = assert_memory_is_true(store)
        assert remembered, name
        if "upsert" in name:
            assert not listed(store), name


def newest_of(table: pyhudi.HudiTable) -> InstantTime:
    return load_table(table.handle.state.storage).timeline.completed_writes[-1].requested_time


OTHERS: dict[str, Callable[[pyhudi.HudiTable], object]] = {
    "upsert": lambda t: t.upsert(rows((1, "lima", 50, "other"))),
    "insert": lambda t: t.insert(rows((900, "lima", 50, "other"))),
    "bulk insert": lambda t: t.bulk_insert(rows((900, "lima", 50, "other"))),
    "delete": lambda t: t.delete(rows((5, "lima", 0, ""))),
    "overwrite": lambda t: t.insert_overwrite(rows((900, "lima", 50, "other"))),
    "drop": lambda t: t.delete_partition("city=lima"),
    "clustering": lambda t: t.services.cluster(hudi_options={"hoodie.clustering.plan.strategy.sort.columns": "id"}),
    "rollback": lambda t: t.recovery.rollback(newest_of(t)),
    "savepoint": lambda t: t.savepoints.create(),
}


@pytest.mark.parametrize("options", [KINDS["cow, no metadata table"], KINDS["mor, metadata table"]], ids=("cow", "mor"))
@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_whatever_another_process_does_in_between_is_seen(
    other: Callable[[pyhudi.HudiTable], object], options: dict[str, str]
) -> None:
    inner = MemoryStorage()
    store, elsewhere = FaultStorage(inner), FaultStorage(inner)
    table = new_table(store, **options)
    for turn in range(3):
        table.upsert(rows(*hundred(turn)), hudi_options=options)
    other(opened(elsewhere))
    before, folders = contents(inner), {f"city={city}" for city in CITIES}
    listed(store)

    opened(store).upsert(rows(*[(number, CITIES[number % 4], 99, "") for number in range(2, 6)]), hudi_options=options)

    assert set(listed(store)) == folders
    updated = {(number, CITIES[number % 4], 99, "") for number in range(2, 6)}
    assert contents(inner) == {row for row in before if row[0] not in range(2, 6)} | updated
    assert_memory_is_true(store)


def test_writer_that_is_still_at_work_makes_each_commit_beside_it_list_until_its_end() -> None:
    inner = MemoryStorage()
    store = FaultStorage(inner)
    table = new_table(store)
    table.upsert(rows(*hundred(0)))
    seen: list[Counter[str]] = []

    def beside(name: str, path: str) -> None:
        if name == "put_if_absent" and path.endswith("inflight") and not seen:
            seen.append(Counter())
            listed(store)
            opened(store).upsert(rows((1, "lima", 1, "a")))
            seen[0] = listed(store)

    opened(FaultStorage(inner, before=beside)).upsert(rows((2, "oslo", 1, "other")))
    opened(store).upsert(rows((2, "oslo", 2, "last")))

    assert seen == [Counter({"city=lima": 1})]
    assert listed(store) == Counter({"city=oslo": 1})
    assert {(1, "lima", 1, "a"), (2, "oslo", 2, "last")} <= contents(inner)


@pytest.mark.parametrize("hides", ["the commit", "a write before it"])
def test_instants_that_are_gone_without_a_trace_are_noticed(hides: str) -> None:
    """A person, or a program of an older release, deletes instants, and the files of their writes."""
    inner = MemoryStorage()
    store = FaultStorage(inner)
    table = new_table(store)
    for turn in range(3):
        table.upsert(rows(*hundred(turn)))
    loaded = load_table(inner)
    gone = loaded.timeline.completed_writes[-1 if hides == "the commit" else -2].requested_time
    for info in inner.list_recursive(""):
        if gone in info.name:
            inner.delete(info.path)
    listed(store)

    opened(store).upsert(rows((1, "lima", 9, "")))

    assert listed(store) == Counter({"city=lima": 1})


def test_nothing_is_remembered_while_tasks_of_an_undone_write_may_live() -> None:
    store = FaultStorage(MemoryStorage())
    table = new_table(store)
    for turn in range(3):
        table.upsert(rows(*hundred(turn)))
    table.recovery.rollback(newest_of(table))
    table.upsert(rows((1, "lima", 5, "")))
    undone = next(i for i in load_table(store).timeline.instants if i.action.value == "rollback")
    base = next(info for info in store.inner.list_folder("city=lima").files if info.name.endswith(".parquet"))
    late = base.name.rpartition("_")[0] + f"_{int(undone.requested_time) - 1}.parquet"
    store.inner.put(f"city=lima/{late}", store.inner.read(base.path))
    listed(store)

    table.upsert(rows((1, "lima", 6, "")))

    assert listed(store)["city=lima"] == 1
    assert store.inner.info(f"city=lima/{late}") is None


def test_plain_file_that_comes_into_an_empty_folder_between_two_commits_is_refused() -> None:
    store = FaultStorage(MemoryStorage())
    table = new_table(store)
    table.upsert(rows((1, "lima", 0, "")))
    RememberingLister(store, load_table(store).timeline, StorageLister(store)).partitions(["city=lima", "city=oslo"])
    with store.inner.open_output("city=oslo/part-0.parquet") as sink:
        pq.write_table(pa.table({"id": [1]}), sink)

    with pytest.raises(InvalidRequestError, match="not Hudi's"):
        table.upsert(rows((2, "oslo", 1, "")))


def test_table_of_version_6_is_listed_by_each_commit() -> None:
    """Its instants have no completion times, so one of them may come again in a table that is made anew."""
    store = FaultStorage(TableBuilder(6, clock=CLOCK).insert(*hundred(0)).build())
    for turn in (1, 2):
        listed(store)
        opened(store).upsert(rows((1, "lima", turn, "")))
        assert listed(store)["city=lima"] == 1


def test_more_files_than_are_remembered_are_listed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "FILES_MAX", 3)
    store = FaultStorage(MemoryStorage())
    table = new_table(store)
    for turn in range(3):
        listed(store)
        table.upsert(rows(*hundred(turn)))
    assert set(listed(store)) == {f"city={city}" for city in CITIES}


def test_write_that_fails_after_its_listing_leaves_no_wrong_memory() -> None:
    inner = MemoryStorage()
    failing = [False]

    def fail(name: str, path: str) -> None:
        if failing[0] and name == "open_output" and path.startswith("city=rome"):
            raise OSError("disk is gone")

    store = FaultStorage(inner, before=fail)
    table = new_table(store)
    for turn in range(2):
        table.upsert(rows(*hundred(turn)))
    failing[0] = True
    with pytest.raises(OSError, match="disk is gone"):
        table.upsert(rows(*hundred(2)))
    failing[0] = False

    table.upsert(rows(*hundred(3)))

    assert contents(inner) == set(hundred(3))
    assert_memory_is_true(store)


def test_many_folders_are_listed_in_tasks_of_the_engine_each_once() -> None:
    inner, tasks = MemoryStorage(), []

    class Counting(LocalEngine):
        def map(self, function, given, **more):  # type: ignore[no-untyped-def]
            tasks.append(len(given))
            return super().map(function, given, **more)

    folders = [f"city={number:04}" for number in range(3 * FOLDERS_PER_TASK + 1)]
    for folder in folders:
        inner.put(f"{folder}/a", b"12")
    store = FaultStorage(inner)
    lister = EngineLister(store, Counting(parallelism=2))

    found = lister.partitions(folders)

    assert [info.path for info in found] == [f"{folder}/a" for folder in folders]
    assert tasks == [4]
    assert listed(store) == Counter(folders)
    assert sorted(info.path for info in lister.table()) == sorted(info.path for info in found)
    assert tasks == [4, 4]


@pytest.mark.parametrize("verb", ["upsert", "delete"])
def test_file_that_was_deleted_by_hand_is_named_by_the_next_write_that_reads_it(verb: str) -> None:
    store = FaultStorage(MemoryStorage())
    table = new_table(store)
    for turn in range(2):
        table.upsert(rows(*hundred(turn)))
    (gone,) = (info.path for info in store.inner.list_folder("city=lima").files if newest_of(table) in info.name)
    store.inner.delete(gone)

    with pytest.raises(CorruptDataError, match="missing") as refused:
        getattr(table, verb)(rows((1, "lima", 5, "")))

    assert refused.value.context["path"] == gone
