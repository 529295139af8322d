"""`Scan`: one read, in all the forms in which it can be had."""

from __future__ import annotations

import importlib.util
import sys
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.tables import MOR, new_table, open_table, rows

import pyhudi
from pyhudi.errors import ConfigError, HistoryNotRetainedError, UnsupportedFeatureError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.testing.faults import FaultStorage

FIRST = ((1, "oslo", 1, "a"), (2, "oslo", 1, "b"), (3, "rome", 1, "c"))


def written(**kind: str) -> MemoryStorage:
    """Three records, of which two are updated, and one is deleted."""
    storage = MemoryStorage()
    table = new_table(storage, **kind)
    table.insert(rows(*FIRST))
    table.upsert(rows((1, "oslo", 2, "x"), (3, "rome", 2, "y")))
    table.delete(rows((2, "oslo", 3, "")))
    return storage


KINDS = pytest.mark.parametrize("kind", [{}, MOR], ids=["copy-on-write", "merge-on-read"])


@KINDS
def test_every_form_of_a_scan_has_the_same_rows(kind: dict[str, str]) -> None:
    scan = open_table(written(**kind)).scan(["id", "note"], [("id", "<", 9)])

    rows_ = scan.to_arrow().sort_by("id")
    assert rows_.to_pylist() == [{"id": 1, "note": "x"}, {"id": 3, "note": "y"}]
    assert pa.Table.from_batches(scan.to_batches(), scan.schema).sort_by("id") == rows_
    assert scan.to_pandas().sort_values("id").to_dict("records") == rows_.to_pylist()
    assert scan.to_polars().sort("id").to_dicts() == rows_.to_pylist()
    assert scan.count() == 2
    assert scan.schema == rows_.schema


@KINDS
@pytest.mark.parametrize("where", [None, [("id", "<", 9)]])
def test_scan_of_no_columns_has_the_number_of_rows(where: Any, kind: dict[str, str]) -> None:
    scan = open_table(written(**kind)).scan([], where)

    assert scan.to_arrow().num_rows == 2
    assert sum(batch.num_rows for batch in scan.to_batches()) == 2
    assert scan.to_arrow().num_columns == 0


@pytest.mark.skipif(importlib.util.find_spec("duckdb") is None, reason="duckdb is not installed")
def test_scan_becomes_a_view_of_a_duckdb_connection() -> None:
    import duckdb

    scan = open_table(written()).scan(["id", "note"])
    question = "SELECT note FROM trips ORDER BY id"

    assert scan.to_duckdb("trips").sql(question).fetchall() == [("x",), ("y",)]
    mine = duckdb.connect()
    assert scan.to_duckdb("trips", mine) is mine
    assert mine.sql(question).fetchall() == [("x",), ("y",)]


