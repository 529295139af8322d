"""Rewriting a base file: what is not touched stays as it is, whatever its type and place."""

from __future__ import annotations

import datetime
import decimal
import itertools
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.audit import audit
from tests.support.tables import new_table, rows

import pyhudi
from pyhudi.api.writes import save
from pyhudi.errors import CorruptDataError, OutOfSpaceError
from pyhudi.format.schema.meta_columns import with_meta_columns
from pyhudi.io.base_file import READ_BATCH_ROWS, BaseFileSettings, BaseFileWriter, read_batches, read_footer
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.open import open_storage
from pyhudi.testing.faults import FaultStorage

_numbers = itertools.count()
SETTINGS = BaseFileSettings(
    codec="zstd", max_file_size=1 << 20, row_group_size=1 << 20, page_size=1 << 16, avro_schema="{}", bloom=None
)


def test_updates_and_deletes_hit_their_rows_in_a_file_of_many_batches() -> None:
    storage = MemoryStorage()
    table = new_table(storage)
    count = 2 * READ_BATCH_ROWS + 5
    ids = list(range(count))
    everything = pa.table([ids, ["oslo"] * count, [1] * count, [f"n{n}" for n in ids]], schema=rows().schema)
    table.bulk_insert(everything)
    edges = [0, READ_BATCH_ROWS - 1, READ_BATCH_ROWS, 2 * READ_BATCH_ROWS, count - 1]

    result = table.upsert(rows(*((n, "oslo", 2, "new") for n in edges), (count, "oslo", 2, "new")))
    gone = table.delete(rows((1, "oslo", 0, ""), (READ_BATCH_ROWS + 1, "oslo", 0, "")))

    assert (result.updated, result.inserted, gone.deleted) == (5, 1, 2)
    found = table.refresh().scan(["id", "note"]).to_arrow()
    notes = dict(zip(found.column("id").to_pylist(), found.column("note").to_pylist(), strict=True))
    assert len(found) == len(notes) == count + 1 - 2
    changed = {*edges, count}
    assert {n for n, note in notes.items() if note == "new"} == changed
    assert all(note == f"n{n}" for n, note in notes.items() if n not in changed)


ZOO = pa.table(
    {
        "id": ["a", "b", "c"],
        "flag": pa.array([True, None, False]),
        "small": pa.array([1, None, -(2**31)], pa.int32()),
        "real": pa.array([1.5, None, float("inf")], pa.float32()),
        "double": pa.array([0.1, None, -0.0]),
        "bytes": pa.array([b"\x00\xff", None, b""]),
        "day": pa.array([datetime.date(1900, 1, 1), None, datetime.date(2100, 1, 1)]),
        "at": pa.array([0, None, 2**52], pa.timestamp("us", tz="UTC")),
        "local": pa.array([-1, None, 2**52], pa.timestamp("us")),
        "price": pa.array([decimal.Decimal("1.23"), None, decimal.Decimal("-99999999.99")], pa.decimal128(10, 2)),
        "tags": pa.array([["x", None], None, []], pa.list_(pa.string())),
        "sizes": pa.array([[("k", 1), ("l", None)], None, []], pa.map_(pa.string(), pa.int64())),
        "deep": pa.array(
            [{"n": 1, "in": [{"s": "x"}, None]}, None, {"n": None, "in": None}],
            pa.struct([("n", pa.int64()), ("in", pa.list_(pa.struct([("s", pa.string())])))]),
        ),
    }
)


def test_untouched_rows_of_every_type_survive_rewrites_unchanged() -> None:
    path = f"memory://rewrites-{next(_numbers)}/t"
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    save(ZOO, path, hudi_options=options)

    save(ZOO.slice(0, 1), path, hudi_options=options)
    save(ZOO.slice(1, 1), path, hudi_options=options)

    table = pyhudi.HudiTable.for_path(path)
    assert table.scan(ZOO.column_names).to_arrow().sort_by("id").to_pylist() == ZOO.to_pylist()
    assert len(set(table.scan(["_hoodie_commit_time"]).to_arrow().column(0).to_pylist())) == 3
    audit(open_storage(path, {}))


