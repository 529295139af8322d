"""Bulk insert's tasks: what they write does not depend on the order that their rows come in."""

from __future__ import annotations

import resource
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.support.tables import SCHEMA, new_table, open_table, rehandled, rows, values_of

from pyhudi.config.enums import Arrangement
from pyhudi.engine.local import LocalEngine
from pyhudi.engine.protocol import Distribution, TaskContext
from pyhudi.engine.spilled_rows import SpilledRows
from pyhudi.errors import LockLostError, OutOfSpaceError
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.lister import list_data_files
from pyhudi.tasks import bulk_insert as write_split
from pyhudi.tasks import data_file
from pyhudi.tasks.data_file import DataFile

ROWS = ((1, "oslo", 1, "a"), (2, "oslo", 1, "a"), (3, "rome", 1, "a"), (4, "rome", 1, "a"))


class SpeculatingEngine(LocalEngine):
    """Runs one attempt of a split, and keeps another that sees the rows in the opposite order."""

    def __init__(self) -> None:
        super().__init__()
        self.late_attempts: list[Callable[[], Any]] = []

    @property
    def repeats_tasks(self) -> bool:
        return True

    def map_splits(
        self,
        rows: pa.Table,
        function: Callable[[TaskContext, Any], Any],
        **_: Any,
    ) -> list[Any]:
        backwards = rows.take(list(range(len(rows)))[::-1])
        self.late_attempts.append(lambda: function(TaskContext(0, 1, attempt=1), iter(backwards.to_batches())))
        return [function(TaskContext(0, 1, attempt=0), iter(rows.to_batches()))]


def test_an_attempt_that_outlives_the_commit_takes_its_file_away() -> None:
    engine = SpeculatingEngine()
    storage = MemoryStorage()
    table = rehandled(new_table(storage), engine=engine)

    table.bulk_insert(rows(*ROWS))
    with pytest.raises(LockLostError, match="what the task wrote is removed"):
        engine.late_attempts[0]()

    assert values_of(table.refresh().scan().to_arrow(), ["id", "city", "ts", "note"]) == list(ROWS)
    assert len([file for file in list_data_files(storage) if file.name.endswith(".parquet")]) == 2


def test_an_attempt_that_saw_other_rows_first_and_ends_right_after_the_commit_adds_no_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # It looks for the end of its write a moment before that comes.
    monkeypatch.setattr(data_file, "check_write_is_running", lambda *_: None)
    engine = SpeculatingEngine()
    table = rehandled(new_table(MemoryStorage()), engine=engine)

    table.bulk_insert(rows(*ROWS))
    engine.late_attempts[0]()

    assert values_of(table.refresh().scan().to_arrow(), ["id", "city", "ts", "note"]) == list(ROWS)


class CountedFile(DataFile):
    """Knows how many of its kind are open."""

    open = most_open = 0

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        CountedFile.open += 1
        CountedFile.most_open = max(CountedFile.most_open, CountedFile.open)

    def close(self) -> WriteStat:
        CountedFile.open -= 1
        return super().close()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> type[CountedFile]:
    monkeypatch.setattr(write_split, "DataFile", CountedFile)
    monkeypatch.setattr(CountedFile, "open", 0)
    monkeypatch.setattr(CountedFile, "most_open", 0)
    return CountedFile


def many(partitions: int, each: int, *, is_sorted: bool) -> pa.Table:
    ids = np.arange(partitions * each)
    city = ids // each if is_sorted else ids % partitions
    texts = {"city": pa.array(city).cast(pa.string()), "note": pa.array(ids).cast(pa.string())}
    return pa.table([ids, texts["city"], np.ones(len(ids), np.int64), texts["note"]], schema=SCHEMA)


def in_batches(table: pa.Table, size: int) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(size))


