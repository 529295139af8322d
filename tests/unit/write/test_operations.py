"""What each write operation does to the rows of a table, for every table version, partitioned or not."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.audit import audit
from tests.support.table_builder import TWO_GROUPS, every_version
from tests.support.tables import SplitEngine, contents, new_table, open_table, rehandled, rows, values_of

import pyhudi
from pyhudi.api.writes import save
from pyhudi.engine.spilled_rows import SpilledRows
from pyhudi.errors import ConfigError, InvalidRequestError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.open import open_storage
from pyhudi.table.file_system_view import load_view
from pyhudi.table.state import load_table
from pyhudi.tasks import sort_rows

_numbers = itertools.count()
NOT_PARTITIONED = {"hoodie.datasource.write.partitionpath.field": ""}
TABLES = [pytest.param(v, p, id=f"v{v}-{'partitioned' if p else 'flat'}") for v in (6, 8, 9) for p in (True, False)]


def filled(version: int = 9, partitioned: bool = True, **options: str) -> pyhudi.HudiTable:
    event_time = {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
    layout = {} if partitioned else NOT_PARTITIONED
    table = new_table(MemoryStorage(), version=version, **event_time, **layout, **options)
    table = rehandled(table, engine=SplitEngine())
    table.insert(rows(*TWO_GROUPS))
    return table.refresh()


def stored(table: pyhudi.HudiTable) -> list[tuple[Any, ...]]:
    """The rows, duplicates and all, after the table's files were found to be in order."""
    audit(table.handle.state.storage)
    return values_of(table.refresh().scan().to_arrow(), ["id", "city", "ts", "note"])


@pytest.mark.parametrize(("version", "partitioned"), TABLES)
def test_upsert_updates_known_keys_and_inserts_the_others(version: int, partitioned: bool) -> None:
    table = filled(version, partitioned)

    result = table.upsert(rows((1, "oslo", 6, "b"), (2, "oslo", 4, "late"), (9, "rome", 1, "b")))

    assert stored(table) == [(1, "oslo", 6, "b"), (2, "oslo", 5, "a"), (3, "rome", 5, "a"), (9, "rome", 1, "b")]
    assert (result.operation, result.inserted, result.updated, result.deleted) == ("upsert", 1, 1, 0)


@pytest.mark.parametrize(("version", "partitioned"), TABLES)
def test_insert_adds_rows_without_looking_for_their_keys(version: int, partitioned: bool) -> None:
    table = filled(version, partitioned)

    result = table.insert(rows((1, "oslo", 6, "b"), (9, "bern", 6, "b")))

    assert stored(table) == sorted([*TWO_GROUPS, (1, "oslo", 6, "b"), (9, "bern", 6, "b")])
    assert (result.inserted, result.updated) == (2, 0)


@pytest.mark.parametrize(("version", "partitioned"), TABLES)
def test_delete_by_rows_removes_known_keys_whatever_their_event_time(version: int, partitioned: bool) -> None:
    table = filled(version, partitioned)

    result = table.delete(rows((1, "oslo", 0, "x"), (1, "oslo", 0, "x"), (77, "oslo", 0, "x")))

    assert stored(table) == list(TWO_GROUPS[1:])
    assert (result.deleted, result.inserted, result.updated) == (1, 0, 0)


@pytest.mark.parametrize(("version", "partitioned"), TABLES)
def test_insert_overwrite_replaces_the_partitions_of_the_rows(version: int, partitioned: bool) -> None:
    table = filled(version, partitioned)

    result = table.insert_overwrite(rows((7, "oslo", 1, "n"), (8, "bern", 1, "n")))

    kept = [(3, "rome", 5, "a")] if partitioned else []
    assert stored(table) == [*kept, (7, "oslo", 1, "n"), (8, "bern", 1, "n")]
    assert result.replaced_files == 1


@pytest.mark.parametrize(("version", "partitioned"), TABLES)
def test_insert_overwrite_table_leaves_only_the_new_rows(version: int, partitioned: bool) -> None:
    table = filled(version, partitioned)

    table.insert_overwrite_table(rows((7, "bern", 1, "n")))

    assert stored(table) == [(7, "bern", 1, "n")]


