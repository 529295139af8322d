"""Reads of what cleaners have deleted, and of what a running write may still change: given whole, or refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.cleaning import archive, clean, completed_at
from tests.support.table_builder import every_version
from tests.support.tables import MOR, new_table, open_table, plan_of, rows, values_of

import pyhudi
from pyhudi.errors import HistoryNotRetainedError, HistoryNotSettledError
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.read.arrow import read_table
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path

Results = list[pyhudi.WriteResult]


def written(version: int) -> tuple[MemoryStorage, Results]:
    """Two records, of which one is updated twice."""
    storage = MemoryStorage()
    table = new_table(storage, version=version)
    return storage, [
        table.insert(rows((1, "oslo", 1, "a"), (2, "rome", 1, "a"))),
        table.upsert(rows((1, "oslo", 2, "b"))),
        table.upsert(rows((1, "oslo", 3, "c"))),
    ]


def files_of(storage: MemoryStorage, instant: str, folder: str = "") -> list[str]:
    """The data files that are named after a write."""
    found = [(info.path, parse_data_file(info.path.rpartition("/")[2])) for info in list_data_files(storage)]
    return [path for path, name in found if name and name.instant_time == instant and folder in path]


def notes(table: pyhudi.HudiTable, **asked: str) -> list[tuple[object, ...]]:
    return values_of(table.scan(**asked).to_arrow(), ["id", "note"])  # type: ignore[arg-type]


@every_version
@pytest.mark.parametrize("completes", [True, False])
def test_a_state_of_which_a_file_was_cleaned_is_refused_and_names_the_first_that_can_be_read(
    version: int, completes: bool
) -> None:
    storage, (first, second, third) = written(version)
    (gone,) = files_of(storage, first.instant, "oslo")
    clean(storage, [gone], completes=completes)
    table = open_table(storage)

    with pytest.raises(HistoryNotRetainedError) as refused:
        table.scan(as_of=first.instant).to_arrow()

    assert (refused.value.context["path"], refused.value.context["earliest"]) == (gone, second.instant)
    assert notes(table, as_of=second.instant) == [(1, "b"), (2, "a")]
    assert notes(table, as_of=third.instant) == notes(table) == [(1, "c"), (2, "a")]


@every_version
def test_a_state_whose_files_a_savepoint_kept_is_read_between_states_that_were_cleaned(version: int) -> None:
    storage, (first, second, third) = written(version)
    clean(storage, files_of(storage, second.instant))
    table = open_table(storage)

    assert notes(table, as_of=first.instant) == [(1, "a"), (2, "a")]
    with pytest.raises(HistoryNotRetainedError):
        table.scan(as_of=second.instant).to_arrow()
    assert notes(table, as_of=third.instant) == [(1, "c"), (2, "a")]


@every_version
def test_files_that_a_clean_is_going_to_delete_are_read_while_they_are_there(version: int) -> None:
    storage, (first, _, _) = written(version)
    (gone,) = files_of(storage, first.instant, "oslo")
    content = storage.read(gone)
    clean(storage, [gone], completes=False)
    storage.put(gone, content)

    assert notes(open_table(storage), as_of=first.instant) == [(1, "a"), (2, "a")]


@every_version
def test_changes_are_refused_where_their_files_were_cleaned_and_given_where_they_were_not(version: int) -> None:
    storage, (first, second, third) = written(version)
    clean(storage, [*files_of(storage, first.instant, "oslo"), *files_of(storage, second.instant)])
    table = open_table(storage)

    with pytest.raises(HistoryNotRetainedError) as refused:
        table.changes(end=first.completion_time).to_arrow()
    assert refused.value.context["earliest"] == third.completion_time
    with pytest.raises(HistoryNotRetainedError):
        table.changes(first.completion_time, second.completion_time).to_arrow()
    assert values_of(table.changes().to_arrow(), ["id", "note"]) == [(1, "c"), (2, "a")]
    assert values_of(table.changes(first.completion_time).to_arrow(), ["id", "note"]) == [(1, "c")]
    assert values_of(table.changes(second.completion_time, third.completion_time).to_arrow(), ["id", "note"]) == [
        (1, "c")
    ]


@every_version
def test_full_scan_gives_unchanged_rows_of_a_cleaned_range(version: int) -> None:
    storage, (first, _, _) = written(version)
    clean(storage, files_of(storage, first.instant, "oslo"))
    table = open_table(storage, **{"hoodie.datasource.read.incr.fallback.fulltablescan.enable": "true"})

    assert values_of(table.changes(end=first.completion_time).to_arrow(), ["id", "note"]) == [(2, "a")]


@every_version
def test_changes_of_a_range_do_not_need_what_was_cleaned_of_other_file_groups(version: int) -> None:
    storage, (first, second, _) = written(version)
    table = open_table(storage)
    fourth = table.upsert(rows((2, "rome", 4, "d")))
    table.upsert(rows((2, "rome", 5, "e")))
    clean(storage, files_of(storage, fourth.instant))

    changes = open_table(storage).changes(first.completion_time, second.completion_time).to_arrow()

    assert values_of(changes, ["id", "note"]) == [(1, "b")]


@every_version
def test_a_table_that_was_opened_before_a_clean_says_so_instead_of_giving_less(version: int) -> None:
    storage, (first, _, _) = written(version)
    opened = open_table(storage)
    latest = open_table(storage).upsert(rows((2, "rome", 4, "d")))
    (gone,) = files_of(storage, first.instant, "rome")
    clean(storage, [gone])

    for read in (opened.scan, opened.changes, lambda: opened.scan(query_type="read_optimized").to_arrow()):
        with pytest.raises(HistoryNotRetainedError) as refused:
            read()
        assert refused.value.context["path"] == gone
    assert notes(opened.refresh()) == [(1, "c"), (2, "d")]
    assert notes(opened.refresh(), as_of=latest.instant) == [(1, "c"), (2, "d")]


@every_version
def test_a_replaced_and_cleaned_file_group_is_missed_only_before_it_was_replaced(version: int) -> None:
    storage, (_, _, third) = written(version)
    table = open_table(storage)
    replaced_by = table.insert_overwrite(rows((3, "oslo", 1, "new")))
    last = table.upsert(rows((2, "rome", 2, "z")))
    clean(storage, files_of(storage, third.instant))
    table = open_table(storage)

    with pytest.raises(HistoryNotRetainedError) as refused:
        table.scan(as_of=third.instant).to_arrow()
    assert refused.value.context["earliest"] == replaced_by.instant
    assert notes(table, as_of=replaced_by.instant) == [(2, "a"), (3, "new")]
    assert values_of(table.changes(third.completion_time).to_arrow(), ["id"]) == [(2,), (3,)]
    assert values_of(table.changes(replaced_by.completion_time, last.completion_time).to_arrow(), ["id"]) == [(2,)]


@every_version
def test_states_before_a_compaction_are_refused_once_the_slice_that_it_replaced_is_cleaned(version: int) -> None:
    storage = MemoryStorage()
    table = new_table(storage, version=version, **MOR)
    first = table.insert(rows((1, "oslo", 1, "a")))
    second = table.upsert(rows((1, "oslo", 2, "b")))
    (compaction,) = table.refresh().services.compact().column("instant").to_pylist()
    table.upsert(rows((1, "oslo", 3, "c")))
    slice_before = [
        info.path
        for info in list_data_files(storage)
        if (name := parse_data_file(info.path.rpartition("/")[2])) and name.instant_time < compaction
    ]
    clean(storage, slice_before)
    table = open_table(storage)

    for write in (first, second):
        with pytest.raises(HistoryNotRetainedError) as refused:
            table.scan(as_of=write.instant).to_arrow()
        assert refused.value.context["earliest"] == compaction
    with pytest.raises(HistoryNotRetainedError):
        table.changes(first.completion_time, second.completion_time).to_arrow()
    assert notes(table, as_of=compaction) == [(1, "b")]
    assert notes(table) == values_of(table.changes(first.completion_time).to_arrow(), ["id", "note"]) == [(1, "c")]


@pytest.mark.parametrize("options", [{}, MOR], ids=["copy-on-write", "merge-on-read"])
def test_a_file_that_vanishes_between_planning_and_reading_is_an_error_that_names_it(options: dict[str, str]) -> None:
    storage = MemoryStorage()
    table = new_table(storage, **options)
    table.insert(rows((1, "oslo", 1, "a"), (2, "rome", 1, "a")))
    table.upsert(rows((2, "rome", 2, "b")))
    plan = plan_of(open_table(storage))
    gone = str(plan.slices[1].files.base)
    storage.delete(gone)

    with pytest.raises(HistoryNotRetainedError) as missing:
        read_table(storage, plan, None, None)

    assert str(missing.value.context["path"]).endswith(gone)
    assert "refresh()" in str(missing.value)


def running(storage: MemoryStorage, time: str, action: Action = Action.COMMIT) -> Callable[[], None]:
    """Begin a write by hand; what is returned takes it back."""
    version = load_table(storage).version
    paths = [
        instant_path(Instant(InstantTime(time), action, state), version)
        for state in (InstantState.REQUESTED, InstantState.INFLIGHT)
    ]
    for path in paths:
        storage.put_if_absent(path, b"")
    return lambda: [storage.delete(path) for path in paths] and None


@every_version
def test_time_travel_over_a_running_write_is_refused_until_it_has_ended(version: int) -> None:
    storage, (_, second, third) = written(version)
    began = str(int(second.instant) + 1)
    end = running(storage, began)
    table = open_table(storage)

    with pytest.raises(HistoryNotSettledError) as refused:
        table.scan(as_of=third.instant).to_arrow()

    assert refused.value.context["running"] == began
    assert notes(table, as_of=second.instant) == [(1, "b"), (2, "a")]
    end()
    assert notes(open_table(storage), as_of=third.instant) == [(1, "c"), (2, "a")]


def test_changes_by_instant_times_are_refused_where_a_write_among_them_is_running() -> None:
    storage, (first, second, third) = written(6)
    began = str(int(second.instant) + 1)
    running(storage, began)
    table = open_table(storage)

    for begin, end in ((None, None), (first.instant, None), (second.instant, third.instant)):
        with pytest.raises(HistoryNotSettledError):
            table.changes(begin, end).to_arrow()
    assert values_of(table.changes(first.instant, second.instant).to_arrow(), ["note"]) == [("b",)]
    assert table.changes(third.instant).to_arrow().num_rows == 0


@pytest.mark.parametrize("version", [8, 9])
def test_changes_by_completion_times_do_not_wait_for_a_write_that_will_end_later(version: int) -> None:
    storage, (_, second, _) = written(version)
    running(storage, str(int(second.instant) + 1))

    assert values_of(open_table(storage).changes(second.completion_time).to_arrow(), ["note"]) == [("c",)]


def test_a_write_that_was_archived_and_ended_late_is_among_the_changes_after_an_active_one() -> None:
    """It began first and ended last: who asks for what ended after the second write's end must be given it."""
    storage = MemoryStorage()
    table = new_table(storage)
    first = table.insert(rows((1, "oslo", 1, "a")))
    second = table.insert(rows((2, "rome", 1, "a")))
    third = table.insert(rows((3, "bern", 1, "a")))
    late = str(int(second.completion_time) + 1)
    completed_at(storage, first.instant, late)
    archive(storage, [first.instant])

    table = open_table(storage)

    assert values_of(table.changes(second.completion_time).to_arrow(), ["id"]) == [(1,), (3,)]
    assert values_of(table.changes(second.completion_time, late).to_arrow(), ["id"]) == [(1,)]
    assert values_of(table.changes(late, third.completion_time).to_arrow(), ["id"]) == [(3,)]
    assert values_of(table.changes().to_arrow(), ["id"]) == [(1,), (2,), (3,)]