@pytest.mark.parametrize("is_sorted", [True, False], ids=["sorted", "mixed"])
@pytest.mark.parametrize("buffered", [None, 60_000], ids=["in memory", "beyond memory"])
def test_a_split_of_many_partitions_has_few_files_open(
    counted: type[CountedFile], monkeypatch: pytest.MonkeyPatch, is_sorted: bool, buffered: int | None
) -> None:
    if buffered is not None:
        monkeypatch.setattr(write_split, "BUFFERED_BYTES", buffered)
        monkeypatch.setattr(write_split, "LARGE_PART_BYTES", buffered // write_split.OPEN_FILES_MAX)
    storage, rows = MemoryStorage(), many(50, 100, is_sorted=is_sorted)

    result = new_table(storage).bulk_insert(in_batches(rows, 200))

    assert counted.most_open <= write_split.OPEN_FILES_MAX
    assert result.files == 50
    assert open_table(storage).scan(SCHEMA.names).to_arrow().sort_by("id") == rows.sort_by("id")


def test_partitions_that_grow_evenly_beyond_memory_wait_on_disk(
    counted: type[CountedFile], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(write_split, "BUFFERED_BYTES", 40_000)
    monkeypatch.setattr(write_split, "LARGE_PART_BYTES", 40_000)
    storage, rows = MemoryStorage(), many(50, 100, is_sorted=False)
    written: list[str] = []
    write = SpilledRows.write
    monkeypatch.setattr(
        SpilledRows, "write", lambda self, name, rows: (written.append(name), write(self, name, rows))[1]
    )

    result = new_table(storage).bulk_insert(
        in_batches(rows, 200), hudi_options={"hoodie.memory.spillable.map.path": str(tmp_path)}
    )

    assert len(written) > 50
    assert (result.files, counted.most_open) == (50, 1)
    assert open_table(storage).scan(SCHEMA.names).to_arrow().sort_by("id") == rows.sort_by("id")
    assert list(tmp_path.iterdir()) == []


def test_a_split_that_fails_leaves_neither_files_nor_spilled_rows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(write_split, "BUFFERED_BYTES", 40_000)
    storage, rows = MemoryStorage(), many(50, 100, is_sorted=False)

    def failing() -> Iterator[pa.RecordBatch]:
        yield from rows.to_batches(200)
        raise OSError("no more")

    reader = pa.RecordBatchReader.from_batches(SCHEMA, failing())
    with pytest.raises(OSError, match="no more"):
        new_table(storage).bulk_insert(reader, hudi_options={"hoodie.memory.spillable.map.path": str(tmp_path)})

    assert [info.path for info in storage.list_recursive("") if info.path.endswith(".parquet")] == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
def test_disk_that_is_full_when_rows_spill_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    make_folder = tempfile.mkdtemp

    def full_folder(**keywords: Any) -> str:
        folder = make_folder(**keywords)
        (Path(folder) / "rows.arrow").symlink_to("/dev/full")
        return folder

    monkeypatch.setattr(tempfile, "mkdtemp", full_folder)

    with pytest.raises(OutOfSpaceError, match="spillable"):
        spill()


def test_limit_of_file_sizes_that_spilled_rows_reach_is_a_typed_error() -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    try:
        with pytest.raises(OutOfSpaceError, match="spillable"):
            spill()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def spill() -> None:
    """Spill rows that take more than 100 KB on disk."""
    batch = pa.RecordBatch.from_pydict({"x": ["y" * 100] * 10_000})
    with SpilledRows(None) as spilled:
        for _ in range(50):
            spilled.write("p", batch)
        list(spilled.read("p"))


def test_closed_files_take_no_memory_with_their_filters() -> None:
    """A filter takes 2.6 MB before it is written; the store in memory keeps 0.4 MB of it."""
    table, rows = new_table(MemoryStorage()), many(40, 10, is_sorted=False)
    tracemalloc.start()

    table.bulk_insert(rows, hudi_options={"hoodie.index.bloom.num_entries": "60000"})

    (_, peak), _ = tracemalloc.get_traced_memory(), tracemalloc.stop()
    assert peak < 40 * 2**20


@pytest.mark.parametrize("limit", [1 << 18, 1 << 20])
def test_no_file_is_larger_than_the_maximum_size(limit: int) -> None:
    size, count = 10_000, 600
    noise = np.random.default_rng(7).integers(33, 126, size * count, np.uint8).tobytes().decode()
    notes = [noise[n * size : (n + 1) * size] for n in range(count)]
    rows = pa.table([range(count), ["oslo"] * count, [1] * count, notes], schema=SCHEMA)
    storage = MemoryStorage()

    new_table(storage).bulk_insert(rows, hudi_options={"hoodie.parquet.max.file.size": str(limit)})

    found = open_table(storage).inspect.files()
    sizes = sorted(found.column("size").to_pylist())
    assert max(sizes) < 1.1 * limit
    assert min(sizes[1:]) > 0.8 * limit
    assert open_table(storage).scan(SCHEMA.names).to_arrow().sort_by("id") == rows


@pytest.mark.parametrize("is_reader", [False, True], ids=["table", "reader"])
def test_sorted_rows_reach_their_tasks_without_a_second_copy_of_all(is_reader: bool) -> None:
    count = 300_000
    ids = np.random.default_rng(1).permutation(count)
    notes = pa.array([f"{number:08}" * 12 for number in range(count)])
    table = pa.table({"id": ids, "note": notes}).combine_chunks()
    rows = table.to_reader() if is_reader else table
    before, peak, found = pa.total_allocated_bytes(), 0, []

    def look(context: TaskContext, batches: Iterator[pa.RecordBatch]) -> None:
        nonlocal peak
        for batch in batches:
            peak = max(peak, pa.total_allocated_bytes() - before)
            found.extend(batch.column("id").to_pylist())

    order = Distribution(Arrangement.GLOBAL_SORT, key_columns=("id",))
    LocalEngine(1).map_splits(rows, look, distribution=order, description="sort")

    assert found == list(range(count))
    assert peak < table.nbytes * 0.75
