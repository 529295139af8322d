"""Clusterings along curves, and those that copy row groups: rows stay as they are, searches read fewer files."""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.audit import audit
from tests.support.crashes import assert_nothing_left_over, crash_images, opened
from tests.support.table_builder import TableBuilder
from tests.support.tables import DELETE_FLAG, contents, new_table, open_table, rows

from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage

PREFIX = "hoodie.clustering.plan.strategy."
LAYOUT = "hoodie.layout.optimize.strategy"
APART = {"hoodie.parquet.small.file.limit": "0"}
COPY = {"hoodie.clustering.execution.strategy.class": "SparkBinaryCopyClusteringExecutionStrategy"}
EVERY_TABLE = [TableBuilder(version, kind, options=APART) for version in (9, 8, 6) for kind in ("cow", "mor")]
every_table = pytest.mark.parametrize("table", EVERY_TABLE, ids=str)
every_layout = pytest.mark.parametrize("layout", ["LINEAR", "ZORDER", "HILBERT"])


def stored(storage: Storage) -> list[dict[str, Any]]:
    """All rows with all meta columns but the name of the file."""
    found = open_table(storage).scan().to_arrow().drop_columns(["_hoodie_file_name"]).to_pylist()
    return sorted(found, key=lambda row: row["id"])


def along(layout: str, columns: str = "note,id") -> dict[str, str]:
    return {LAYOUT: layout, f"{PREFIX}sort.columns": columns}


# ----- curves ---------------------------------------------------------------------------------------------------------


@every_layout
@every_table
def test_deleted_rows_stay_deleted_and_others_as_they_are_in_every_layout(table: TableBuilder, layout: str) -> None:
    storage = (
        table.insert((1, "oslo", 1, "d"), (2, "oslo", 1, "b"))
        .insert((3, "oslo", 1, "a"), (4, "rome", 1, "c"))
        .upsert((1, "oslo", 2, "c"))
        .delete((2, "oslo", 5, ""))
        .build()
    )
    before = stored(storage)

    (done,) = table.open(storage).services.cluster(hudi_options=along(layout)).to_pylist()

    assert [row["id"] for row in before] == [1, 3, 4]
    assert stored(storage) == before
    assert (done["files"], done["rows"]) == (2, 3)
    table.open(storage).upsert(rows((3, "oslo", 6, "new")))
    assert contents(storage) == {(1, "oslo", 2, "c"), (3, "oslo", 6, "new"), (4, "rome", 1, "c")}