@pytest.mark.parametrize("package", ["pandas", "polars", "duckdb"])
def test_form_whose_package_is_missing_says_what_to_install(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    scan = open_table(written()).scan()

    forms = {"pandas": scan.to_pandas, "polars": scan.to_polars, "duckdb": lambda: scan.to_duckdb("t")}
    with pytest.raises(UnsupportedFeatureError, match=rf"to_{package} needs {package}: pip install .*{package}"):
        forms[package]()


@KINDS
@pytest.mark.parametrize(
    ("asked", "count"),
    [
        ({}, 2),
        ({"where": [("city", "==", "rome")]}, 1),
        ({"where": pc.field("note") == "nothing"}, 0),
        ({"columns": []}, 2),
        ({"query_type": "read_optimized"}, {"COPY_ON_WRITE": 2, "MERGE_ON_READ": 3}),
    ],
    ids=["all", "partition", "expression", "no columns", "read optimized"],
)
def test_count_is_the_number_of_rows_that_are_read(asked: dict[str, Any], count: Any, kind: dict[str, str]) -> None:
    table = open_table(written(**kind))
    wanted = count[table.inspect.detail().type] if isinstance(count, dict) else count

    assert table.scan(**asked).count() == wanted
    assert table.scan(**{**asked, "columns": ["id"]}).to_arrow().num_rows == wanted


@KINDS
def test_count_of_changes_and_of_past_rows_is_that_of_their_rows(kind: dict[str, str]) -> None:
    table = open_table(written(**kind))
    times = table.inspect.history().to_pylist()

    assert table.changes(times[2]["completion_time"], times[1]["completion_time"]).count() == 2
    assert table.changes().count() == table.changes("earliest").count() == 2
    assert table.scan(as_of=times[2]["instant"]).count() == 3


@pytest.mark.parametrize("zone", ["UTC", "LOCAL"])
def test_moment_with_a_time_zone_means_the_same_in_every_zone_of_instants(zone: str) -> None:
    table = new_table(**{"hoodie.table.timeline.timezone": zone, "hoodie.table.cdc.enabled": "true"})
    first = table.insert(rows((1, "oslo", 1, "a")))
    table.refresh().insert(rows((2, "oslo", 1, "b")))
    done = first.completion_time or ""
    naive = datetime.strptime(f"{done}000", "%Y%m%d%H%M%S%f")
    moment = naive.replace(tzinfo=UTC) if zone == "UTC" else naive.astimezone()
    moment = moment.astimezone(ZoneInfo("Asia/Kolkata"))

    for given in (moment, moment.isoformat(), pd.Timestamp(moment)):
        assert table.scan(as_of=given).count() == 1
        assert table.changes(begin=given).count() == 1
        assert table.changes(end=given, format="cdc_typed").count() == 1
        assert table.diff(given)["op"].to_pylist() == ["i"]
    assert table.scan(as_of=moment - timedelta(days=1)).count() == 0


@pytest.mark.parametrize("call", ["as_of", "begin"])
def test_moment_without_a_time_zone_is_refused_with_what_to_do(call: str) -> None:
    table = new_table()
    naive = datetime(2026, 1, 31, 10)
    with pytest.raises(ConfigError, match=f"{call} has no time zone: give it one, such as {call}.replace"):
        table.scan(as_of=naive) if call == "as_of" else table.changes(begin=naive)


def test_count_without_a_condition_reads_one_footer_for_each_base_file() -> None:
    storage = FaultStorage(written())
    scan = open_table(storage).scan()
    before = len(storage.operations)

    assert scan.count() == 2

    assert [operation.name for operation in storage.operations[before:]] == ["open_input"] * 2


def test_count_of_a_table_that_was_never_written_to_is_zero() -> None:
    assert new_table(MemoryStorage()).scan().count() == 0


def test_count_of_a_file_that_is_gone_names_it() -> None:
    storage = written()
    scan = open_table(storage).scan()
    storage.delete(scan.files()["path"][0].as_py())

    with pytest.raises(HistoryNotRetainedError, match="deleted since the read was planned"):
        scan.count()


@KINDS
def test_files_are_those_of_the_partitions_that_the_condition_leaves(kind: dict[str, str]) -> None:
    table = open_table(written(**kind))

    files = table.scan(where=[("city", "==", "rome")]).files().to_pylist()

    of_table = [file for file in table.inspect.files().to_pylist() if "rome" in file["partition_path"]]
    assert files == [{name: file[name] for name in files[0]} for file in of_table]
    assert all(file["logs"] == [] for file in table.scan(query_type="read_optimized").files().to_pylist())


def test_explanation_says_what_is_read_and_why_not_the_rest() -> None:
    table = open_table(written(**MOR))
    newest = table.inspect.history(1).to_pylist()[0]

    found = table.scan(["id"], [("city", "==", "rome")]).explain()

    assert (found.query, found.as_of, found.columns) == ("snapshot", newest["instant"], ("id",))
    assert (found.base_files, found.base_files_of, found.logs, found.merged) == (1, 2, 1, 1)
    assert (found.partitions, found.partitions_left_out) == (("city=rome",), ("city=oslo",))
    assert 0 < found.bytes < found.bytes_of == table.inspect.detail().bytes
    assert "left out, as their paths rule the condition out: city=oslo" in str(found)
    assert "merged: 1 file slices with logs, by EVENT_TIME_ORDERING" in str(found)


def test_explanation_of_changes_has_their_range_and_of_a_moment_its_time() -> None:
    table = open_table(written())
    times = table.inspect.history().to_pylist()

    changes = table.changes(times[2]["completion_time"], times[0]["completion_time"]).explain()
    past = table.scan(as_of=times[1]["instant"], query_type="read_optimized").explain()

    assert (changes.query, changes.as_of) == ("incremental", None)
    assert (changes.begin, changes.end) == (times[2]["completion_time"], times[0]["completion_time"])
    assert (past.query, past.as_of, past.begin, past.end) == ("read_optimized", times[1]["instant"], None, None)
    assert str(table.changes().explain()).startswith(f"changes of {past.uri} after the beginning until it was opened")
    assert str(new_table(MemoryStorage()).scan().explain()).splitlines()[0].endswith("before its first write")


@pytest.mark.parametrize("captures", [False, True])
def test_explanation_of_changes_says_what_a_follower_misses(captures: bool) -> None:
    table = open_table(written(**({"hoodie.table.cdc.enabled": "true"} if captures else {})))

    found = table.changes(format="latest_state").explain()

    assert found.misses is not None
    assert found.misses in str(found)
    assert found.misses.startswith("rows that were deleted")
    assert ("format='cdc'" in found.misses) == captures
    assert table.scan().explain().misses is None


def test_text_of_an_explanation_names_ten_partitions_at_most() -> None:
    table = new_table(MemoryStorage())
    table.insert(rows(*((number, f"c{number:02}", 1, "") for number in range(13))))

    found = table.refresh().scan(where=[("city", "==", "c00")]).explain()

    assert len(found.partitions_left_out) == 12
    assert str(found).count("city=") == 10
    assert "city=c10, and 2 more" in str(found)


@pytest.mark.parametrize(
    "asked", [{"columns": ["nope"]}, {"where": [("nope", "==", 1)]}, {"where": pc.field("id")}], ids=str
)
def test_scan_that_cannot_be_read_is_refused_where_it_is_made(asked: dict[str, Any]) -> None:
    table = open_table(written())
    for make in (table.scan, table.changes):
        with pytest.raises(ConfigError):
            make(**asked)


def test_scan_can_be_read_again_and_answers_from_the_moment_when_the_table_was_opened() -> None:
    storage = written()
    scan = open_table(storage).scan(["id"])
    open_table(storage).insert(rows((9, "oslo", 1, "n")))

    assert [scan.count(), scan.to_arrow().num_rows, scan.count()] == [2, 2, 2]


def test_representation_of_a_scan_has_no_options_of_the_table() -> None:
    storage = written()
    table = open_table(storage, **{"fs.s3a.secret.key": "hush"})

    assert "hush" not in repr(table.scan()) + repr(table) + str(table.scan().explain())
    assert repr(table.scan(["id"], [("id", "==", 1)])) == "Scan('t', 1 column, where [('id', '==', 1)], 2 file slices)"


def test_scan_is_frozen() -> None:
    scan: Any = open_table(written()).scan()
    with pytest.raises(AttributeError):
        scan.columns = ("id",)
    assert isinstance(scan, pyhudi.Scan)
