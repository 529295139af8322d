"""What partition paths and footers tell of the columns of files."""

from __future__ import annotations

import datetime as dt
import io
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.tables import new_table, open_table

from pyhudi.config.read_config import ReadConfig
from pyhudi.io.slices.files import SliceFiles
from pyhudi.read.scan import ScanSlice, plan_table_scan
from pyhudi.read.skipping import file_bounds
from pyhudi.read.skipping.comparisons import Comparison
from pyhudi.read.skipping.file_bounds import FilePruner, FooterRanges
from pyhudi.read.skipping.predicates import AllOf, AnyOf, NullTest, Predicate
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.state import load_table

UTC = dt.UTC


def put(storage: MemoryStorage, path: str, rows: pa.Table, **more: Any) -> ScanSlice:
    data = io.BytesIO()
    pq.write_table(rows, data, **more)
    storage.put(path, data.getvalue())
    folder = path.rpartition("/")[0]
    values = tuple((part.partition("=")[0], part.partition("=")[2] or None) for part in folder.split("/") if part)
    return ScanSlice(SliceFiles(path, ()), len(data.getvalue()), folder, values)


def pruner(storage: MemoryStorage, schema: pa.Schema, *slices: ScanSlice) -> FilePruner:
    return FilePruner(slices, schema, FooterRanges(storage.spec, schema))


def equals(column: str, value: Any, kind: pa.DataType) -> Predicate:
    return Comparison(column, "==", pa.scalar(value, kind))


def column(kind: pa.DataType, *values: Any) -> pa.Table:
    return pa.table({"c": pa.array(values, kind)})


def test_partition_paths_leave_files_out_without_a_request() -> None:
    storage = MemoryStorage()
    schema = pa.schema([("city", pa.string()), ("n", pa.int32())])
    slices = [put(storage, f"city={city}/n={n}/a", pa.table({"x": [1]})) for city in ("oslo", "rome") for n in (1, 2)]
    for one in slices:
        storage.delete(str(one.files.base))
    files = pruner(storage, schema, *slices)

    assert files.matching(equals("city", "rome", pa.string())) == [2, 3]
    assert files.matching(AllOf((equals("city", "rome", pa.string()), equals("n", 1, pa.int32())))) == [2]
    assert files.matching(AnyOf((equals("city", "oslo", pa.string()), equals("n", 1, pa.int32())))) == [0, 1, 2]
    assert files.matching(Comparison("n", "<", pa.scalar(2, pa.int32()))) == [0, 2]


def test_the_folder_of_nulls_is_never_left_out_by_its_path() -> None:
    storage = MemoryStorage()
    schema = pa.schema([("city", pa.string())])
    empty = put(storage, "city=/a", pa.table({"city": [""]}))
    other = put(storage, "city=oslo/a", pa.table({"city": ["oslo"]}))
    assert empty.partition_values == (("city", None),)

    assert pruner(storage, schema, empty, other).matching(equals("city", "", pa.string())) == [0]
    assert pruner(storage, schema, empty, other).matching(NullTest("city", is_null=True)) == [0]


@pytest.mark.parametrize(
    ("kind", "values", "absent"),
    [
        (pa.bool_(), [True], False),
        (pa.int8(), [1, 3], 4),
        (pa.int64(), [1, 1 << 60], (1 << 60) + 1),
        (pa.float32(), [0.5, 2.5], 3.0),
        (pa.float64(), [0.1, 0.3], 0.4),
        (pa.string(), ["é", "\uffff"], "\U00010000"),
        (pa.date32(), [dt.date(2024, 1, 31)], dt.date(2024, 2, 1)),
        (pa.timestamp("us"), [dt.datetime(2024, 1, 1, 1, 1, 1, 7)], dt.datetime(2024, 1, 1, 1, 1, 1, 8)),
        (pa.timestamp("us", "UTC"), [dt.datetime(2024, 1, 1, tzinfo=UTC)], dt.datetime(2024, 1, 2, tzinfo=UTC)),
        (pa.timestamp("ms"), [dt.datetime(2024, 1, 1, 1, 1, 1, 7000)], dt.datetime(2024, 1, 1, 1, 1, 1, 8000)),
        (pa.decimal128(30, 3), [Decimal("-1.5"), Decimal("2.125")], Decimal("2.126")),
    ],
    ids=str,
)
def test_footers_leave_files_out_for_values_of_every_type(kind: pa.DataType, values: list[Any], absent: Any) -> None:
    storage = MemoryStorage()
    files = pruner(storage, pa.schema([("c", kind)]), put(storage, "a", column(kind, *values, None)))

    assert [files.matching(equals("c", value, kind)) for value in values] == [[0]] * len(values)
    assert files.matching(equals("c", absent, kind)) == []