def test_insert_overwrite_in_static_mode_replaces_the_whole_table() -> None:
    table = filled()

    table.insert_overwrite(rows((7, "bern", 1, "n")), hudi_options={"hoodie.datasource.overwrite.mode": "STATIC"})

    assert stored(table) == [(7, "bern", 1, "n")]


def test_insert_overwrite_table_with_no_rows_empties_the_table() -> None:
    table = filled()

    table.insert_overwrite_table(rows())

    assert stored(table) == []


SORT_MODES = ["NONE", "GLOBAL_SORT", "PARTITION_SORT", "PARTITION_PATH_REPARTITION"]


@pytest.mark.parametrize("sort_mode", [*SORT_MODES, "PARTITION_PATH_REPARTITION_AND_SORT"])
@pytest.mark.parametrize(("version", "partitioned"), [(6, False), (9, True)])
def test_bulk_insert_in_any_sort_mode_adds_all_rows(version: int, partitioned: bool, sort_mode: str) -> None:
    table = filled(version, partitioned)
    batch = [(n, "oslo" if n % 2 else "rome", 1, "n") for n in (40, 13, 27, 31, 12, 11, 55)]

    result = table.bulk_insert(rows(*batch), hudi_options={"hoodie.bulkinsert.sort.mode": sort_mode})

    assert stored(table) == sorted([*TWO_GROUPS, *batch])
    assert result.inserted == len(batch)
    in_files = [
        [row["id"] for row in _rows_of(table, path)]
        for path, instant in zip(
            *(table.refresh().inspect.files().column(c).to_pylist() for c in ("path", "instant")), strict=True
        )
        if instant == result.instant
    ]
    assert sort_mode not in SORT_MODES[1:3] or all(ids == sorted(ids) for ids in in_files)


def test_sorted_bulk_insert_of_a_stream_goes_through_local_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sort_rows, "RUN_BYTES", 4_000)
    spilled: dict[str, int] = {}
    write = SpilledRows.write

    def counted(self: SpilledRows, name: str, piece: pa.RecordBatch) -> None:
        spilled[name] = spilled.get(name, 0) + piece.num_rows
        write(self, name, piece)

    monkeypatch.setattr(SpilledRows, "write", counted)
    table = new_table(MemoryStorage())
    ids = np.random.default_rng(7).permutation(1000).tolist()
    batches = rows(*((n, "oslo", 1, "n" * 20) for n in ids)).to_batches(max_chunksize=10)
    options = {"hoodie.bulkinsert.sort.mode": "GLOBAL_SORT", "hoodie.memory.spillable.map.path": str(tmp_path)}

    table.bulk_insert(pa.RecordBatchReader.from_batches(batches[0].schema, batches), hudi_options=options)

    (path,) = table.refresh().inspect.files().column("path").to_pylist()
    assert [row["id"] for row in _rows_of(table, path)] == list(range(1000))
    assert len(spilled) > 2
    assert sum(spilled.values()) == 1000
    assert list(tmp_path.iterdir()) == []


def _rows_of(table: pyhudi.HudiTable, path: str) -> list[dict[str, Any]]:
    with table.handle.state.storage.open_input(path) as source:
        return list(pq.ParquetFile(source).read().to_pylist())


def test_bulk_insert_rolls_over_to_a_new_file_at_the_maximum_size() -> None:
    table = filled()
    batches = [rows(*((n + 1000 * b, "bern", 1, f"{n:09}") for n in range(100, 600))) for b in range(6)]
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, [b for t in batches for b in t.to_batches()])

    result = table.bulk_insert(reader, hudi_options={"hoodie.parquet.max.file.size": "8000"})

    assert result.inserted == 3000
    assert result.files > 2
    assert len(stored(table)) == 3003


@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert", "insert_overwrite"])
def test_rows_of_one_key_in_a_batch_are_combined_where_the_operation_says_so(operation: str) -> None:
    table = filled()
    batch = rows((9, "bern", 3, "old"), (9, "bern", 4, "first"), (9, "bern", 4, "last"), (9, "bern", None, "null"))

    getattr(table, operation)(batch, hudi_options={"hoodie.combine.before.insert": True})

    assert [row for row in stored(table) if row[0] == 9] == [(9, "bern", 4, "last")]


