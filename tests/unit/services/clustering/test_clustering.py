"""Clusterings of tables in every state: rows stay as they are, files become few and sorted."""

from __future__ import annotations

import functools
import math
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.audit import audit
from tests.support.table_builder import TableBuilder
from tests.support.tables import MOR, SCHEMA, contents, new_table, open_table, rows

from pyhudi.api.services import Services
from pyhudi.errors import ConfigError, CorruptDataError, UnsupportedFeatureError, WriteConflictError
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import load_table

PREFIX = "hoodie.clustering.plan.strategy."
APART = {"hoodie.parquet.small.file.limit": "0"}
SORTED = {f"{PREFIX}sort.columns": "note,id"}
EVERY_TABLE = [TableBuilder(version, kind, options=APART) for version in (9, 8, 6) for kind in ("cow", "mor")]
every_table = pytest.mark.parametrize("table", EVERY_TABLE, ids=str)
every_merge_on_read = pytest.mark.parametrize("table", EVERY_TABLE[1::2], ids=str)


def with_three_files(table: TableBuilder) -> TableBuilder:
    """Two file groups in oslo and one in rome, of three commits, and an update."""
    return (
        table.insert((1, "oslo", 1, "d"), (2, "oslo", 1, "b"))
        .insert((3, "oslo", 1, "a"), (4, "rome", 1, "c"))
        .upsert((1, "oslo", 2, "c"))
    )


def stored(storage: Storage) -> list[dict[str, Any]]:
    """All rows with all meta columns but the name of the file."""
    found = open_table(storage).scan().to_arrow().drop_columns(["_hoodie_file_name"]).to_pylist()
    return sorted(found, key=lambda row: row["id"])


def groups(storage: Storage) -> set[str]:
    return set(open_table(storage).inspect.files()["file_id"].to_pylist())


@every_table
def test_small_files_become_one_sorted_file_and_rows_keep_their_commit_times(table: TableBuilder) -> None:
    storage = with_three_files(table).build()
    before, groups_before = stored(storage), groups(storage)
    begin = load_table(storage).timeline.latest_time

    done = table.open(storage).services.cluster(hudi_options=SORTED).to_pylist()

    assert [(one["groups"], one["replaced"], one["files"], one["rows"]) for one in done] == [(2, 3, 2, 4)]
    assert stored(storage) == before
    assert not groups(storage) & groups_before
    notes = open_table(storage).scan(["city", "note"]).to_arrow().to_pylist()
    assert [row["note"] for row in notes if row["city"] == "oslo"] == ["a", "b", "c"]
    assert open_table(storage).changes(begin).count() == 0
    assert open_table(storage).changes("000").count() == 4
    audit(storage)


@every_table
def test_completed_clustering_is_a_replace_commit_that_names_what_it_replaced(table: TableBuilder) -> None:
    storage = with_three_files(table).build()
    before = groups(storage)
    (instant,) = table.open(storage).services.cluster(hudi_options=SORTED)["instant"].to_pylist()

    state = load_table(storage)
    write = state.timeline.completed_writes[-1]
    metadata = load_commit_metadata(storage, write, state.version)
    assert (write.requested_time, write.action.value) == (instant, "replacecommit")
    assert metadata.operation is WriteOperation.CLUSTER
    assert {one for ids in (metadata.replaced_file_ids or {}).values() for one in ids} == before
    stats = [stat for group in metadata.stats_by_partition.values() for stat in group]
    assert sum(stat.num_inserts for stat in stats) == sum(stat.num_writes for stat in stats) == 4
    assert {stat.prev_commit for stat in stats} == {"null"}
    for stat in stats:
        footer = pq.read_metadata(pa.BufferReader(storage.read(stat.path))).metadata
        assert b"org.apache.hudi.bloomfilter" in footer
        rows_of_file = pq.read_table(pa.BufferReader(storage.read(stat.path)))
        assert set(rows_of_file["_hoodie_file_name"].to_pylist()) == {stat.path.rpartition("/")[2]}