@pytest.mark.parametrize(
    ("stored", "kind", "asked"),
    [
        (column(pa.int32(), 1, 2), pa.int64(), 3),
        (column(pa.float32(), 1.0, 2.0), pa.float64(), 3.0),
        (column(pa.decimal128(5, 1), Decimal("1.0")), pa.decimal128(9, 3), Decimal("1.001")),
    ],
    ids=["int", "float", "decimal"],
)
def test_bounds_of_narrower_types_of_older_files_count(stored: pa.Table, kind: pa.DataType, asked: Any) -> None:
    storage = MemoryStorage()
    files = pruner(storage, pa.schema([("c", kind)]), put(storage, "a", stored))

    assert files.matching(equals("c", asked, kind)) == []
    assert files.matching(equals("c", 1, kind)) == [0]


@pytest.mark.parametrize(
    ("stored", "kind", "asked"),
    [
        (column(pa.int64(), 1), pa.float64(), 5.0),
        (column(pa.int64(), 1), pa.string(), "5"),
        (column(pa.binary(), b"a"), pa.binary(), b"b"),
        (column(pa.timestamp("ns"), 1_500_000_000_000_000_001), pa.timestamp("us"), dt.datetime(2030, 1, 1)),
        (column(pa.timestamp("us"), dt.datetime(2024, 1, 1)), pa.timestamp("us", "UTC"), dt.datetime.now(UTC)),
        (column(pa.timestamp("us"), dt.datetime(1850, 1, 1)), pa.timestamp("us"), dt.datetime(2024, 1, 1)),
        (column(pa.date32(), dt.date(1500, 1, 1)), pa.date32(), dt.date(1500, 1, 10)),
        (pa.table({"C": [1]}), pa.int64(), 5),
        (pa.table({"other": [1]}), pa.int64(), 5),
    ],
    ids=[*("int as float", "int as text", "bytes", "nanoseconds", "no zone", "old time", "old date", "case", "absent")],
)
def test_bounds_that_may_mean_something_else_leave_no_file_out(stored: pa.Table, kind: pa.DataType, asked: Any) -> None:
    storage = MemoryStorage()
    files = pruner(storage, pa.schema([("c", kind)]), put(storage, "a", stored))

    assert files.matching(equals("c", asked, kind)) == [0]


def test_all_row_groups_count() -> None:
    storage = MemoryStorage()
    file = put(storage, "a", column(pa.int64(), 1, 2, None, None, 7, 8), row_group_size=2)
    files = pruner(storage, pa.schema([("c", pa.int64())]), file)

    assert files.matching(equals("c", 8, pa.int64())) == [0]
    assert files.matching(equals("c", 9, pa.int64())) == []
    assert files.matching(NullTest("c", is_null=True)) == [0]


def test_files_of_nulls_have_no_values_and_files_of_values_no_nulls() -> None:
    storage = MemoryStorage()
    nulls, values = put(storage, "a", column(pa.int64(), None)), put(storage, "b", column(pa.int64(), 1))
    files = pruner(storage, pa.schema([("c", pa.int64())]), nulls, values)

    assert files.matching(NullTest("c", is_null=True)) == [0]
    assert files.matching(NullTest("c", is_null=False)) == [1]
    assert files.matching(equals("c", 1, pa.int64())) == [1]


def test_files_without_statistics_are_not_left_out() -> None:
    storage = MemoryStorage()
    file = put(storage, "a", column(pa.int64(), 1), write_statistics=False)

    assert pruner(storage, pa.schema([("c", pa.int64())]), file).matching(equals("c", 5, pa.int64())) == [0]


def test_files_of_nan_alone_are_not_left_out() -> None:
    storage = MemoryStorage()
    file = put(storage, "a", column(pa.float64(), math.nan, math.nan))

    assert pruner(storage, pa.schema([("c", pa.float64())]), file).matching(equals("c", 5.0, pa.float64())) == [0]