@pytest.mark.parametrize("operation", ["insert", "bulk_insert", "insert_overwrite"])
def test_rows_of_one_key_in_a_batch_all_stay_without_combining(operation: str) -> None:
    table = filled()

    getattr(table, operation)(rows((9, "bern", 3, "x"), (9, "bern", 4, "y")))

    assert [row for row in stored(table) if row[0] == 9] == [(9, "bern", 3, "x"), (9, "bern", 4, "y")]


def test_upsert_without_combining_updates_known_keys_once_and_inserts_every_new_row() -> None:
    table = filled()
    batch = rows(
        (1, "oslo", 7, "x"), (1, "oslo", 8, "y"), (1, "oslo", 6, "z"), (9, "oslo", 1, "p"), (9, "oslo", 2, "q")
    )

    table.upsert(batch, hudi_options={"hoodie.combine.before.upsert": False, "hoodie.upsert.shuffle.parallelism": 3})

    found = stored(table)
    assert [row for row in found if row[0] == 1] == [(1, "oslo", 8, "y")]
    assert [row[2] for row in found if row[0] == 9] == [1, 2]


def test_delete_without_combining_removes_each_key_once() -> None:
    table = filled()

    result = table.delete(
        rows((1, "oslo", 0, ""), (1, "oslo", 0, "")), hudi_options={"hoodie.combine.before.delete": False}
    )

    assert stored(table) == list(TWO_GROUPS[1:])
    assert result.deleted == 1


@every_version
def test_commit_time_ordering_lets_the_later_write_win_whatever_its_event_time(version: int) -> None:
    table = new_table(MemoryStorage(), version=version, **{"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"})
    table.insert(rows(*TWO_GROUPS))

    table.upsert(rows((1, "oslo", 1, "later")))

    assert (1, "oslo", 1, "later") in stored(table)


@pytest.mark.parametrize(("version", "winner"), [pytest.param(6, 9, id="v6-largest"), pytest.param(9, 1, id="v9-last")])
def test_commit_time_ordering_combines_a_batch_as_the_version_does(version: int, winner: int) -> None:
    table = new_table(MemoryStorage(), version=version, **{"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"})

    table.upsert(rows((1, "oslo", 9, "x"), (1, "oslo", 1, "y")))

    assert [row[2] for row in stored(table)] == [winner]


IS_DELETED = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("_hoodie_is_deleted", pa.bool_())])


@pytest.mark.parametrize(
    ("row", "left"),
    [
        pytest.param((1, 6, True), [2], id="newer"),
        pytest.param((1, 5, True), [2], id="same age"),
        pytest.param((1, 4, True), [1, 2], id="older"),
        pytest.param((1, 6, None), [1, 2], id="null means no"),
        pytest.param((9, 6, True), [1, 2], id="unknown key"),
    ],
)
def test_a_row_marked_as_deleted_removes_its_record_unless_it_is_late(row: tuple[Any, ...], left: list[int]) -> None:
    def batch(*values: tuple[Any, ...]) -> pa.Table:
        return pa.Table.from_pylist([dict(zip(IS_DELETED.names, v, strict=True)) for v in values], IS_DELETED)

    table = new_table(MemoryStorage(), schema=IS_DELETED, **NOT_PARTITIONED)
    table.upsert(batch((1, 5, False), (2, 5, None)))

    result = table.upsert(batch(row))

    assert (
        table.refresh().scan(["id"]).to_arrow().column("id").to_pylist() == left
        or sorted(table.refresh().scan(["id"]).to_arrow().column("id").to_pylist()) == left
    )
    assert result.deleted == (2 - len(left))
    audit(table.handle.state.storage)


@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM"])
def test_insert_that_drops_duplicates_keeps_what_the_table_has(index: str) -> None:
    table = filled(**{"hoodie.index.type": index})

    options = {"hoodie.datasource.insert.dup.policy": "drop"}
    result = table.insert(
        rows((1, "oslo", 9, "new"), (9, "oslo", 9, "n"), (9, "oslo", 8, "n"), (3, "bern", 9, "n")), hudi_options=options
    )

    added = [(9, "oslo", 9, "n")] + ([] if index.startswith("GLOBAL") else [(3, "bern", 9, "n")])
    assert stored(table) == sorted([*TWO_GROUPS, *added])
    assert (result.inserted, result.updated) == (len(added), 0)