def file_batch(*keys: str) -> pa.RecordBatch:
    schema = with_meta_columns(pa.schema([("v", pa.int64())]))
    columns = [pa.array(keys, pa.string()) for _ in range(5)]
    return pa.RecordBatch.from_arrays([*columns, pa.array(range(len(keys)), pa.int64())], schema=schema)


def test_a_row_group_is_written_when_the_rows_in_memory_reach_its_size() -> None:
    storage, batch = MemoryStorage(), file_batch(*(f"k{n:05}" for n in range(1000)))
    small = BaseFileSettings(
        codec="zstd",
        max_file_size=1 << 20,
        row_group_size=3 * batch.nbytes,
        page_size=1 << 16,
        avro_schema="{}",
        bloom=None,
    )
    with BaseFileWriter(storage, "f.parquet", batch.schema, small, None) as writer:
        for _ in range(7):
            writer.write(batch, keys_are_known=False)
            assert writer.buffered_bytes < 3 * batch.nbytes
        written = writer.close()

    with storage.open_input("f.parquet") as source:
        metadata = pq.ParquetFile(source).metadata
    assert (metadata.num_row_groups, metadata.num_rows, written.rows) == (3, 7000, 7000)
    assert written.size == len(storage.read("f.parquet"))


def test_a_file_that_was_not_finished_is_gone() -> None:
    storage, batch = MemoryStorage(), file_batch("a")
    another = file_batch("b").drop_columns(["v"])

    with suppress(ValueError), BaseFileWriter(storage, "f.parquet", batch.schema, SETTINGS, None) as writer:
        writer.write(batch, keys_are_known=False)
        writer.flush()
        writer.write(another, keys_are_known=False)
        writer.close()

    assert storage.list_recursive("") == ()


@pytest.mark.parametrize("keep", [0, 3, 100])
def test_a_cut_base_file_is_named(keep: int) -> None:
    storage, batch = MemoryStorage(), file_batch("a", "b")
    with BaseFileWriter(storage, "f.parquet", batch.schema, SETTINGS, None) as writer:
        writer.write(batch, keys_are_known=False)
        writer.close()
    storage.put("f.parquet", storage.read("f.parquet")[:keep])

    for read in (lambda: list(read_batches(storage, "f.parquet")), lambda: read_footer(storage, "f.parquet")):
        with pytest.raises(CorruptDataError) as caught:
            read()
        assert "f.parquet" in str(caught.value)


def test_a_flipped_byte_in_a_page_is_found() -> None:
    storage, batch = MemoryStorage(), file_batch(*(f"k{n:05}" for n in range(5000)))
    with BaseFileWriter(storage, "f.parquet", batch.schema, SETTINGS, None) as writer:
        writer.write(batch, keys_are_known=False)
        writer.close()
    data = bytearray(storage.read("f.parquet"))
    data[200] ^= 0xFF
    storage.put("f.parquet", bytes(data))

    with pytest.raises(CorruptDataError, match=r"f\.parquet"):
        list(read_batches(storage, "f.parquet"))


def test_a_disk_that_fills_up_inside_of_a_page_is_a_typed_error() -> None:
    storage = MemoryStorage()
    new_table(storage).insert(rows((1, "oslo", 1, "a")))

    class FullStore(FaultStorage):
        def open_output(self, path: str, *, durable: bool = True) -> object:  # type: ignore[override]
            output = super().open_output(path, durable=durable)
            if path.startswith("city="):
                output._inner._append = _full  # type: ignore[attr-defined]
            return output

    def _full(data: memoryview) -> None:
        raise OutOfSpaceError("full", path="x")

    from tests.support.tables import contents, open_table

    with pytest.raises(OutOfSpaceError):
        open_table(FullStore(storage)).upsert(rows((1, "oslo", 2, "b")))

    assert contents(storage) == {(1, "oslo", 1, "a")}
    audit(storage)
