"""The inspector over a long life: archived instants, writers that met, and writes that were rolled back."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from datetime import UTC

import pytest
from tests.support.archiving import AUTOMATIC, updated
from tests.support.table_builder import THREE_ROWS, TableBuilder
from tests.support.tables import open_table, rows
from tests.support.two_writers import opened, prepared, upsert, with_other_in_between

from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.inspector.attempts import overlaps_of
from pyhudi.inspector.facts import TableFacts, collect, read_archive
from pyhudi.inspector.lanes import lanes_of
from pyhudi.inspector.page import page
from pyhudi.storage.protocol import Storage
from pyhudi.table.archive.actions import archived_instants
from pyhudi.table.archive.history import history_files
from pyhudi.table.state import load_table


def words_of(facts: TableFacts) -> str:
    root = ET.fromstring(page(facts).removeprefix("<!doctype html>\n"))
    return " ".join(" ".join(root.itertext()).split())


def lane_counts(facts: TableFacts) -> dict[str, int]:
    return {lane.name: lane.instants for lane in facts.lanes.lanes}


def archived_table(version: int) -> Storage:
    storage = TableBuilder(version).insert(*THREE_ROWS).build()
    updated(storage, 12, **AUTOMATIC)
    assert archived_instants(load_table(storage)) != []
    return storage


@pytest.mark.parametrize("version", [6, 9])
def test_archived_writes_are_drawn_and_listed_with_the_active_ones(version: int) -> None:
    storage = archived_table(version)
    active = len(load_table(storage).timeline.completed_writes)
    facts = collect(open_table(storage))
    assert active < 13
    assert (lane_counts(facts)["writes"], len(facts.writes), facts.writes_of) == (13, 13, 13)
    assert [write.instant for write in facts.writes] == sorted(write.instant for write in facts.writes)
    assert (facts.archived, facts.archive_note) == (len(archived_instants(load_table(storage))), "")
    assert f"Archived: {facts.archived} instant" in words_of(facts)
    assert (facts.overlaps is None) == (version == 6)


def test_only_as_many_archived_writes_are_read_as_the_active_ones_leave_room_for() -> None:
    storage = archived_table(9)
    active = [write.requested_time for write in load_table(storage).timeline.completed_writes]
    facts = collect(open_table(storage), writes=len(active) + 2)
    assert [write.instant for write in facts.writes[2:]] == active
    assert all(write.instant < active[0] for write in facts.writes[:2])
    assert len(collect(open_table(storage), writes=2).writes) == 2


def test_damaged_archive_is_said_on_the_page_beside_the_active_timeline() -> None:
    storage = archived_table(9)
    for file in storage.list_folder(".hoodie/timeline/history").files:
        if file.name.endswith(".parquet"):
            storage.put(file.path, b"no parquet")
    facts = collect(open_table(storage))
    assert len(facts.writes) == len(load_table(storage).timeline.completed_writes)
    assert "The archived timeline cannot be read: " in words_of(facts)


def test_files_of_the_archive_beyond_the_budget_are_left_out_and_counted() -> None:
    state = load_table(archived_table(9))
    files = sorted(history_files(state.storage, state.version), key=lambda file: file.max_time)
    assert len(files) > 1
    some = read_archive(state, 100, bytes_max=files[-1].size)
    assert some.instants != ()
    assert all(instant.requested_time >= files[-1].min_time for instant in some.instants)
    assert len(some.writes) == some.writes_of
    assert some.note == f"The oldest {len(files) - 1} files of the archived timeline are not shown."

    assert read_archive(state, 100, bytes_max=1).instants == ()


def test_archive_of_version_6_beyond_the_budget_is_left_out() -> None:
    state = load_table(archived_table(6))
    size = sum(file.size for file in state.storage.list_folder(".hoodie/archived").files)
    assert read_archive(state, 100, bytes_max=size).note == ""
    some = read_archive(state, 100, bytes_max=size - 1)
    assert (some.instants, some.writes) == ((), ())
    assert some.note == f"The archived timeline is not shown: it has {size:,} bytes."


def test_writers_that_met_are_marked_and_listed_with_who_wrote() -> None:
    storage = prepared()
    opened(with_other_in_between(storage, upsert((3, "rome", 9, "u")))).upsert(rows((1, "oslo", 9, "u")))
    facts = collect(open_table(storage))
    _, first, second = load_table(storage).timeline.completed_writes
    assert [(each.write, each.earlier) for each in facts.overlaps or ()] == [(second, first)]
    assert lane_counts(facts)["writers at the same time"] == 1
    assert f"{second.requested_time} began while {first.requested_time} was written" in words_of(facts)
    assert f"{second.requested_time} pyhudi " in words_of(facts)


def test_writers_one_after_the_other_have_no_such_lane() -> None:
    facts = collect(open_table(TableBuilder(9).insert(*THREE_ROWS).delta_commit(updates=2).build()))
    assert facts.overlaps == ()
    assert set(lane_counts(facts)) == {"writes"}


@pytest.mark.parametrize("version", [6, 9])
def test_write_that_was_rolled_back_stays_on_the_page_as_its_own_mark(version: int) -> None:
    storage = TableBuilder(version).insert(*THREE_ROWS).dead_writer(stage="inflight").build()
    (dead,) = load_table(storage).timeline.pending_writes
    open_table(storage).recovery.rollback(dead.requested_time)
    (rollback,) = [one for one in load_table(storage).timeline.instants if one.action is Action.ROLLBACK]
    facts = collect(open_table(storage))
    assert [(each.instant, each.rollback) for each in facts.rolled_back] == [(dead.requested_time, rollback)]
    assert lane_counts(facts)["writes that were rolled back"] == 1
    assert f"commit {dead.requested_time}, rolled back by {rollback.requested_time}" in words_of(facts)
    assert "Hudi keeps no record of conflicts, retries and waits for locks." in words_of(facts)


def write(begin: int, end: int, action: Action = Action.COMMIT) -> Instant:
    times = [InstantTime(f"202601010000{second:02}000") for second in (begin, end)]
    return Instant(times[0], action, InstantState.COMPLETED, times[1])


def test_write_is_compared_with_the_one_that_ran_longest_before_it() -> None:
    long, short, late, after = write(1, 9), write(2, 3), write(8, 12), write(20, 21)
    overlaps = overlaps_of([long, short, late, after], is_merge_on_read=False)
    assert [(each.write, each.earlier, each.until) for each in overlaps] == [
        (short, long, short.completion_time),
        (late, long, long.completion_time),
    ]
    lane = lanes_of([long, short, late, after], UTC, (), overlaps, is_merge_on_read=False).lanes[1]
    assert [mark.kind for mark in lane.marks] == ["overlap", "overlap"]


def test_compaction_beside_a_write_is_no_meeting_of_writers() -> None:
    assert overlaps_of([write(1, 9), write(2, 3, Action.DELTA_COMMIT)], is_merge_on_read=True) == ()