@every_table
def test_writes_after_a_clustering_find_its_records(table: TableBuilder) -> None:
    storage = with_three_files(table).build()
    table.open(storage).services.cluster(hudi_options=SORTED)
    table.open(storage).upsert(rows((2, "oslo", 3, "new"), (5, "oslo", 3, "e")))
    table.open(storage).delete(rows((4, "rome", 4, "")))
    assert contents(storage) == {(1, "oslo", 2, "c"), (2, "oslo", 3, "new"), (3, "oslo", 1, "a"), (5, "oslo", 3, "e")}


@every_table
def test_state_before_a_clustering_stays_readable_until_it_is_cleaned(table: TableBuilder) -> None:
    storage = with_three_files(table).build()
    before = load_table(storage).timeline.completed_writes[0].requested_time
    expected = open_table(storage).scan(as_of=before).to_arrow().drop_columns(["_hoodie_file_name"])
    table.open(storage).services.cluster(hudi_options=SORTED)
    found = open_table(storage).scan(as_of=before).to_arrow().drop_columns(["_hoodie_file_name"])
    assert found.sort_by("id").equals(expected.sort_by("id"))


@every_merge_on_read
def test_deleted_rows_stay_deleted_whatever_the_state_of_their_slices(table: TableBuilder) -> None:
    """A base file, one with a log, one with deletes in its log, one of which nothing is left."""
    full = (
        with_three_files(table)
        .insert((6, "oslo", 1, "x"))
        .insert((7, "oslo", 1, "y"), (8, "oslo", 1, "z"))
        .delete((2, "oslo", 5, ""), (6, "oslo", 5, ""), (8, "oslo", 5, ""))
        .upsert((3, "oslo", 6, "again"))
    )
    storage = full.build()
    before = stored(storage)

    (done,) = table.open(storage).services.cluster(hudi_options=SORTED).to_pylist()

    assert {row["id"] for row in before} == {1, 3, 4, 7}
    assert stored(storage) == before
    assert done["rows"] == 4
    assert open_table(storage).inspect.files()["logs"].to_pylist() == [[], []]
    audit(storage)


@every_merge_on_read
def test_slices_of_a_pending_compaction_are_left_to_it(table: TableBuilder) -> None:
    storage = with_three_files(table).pending_compaction().build()
    before = stored(storage)
    planned = table.open(storage).services.plan_clustering(hudi_options=SORTED).to_pylist()
    assert [one["clusters"] for one in planned if "compaction" in one["reason"]] == [False]

    table.open(storage).services.cluster(hudi_options=SORTED)
    (compaction,) = table.open(storage).services.pending()["instant"].to_pylist()
    table.open(storage).services.run(compaction)

    assert stored(storage) == before
    audit(storage)


@every_table
def test_group_without_any_row_left_is_replaced_by_nothing(table: TableBuilder) -> None:
    storage = table.insert((1, "oslo", 1, "a")).insert((2, "oslo", 1, "b")).build()
    table.open(storage).delete(rows((1, "oslo", 2, ""), (2, "oslo", 2, "")))
    (done,) = table.open(storage).services.cluster(hudi_options=SORTED).to_pylist()
    assert (done["files"], done["rows"]) == (0, 0)
    assert contents(storage) == set()
    assert groups(storage) == set()


@pytest.mark.parametrize("count", [1, 2])
def test_group_of_one_or_two_rows_is_sorted(count: int) -> None:
    table = TableBuilder(options=APART)
    for n in range(count):
        table = table.insert((n, "oslo", 1, "ba"[n]))
    storage = table.build()
    table.open(storage).services.cluster(hudi_options=SORTED)
    assert open_table(storage).scan(["note"]).to_arrow()["note"].to_pylist() == sorted("ba"[:count])