def test_an_archived_state_has_the_columns_that_the_table_had_then() -> None:
    storage = MemoryStorage()
    table = new_table(storage)
    first = table.insert(rows((1, "oslo", 1, "a")))
    second = table.insert(rows((2, "rome", 1, "a")).append_column("more", [["x"]]))
    table.insert(rows((3, "bern", 1, "a")).append_column("more", [["x"]]).append_column("most", [["x"]]))
    archive(storage, [first.instant, second.instant])
    table = open_table(storage)

    assert [row["instant"] for row in table.inspect.history().to_pylist()][1:] == [second.instant, first.instant]
    assert table.scan(as_of=first.instant).to_arrow().column_names[-1] == "note"
    assert table.scan(as_of=second.instant).to_arrow().column_names[-1] == "more"
    assert notes(table, as_of=second.instant) == [(1, "a"), (2, "a")]


def test_a_batch_whose_commit_was_archived_is_not_written_again() -> None:
    storage = MemoryStorage()
    table = new_table(storage)
    batch = {"hoodie.write.batch.id": "7"}
    first = table.insert(rows((1, "oslo", 1, "a")), hudi_options=batch)
    table.insert(rows((2, "rome", 1, "a")))
    archive(storage, [first.instant])

    again = open_table(storage).insert(rows((1, "oslo", 1, "a")), hudi_options=batch)

    assert (again.instant, again.completion_time) == (first.instant, first.completion_time)
    assert notes(open_table(storage)) == [(1, "a"), (2, "a")]


