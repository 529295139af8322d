"""Skipping of files by the metadata table: the same rows of fewer files, and a reason where there are not fewer."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.tables import new_table, open_table

import pyhudi
from pyhudi.errors import MetadataTableWarning
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.testing.faults import FaultStorage

_OPTIONS = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clean.automatic": "false",
}
_OFF = {"hoodie.enable.data.skipping": "false"}
_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("city", pa.string()),
        ("ts", pa.int64()),
        ("x", pa.float64()),
        ("note", pa.string()),
        ("nested", pa.struct([("a", pa.int64())])),
    ]
)
_CITIES = ("bern", "oslo")
_NAN = float("nan")


def _rows(first: int, city: str, **values: Any) -> pa.Table:
    """Three rows with ids and times from `first` on."""
    ids = [first, first + 1, first + 2]
    columns = {
        "id": ids,
        "city": [city] * 3,
        "ts": ids,
        "x": [float(one) for one in ids],
        "note": [f"n{one}" for one in ids],
        "nested": [{"a": one} for one in ids],
    }
    return pa.table({**columns, **values}, schema=_SCHEMA)


def _table(kind: str = "cow", version: int = 9) -> Storage:
    """Five files of three rows in each of two partitions."""
    table_type = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[kind]
    storage = MemoryStorage()
    new_table(storage, version=version, schema=_SCHEMA, **{"hoodie.datasource.write.table.type": table_type})
    for number in range(5):
        both = [_rows(100 * number + 1000 * at, city) for at, city in enumerate(_CITIES)]
        open_table(storage, **_OPTIONS).insert(pa.concat_tables(both))
    return storage


def _checked(storage: Storage, where: Any, *, as_of: str | None = None, **options: str) -> tuple[int, pa.Table]:
    """How many base files a scan reads, and its rows, which are those without skipping."""
    scan = open_table(storage, **options).scan(where=where, as_of=as_of)
    found = scan.to_arrow()
    whole = open_table(storage, **_OFF).scan(where=where, as_of=as_of).to_arrow()
    assert sorted(found["id"].to_pylist()) == sorted(whole["id"].to_pylist())
    assert scan.count() == whole.num_rows
    return scan.explain().base_files, found


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_files_without_a_matching_row_are_left_out(kind: str, version: int) -> None:
    storage = _table(kind, version)

    assert _checked(storage, [("ts", "==", 201)])[0] == 1
    assert _checked(storage, [("ts", ">=", 300), ("ts", "<", 1000)])[0] == 2
    assert _checked(storage, [("note", "in", ["n100", "n1402"])])[0] == 3, "n0 to n2, too"
    assert _checked(storage, [("x", "<", 1.5)])[0] == 1
    assert _checked(storage, pc.field("note").is_null())[0] == 0
    assert _checked(storage, [[("ts", "==", 1)], [("id", "==", 1202)]])[0] == 2


def test_no_file_that_is_left_out_is_opened() -> None:
    storage = FaultStorage(_table())
    storage.operations.clear()

    found = open_table(storage).scan(where=[("ts", "==", 201)]).to_arrow()

    assert found["id"].to_pylist() == [201]
    opened = {one.path for one in storage.operations if one.path.endswith(".parquet")}
    assert len(opened) == 1


def test_partitions_are_left_out_before_statistics_of_their_files_are_read() -> None:
    explanation = open_table(_table()).scan(where=[("ts", ">", 1300)]).explain()

    of_partitions, of_files = explanation.indexes
    assert (of_partitions.index, of_partitions.file_slices, of_partitions.columns) == ("partition_stats", 5, ("ts",))
    assert (of_files.index, of_files.file_slices, of_files.columns) == ("column_stats", 3, ("ts",))
    assert explanation.partitions_left_out == ("city=bern",)
    assert "column_stats: 3 file slices left out by ts" in str(explanation)


@pytest.mark.parametrize(("column", "value"), [("x", 1300.0), ("note", "n13")])
def test_partition_statistics_that_may_be_false_are_not_read_and_why_is_said(column: str, value: object) -> None:
    storage = FaultStorage(_table())
    storage.operations.clear()

    explanation = open_table(storage).scan(where=[(column, ">", value)]).explain()

    of_partitions, of_files = explanation.indexes
    assert (of_partitions.index, of_partitions.file_slices, of_partitions.columns) == ("partition_stats", 0, ())
    assert f"may be false for the types of {column}" in str(of_partitions.note)
    assert of_files.file_slices > 0
    assert not [one.path for one in storage.operations if "/partition_stats/" in one.path and one.name == "open_input"]


def test_logs_widen_what_is_known_of_their_slice() -> None:
    storage = _table("mor")
    open_table(storage, **_OPTIONS).upsert(_rows(200, "bern", ts=[5000, 5001, 5002]))

    files, found = _checked(storage, [("ts", "==", 5001)])

    assert (files, found["id"].to_pylist()) == (1, [201])
    assert _checked(storage, [("ts", "==", 201)])[1].num_rows == 0


def test_a_log_of_deletes_does_not_keep_its_slice() -> None:
    storage = _table("mor")
    open_table(storage, **_OPTIONS).delete(pa.table({"id": [200], "city": ["bern"]}))

    assert _checked(storage, [("ts", "==", 1)])[0] == 1
    assert _checked(storage, [("ts", "==", 201)])[0] == 1


def test_time_travel_and_changes_use_statistics_of_their_own_files() -> None:
    storage = _table()
    before = open_table(storage).inspect.last_write().instant
    open_table(storage, **_OPTIONS).upsert(_rows(200, "bern", ts=[7000, 7001, 7002]))

    then = _checked(storage, [("ts", "==", 201)], as_of=before)
    changes = open_table(storage).changes(before, where=[("ts", "==", 7001)])

    assert (then[0], then[1].num_rows) == (1, 1)
    assert _checked(storage, [("ts", "==", 201)])[1].num_rows == 0
    assert changes.to_arrow()["id"].to_pylist() == [201]


def test_nan_and_nulls_and_columns_of_later_are_never_lost() -> None:
    storage = _table()
    open_table(storage, **_OPTIONS).insert(_rows(3000, "oslo", x=[_NAN, 5.0, None], note=[None, "n", "z" * 3000]))
    wider = _rows(4000, "oslo").append_column("later", pa.array([1, None, 3]))
    open_table(storage, **_OPTIONS).insert(wider)

    assert _checked(storage, [("x", "==", 5.0)])[1]["id"].to_pylist() == [3001]
    assert _checked(storage, [("x", "!=", 5.0)])[1].num_rows == 34
    assert _checked(storage, pc.field("note").is_null())[0] == 1
    assert _checked(storage, [("note", ">", "x")])[1]["id"].to_pylist() == [3002]
    assert _checked(storage, [("later", "==", 3)])[1]["id"].to_pylist() == [4002]
    assert _checked(storage, pc.field("later").is_null())[1].num_rows == 34
    assert _checked(storage, [[("later", "==", 3)], [("ts", "==", 201)]])[1].num_rows == 2


def test_nan_of_a_later_write_widens_the_bounds_of_its_partition() -> None:
    storage = MemoryStorage()
    new_table(storage, schema=_SCHEMA)
    for number in range(10):
        x = [_NAN] * 3 if number == 9 else [5.0] * 3
        open_table(storage, **_OPTIONS).insert(_rows(100 * number, "oslo", x=x))

    assert _checked(storage, [("x", "!=", 5.0)])[1].num_rows == 3
    assert open_table(storage, **_OPTIONS).inspect.metadata_check().num_rows == 0


def test_nulls_of_a_partition_are_found_after_a_text_that_makes_its_bounds_wide() -> None:
    storage = MemoryStorage()
    new_table(storage, schema=_SCHEMA)
    for number in range(10):
        note = ["\U0001f600"] * 3 if number == 9 else [None] * 3
        open_table(storage, **_OPTIONS).insert(_rows(100 * number, "oslo", note=pa.array(note, pa.string())))

    assert _checked(storage, pc.field("note").is_null())[1].num_rows == 27
    # Readers ask the statistics of files, too, so that only the check sees a false count of nulls.
    assert open_table(storage, **_OPTIONS).inspect.metadata_check().to_pylist() == []


@pytest.mark.parametrize("act", ["log compaction", "wider type"])
def test_rows_of_a_base_file_are_in_the_bounds_of_its_partition_after_logs_were_added(act: str) -> None:
    storage = MemoryStorage()
    narrow = _SCHEMA.set(2, pa.field("ts", pa.int32()))
    new_table(storage, schema=narrow, **{"hoodie.datasource.write.table.type": "MERGE_ON_READ"})
    options = {**_OPTIONS, "hoodie.compact.inline": "false"}
    for number in range(9):
        open_table(storage, **options).insert(_rows(100 * number, "oslo").cast(narrow))
    for moment in (5000, 6000):
        for number in range(9):
            changed = _rows(100 * number, "oslo", ts=[moment] * 3).slice(0, 1)
            wide = moment == 6000 and act == "wider type"
            open_table(storage, **options).upsert(changed if wide else changed.cast(narrow))
    if act == "log compaction":
        open_table(storage, **options).services.compact_logs(
            hudi_options={"hoodie.log.compaction.blocks.threshold": "2"}
        )

    assert _checked(storage, [("ts", "==", 201)])[1]["id"].to_pylist() == [201]
    assert open_table(storage, **options).inspect.metadata_check().to_pylist() == []


def test_rows_older_than_a_column_are_found_by_their_nulls() -> None:
    storage = _table()
    wider = _rows(4000, "oslo").append_column("later", pa.array([1, 2, 3]))
    open_table(storage, **_OPTIONS).insert(wider)

    assert _checked(storage, pc.field("later").is_null())[1].num_rows == 30
    assert _checked(storage, [("later", ">", 2)])[1].num_rows == 1


def test_an_evolved_column_is_compared_by_its_new_type() -> None:
    storage = MemoryStorage()
    narrow = _SCHEMA.set(2, pa.field("ts", pa.int32()))
    new_table(storage, schema=narrow)
    for number in range(8):
        open_table(storage, **_OPTIONS).insert(_rows(100 * number, "oslo").cast(narrow))
    open_table(storage, **_OPTIONS).insert(_rows(5000, "oslo", ts=[2**40, 2**40 + 1, 7]))

    assert _checked(storage, [("ts", "==", 2**40)])[0] == 1
    assert _checked(storage, [("ts", "==", 701)])[0] == 2
    assert _checked(storage, [("ts", "<", 5)])[0] == 1


def test_a_condition_on_columns_with_and_without_statistics_is_decided_by_those_with() -> None:
    storage = _table()
    nested = pc.field("nested", "a")

    assert _checked(storage, (nested == 201) & (pc.field("ts") < 500))[0] == 5
    assert _checked(storage, (nested == 201) | (pc.field("ts") > 1400))[0] == 10


@pytest.mark.parametrize(
    ("options", "where", "note"),
    [
        (_OFF, [("ts", "==", 1)], "hoodie.enable.data.skipping=false"),
        ({}, [("x", "!=", 1.0)], "NaN passes it"),
        ({}, pc.field("nested", "a") == 1, "it has no statistics of nested"),
    ],
    ids=["switched off", "NaN", "nested"],
)
def test_explanation_says_why_nothing_is_left_out(options: dict[str, str], where: Any, note: str) -> None:
    explanation = open_table(_table(), **options).scan(where=where).explain()

    assert explanation.base_files == explanation.base_files_of == 10
    assert note in (explanation.indexes[-1].note or "")
    assert note in str(explanation)


def test_a_damaged_metadata_table_leaves_nothing_out() -> None:
    storage = _table()
    folder = ".hoodie/metadata/column_stats"
    for info in storage.list_folder(folder).files:
        storage.put(info.path, storage.read(info.path)[: info.size // 2])

    scan = open_table(storage).scan(where=[("ts", "==", 201)])

    with pytest.warns(MetadataTableWarning, match=r"indexes\.refresh\('column_stats'\)"):
        assert scan.to_arrow()["id"].to_pylist() == [201]
    assert scan.explain().base_files == 5, "statistics of partitions are whole"
    assert "cannot be read" in (scan.explain().indexes[-1].note or "")


def test_a_table_without_statistics_says_so() -> None:
    storage = MemoryStorage()
    new_table(storage, schema=_SCHEMA)
    open_table(storage).insert(_rows(0, "oslo"))

    (use,) = open_table(storage).scan(where=[("ts", "==", 1)]).explain().indexes

    assert use == pyhudi.IndexUse(index="column_stats", note="the table has no column statistics")
