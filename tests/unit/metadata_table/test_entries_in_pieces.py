"""An index over record keys is written in pieces: entries that outgrow memory are sorted on local disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.metadata_tables import FOLDER
from tests.support.tables import new_table, open_table, rows

import pyhudi
from pyhudi.engine.protocol import TaskContext
from pyhudi.engine.spilled_rows import SpillSettings
from pyhudi.errors import InvalidRequestError
from pyhudi.format.metadata_table.locations import location_payloads
from pyhudi.format.metadata_table.schema import KEY, RECORD_INDEX_COLUMN, RecordType
from pyhudi.format.timeline.table_version import TABLE_VERSIONS
from pyhudi.io.log.block_filter import BlockFilter
from pyhudi.metadata_table import entries
from pyhudi.metadata_table.entries import ENTRIES, REMOVED, Payloads, records_of_entries, write_entries
from pyhudi.metadata_table.file_group import GroupSlice, GroupTarget, write_base, write_log
from pyhudi.metadata_table.lookup import read_slice
from pyhudi.storage.memory import MemoryStorage

INSTANT: Final = "20260101000000000"
GROUP: Final = "record-index-0000-0"
FILE_IDS: Final = tuple(f"0f8fad5b-d9cb-469f-a165-70867728950{number}-0" for number in range(4))
WHOLE: Final = SpillSettings()
#: Keys whose order by their bytes is neither that of UTF-16 nor of numbers.
KEYS: Final = st.sampled_from([*"abcdefgh", "k1", "k10", "k2", "\ue000", "\U0001f600", "é$\\", "x" * 200])
BATCHES: Final = st.lists(st.lists(st.tuples(KEYS, st.integers(REMOVED, 3)), max_size=12), min_size=1, max_size=6)
VERSIONS: Final = [6, 8, 9]


@pytest.fixture
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "RUN_BYTES", 150)
    monkeypatch.setattr(entries, "PIECE_BYTES", 40)


def batches_of(rows: list[list[tuple[str, int]]]) -> Iterator[pa.RecordBatch]:
    for part in rows:
        keys, values = [key for key, _ in part], [value for _, value in part]
        yield pa.RecordBatch.from_arrays([pa.array(keys, pa.string()), pa.array(values, pa.int32())], schema=ENTRIES)


def payloads_of(version: int) -> Payloads:
    values = location_payloads(TABLE_VERSIONS[version], [f"p{n}" for n in range(4)], FILE_IDS, [1_700_000_000_000] * 4)
    return Payloads(RecordType.RECORD_INDEX, values)


def target_of(storage: MemoryStorage, version: int) -> GroupTarget:
    return GroupTarget(
        storage=storage.spec,
        partition="record_index",
        file_ids=(GROUP,),
        instant_time=INSTANT,
        version=TABLE_VERSIONS[version],
        created_ms=1,
    )


def written(
    rows: list[list[tuple[str, int]]], version: int, *, is_base: bool, spill: SpillSettings = WHOLE
) -> tuple[dict[str, str], bytes]:
    """The file id of each key that readers find in what was written, and the file."""
    storage = MemoryStorage()
    target, context = target_of(storage, version), TaskContext.of_only_run(0)
    stat = write_entries(target, payloads_of(version), is_base, spill, context, 0, batches_of(rows))
    path = f"{FOLDER}/{stat.path}"
    here = GroupSlice(GROUP, path if is_base else None, INSTANT, () if is_base else (path,), BlockFilter())
    found = read_slice(storage, here, RECORD_INDEX_COLUMN)
    places = found.column(RECORD_INDEX_COLUMN).combine_chunks().field("partitionName").to_pylist()
    by_key = dict(zip(found.column(KEY).to_pylist(), places, strict=True))
    assert len(by_key) == found.num_rows == stat.num_writes
    assert stat.num_deletes == len({key for part in rows for key, _ in part}) - len(by_key)
    return by_key, storage.read(path)


def newest(rows: list[list[tuple[str, int]]]) -> dict[str, int]:
    """The last value of each key; removals come before."""
    found: dict[str, int] = {}
    for part in rows:
        for key, value in part:
            found[key] = max(value, found.get(key, REMOVED))
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.usefixtures("_small_pieces")
@settings(max_examples=30, deadline=None)
@given(rows=BATCHES)
def test_log_of_many_pieces_says_of_each_key_its_last_entry(version: int, rows: list[list[tuple[str, int]]]) -> None:
    expected = {key: f"p{value}" for key, value in newest(rows).items() if value != REMOVED}
    assert written(rows, version, is_base=False)[0] == expected


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.usefixtures("_small_pieces")
@settings(max_examples=30, deadline=None)
@given(rows=st.lists(st.lists(st.tuples(KEYS, st.integers(0, 3)), max_size=12), min_size=1, max_size=6))
def test_base_file_of_many_pieces_has_each_key_or_is_refused(version: int, rows: list[list[tuple[str, int]]]) -> None:
    values: dict[str, set[int]] = {}
    for part in rows:
        for key, value in part:
            values.setdefault(key, set()).add(value)
    several = {key for key, of_key in values.items() if len(of_key) > 1}
    if several:
        with pytest.raises(InvalidRequestError, match="several file groups have a record with the same key") as caught:
            written(rows, version, is_base=True)
        assert caught.value.context["record_key"] in several
    else:
        expected = {key: f"p{value}" for key, (value,) in values.items()}
        assert written(rows, version, is_base=True)[0] == expected


@pytest.mark.parametrize("is_base", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_entries_of_one_piece_are_written_as_all_records_at_once(version: int, is_base: bool) -> None:
    rows = [[(f"k{number}", number % 4) for number in range(first, 900, 3)] for first in range(3)]
    if not is_base:
        rows.append([("gone", REMOVED), ("k7", REMOVED)])
    storage = MemoryStorage()
    write = write_base if is_base else write_log
    records = records_of_entries(batches_of(rows), payloads_of(version))
    stat = write(storage, target_of(storage, version), 0, records, TaskContext.of_only_run(0).write_token)
    assert written(rows, version, is_base=is_base)[1] == storage.read(f"{FOLDER}/{stat.path}")


def test_entries_above_the_limit_of_memory_are_sorted_on_local_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("spilled")
    made: list[str] = []

    def seen(prefix: str, dir: str) -> str:  # noqa: A002 - as `tempfile.mkdtemp`
        made.append(dir)
        return str(tmp_path_factory.mktemp(prefix))

    monkeypatch.setattr("tempfile.mkdtemp", seen)
    rows = [[(f"k{number}", number % 4) for number in range(first, 900, 3)] for first in range(3)]
    for limit, times in ((1 << 30, 0), (5_000, 1)):
        found, _ = written(rows, 9, is_base=True, spill=SpillSettings(limit, str(folder)))
        assert found == {f"k{number}": f"p{number % 4}" for number in range(900)}
        assert made == [str(folder)] * times


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.usefixtures("_small_pieces")
def test_table_whose_indexes_are_written_in_many_pieces_is_found_true(version: int) -> None:
    options = {
        "hoodie.metadata.record.index.min.filegroup.count": "1",
        "hoodie.metadata.record.index.max.filegroup.count": "1",
        "hoodie.index.type": "RECORD_INDEX",
        "hoodie.write.table.version": str(version),
    }
    schema = pa.schema([("id", pa.string()), ("part", pa.string()), ("note", pa.string())])

    def rows(first: int, count: int, part: str) -> pa.Table:
        ids = range(first, first + count)
        return pa.table([[f"k{n}" for n in ids], [part] * count, [f"n{n % 5}" for n in ids]], schema=schema)

    storage = MemoryStorage()
    table = pyhudi.HudiTable.create(
        storage.spec.uri, schema=schema, record_key="id", partition_by="part", hudi_options=options
    )
    table.bulk_insert(rows(0, 90, "a"))
    table.bulk_insert(rows(90, 30, "b"))
    table.indexes.create("record_index")
    if version > 6:
        table.refresh().indexes.create("by_note", "secondary", "note")
    table.refresh().upsert(rows(80, 70, "a"))
    table.refresh().delete(rows(20, 40, "a").select(["id", "part"]))

    table = table.refresh()
    assert table.inspect.metadata_check().num_rows == 0
    assert sorted(table.lookup([f"k{n}" for n in range(200)])["id"].to_pylist()) == sorted(
        f"k{n}" for n in range(150) if not 20 <= n < 60
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_index_that_is_built_again_keeps_entries_in_the_folder_of_the_options(tmp_path: Path, version: int) -> None:
    storage, folder = MemoryStorage(), tmp_path / "spilled"
    indexed = {"hoodie.metadata.enable": "true", "hoodie.metadata.record.index.enable": "true"}
    new_table(storage, version=version, **indexed).insert(rows(*((key, "oslo", 1, "a") for key in range(50))))
    options = {"hoodie.memory.merge.max.size": "1", "hoodie.memory.spillable.map.path": str(folder)}

    names = open_table(storage, **options).recovery.rebuild_metadata_table()

    assert "record_index" in names
    assert list(folder.iterdir()) == []
    assert open_table(storage).inspect.metadata_check().num_rows == 0