@every_version
def test_files_removed_without_a_clean_are_missed_as_well(version: int) -> None:
    storage, (first, second, _) = written(version)
    (gone,) = files_of(storage, first.instant, "oslo")
    storage.delete(gone)
    table = open_table(storage)

    for read in (
        lambda: table.scan(as_of=first.instant).to_arrow(),
        lambda: table.changes(end=first.completion_time).to_arrow(),
    ):
        with pytest.raises(HistoryNotRetainedError) as refused:
            read()
        assert refused.value.context["path"] == gone
    assert notes(table, as_of=second.instant) == [(1, "b"), (2, "a")]


def test_a_cleaned_file_of_a_write_that_a_restore_took_back_is_not_missed() -> None:
    storage, (_, second, third) = written(9)
    fourth = open_table(storage).upsert(rows((2, "rome", 4, "d")))
    clean(storage, files_of(storage, third.instant))
    version = load_table(storage).version
    for instant in load_table(storage).timeline.completed_writes:
        if instant.requested_time == third.instant:
            storage.delete(instant_path(instant, version))
    for info in storage.list_folder(version.timeline_folder).files:
        if info.name.startswith(third.instant):
            storage.delete(info.path)

    assert notes(open_table(storage), as_of=fourth.instant) == [(1, "b"), (2, "d")]
    assert notes(open_table(storage), as_of=second.instant) == [(1, "b"), (2, "a")]
