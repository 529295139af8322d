"""What went wrong in JVM Hudi around clusterings, each named by its issue, does not happen here."""

from __future__ import annotations

from contextlib import suppress

import pytest
from tests.support.audit import audit
from tests.support.compactions import let_the_runner_die
from tests.support.crashes import opened as opened_much_later
from tests.support.hooks import crash, once_at
from tests.support.table_builder import TableBuilder
from tests.support.tables import contents, open_table, rows

from pyhudi.errors import WriteConflictError
from pyhudi.format.timeline.instant import Action
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage, SimulatedCrash

APART = {"hoodie.parquet.small.file.limit": "0"}
SORTED = {"hoodie.clustering.plan.strategy.sort.columns": "note"}
EVERY_TABLE = [TableBuilder(version, kind, options=APART) for version, kind in ((9, "cow"), (8, "mor"), (6, "cow"))]
every_table = pytest.mark.parametrize("table", EVERY_TABLE, ids=str)
BEFORE = {(1, "oslo", 1, "a"), (2, "oslo", 1, "b")}


def prepared(table: TableBuilder) -> Storage:
    return table.insert((1, "oslo", 1, "a")).insert((2, "oslo", 1, "b")).build()


def count(storage: Storage) -> int:
    return open_table(storage).scan(["id"]).to_arrow().num_rows


@pytest.mark.parametrize("order", ["archive first", "clean first"])
def test_hudi_7779_groups_under_a_savepoint_never_come_back_whatever_goes_first(order: str) -> None:
    """Savepoint, clustering, many commits; then the savepoint goes: replaced groups must not count again."""
    options = {
        **APART,
        "hoodie.clean.automatic": "false",
        "hoodie.clean.commits.retained": "1",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
    }
    table = TableBuilder(options=options)
    storage = prepared(table)
    kept = load_table(storage).timeline.completed_writes[-1].requested_time
    table.open(storage).savepoints.create(kept)
    table.open(storage).services.cluster(hudi_options=SORTED)
    for n in range(3, 9):
        table.open(storage).insert(rows((n, "rome", 1, "c")))
        table.open(storage).services.clean()
        table.open(storage).services.archive()
        assert count(storage) == n
    table.open(storage).savepoints.delete(kept)
    steps = [table.open(storage).services.archive, table.open(storage).services.clean]
    for step in steps if order == "archive first" else steps[::-1]:
        step()
        assert count(storage) == 8
    table.open(storage).services.archive()
    assert count(storage) == 8


@every_table
def test_hudi_5174_two_clusterers_leave_each_other_s_living_runs_alone(table: TableBuilder) -> None:
    storage = prepared(table)
    planned = table.open(storage).services.schedule("clustering")
    outcomes: list[object] = []

    def meanwhile() -> None:
        other = table.open(storage)
        outcomes.extend(other.services.run(planned)["outcome"].to_pylist())
        outcomes.append(other.services.cluster().num_rows)
        other.recovery.roll_back_failed_writes()

    running = FaultStorage(storage, before=once_at("open_output", "city=oslo", meanwhile))
    assert table.open(running).services.run(planned)["outcome"].to_pylist() == ["done"]
    assert outcomes == ["left to another process", 0]
    assert contents(storage) == BEFORE
    audit(storage)


@every_table
def test_issue_10964_dead_clustering_is_named_by_the_write_it_stops_and_ends_with_the_next_run(
    table: TableBuilder,
) -> None:
    for place in (".clustering.inflight", "open_output"):
        storage = prepared(table)
        planned = str(table.open(storage).services.schedule("clustering"))
        hook = once_at("open_output", "city=oslo", crash) if place == "open_output" else once_at("put", planned, crash)
        with suppress(SimulatedCrash):
            table.open(FaultStorage(storage, before=hook)).services.run(planned)
        if storage.info(f".hoodie/.heartbeat/{planned}") is not None:
            let_the_runner_die(storage, planned)
        with pytest.raises(WriteConflictError) as caught:
            table.open(storage).upsert(rows((1, "oslo", 2, "new")))
        assert caught.value.context["winner"] == planned
        opened_much_later(storage, later=True).services.run(only="clustering")
        table.open(storage).upsert(rows((1, "oslo", 2, "new")))
        assert contents(storage) == {(1, "oslo", 2, "new"), (2, "oslo", 1, "b")}


