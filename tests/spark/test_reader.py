"""A planned scan as a DataFrame over Spark's own Parquet reader; files and plans are made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.io.slices.files import SliceFiles
from pyhudi.io.slices.merged import MergeSettings
from pyhudi.merge.table_rules import TableRules
from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.spark.reads.reader import scan_frame
from pyhudi.storage.protocol import StorageSpec

DISCOVERY = "spark.sql.sources.parallelPartitionDiscovery.parallelism"


def put(folder: Path, path: str, rows: pa.Table) -> ScanSlice:
    """Write a file; its partition value is what follows `=` in its folder."""
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, target)
    partition = path.rpartition("/")[0]
    values = (("city", partition.partition("=")[2] or None),)
    return ScanSlice(SliceFiles(path, ()), target.stat().st_size, partition, values)


def plan(folder: Path | str, slices: list[ScanSlice], schema: pa.Schema, **more: Any) -> ScanPlan:
    return ScanPlan(
        storage=StorageSpec(str(folder)),
        uri=f"file:{folder}" if isinstance(folder, Path) else folder,
        slices=tuple(slices),
        schema=schema,
        commit_times=more.get("commit_times"),
        path_columns=more.get("path_columns", ()),
        merging=MergeSettings(schema=schema, rules=TableRules()),
    )


def rows_of(frame: Any) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]


def test_folder_names_neither_add_nor_override_columns(spark: Any, tmp_path: Path) -> None:
    file = put(tmp_path, "city=oslo/region=1/a.parquet", pa.table({"city": ["Bergen"]}))

    assert rows_of(scan_frame(spark, plan(tmp_path, [file], pa.schema([("city", pa.string())])))) == [
        {"city": "Bergen"}
    ]


@pytest.mark.parametrize("folder", ["city=a b", "city=%20", "city={x}*?[1]", "city=Tromsø", "city=a,b", "city=a+b;c"])
def test_characters_of_a_folder_are_taken_as_they_are(spark: Any, tmp_path: Path, folder: str) -> None:
    file = put(tmp_path / "my tables%41", f"{folder}/a.parquet", pa.table({"id": [1]}))

    frame = scan_frame(spark, plan(tmp_path / "my tables%41", [file], pa.schema([("id", pa.int64())])))

    assert rows_of(frame) == [{"id": 1}]


def test_older_files_read_under_the_newest_schema(spark: Any, tmp_path: Path) -> None:
    old = pa.table(
        {
            "number": pa.array([1], pa.int32()),
            "ratio": pa.array([0.5], pa.float32()),
            "trip": pa.array([{"km": 3}], pa.struct([("km", pa.int32())])),
        }
    )
    newest = pa.schema(
        [
            ("number", pa.int64()),
            ("ratio", pa.float64()),
            ("trip", pa.struct([("km", pa.int64()), ("fare", pa.decimal128(8, 2))])),
            ("tags", pa.list_(pa.string())),
        ]
    )
    files = [
        put(tmp_path, "old.parquet", old),
        put(tmp_path, "new.parquet", pa.Table.from_pylist([{"number": 1 << 40}], newest)),
    ]

    rows = rows_of(scan_frame(spark, plan(tmp_path, files, newest)).orderBy("number"))

    assert rows == [
        {"number": 1, "ratio": 0.5, "trip": {"km": 3, "fare": None}, "tags": None},
        {"number": 1 << 40, "ratio": None, "trip": None, "tags": None},
    ]


def test_scan_without_files_is_empty_with_the_schema(spark: Any, tmp_path: Path) -> None:
    frame = scan_frame(spark, plan(tmp_path, [], pa.schema([("id", pa.int64()), ("city", pa.string())])))

    assert frame.columns == ["id", "city"]
    assert rows_of(frame) == []


def test_incremental_scan_keeps_rows_of_its_commits_only(spark: Any, tmp_path: Path) -> None:
    rows = pa.table({"_hoodie_commit_time": ["1", "2", "3", None], "id": [1, 2, 3, 4]})
    file = put(tmp_path, "a.parquet", rows)

    frame = scan_frame(spark, plan(tmp_path, [file], rows.schema, commit_times=frozenset({"1", "3"})))

    assert [row["id"] for row in rows_of(frame)] == [1, 3]
    assert rows_of(scan_frame(spark, plan(tmp_path, [file], rows.schema, commit_times=frozenset()))) == []


def test_columns_that_files_leave_out_come_from_the_path(spark: Any, tmp_path: Path) -> None:
    files = [
        put(tmp_path, "city=1/a.parquet", pa.table({"id": [1]})),
        put(tmp_path, "city=2/b.parquet", pa.table({"id": [2]})),
        put(tmp_path, "c.parquet", pa.table({"id": [3]})),
    ]
    schema = pa.schema([("city", pa.int32()), ("id", pa.int64())])

    frame = scan_frame(spark, plan(tmp_path, files, schema, path_columns=("city",)))

    assert sorted(rows_of(frame), key=lambda row: row["id"]) == [
        {"city": 1, "id": 1},
        {"city": 2, "id": 2},
        {"city": None, "id": 3},
    ]
    assert [row["id"] for row in rows_of(frame.where("city = 2"))] == [2]


def test_predicate_on_the_file_path_opens_no_other_file(spark: Any, tmp_path: Path) -> None:
    rows = pa.table({"id": [1]})
    files = [put(tmp_path, f"city={n}/a.parquet", rows) for n in range(3)]
    frame = scan_frame(spark, plan(tmp_path, files, rows.schema))
    for other in (1, 2):
        (tmp_path / f"city={other}" / "a.parquet").write_bytes(b"no Parquet at all")

    assert frame.where("_metadata.file_path like '%/city=0/%'").count() == 1


def test_options_of_the_session_are_as_before(spark: Any, tmp_path: Path) -> None:
    rows = pa.table({"id": [1]})
    scan = plan(tmp_path, [put(tmp_path, "a.parquet", rows)], rows.schema)
    before = spark.conf.get(DISCOVERY)
    try:
        spark.conf.set(DISCOVERY, "123")
        scan_frame(spark, scan)
        assert spark.conf.get(DISCOVERY) == "123"
    finally:
        spark.conf.set(DISCOVERY, before)


def test_store_that_spark_cannot_reach_is_refused_by_name(spark: Any) -> None:
    schema = pa.schema([("id", pa.int64())])
    scan = plan("memory://here", [ScanSlice(SliceFiles("a.parquet", ()), 1, "")], schema)

    with pytest.raises(UnsupportedFeatureError, match="memory"):
        scan_frame(spark, scan)