def test_sorted_files_have_nulls_first_then_values_then_nan() -> None:
    schema = pa.schema([("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])
    fares = [2.0, None, -0.0, math.nan, -7.5, 0.0, None, math.nan]
    storage = MemoryStorage()
    table = new_table(storage, schema=schema, **APART)
    for n, fare in enumerate(fares):
        table.insert(pa.table([[n], ["oslo"], [1], pa.array([fare], pa.float64())], schema=schema))
    table.services.cluster(hudi_options={f"{PREFIX}sort.columns": "fare,id"})
    found = open_table(storage).scan(["fare", "id"]).to_arrow()
    assert found["id"].to_pylist() == [1, 6, 4, 2, 5, 0, 3, 7]


def test_without_sort_columns_files_are_joined_and_rows_keep_their_order() -> None:
    table = TableBuilder(options=APART)
    storage = with_three_files(table).build()
    (done,) = table.open(storage).services.cluster().to_pylist()
    assert (done["groups"], done["replaced"], done["files"]) == (1, 2, 1), "rome has one file, which stays as it is"
    assert table.open(storage).services.cluster().num_rows == 0, "there is nothing left to do"


def test_rows_beyond_the_target_size_go_into_the_next_file() -> None:
    table = TableBuilder(options={**APART, "hoodie.parquet.block.size": "4096"})
    for n in range(3):
        table = table.insert(*((100 * n + m, "oslo", 1, f"{m:02}" * 40) for m in range(100)))
    storage = table.build()
    size = {f"{PREFIX}target.file.max.bytes": "12000", **SORTED}

    (done,) = table.open(storage).services.cluster(hudi_options=size).to_pylist()

    assert done["files"] > 1
    first_and_last = sorted(
        (found["note"][0].as_py(), found["note"][-1].as_py())
        for info in list_data_files(storage)
        if done["instant"] in info.name
        for found in [pq.read_table(pa.BufferReader(storage.read(info.path)))]
    )
    ends = [end for pair in first_and_last for end in pair]
    assert ends == sorted(ends), "files follow one another in the order of the sort"
    assert contents(storage) == {(100 * n + m, "oslo", 1, f"{m:02}" * 40) for n in range(3) for m in range(100)}


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({f"{PREFIX}sort.columns": "nothing"}, id="unknown sort column"),
        pytest.param({f"{PREFIX}class": "Mine"}, id="unknown strategy"),
        pytest.param({"hoodie.layout.optimize.strategy": "SPIRAL"}, id="unknown layout"),
    ],
)
@pytest.mark.parametrize(
    "call",
    [
        pytest.param(Services.cluster, id="cluster"),
        pytest.param(Services.plan_clustering, id="plan"),
        pytest.param(functools.partial(Services.schedule, kind="clustering"), id="schedule"),
    ],
)
def test_bad_option_is_refused_before_anything_is_written(call: Any, options: dict[str, str]) -> None:
    table = TableBuilder(options=APART)
    storage = with_three_files(table).build()
    before = {info.path for info in storage.list_recursive("")}
    services = table.open(storage).services
    with pytest.raises(ConfigError):
        call(services, hudi_options=options)
    assert {info.path for info in storage.list_recursive("")} == before


def test_plan_for_another_class_is_refused_and_stays() -> None:
    table = TableBuilder(options=APART)
    storage = with_three_files(table).build()
    planned = table.open(storage).services.schedule("clustering", hudi_options=SORTED)
    (path,) = (info.path for info in storage.list_recursive(".hoodie/timeline") if "clustering" in info.name)
    body = storage.read(path)
    storage.put(path, body.replace(b"SparkSortAndSizeExecutionStrategy", b"SparkSortAndSomeExecutionStrategy"))
    with pytest.raises(UnsupportedFeatureError, match="SparkSortAndSome"):
        table.open(storage).services.run(str(planned))
    assert table.open(storage).services.pending()["instant"].to_pylist() == [planned]
    storage.put(path, body)
    assert table.open(storage).services.run(str(planned))["outcome"].to_pylist() == ["done"]


def test_write_in_the_way_of_a_plan_names_the_remedies_that_work() -> None:
    table = TableBuilder(options=APART).insert((1, "oslo", 1, "a"))
    storage = table.build()
    last = table.open(storage).upsert(rows((1, "oslo", 2, "b")))
    planned = str(table.open(storage).services.schedule("clustering", hudi_options=SORTED))
    with pytest.raises(WriteConflictError, match=r"let it finish \(services\.run\), or roll the plan back"):
        table.open(storage).upsert(rows((1, "oslo", 3, "c")))
    # A restore of JVM Hudi to the first write: its files are gone, and the plan stays.
    for info in storage.list_recursive(""):
        if last.instant in info.path:
            storage.delete(info.path)

    with pytest.raises(WriteConflictError) as refused:
        table.open(storage).upsert(rows((1, "oslo", 3, "c")))

    assert "can never run" in refused.value.message
    assert f"{last.instant}.parquet" in refused.value.message
    assert "services.run" not in refused.value.message
    with pytest.raises(CorruptDataError, match="missing"):
        table.open(storage).services.run(planned)
    table.open(storage).recovery.rollback(planned)
    table.open(storage).upsert(rows((1, "oslo", 3, "c")))
    assert contents(storage) == {(1, "oslo", 3, "c")}


def test_service_is_due_after_so_many_commits_if_an_option_asks_for_it() -> None:
    options = {**APART, "hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "3"}
    table = TableBuilder(options=options)
    storage = table.build()
    counts = []
    for n in range(7):
        table.open(storage).insert(rows((n, "oslo", 1, "a")))
        counts.append(len(groups(storage)))
    assert counts == [1, 2, 1, 2, 3, 1, 2]
    assert contents(storage) == {(n, "oslo", 1, "a") for n in range(7)}


def test_schedule_inline_leaves_the_plan_to_others() -> None:
    options = {**APART, "hoodie.clustering.schedule.inline": "true", "hoodie.clustering.inline.max.commits": "2"}
    table = TableBuilder(options=options).insert((1, "oslo", 1, "a")).insert((2, "oslo", 1, "b"))
    storage = table.build()
    (plan,) = table.open(storage).services.pending().to_pylist()
    assert (plan["kind"], plan["state"]) == ("clustering", "requested")
    done = table.open(storage).services.run(only="clustering").to_pylist()
    assert [one["outcome"] for one in done] == ["done", "nothing to do"]
    assert len(groups(storage)) == 1


def test_both_services_on_let_each_other_come_to_its_turn() -> None:
    """A clustering does not count as a compaction, nor as a delta commit."""
    options = {
        **MOR,
        **APART,
        "hoodie.clustering.inline": "true",
        "hoodie.compact.inline": "true",
        "hoodie.compact.inline.max.delta.commits": "5",
        "hoodie.clean.automatic": "false",
    }
    storage = MemoryStorage()
    new_table(storage, **options)
    table = open_table(storage, env=None, **options)
    for n in range(20):
        table.upsert(rows((n % 3, "oslo", n, "a")))
    state = load_table(storage)
    operations = [
        load_commit_metadata(storage, write, state.version).operation for write in state.timeline.completed_writes
    ]
    assert operations.count(WriteOperation.COMPACT) + operations.count(WriteOperation.CLUSTER) > 4
    assert operations.count(WriteOperation.COMPACT) == 4
    assert contents(storage) == {(n % 3, "oslo", n, "a") for n in (17, 18, 19)}


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_files_from_before_a_column_was_added_get_it_as_null(kind: Any) -> None:
    table = TableBuilder(kind=kind, options=APART)
    storage = table.insert((1, "oslo", 1, "a")).build()
    wide = SCHEMA.append(pa.field("extra", pa.int32()))
    row = {"id": 2, "city": "oslo", "ts": 1, "note": "b", "extra": 5}
    table.open(storage).insert(pa.Table.from_pylist([row], wide))
    table.open(storage).services.cluster(hudi_options={f"{PREFIX}sort.columns": "extra"})
    found = open_table(storage).scan(["id", "extra"]).to_arrow().to_pylist()
    assert found == [{"id": 1, "extra": None}, {"id": 2, "extra": 5}]


def test_table_without_rows_has_nothing_to_cluster() -> None:
    table = TableBuilder()
    assert table.open(table.build()).services.cluster(hudi_options=SORTED).num_rows == 0


@every_table
def test_plan_that_landed_late_under_the_time_of_a_write_is_removed_and_the_write_stays(table: TableBuilder) -> None:
    """The store had not said that the put of the plan took effect, and the write took the same time."""
    storage = with_three_files(table).build()
    planned = str(table.open(storage).services.schedule("clustering", hudi_options=SORTED))
    state = load_table(storage)
    (path,) = (info.path for info in storage.list_recursive(state.version.timeline_folder) if planned in info.name)
    write = state.timeline.completed_writes[-1].requested_time
    storage.put(path.replace(planned, write), storage.read(path))
    storage.delete(path)
    before = stored(storage)

    done = table.open(storage).services.cluster(hudi_options=SORTED)

    assert done.num_rows == 1
    assert stored(storage) == before
    assert table.open(storage).services.pending().num_rows == 0
    audit(storage)
