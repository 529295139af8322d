"""Small archive files of table version 6 become one, and nobody who reads or dies meanwhile loses an instant."""

from __future__ import annotations

import pytest
from tests.support.archives import completed_in_version_6
from tests.support.archiving import AUTOMATIC, KEEP, answers, archived, updated
from tests.support.crashes import copied, crash_images, opened, prepared
from tests.support.table_builder import TableBuilder

import pyhudi
from pyhudi.format.timeline.archived_log_writing import (
    MERGE_PLAN_FILE,
    ArchiveMergePlan,
    archive_file_name,
    encode_merge_plan,
)
from pyhudi.format.timeline.table_version import V6
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.archive.logs import archived_logs, logged_instants, logged_writes
from pyhudi.testing.faults import FaultStorage

FOLDER = ".hoodie/archived"
PLAN = f"{FOLDER}/{MERGE_PLAN_FILE}"
MERGE = {"hoodie.archive.merge.files.batch.size": "3"}
NO_MERGE = {"hoodie.archive.merge.enable": "false"}
TIMES = [f"2026010100000{number:04d}" for number in range(1, 10)]


def names(storage: Storage) -> list[str]:
    return list(storage.list_names(FOLDER))


def with_three_files() -> Storage:
    """A table of version 6 with three files in its archive, and instants that may be archived."""
    storage = prepared(TableBuilder(6, "cow"))
    while len(names(storage)) < 3:
        updated(storage, 1, **AUTOMATIC, **NO_MERGE)
    updated(storage, 4, **KEEP)
    return storage


def of_hand(*files: tuple[str, ...], plan: ArchiveMergePlan | None = None) -> Storage:
    """A table with instants to archive, whose archive has files with commits of these times, and a plan of merging."""
    storage = prepared(TableBuilder(6, "cow"))
    updated(storage, 9, **KEEP)
    for number, times in enumerate(files, 1):
        storage.put(f"{FOLDER}/{archive_file_name(number)}", completed_in_version_6(*times))
    if plan is not None:
        storage.put(PLAN, encode_merge_plan(plan, folder_uri=f"file:/elsewhere/{FOLDER}"))
    return storage


def test_small_files_become_one_and_no_answer_changes() -> None:
    storage = with_three_files()
    before = answers(storage)

    opened(storage).services.archive(hudi_options={**KEEP, **MERGE})

    assert names(storage) == [archive_file_name(5)]
    assert answers(storage) == before
    entries = archived(storage)
    assert len(entries) == len(set(entries))


def test_archive_of_a_long_life_has_few_files() -> None:
    storage = prepared(TableBuilder(6, "mor"))
    results = updated(storage, 60, **AUTOMATIC, **{"hoodie.archive.merge.files.batch.size": "4"})

    assert len(names(storage)) <= 4
    known = set(opened(storage).inspect.history()["instant"].to_pylist())
    assert {one.instant for one in results} <= known


def test_files_stay_where_the_options_say_so_and_large_ones_always() -> None:
    for options in (NO_MERGE, {"hoodie.archive.merge.small.file.limit.bytes": "1000"}):
        storage = with_three_files()
        opened(storage).services.archive(hudi_options={**KEEP, **MERGE, **options})
        assert len(names(storage)) == 4


def test_merging_that_dies_anywhere_changes_no_answer_and_the_next_run_leaves_no_trace() -> None:
    storage = with_three_files()
    before = answers(storage, states=False)

    def act(table: pyhudi.HudiTable) -> object:
        return table.services.archive(hudi_options={**KEEP, **MERGE})

    for name, image in crash_images(storage, act, every=2):
        assert answers(image, states=False) == before, name
        updated(image, 3, **KEEP)
        expected = answers(image, states=False)
        opened(image).services.archive(hudi_options={**KEEP, **MERGE})
        assert answers(image, states=False) == expected, name
        entries = archived(image)
        assert len(entries) == len(set(entries)), name
        assert MERGE_PLAN_FILE not in names(image), name
        assert len(names(image)) <= 2, name


