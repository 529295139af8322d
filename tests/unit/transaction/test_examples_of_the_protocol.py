"""The worked examples by which Hudi's protocol is explained, with their own times, keys and letters."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pyarrow as pa
import pytest
from tests.support.table_builder import every_version
from tests.support.tables import MOR, StepClock, environment, log_files, new_table, open_table

from pyhudi.errors import WriteConflictError
from pyhudi.format.metadata.commit import CommitMetadata, WriteStat, encode_commit_metadata
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime, instant_file_name, instants_of
from pyhudi.format.timeline.table_version import V6, V9, TableVersion
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.file_system_view import load_view
from pyhudi.table.state import TableState, load_table
from pyhudi.table.timeline import instant_path, load_timeline
from pyhudi.transaction import transaction as transactions
from pyhudi.transaction.conflicts.footprint import UniqueKeys
from pyhudi.transaction.settings import TransactionSettings
from pyhudi.transaction.transaction import Transaction, commit, mark_inflight

REQUESTED, INFLIGHT, COMPLETED = InstantState
VERSIONS = pytest.mark.parametrize("version", [V6, V9], ids=["v6", "v9"])
KINDS = pytest.mark.parametrize("kind", [{}, MOR], ids=["cow", "mor"])


def instant(time: str, state: InstantState, version: TableVersion, done: str = "") -> Instant:
    has_time = state is COMPLETED and version.has_completion_times
    return Instant(InstantTime(time), Action.COMMIT, state, InstantTime(done or f"{time}5") if has_time else None)


# -- the order of the timeline ----------------------------------------------------------------------------------------


@VERSIONS
def test_instants_are_ordered_by_time_and_then_by_state_whatever_order_they_came_in(version: TableVersion) -> None:
    in_order = [instant(time, state, version) for time in ("100", "101") for state in InstantState]
    names = [instant_file_name(one, version) for one in in_order]
    completion = "" if version is V6 else "_1005"
    assert names[:3] == ["100.commit.requested", "100.inflight", f"100{completion}.commit"]

    for shuffled in itertools.permutations(in_order):
        assert sorted(shuffled, key=lambda one: (one.requested_time, one.state)) == in_order
    for shuffled_names in itertools.permutations(names):
        assert instants_of(shuffled_names, version) == (in_order[2], in_order[5])


# -- two writers at once ----------------------------------------------------------------------------------------------


def writers(version: TableVersion, *, base: str | None = None) -> tuple[MemoryStorage, Callable[[str], Transaction]]:
    """An empty table, or one with slice 1 of instant `base`, and how a writer with a time of its own begins.

    Times are compared as text, so that the 50 of the example is written 050.
    """
    storage = MemoryStorage()
    new_table(storage, version=version.number)
    env = environment(StepClock())
    if base is not None:
        for state in InstantState:
            body = encode_commit_metadata(slice_of("1", base), version) if state is COMPLETED else b""
            storage.put(instant_path(instant(base, state, version, done="060"), version), body)
        storage.put(f"p/1_0-0-0_{base}.parquet", b"PAR1")
    started: TableState = load_table(storage)

    def begin(time: str) -> Transaction:
        announced = instant(time, REQUESTED, version)
        storage.put_if_absent(instant_path(announced, version), b"")
        return Transaction(started, announced, TransactionSettings(), env, 0.0)

    return storage, begin


def slice_of(file_id: str, time: str) -> CommitMetadata:
    stat = WriteStat(
        file_id=file_id, path=f"p/{file_id}_0-0-0_{time}.parquet", partition_path="p", prev_commit="050", num_writes=1
    )
    return CommitMetadata(operation=WriteOperation.UPSERT, stats_by_partition={"p": (stat,)})


def write_slice(storage: MemoryStorage, file_id: str, time: str) -> None:
    storage.put(f"p/{file_id}_0-0-0_{time}.parquet", b"PAR1")


def complete(writer: Transaction, file_id: str) -> None:
    metadata = slice_of(file_id, writer.instant_time)
    commit(writer, metadata, base_schema=None, unique_keys=UniqueKeys.NOWHERE)


@VERSIONS
def test_overtaking_writers_of_two_groups_are_both_visible_in_order_of_their_times(
    version: TableVersion,
) -> None:
    storage, begin = writers(version)
    # W1 has 100 and W2 has 101; each step is a put on the timeline.
    w2 = begin("101")
    w1 = begin("100")
    mark_inflight(w2, slice_of("2", "101"))
    write_slice(storage, "2", "101")
    complete(w2, "2")
    mark_inflight(w1, slice_of("1", "100"))
    write_slice(storage, "1", "100")
    complete(w1, "1")

    timeline = load_timeline(storage, version)
    assert [(one.requested_time, one.state) for one in timeline.instants] == [("100", COMPLETED), ("101", COMPLETED)]
    latest = load_view(storage, timeline).latest["p"]
    assert {one.file_id: one.instant_time for one in latest} == {"1": "100", "2": "101"}


@VERSIONS
@pytest.mark.parametrize(("first", "second"), [("101", "100"), ("100", "101")], ids=["W2 first", "W1 first"])
def test_of_two_writers_that_both_merge_from_050_the_one_that_locks_second_aborts(
    version: TableVersion, first: str, second: str
) -> None:
    storage, begin = writers(version, base="050")
    both = {time: begin(time) for time in ("100", "101")}
    for time, writer in both.items():
        mark_inflight(writer, slice_of("1", time))
        write_slice(storage, "1", time)

    complete(both[first], "1")  # finds nothing above 050
    with pytest.raises(WriteConflictError) as caught:
        complete(both[second], "1")  # finds the other one's slice

    assert (caught.value.context["instant"], caught.value.context["winner"]) == (second, first)
    (newest,) = load_view(storage, load_timeline(storage, version)).latest["p"]
    assert newest.instant_time == first
    # The loser's slice [1, second] goes with the rollback of its instant.
    open_table(storage).recovery.rollback(second)
    assert sorted(info.name for info in storage.list_folder("p").files) == [
        *sorted(f"1_0-0-0_{time}.parquet" for time in ("050", first))
    ]


@VERSIONS
def test_slice_of_a_write_that_never_completed_is_neither_read_nor_built_upon(version: TableVersion) -> None:
    storage, begin = writers(version, base="050")
    mark_inflight(begin("150"), slice_of("1", "150"))
    write_slice(storage, "1", "150")

    (newest,) = load_view(storage, load_timeline(storage, version)).latest["p"]
    assert newest.instant_time == "050"


# -- slices 3, 4, 5 ---------------------------------------------------------------------------------------------------


@KINDS
def test_update_of_a_slice_makes_the_next_and_so_does_a_delete_and_each_past_stays_readable(
    kind: dict[str, str],
) -> None:
    storage = MemoryStorage()
    new_table(storage, **kind)
    times = [
        open_table(storage, **kind).upsert(letters(k1="X")).instant,  # slice 3
        open_table(storage, **kind).upsert(letters(k1="Y")).instant,  # update: slice 4
        open_table(storage, **kind).delete(letters(k1="Y")).instant,  # delete: slice 5
    ]
    assert times == sorted(times)
    seen = [open_table(storage).scan(["note"], as_of=time).to_arrow().column("note").to_pylist() for time in times]
    assert seen == [["X"], ["Y"], []]


# -- queries of a copy-on-write table: A to F -------------------------------------------------------------------------


def letters(**values: str) -> pa.Table:
    """Rows by their key; the value of each is a letter with its primes."""
    keys = [int(key.removeprefix("k")) if key.startswith("k") else ord(key) for key in values]
    count = len(keys)
    return pa.table({"id": keys, "city": ["p"] * count, "ts": [1] * count, "note": list(values.values())})


def table_of_letters(kind: dict[str, str]) -> tuple[MemoryStorage, list[str]]:
    """i0 writes A to E, i1 changes A and D, i2 changes A again and E, and adds F."""
    storage = MemoryStorage()
    new_table(storage, **kind)
    batches = (
        letters(A="A", B="B", C="C", D="D", E="E"),
        letters(A="A'", D="D'"),
        letters(A="A''", E="E'", F="F"),
    )
    return storage, [open_table(storage, **kind).upsert(batch).completion_time for batch in batches]


@KINDS
def test_snapshot_has_the_newest_slices(kind: dict[str, str]) -> None:
    storage, _ = table_of_letters(kind)
    notes = open_table(storage).scan(["note"]).to_arrow().column("note").to_pylist()
    assert sorted(notes) == ["A''", "B", "C", "D'", "E'", "F"]


@KINDS
@pytest.mark.parametrize(
    ("after", "until", "expected"),
    [(0, 2, ["A''", "D'", "E'", "F"]), (1, 2, ["A''", "E'", "F"]), (0, 1, ["A'", "D'"])],
    ids=["(i0, i2]", "(i1, i2]", "(i0, i1]"],
)
def test_incremental_query_has_the_rows_that_its_range_changed(
    kind: dict[str, str], after: int, until: int, expected: list[str]
) -> None:
    storage, times = table_of_letters(kind)
    found = open_table(storage).changes(times[after], times[until], columns=["note"]).to_arrow()
    assert sorted(found.column("note").to_pylist()) == expected
    assert bool(log_files(storage)) is bool(kind)


# -- late data --------------------------------------------------------------------------------------------------------


@KINDS
def test_late_row_goes_to_its_own_hour_and_into_the_incremental_read(kind: dict[str, str]) -> None:
    storage = MemoryStorage()
    new_table(storage, **kind)

    def write(key: int, hour: str, note: str) -> str:
        rows = pa.table({"id": [key], "city": [hour], "ts": [key], "note": [note]})
        return open_table(storage, **kind).upsert(rows).completion_time

    write(1, "09", "of nine")
    ten = write(2, "10", "10:00")
    write(3, "10", "10:10")
    write(4, "09", "09:00, arrived at 10:20")

    found = open_table(storage).changes(ten, columns=["city", "note"]).to_arrow().to_pylist()
    assert sorted((row["city"], row["note"]) for row in found) == [
        ("09", "09:00, arrived at 10:20"),
        ("10", "10:10"),
    ]
    # Only groups with new commits are looked at: nothing changed after the newest write.
    nothing = open_table(storage).changes(load_table(storage).timeline.completed_writes[-1].completion_time)
    assert not nothing.files().num_rows


# -- a target that is above the writer --------------------------------------------------------------------------------


@every_version
def test_write_whose_target_has_a_later_time_than_itself_aborts(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    new_table(storage, version=version).upsert(letters(k1="stored"))
    # What a time provider that goes back would give.
    monkeypatch.setattr(transactions, "next_time", lambda *_: InstantTime("20200101000000000"))

    with pytest.raises(WriteConflictError, match="is of a later instant than this write"):
        open_table(storage).upsert(letters(k1="lost"))

    monkeypatch.undo()
    assert open_table(storage).scan(["note"]).to_arrow().column("note").to_pylist() == ["stored"]