def test_issue_7035_the_timeline_that_a_plan_kept_long_is_short_again_after_its_run() -> None:
    """Until it is run, `pending` names it; it holds back what completed since it was made, as in JVM Hudi."""
    options = {
        **APART,
        "hoodie.clean.commits.retained": "1",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.clean.automatic": "false",
    }
    table = TableBuilder(options=options)
    storage = prepared(table)
    planned = table.open(storage).services.schedule("clustering")
    for n in range(3, 15):
        table.open(storage).insert(rows((n, "rome", 1, "c")))
        table.open(storage).services.archive()
    assert table.open(storage).services.pending()["instant"].to_pylist() == [planned]
    table.open(storage).services.run(str(planned))
    for n in (15, 16):
        table.open(storage).insert(rows((n, "rome", 1, "c")))
    table.open(storage).services.clean()
    table.open(storage).services.archive()
    assert len(load_table(storage).timeline.completed_writes) <= 4
    assert count(storage) == 16


@every_table
def test_issue_4163_files_of_a_dead_clustering_older_than_the_timeline_never_count(table: TableBuilder) -> None:
    if table.version == 6:
        return  # its timeline is not archived
    quick = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.automatic": "false"}
    storage = prepared(table)
    planned = str(table.open(storage).services.schedule("clustering"))
    with suppress(SimulatedCrash):
        running = FaultStorage(storage, before=once_at("put_if_absent", ".replacecommit", crash))
        table.open(running).services.run(planned)
    for n in range(3, 9):
        table.open(storage).insert(rows((n, "rome", 1, "c")))
        table.open(storage).services.archive(hudi_options=quick)
        assert count(storage) == n


@every_table
def test_hudi_9672_each_change_is_shown_once_with_a_clustering_between(table: TableBuilder) -> None:
    storage = prepared(table)
    first = load_table(storage).timeline.latest_time
    table.open(storage).services.cluster(hudi_options=SORTED)
    second = load_table(storage).timeline.latest_time
    table.open(storage).upsert(rows((1, "oslo", 2, "new"), (3, "oslo", 1, "c")))
    table.open(storage).services.cluster(hudi_options=SORTED)

    def changed(begin: str, end: str | None = None) -> list[tuple[int, str]]:
        found = open_table(storage).changes(begin, end).to_arrow().to_pylist()
        return sorted((row["id"], row["note"]) for row in found)

    assert changed("000") == [(1, "new"), (2, "b"), (3, "c")]
    assert changed(first, second) == []
    assert changed(second) == [(1, "new"), (3, "c")]


@pytest.mark.parametrize("version", [6, 8, 9])
def test_hudi_7532_clusterings_do_not_put_compactions_off(version: int) -> None:
    """JVM Hudi took the replace commits for compactions: with both services on, it never compacted."""
    both = {
        "hoodie.compact.inline": "true",
        "hoodie.compact.inline.max.delta.commits": "5",
        "hoodie.clustering.inline": "true",
        "hoodie.clustering.inline.max.commits": "4",
        "hoodie.clean.automatic": "false",
    }
    storage = TableBuilder(version, "mor").insert((1, "oslo", 0, "a"), (2, "oslo", 0, "a")).build()
    for ts in range(1, 20):
        open_table(storage, **both).upsert(rows((1, "oslo", ts, f"u{ts}")))

    done = [one.action for one in load_table(storage).timeline.completed_writes]
    assert (done.count(Action.DELTA_COMMIT), done.count(Action.COMMIT)) == (20, 4)
    assert done.count(Action.REPLACE_COMMIT) >= 3
    assert contents(storage) == {(1, "oslo", 19, "u19"), (2, "oslo", 0, "a")}