def test_merged_file_that_jvm_hudi_left_half_written_goes_and_its_sources_stay() -> None:
    one, two = archive_file_name(1), archive_file_name(2)
    merged = archive_file_name(3)
    storage = of_hand(tuple(TIMES[:2]), tuple(TIMES[2:4]), plan=ArchiveMergePlan((one, two), merged))
    whole = completed_in_version_6(*TIMES[:4])
    for half in (whole[: len(whole) // 2 + 7], completed_in_version_6(*TIMES[:3])):
        image = copied(storage)
        image.put(f"{FOLDER}/{merged}", half)
        opened(image).services.archive(hudi_options={**KEEP, **NO_MERGE})
        assert {time for time, _ in archived(image)} >= set(TIMES[:4])
        assert MERGE_PLAN_FILE not in names(image)
        assert {one, two} <= set(names(image))
        assert len(archived(image)) == len(set(archived(image)))


def test_merging_that_jvm_hudi_left_while_it_deleted_is_finished() -> None:
    plan = ArchiveMergePlan((archive_file_name(7), archive_file_name(1)), archive_file_name(2))
    storage = of_hand(tuple(TIMES[:2]), tuple(TIMES[:4]), plan=plan)

    opened(storage).services.archive(hudi_options={**KEEP, **NO_MERGE})

    assert names(storage) == [archive_file_name(number) for number in (2, 3)]
    assert {time for time, _ in archived(storage)} >= set(TIMES[:4])


@pytest.mark.parametrize(
    "plan",
    [
        b"half a plan",
        encode_merge_plan(ArchiveMergePlan(("hoodie.properties",), archive_file_name(2)), folder_uri=".hoodie"),
        encode_merge_plan(ArchiveMergePlan((archive_file_name(1),), "../../x"), folder_uri=".hoodie"),
    ],
)
def test_plan_that_makes_no_sense_goes_and_deletes_nothing(plan: bytes) -> None:
    storage = of_hand(tuple(TIMES[:2]), tuple(TIMES[2:4]))
    storage.put(PLAN, plan)

    opened(storage).services.archive(hudi_options={**KEEP, **NO_MERGE})

    assert names(storage) == [archive_file_name(number) for number in (1, 2, 3)]
    assert storage.info(".hoodie/hoodie.properties") is not None


def test_plan_never_deletes_a_file_whose_instants_are_nowhere_else() -> None:
    plan = ArchiveMergePlan((archive_file_name(1), archive_file_name(9)), archive_file_name(2))
    storage = of_hand(tuple(TIMES[:2]), tuple(TIMES[2:4]), plan=plan)

    opened(storage).services.archive(hudi_options={**KEEP, **NO_MERGE})

    assert {time for time, _ in archived(storage)} >= set(TIMES[:4])


def test_damaged_file_is_left_as_it_is() -> None:
    storage = of_hand(*((time,) for time in TIMES[:4]))
    whole = completed_in_version_6(TIMES[4])
    damaged = f"{FOLDER}/{archive_file_name(0)}"
    storage.put(damaged, whole[:-9])

    opened(storage).services.archive(hudi_options={**KEEP, **MERGE})

    assert names(storage) == [archive_file_name(0), archive_file_name(6)]
    assert storage.read(damaged) == whole[:-9]


def logs(*files: tuple[str, ...]) -> MemoryStorage:
    storage = MemoryStorage()
    for number, times in enumerate(files, 1):
        storage.put(f"{FOLDER}/{archive_file_name(number)}", completed_in_version_6(*times))
    return storage


def test_reader_under_whom_files_are_merged_finds_every_instant() -> None:
    inner = logs(*((time,) for time in TIMES))
    merged: list[str] = []

    def merge(operation: str, path: str) -> None:
        if operation == "read" and path.endswith(archive_file_name(4)) and not merged:
            merged.append(path)
            inner.put(f"{FOLDER}/{archive_file_name(10)}", completed_in_version_6(*TIMES))
            for number in range(1, 10):
                inner.delete(f"{FOLDER}/{archive_file_name(number)}")

    class Merging(FaultStorage):
        def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
            merge("read", path)
            return super().read(path, offset=offset, length=length)

    found = [one.instant_time for one in logged_instants(Merging(inner), V6)]
    assert merged
    assert sorted(found) == TIMES


def test_metadata_are_found_in_the_merged_file_by_a_reader_that_began_before() -> None:
    storage = with_three_files()
    expected = [place for place, _ in logged_writes(copied(storage), V6)]
    writes = logged_writes(storage, V6)
    first = next(writes)
    opened(storage).services.archive(hudi_options={**KEEP, **MERGE})

    assert [place for place, _ in (first, *writes)] == expected


def test_archive_is_read_once_per_process_and_details_of_one_write_from_its_file_only() -> None:
    inner = with_three_files()
    storage = FaultStorage(inner)
    newest, *_ = logged_writes(storage, V6)
    storage.operations.clear()

    again = next(logged_writes(storage, V6))

    assert again == newest
    reads = [one.path for one in storage.operations if one.name == "read"]
    assert len(reads) == 1
    assert sum(1 for one in archived_logs(inner, V6) if one.info.path == reads[0]) == 1