def test_files_that_cannot_be_read_are_left_to_who_reads_the_rows() -> None:
    storage = MemoryStorage()
    damaged, gone = put(storage, "a", column(pa.int64(), 1)), put(storage, "b", column(pa.int64(), 1))
    storage.put("a", b"no Parquet")
    storage.delete("b")

    assert pruner(storage, pa.schema([("c", pa.int64())]), damaged, gone).matching(equals("c", 5, pa.int64())) == [0, 1]


def test_a_footer_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    file = put(storage, "a", pa.table({"c": [1], "d": [1]}))
    read: list[list[str]] = []
    real = file_bounds.read_bounds

    def noted(storage: Any, path: str, names: Any) -> Any:
        read.append(list(names))
        return real(storage, path, names)

    monkeypatch.setattr(file_bounds, "read_bounds", noted)
    schema = pa.schema([("c", pa.int64()), ("d", pa.int64())])

    for _ in range(2):
        assert pruner(storage, schema, file).matching(equals("c", 5, pa.int64())) == []
        assert pruner(storage, schema, file).matching(equals("d", 1, pa.int64())) == [0]
    assert read == [["c"], ["d"]]


def test_footers_of_too_many_files_are_left_to_the_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    schema = pa.schema([("c", pa.int64())])
    slices = [put(storage, str(number), column(pa.int64(), number)) for number in range(3)]
    monkeypatch.setattr(file_bounds, "FOOTERS_MAX", 2)

    assert pruner(storage, schema, *slices).matching(equals("c", 1, pa.int64())) == [0, 1, 2]
    assert pruner(storage, schema, *slices[:2]).matching(equals("c", 1, pa.int64())) == [1]


def indexed_table() -> MemoryStorage:
    """Nine files in one folder, whose columns the metadata table knows."""
    storage = MemoryStorage()
    schema = pa.schema([("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64()), ("x", pa.float64())])
    new_table(storage, schema=schema)
    options = {
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.clean.automatic": "false",
    }
    for number in range(9):
        ids = [10 * number, 10 * number + 1]
        rows = {"id": ids, "city": ["oslo"] * 2, "ts": ids, "x": [float(one) for one in ids]}
        open_table(storage, **options).insert(pa.table(rows, schema=schema))
    return storage


@pytest.mark.parametrize(
    ("predicate", "ids"),
    [
        (equals("ts", 41, pa.int64()), [40]),
        (Comparison("x", "<", pa.scalar(10.0)), [0]),
        (Comparison("id", "in", (pa.scalar(1), pa.scalar(81))), [0, 80]),
        (AllOf((equals("ts", 20, pa.int64()), equals("place", 1, pa.int64()))), [20]),
        (AnyOf((equals("ts", 20, pa.int64()), equals("place", 1, pa.int64()))), [0, 10, 20, 30, 40, 50, 60, 70, 80]),
        (NullTest("ts", is_null=True), []),
    ],
    ids=["==", "<", "in", "and", "or", "null"],
)
def test_statistics_of_the_metadata_table_spare_the_footers(
    predicate: Predicate, ids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = indexed_table()
    plan = plan_table_scan(load_table(storage), ReadConfig.from_options({}))
    files = FilePruner(plan.slices, plan.schema, FooterRanges(plan.storage, plan.schema), plan)
    monkeypatch.setattr(file_bounds, "read_bounds", no_footer)

    kept = files.matching(predicate, {"place": pa.array([1] * 9)})

    assert sorted(first_id(storage, plan.slices[number]) for number in kept) == ids


def no_footer(*arguments: object) -> None:
    raise AssertionError(arguments)


def first_id(storage: MemoryStorage, one: ScanSlice) -> int:
    first: int = pq.read_table(io.BytesIO(storage.read(str(one.files.base)))).column("id")[0].as_py()
    return first


def test_statistics_of_the_metadata_table_know_no_file_of_another_plan() -> None:
    storage = indexed_table()
    plan = plan_table_scan(load_table(storage), ReadConfig.from_options({}))
    others = tuple(replace(one, files=SliceFiles(f"{one.files.base}x", ())) for one in plan.slices)
    files = FilePruner(others, plan.schema, FooterRanges(plan.storage, plan.schema), plan)

    assert files.matching(equals("ts", 41, pa.int64())) == list(range(9))