def test_insert_that_refuses_duplicates_writes_nothing() -> None:
    table = filled()

    with pytest.raises(InvalidRequestError, match="in the table already"):
        table.insert(
            rows((1, "oslo", 9, "new"), (9, "oslo", 9, "n")),
            hudi_options={"hoodie.datasource.insert.dup.policy": "fail"},
        )

    assert stored(table) == list(TWO_GROUPS)
    table.insert(rows((9, "oslo", 9, "n")), hudi_options={"hoodie.datasource.insert.dup.policy": "fail"})
    assert (9, "oslo", 9, "n") in stored(table)


@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM"])
def test_one_key_in_two_partitions_is_two_records_under_a_partition_index(index: str) -> None:
    table = filled(**{"hoodie.index.type": index})

    table.upsert(rows((1, "rome", 9, "b")))

    assert stored(table) == sorted([*TWO_GROUPS, (1, "rome", 9, "b")])


@pytest.mark.parametrize("index", ["GLOBAL_SIMPLE", "GLOBAL_BLOOM"])
class TestGlobalIndex:
    def test_a_newer_version_moves_the_record_to_its_partition(self, index: str) -> None:
        table = filled(**{"hoodie.index.type": index})

        result = table.upsert(rows((1, "rome", 9, "b"), (2, "bern", 5, "same age")))

        assert stored(table) == [(1, "rome", 9, "b"), (2, "bern", 5, "same age"), (3, "rome", 5, "a")]
        assert (result.inserted, result.deleted) == (2, 2)

    def test_a_late_version_moves_nothing(self, index: str) -> None:
        table = filled(**{"hoodie.index.type": index})

        table.upsert(rows((1, "rome", 4, "late"), (2, "bern", None, "late")))

        assert stored(table) == list(TWO_GROUPS)

    def test_record_that_is_not_moved_is_updated_in_place_and_found_by_its_partition(self, index: str) -> None:
        kind = index.removeprefix("GLOBAL_").lower()
        table = filled(**{"hoodie.index.type": index, f"hoodie.{kind}.index.update.partition.path": "false"})

        table.upsert(rows((1, "rome", 9, "b"), (4, "rome", 9, "new")))

        (row,) = table.refresh().scan(where=[("id", "==", 1)]).to_arrow().to_pylist()
        assert (row["city"], row["note"], row["_hoodie_partition_path"]) == ("oslo", "b", "city=oslo")
        found = table.refresh().scan(where=[("city", "==", "oslo")]).to_arrow()
        assert 1 in found["id"].to_pylist()
        assert len(stored(table)) == 4

    def test_a_batch_is_combined_over_partitions(self, index: str) -> None:
        table = filled(**{"hoodie.index.type": index})

        table.upsert(rows((9, "oslo", 1, "x"), (9, "bern", 2, "y")))

        assert [row for row in stored(table) if row[0] == 9] == [(9, "bern", 2, "y")]

    def test_a_delete_finds_the_record_in_whatever_partition(self, index: str) -> None:
        table = filled(**{"hoodie.index.type": index})

        table.delete(rows((1, "bern", 0, "")))

        assert stored(table) == list(TWO_GROUPS[1:])

    def test_a_deletion_mark_for_another_partition_removes_the_record(self, index: str) -> None:
        schema = pa.schema(
            [("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64()), ("_hoodie_is_deleted", pa.bool_())]
        )
        table = new_table(MemoryStorage(), schema=schema, **{"hoodie.index.type": index})
        table.upsert(pa.table([[1, 2], ["oslo", "oslo"], [1, 1], [False, False]], schema=schema))

        table.upsert(pa.table([[1], ["rome"], [2], [True]], schema=schema))

        assert table.refresh().scan(["id"]).to_arrow().to_pylist() == [{"id": 2}]


def test_delete_by_a_list_of_keys() -> None:
    table = filled(partitioned=False)

    assert table.delete([1, 3, 77]).deleted == 2
    assert stored(table) == [(2, "oslo", 5, "a")]
    assert table.delete([]).deleted == 0


def test_delete_of_all_rows_of_a_file_leaves_a_readable_table_that_takes_rows_again() -> None:
    table = filled(partitioned=False)
    table.delete([1, 2, 3])
    assert stored(table) == []

    table.upsert(rows((1, "oslo", 1, "again")))

    assert stored(table) == [(1, "oslo", 1, "again")]


@pytest.mark.parametrize(
    ("patterns", "left"),
    [
        pytest.param("city=oslo", ["rome", "x[1]?"], id="one"),
        pytest.param(["city=oslo", "city=rome"], ["x[1]?"], id="two"),
        pytest.param("city=*o*", ["x[1]?"], id="star"),
        pytest.param("city=x[1]?", ["oslo", "rome"], id="only the star is special"),
        pytest.param("*", [], id="all"),
    ],
)
def test_delete_partition_removes_what_matches(patterns: Any, left: list[str]) -> None:
    table = filled()
    table.insert(rows((4, "x[1]?", 1, "")))

    table.delete_partition(patterns)

    assert sorted({row[1] for row in stored(table)}) == left


@pytest.mark.parametrize("city", ["oslo ", " oslo", "oslo, rome", "oslo,", "oslo\u00a0"])
def test_delete_partition_of_a_name_with_blanks_or_commas_removes_that_one(city: str) -> None:
    table = filled()
    table.insert(rows((4, city, 1, "")))

    table.delete_partition(f"city={city}")

    assert sorted({row[1] for row in stored(table)}) == ["oslo", "rome"]


@pytest.mark.parametrize("names", ["city=oslo ", "city=rome, city=oslo", ""])
def test_option_that_names_partitions_with_blanks_around_them_is_refused(names: str) -> None:
    table = filled()

    with pytest.raises(ConfigError, match="without blanks around them"):
        save(
            rows((1, "oslo", 0, "")),
            table.handle.state.storage.uri,
            hudi_options={
                "hoodie.datasource.write.operation": "delete_partition",
                "hoodie.datasource.write.partitions.to.delete": names,
            },
        )


@pytest.mark.parametrize("names", [[], [""], ["city=oslo", ""]])
def test_delete_partition_without_a_name_is_refused(names: list[str]) -> None:
    table = filled()

    with pytest.raises(ConfigError, match="none of them empty"):
        table.delete_partition(names)

    assert len({row[1] for row in stored(table)}) == 2


def test_delete_partition_of_a_name_that_is_also_a_pattern_of_others_is_refused() -> None:
    table = filled()
    table.insert(rows((4, "o*", 1, "")))

    with pytest.raises(InvalidRequestError, match="as a pattern it matches others"):
        table.delete_partition("city=o*")

    assert len({row[1] for row in stored(table)}) == 3


def test_delete_partition_by_a_row_with_a_star_leaves_other_partitions() -> None:
    path = "memory://by-example/star"
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    options["hoodie.datasource.write.partitionpath.field"] = "city"
    save(rows(*TWO_GROUPS, (4, "o*", 1, "")), path, hudi_options=options)

    save(
        rows((0, "o*", 0, "")), path, hudi_options={**options, "hoodie.datasource.write.operation": "delete_partition"}
    )

    assert len(pyhudi.HudiTable.for_path(path).scan().to_arrow()) == len(TWO_GROUPS)


@pytest.mark.parametrize("pattern", ["oslo", "city=osl", "city=?slo", "city=[o]slo"])
def test_delete_partition_that_matches_nothing_is_refused_and_leaves_no_trace(pattern: str) -> None:
    table = filled()
    before = [info.path for info in table.handle.state.storage.list_recursive("")]

    with pytest.raises(InvalidRequestError, match="no partition"):
        table.delete_partition(pattern)

    assert [info.path for info in table.handle.state.storage.list_recursive("")] == before


def test_delete_partition_by_example_takes_the_partitions_of_the_rows() -> None:
    path = "memory://by-example/t"
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    options["hoodie.datasource.write.partitionpath.field"] = "city"
    save(rows(*TWO_GROUPS), path, hudi_options=options)

    save(
        rows((0, "oslo", 0, "")),
        path,
        hudi_options={**options, "hoodie.datasource.write.operation": "delete_partition"},
    )

    assert values_of(pyhudi.HudiTable.for_path(path).scan().to_arrow(), ["id"]) == [(3,)]


def test_a_deleted_partition_takes_new_rows() -> None:
    table = filled()
    table.delete_partition("city=oslo")

    table.upsert(rows((1, "oslo", 1, "again")))

    assert stored(table) == [(1, "oslo", 1, "again"), (3, "rome", 5, "a")]


@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert", "insert_overwrite_table"])
@pytest.mark.parametrize("combine", [True, False])
def test_save_mode_overwrite_replaces_all_rows_and_keeps_the_history(operation: str, combine: bool) -> None:
    path = f"memory://overwrite-{operation}-{combine}/t"
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.combine.before.insert": combine,
        "hoodie.datasource.write.operation": operation,
    }
    first = save(rows(*TWO_GROUPS), path, hudi_options=options)
    assert first is not None

    save(rows((9, "bern", 1, "n")), path, hudi_options=options, mode="overwrite")

    table = pyhudi.HudiTable.for_path(path)
    assert values_of(table.scan().to_arrow(), ["id"]) == [(9,)]
    assert values_of(table.scan(as_of=first.instant).to_arrow(), ["id"]) == [(1,), (2,), (3,)]
    audit(open_storage(path, {}))


def test_save_mode_ignore_leaves_a_table_alone() -> None:
    path = "memory://ignored/t"
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    assert save(rows(*TWO_GROUPS), path, hudi_options=options, mode="ignore") is not None

    assert save(rows((9, "bern", 1, "n")), path, hudi_options=options, mode="ignore") is None

    assert values_of(pyhudi.HudiTable.for_path(path).scan().to_arrow(), ["id"]) == [(1,), (2,), (3,)]


def test_a_table_that_generates_keys_takes_inserts_only() -> None:
    path = "memory://auto-keys/t"
    options = {"hoodie.table.name": "t"}
    save(rows(*TWO_GROUPS), path, hudi_options=options)
    save(rows(*TWO_GROUPS), path, hudi_options={**options, "hoodie.datasource.write.operation": "bulk_insert"})
    table = pyhudi.HudiTable.for_path(path)

    keys = table.scan(["_hoodie_record_key"]).to_arrow().column(0).to_pylist()
    assert len(set(keys)) == 6
    for write in (table.upsert, table.delete):
        with pytest.raises(InvalidRequestError, match="generates its record keys"):
            write(rows(*TWO_GROUPS))


# -- meta columns, files ---------------------------------------------------------------------------------------------


def test_a_rewrite_keeps_the_commit_time_of_untouched_rows() -> None:
    table = filled(partitioned=False)
    first = table.inspect.last_write()
    assert first is not None

    second = table.upsert(rows((1, "oslo", 9, "b")))

    times = {row["id"]: row["_hoodie_commit_time"] for row in table.refresh().scan().to_arrow().to_pylist()}
    assert times == {1: second.instant, 2: first.instant, 3: first.instant}
    audit(table.handle.state.storage)


def test_a_late_version_leaves_the_commit_time_of_the_row() -> None:
    table = filled(partitioned=False)
    first = table.inspect.last_write()
    assert first is not None

    result = table.upsert(rows((1, "oslo", 1, "late")))

    assert set(table.refresh().scan(["_hoodie_commit_time"]).to_arrow().column(0).to_pylist()) == {first.instant}
    assert result.updated == 0


SMALL_FILES = {
    "hoodie.parquet.max.file.size": "6000",
    "hoodie.parquet.small.file.limit": "5800",
    "hoodie.copyonwrite.record.size.estimate": "100",
    "hoodie.index.bloom.num_entries": "10",
    "hoodie.record.size.estimation.threshold": "1000",
}


def test_new_rows_fill_small_files_first_and_open_new_ones_at_the_maximum_size() -> None:
    table = new_table(MemoryStorage(), **SMALL_FILES)
    first = table.upsert(rows((1, "oslo", 1, "")))
    (group,) = table.refresh().inspect.files().column("file_id").to_pylist()

    second = table.upsert(rows(*((n, "oslo", 1, "") for n in range(2, 100))))

    files = table.refresh().inspect.files().to_pylist()
    assert group in {file["file_id"] for file in files}
    assert all(file["instant"] == second.instant for file in files)
    room = (6000 - first.bytes) // 100
    assert len(files) == 1 + -(-(98 - room) // 60)
    assert len(stored(table)) == 99


def test_rows_are_not_packed_when_the_small_file_limit_is_zero() -> None:
    table = new_table(MemoryStorage(), **{**SMALL_FILES, "hoodie.parquet.small.file.limit": "0"})
    for n in range(3):
        table.insert(rows((n, "oslo", 1, "")))

    assert len(table.refresh().inspect.files()) == 3


def test_replaced_file_groups_stay_on_disk_and_are_invisible() -> None:
    table = filled()
    before = {file["path"] for file in table.inspect.files().to_pylist()}

    table.insert_overwrite_table(rows((9, "oslo", 1, "")))

    storage = table.handle.state.storage
    latest = load_view(storage, load_table(storage).timeline).latest
    visible = {one.base.path for group in latest.values() for one in group if one.base is not None}
    assert all(storage.info(path) is not None for path in before)
    assert not before & visible
    assert contents(storage) == {(9, "oslo", 1, "")}


# -- schema changes --------------------------------------------------------------------------------------------------


def table_with(*tables: pa.Table, **options: str) -> pyhudi.HudiTable:
    path = f"memory://evolving-{next(_numbers)}/t"
    described = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id", **options}
    for rows_ in tables:
        save(rows_, path, hudi_options=described)
    audit(open_storage(path, {}))
    return pyhudi.HudiTable.for_path(path)


@pytest.mark.parametrize("small_file_limit", ["0", "1000000"])
def test_a_column_added_later_is_null_in_older_rows_rewritten_or_not(small_file_limit: str) -> None:
    table = table_with(
        pa.table({"id": [1, 2], "a": ["x", "y"]}),
        pa.table({"id": [3], "a": ["z"], "b": [7]}),
        **{"hoodie.parquet.small.file.limit": small_file_limit},
    )

    assert values_of(table.scan().to_arrow(), ["id", "a", "b"]) == [(1, "x", None), (2, "y", None), (3, "z", 7)]
    past = table.scan(as_of=table.inspect.history().column("instant").to_pylist()[-1]).to_arrow()
    assert "b" not in past.column_names


@pytest.mark.parametrize("small_file_limit", ["0", "1000000"])
def test_a_widened_column_reads_in_its_new_type_rewritten_or_not(small_file_limit: str) -> None:
    narrow = {"a": pa.array([1], pa.int32()), "b": pa.array([2], pa.int32())}
    wide = {"a": pa.array([2**40]), "b": pa.array([0.5])}
    table = table_with(
        pa.table({"id": [1], **narrow}),
        pa.table({"id": [2], **wide}),
        **{"hoodie.parquet.small.file.limit": small_file_limit},
    )

    assert values_of(table.scan().to_arrow(), ["id", "a", "b"]) == [(1, 1, 2.0), (2, 2**40, 0.5)]


def test_an_integer_key_for_a_column_of_floats_finds_the_float() -> None:
    table = table_with(pa.table({"id": [1.0], "a": ["x"]}), pa.table({"id": [1], "a": ["y"]}))

    assert values_of(table.scan().to_arrow(), ["id", "a"]) == [(1.0, "y")]
    assert table.delete(pa.table({"id": [1]})).deleted == 1


def test_an_empty_batch_commits_nothing_but_is_a_write() -> None:
    table = filled()

    result = table.upsert(rows())

    assert (result.files, result.inserted) == (0, 0)
    assert stored(table) == list(TWO_GROUPS)


def test_partition_metadata_lies_in_each_partition() -> None:
    table = filled()

    for folder in ("city=oslo", "city=rome"):
        text = table.handle.state.storage.read(f"{folder}/.hoodie_partition_metadata").decode()
        assert "partitionDepth=1" in text


def test_the_table_reads_the_same_with_one_split_and_with_many() -> None:
    tables = []
    for engine in (SplitEngine(splits=1), SplitEngine(splits=5)):
        storage = MemoryStorage()
        table = rehandled(new_table(storage), engine=engine)
        table.upsert(rows(*((n % 17, ["oslo", "rome"][n % 2], n % 5, str(n)) for n in range(60))))
        table.upsert(rows(*((n % 23, ["oslo", "rome"][n % 2], n % 7, str(n)) for n in range(60))))
        audit(storage)
        tables.append(contents(storage))
        assert len(open_table(storage).scan().to_arrow()) == len(contents(storage))
    assert tables[0] == tables[1]