NUMBERS = pa.schema(
    [("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64()), ("a", pa.float64()), ("b", pa.int64())]
)


def table_of_numbers(a: list[Any], b: list[Any], *, parts: int = 2) -> MemoryStorage:
    """Rows in `parts` files."""
    storage = MemoryStorage()
    table = new_table(storage, schema=NUMBERS, **APART)
    count = len(a)
    whole = pa.table(
        [range(count), ["oslo"] * count, [1] * count, pa.array(a, pa.float64()), pa.array(b, pa.int64())],
        schema=NUMBERS,
    )
    for part in range(parts):
        table.refresh().insert(whole.slice(part * -(-count // parts), -(-count // parts)))
    return storage


@every_layout
@pytest.mark.parametrize(
    "values",
    [[None] * 6, [None, 1.0, None, -1.0, None, 2.0], [math.nan, None, 1.0, math.nan, -math.inf, 2.0], [0.0, -0.0] * 3],
    ids=["all null", "half null", "NaN", "both zeros"],
)
def test_null_nan_and_zeros_have_their_place_in_every_layout(layout: str, values: list[Any]) -> None:
    storage = table_of_numbers(values, [1] * 6)
    # A Hilbert curve does not keep the order of one column where others are equal.
    open_table(storage).services.cluster(hudi_options=along(layout, "a" if layout == "HILBERT" else "a,b"))

    found = open_table(storage).scan(["a", "id"]).to_arrow()

    def place(value: float | None) -> tuple[int, float]:
        return (0, 0.0) if value is None else (2, 0.0) if math.isnan(value) else (1, value)

    assert len(found) == 6
    assert sorted(found["id"].to_pylist()) == list(range(6))
    assert [place(value) for value in found["a"].to_pylist()] == sorted(map(place, values))


@every_layout
@pytest.mark.parametrize("count", [0, 1, 2])
def test_groups_of_a_few_rows_are_clustered_in_every_layout(layout: str, count: int) -> None:
    table = TableBuilder(options=APART).insert((0, "oslo", 1, "b")).insert((1, "oslo", 1, "a"))
    storage = table.build()
    table.open(storage).delete(rows(*((n, "oslo", 2, "") for n in range(2 - count))))
    (done,) = table.open(storage).services.cluster(hudi_options=along(layout)).to_pylist()
    assert (done["files"], done["rows"]) == (min(count, 1), count)
    assert open_table(storage).scan().count() == count


def test_layout_of_a_plan_holds_for_the_process_that_executes_it() -> None:
    numbers = np.random.default_rng(5).permutation(1024)
    a, b = (numbers % 32).astype(float), numbers // 32
    found = {}
    for layout in ("LINEAR", "ZORDER"):
        storage = table_of_numbers(a.tolist(), b.tolist())
        table = open_table(storage)
        planned = table.services.schedule("clustering", hudi_options=along(layout, "a,b"))
        table.refresh().services.run(str(planned))
        found[layout] = open_table(storage).scan(["a", "b"]).to_arrow()
    assert found["LINEAR"]["a"].to_pylist() == sorted(a.tolist())
    first = found["ZORDER"].slice(0, 256)
    assert max(first["a"].to_pylist()) < 17
    assert max(first["b"].to_pylist()) < 17


@pytest.mark.parametrize(("layout", "skipped"), [("LINEAR", 0.05), ("ZORDER", 0.7), ("HILBERT", 0.75)])
def test_searches_in_either_column_skip_files_after_a_clustering_along_a_curve(layout: str, skipped: float) -> None:
    numbers = np.random.default_rng(5).permutation(128 * 128)
    storage = table_of_numbers((numbers % 128).astype(float).tolist(), (numbers // 128).tolist())
    where = [[("a", "==", 40.0)], [("b", "==", 70)]]
    assert open_table(storage).scan(where=where).explain().files_skipped == 0

    small = {f"{PREFIX}target.file.max.bytes": "4500"}
    (done,) = open_table(storage, **small).services.cluster(hudi_options=along(layout, "a,b")).to_pylist()

    after = open_table(storage).scan(where=where)
    found = after.explain()
    assert done["files"] == found.base_files_of > 90
    share = found.files_skipped / found.base_files_of
    assert share < skipped if layout == "LINEAR" else share > skipped
    assert after.count() == 255


def test_unknown_layout_in_a_plan_is_refused_and_the_plan_stays() -> None:
    table = TableBuilder(options=APART).insert((1, "oslo", 1, "b")).insert((2, "oslo", 1, "a"))
    storage = table.build()
    planned = table.open(storage).services.schedule("clustering", hudi_options=along("ZORDER"))
    (path,) = (info.path for info in storage.list_recursive(".hoodie/timeline") if "clustering" in info.name)
    storage.put(path, storage.read(path).replace(b"ZORDER", b"SPIRAL"))
    with pytest.raises(UnsupportedFeatureError, match="unknown layout"):
        table.open(storage).services.run(str(planned))
    assert table.open(storage).services.pending()["instant"].to_pylist() == [planned]


def test_more_columns_than_a_curve_can_have_are_refused_before_anything_is_written() -> None:
    schema = pa.schema([*NUMBERS, *((f"c{n}", pa.int64()) for n in range(33))])
    storage = MemoryStorage()
    table = new_table(storage, schema=schema)
    before = {info.path for info in storage.list_recursive("")}
    with pytest.raises(ConfigError, match="32 columns"):
        table.services.cluster(hudi_options=along("HILBERT", ",".join(f"c{n}" for n in range(33))))
    assert {info.path for info in storage.list_recursive("")} == before


# ----- copying row groups ---------------------------------------------------------------------------------------------


def files_of(storage: Storage) -> dict[str, pq.ParquetFile]:
    paths = open_table(storage).inspect.files()["path"].to_pylist()
    return {path: pq.ParquetFile(pa.BufferReader(storage.read(path))) for path in paths}


@every_table
def test_copied_row_groups_have_the_rows_and_keys_of_their_files(table: TableBuilder) -> None:
    storage = (
        table.insert((1, "oslo", 1, "d"), (2, "oslo", 1, "b"))
        .insert((3, "oslo", 1, "a"))
        .insert((4, "oslo", 1, "x"), (5, "rome", 1, "c"))
        .build()
    )
    before, begin = stored(storage), open_table(storage).inspect.history(1)["completion_time"][0].as_py()

    (done,) = table.open(storage).services.cluster(hudi_options=COPY).to_pylist()

    assert (done["groups"], done["replaced"], done["files"], done["rows"]) == (1, 3, 1, 4)
    assert stored(storage) == before
    new = next(file for path, file in files_of(storage).items() if "oslo" in path and done["instant"] in path)
    assert new.num_row_groups == 3
    for path, file in files_of(storage).items():
        assert set(file.read()["_hoodie_file_name"].to_pylist()) == {path.rpartition("/")[2]}
    assert table.version == 6 or open_table(storage).changes(begin).count() == 0
    bloom = {"hoodie.index.type": "BLOOM"}
    table.open(storage).upsert(rows((3, "oslo", 3, "new"), (6, "oslo", 3, "e")), hudi_options=bloom)
    table.open(storage).delete(rows((1, "oslo", 4, "")), hudi_options=bloom)
    assert contents(storage) == {
        (2, "oslo", 1, "b"), (3, "oslo", 3, "new"), (4, "oslo", 1, "x"), (5, "rome", 1, "c"), (6, "oslo", 3, "e")
    }  # fmt: skip


@pytest.mark.parametrize("table", EVERY_TABLE[1::2], ids=str)
def test_slices_with_logs_are_merged_in_place_of_copied(table: TableBuilder) -> None:
    storage = table.insert((1, "oslo", 1, "d")).insert((2, "oslo", 1, "a")).upsert((1, "oslo", 2, "c")).build()
    before = stored(storage)
    table.open(storage).services.cluster(hudi_options=COPY)
    assert stored(storage) == before
    assert [file.num_row_groups for file in files_of(storage).values()] == [1]


def test_files_of_other_schemas_are_decoded_and_the_reason_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    storage = MemoryStorage()
    table = new_table(storage, **APART)
    table.insert(rows((1, "oslo", 1, "a")))
    wider = rows((2, "oslo", 1, "b")).append_column("more", pa.array([7]))
    table.refresh().insert(wider)
    with caplog.at_level(logging.INFO, "pyhudi.tasks.cluster"):
        (done,) = open_table(storage, **APART).services.cluster(hudi_options=COPY).to_pylist()
    assert "the schema or the writer of" in caplog.text
    assert (done["files"], done["rows"]) == (1, 2)
    found = open_table(storage).scan(["id", "more"]).to_arrow().sort_by("id").to_pylist()
    assert found == [{"id": 1, "more": None}, {"id": 2, "more": 7}]
    assert [file.num_row_groups for file in files_of(storage).values()] == [1]


def test_files_from_before_a_column_was_added_are_decoded(caplog: pytest.LogCaptureFixture) -> None:
    storage = MemoryStorage()
    table = new_table(storage, **APART)
    table.insert(rows((1, "oslo", 1, "a")))
    table.refresh().insert(rows((2, "oslo", 1, "b")))
    table.refresh().insert(rows((3, "rome", 1, "c")).append_column("more", pa.array([7])))
    with caplog.at_level(logging.INFO, "pyhudi.tasks.cluster"):
        open_table(storage, **APART).services.cluster(hudi_options=COPY)
    assert "are not those of the table" in caplog.text
    files = {path: file.read() for path, file in files_of(storage).items() if "oslo" in path}
    assert [file["more"].to_pylist() for file in files.values()] == [[None, None]]


def test_copies_have_the_target_size_at_most() -> None:
    table = TableBuilder(options=APART)
    for n in range(4):
        table = table.insert((n, "oslo", 1, "a" * 100))
    storage = table.build()
    largest = max(open_table(storage).inspect.files()["size"].to_pylist())
    two = {**COPY, f"{PREFIX}target.file.max.bytes": str(2 * largest)}
    (done,) = table.open(storage).services.cluster(hudi_options=two).to_pylist()
    assert (done["files"], done["rows"]) == (2, 4)
    assert [file.num_row_groups for file in files_of(storage).values()] == [2, 2]
    assert contents(storage) == {(n, "oslo", 1, "a" * 100) for n in range(4)}


def test_deletes_that_a_footer_remembers_survive_a_clustering_that_would_copy() -> None:
    options = {**APART, "hoodie.write.tombstones.retained.hours": "24"}
    table = TableBuilder(options=options, has_delete_flag=True)
    storage = table.insert((1, "oslo", 5, "a"), (2, "oslo", 5, "a")).insert((3, "oslo", 5, "b")).build()
    deleted = rows((1, "oslo", 9, "")).append_column(DELETE_FLAG, pa.array([True]))
    table.open(storage).upsert(deleted)
    table.open(storage).services.cluster(hudi_options=COPY)
    table.open(storage).upsert(table.batch((1, "oslo", 7, "late")))
    assert contents(storage) == {(2, "oslo", 5, "a"), (3, "oslo", 5, "b")}


def test_next_clustering_finishes_what_a_dead_copy_left() -> None:
    table = TableBuilder(options=APART).insert((1, "oslo", 1, "b")).insert((2, "oslo", 1, "a"))
    storage = table.build()
    expected = contents(storage)
    for hint, image in crash_images(storage, lambda opened_: opened_.services.cluster(hudi_options=COPY)):
        assert contents(image) == expected, hint
        opened(image, later=True).services.cluster(hudi_options=COPY)
        assert contents(image) == expected, hint
        assert [file.num_row_groups for file in files_of(image).values()] == [2], hint
        opened(image, later=True).recovery.roll_back_failed_writes()
        assert_nothing_left_over(image)
        audit(image)


def test_sorting_and_copying_contradict_each_other() -> None:
    table = TableBuilder(options=APART).insert((1, "oslo", 1, "a"))
    storage = table.build()
    with pytest.raises(ConfigError, match="copies rows as they are"):
        table.open(storage).services.cluster(hudi_options={**COPY, f"{PREFIX}sort.columns": "id"})


@pytest.mark.parametrize("row_group_bytes_min", [1, 1 << 30])
def test_large_row_groups_are_copied_and_small_ones_put_together_by_the_default_strategy(
    row_group_bytes_min: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyhudi.tasks.cluster._COPIED_BYTES_MIN", row_group_bytes_min)
    table = TableBuilder(options=APART)
    for n in range(4):
        table = table.insert((n, "oslo", 1, "a" * 100))
    storage = table.build()
    largest = max(open_table(storage).inspect.files()["size"].to_pylist())
    two = {f"{PREFIX}target.file.max.bytes": str(2 * largest)}
    (done,) = table.open(storage).services.cluster(hudi_options=two).to_pylist()
    # Each file by a task of its own.
    assert (done["groups"], done["files"], done["rows"]) == (1, 2, 4)
    expected = [2, 2] if row_group_bytes_min == 1 else [1, 1]
    assert [file.num_row_groups for file in files_of(storage).values()] == expected
    assert contents(storage) == {(n, "oslo", 1, "a" * 100) for n in range(4)}
