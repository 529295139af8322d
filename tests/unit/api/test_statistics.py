"""`inspect.stats` and what `explain` says of statistics: which files a condition skips, and that it does skip them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.tables import MOR, SCHEMA, new_table, open_table, rows

from pyhudi.errors import ConfigError, HistoryNotRetainedError
from pyhudi.format.schema.meta_columns import META_COLUMNS
from pyhudi.storage.memory import MemoryStorage
from pyhudi.testing.faults import FaultStorage

ALL = [*META_COLUMNS, *SCHEMA.names]


def two_partitions(**options: str) -> MemoryStorage:
    storage = MemoryStorage()
    table = new_table(storage, **options)
    table.insert(rows((1, "oslo", 1, "a"), (5, "oslo", 1, "c"), (7, "rome", 1, "b"), (9, "rome", 1, "d")))
    return storage


def test_stats_have_a_row_per_base_file_and_column_without_meta_columns() -> None:
    table = open_table(two_partitions())

    found = table.inspect.stats()

    assert found["column"].to_pylist() == ["id", "city", "ts", "note"] * 2
    first = found.slice(0, 1).to_pylist()[0]
    (file,) = [one for one in table.inspect.files().to_pylist() if one["partition_path"] == "city=oslo"]
    assert {name: first[name] for name in ("partition_path", "file_id", "path")} == {
        name: file[name] for name in ("partition_path", "file_id", "path")
    }
    assert {name: first[name] for name in ("rows", "nulls", "min", "max")} == {
        "rows": 2,
        "nulls": 0,
        "min": "1",
        "max": "5",
    }


def test_stats_of_named_columns_may_be_those_of_meta_columns() -> None:
    found = open_table(two_partitions()).inspect.stats(["_hoodie_record_key", "note"])

    assert found.select(["column", "min", "max"]).to_pylist()[2:] == [
        {"column": "_hoodie_record_key", "min": "7", "max": "9"},
        {"column": "note", "min": "b", "max": "d"},
    ]


def test_stats_of_a_column_that_is_not_there_are_refused() -> None:
    with pytest.raises(ConfigError, match="no such column"):
        open_table(two_partitions()).inspect.stats(["nope"])


def test_stats_of_a_table_without_files_have_no_rows() -> None:
    found = new_table(MemoryStorage()).inspect.stats()
    assert (found.num_rows, found.num_columns) == (0, 9)


def test_stats_of_a_table_with_logs_are_those_of_its_base_files() -> None:
    storage = two_partitions(**MOR)
    open_table(storage).upsert(rows((1, "oslo", 2, "z")))
    assert open_table(storage).inspect.stats("note")["max"].to_pylist() == ["c", "d"]


def many_files() -> MemoryStorage:
    """Eight base files in one partition, each with ten ids in a row; one row in each group."""
    storage = MemoryStorage()
    table = new_table(storage, **{"hoodie.parquet.small.file.limit": "0"})
    for number in range(8):
        table = table.refresh()
        table.insert(rows(*((number * 10 + n, "oslo", number, f"n{n}") for n in range(10))))
    return storage


def test_explanation_says_how_many_files_and_row_groups_statistics_skip() -> None:
    table = open_table(many_files())

    found = table.scan(where=[("id", "==", 34)]).explain()

    assert (found.base_files, found.files_skipped, found.row_groups, found.row_groups_of) == (8, 7, 1, 8)
    assert "row groups that statistics leave: 1 of 8" in str(found)
    assert "base files that they skip as a whole: 7 of 8" in str(found)
    assert table.scan(where=[("id", "in", [34, 35, 71])]).explain().files_skipped == 6
    assert table.scan(where=[("id", ">", 1000)]).explain().files_skipped == 8


def test_explanation_of_changes_counts_files_that_commit_times_rule_out() -> None:
    table = open_table(many_files())
    begin = table.inspect.history()["completion_time"][3].as_py()
    found = table.changes(begin).explain()
    assert (found.base_files - found.files_skipped, found.row_groups) == (3, 3)


def test_files_that_an_explanation_skips_are_read_no_further_than_their_footers() -> None:
    storage = many_files()
    scan = open_table(storage).scan(["note"], where=[("id", "==", 34)])
    (wanted,) = open_table(storage).inspect.stats("id").filter(pc.field("min") == "30")["path"].to_pylist()
    for path in scan.files()["path"].to_pylist():
        if path != wanted:
            data = storage.read(path)
            pages = sum(open_table(storage).inspect.stats(ALL).filter(pc.field("path") == path)["bytes"].to_pylist())
            storage.put(path, data[:4] + bytes(pages) + data[4 + pages :])
    assert scan.explain().files_skipped == 7
    assert scan.to_arrow().to_pylist() == [{"note": "n4"}]


def test_explanation_of_all_rows_opens_no_file() -> None:
    storage = FaultStorage(many_files())
    scan = open_table(storage).scan()
    before = len(storage.operations)

    found = scan.explain()

    assert len(storage.operations) == before
    assert (found.files_skipped, found.row_groups, found.row_groups_of) == (0, None, None)
    assert "statistics" not in str(found)


def test_slices_with_logs_are_not_skipped_by_statistics() -> None:
    storage = two_partitions(**MOR)
    open_table(storage).upsert(rows((1, "oslo", 2, "z")))
    found = open_table(storage).scan(where=[("note", "==", "z")]).explain()
    assert (found.base_files, found.merged, found.files_skipped, found.row_groups_of) == (2, 1, 1, 1)


def test_condition_that_nan_passes_skips_nothing() -> None:
    schema = pa.schema([("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64()), ("f", pa.float64())])
    table = new_table(schema=schema)
    table.insert(pa.table([[1, 2], ["oslo"] * 2, [1] * 2, [1.0, 1.0]], schema=schema))
    table = table.refresh()
    assert table.scan(where=[("f", "!=", 1.0)]).explain().files_skipped == 0
    assert table.scan(where=[("f", ">", 1.0)]).explain().files_skipped == 1


def test_explanation_of_a_file_that_is_gone_names_it() -> None:
    storage = many_files()
    scan = open_table(storage).scan(where=[("id", "==", 34)])
    storage.delete(scan.files()["path"][0].as_py())
    with pytest.raises(HistoryNotRetainedError, match="deleted since the read was planned"):
        scan.explain()
