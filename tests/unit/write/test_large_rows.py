"""Rows of megabytes: files end where they are full, and tasks hold a bounded number of bytes."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.engine import exchange
from pyhudi.format import pieces
from pyhudi.format.log.blocks import BlockType, encode_block
from pyhudi.io.log.scan import open_log
from pyhudi.tasks import route

MB = 1 << 20
SCHEMA = pa.schema([("id", pa.int64()), ("doc", pa.binary())])


def random_rows(count: int, size: int) -> pa.Table:
    return pa.table({"id": range(count), "doc": [os.urandom(size) for _ in range(count)]}, SCHEMA)


@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert", "insert_overwrite"])
def test_new_files_end_at_the_maximum_size_however_wide_rows_are(tmp_path: Path, operation: str) -> None:
    options = {
        "hoodie.parquet.max.file.size": str(MB),
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.index.bloom.num_entries": "1000",
    }
    table = pyhudi.HudiTable.create(str(tmp_path / "t"), schema=SCHEMA, record_key="id", hudi_options=options)
    rows = random_rows(500, 10_000)

    result = getattr(table, operation)(rows)

    files = table.refresh().inspect.files()
    assert result.inserted == 500
    assert max(files["size"].to_pylist()) < 1.2 * MB
    assert len(set(files["file_id"].to_pylist())) == files.num_rows >= 5
    assert table.refresh().scan(SCHEMA.names).to_arrow().sort_by("id").equals(rows)


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_updates_of_wide_rows_meet_a_file_of_narrow_ones(
    tmp_path: Path, table_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if the changes took more than the 2 GiB that an array holds.
    monkeypatch.setattr(pieces, "ARRAY_BYTES_MAX", 70 * MB)
    path, count = str(tmp_path / "t"), 140
    table = pyhudi.HudiTable.create(
        path,
        schema=SCHEMA,
        record_key="id",
        table_type=table_type,
        hudi_options={"hoodie.memory.merge.max.size": str(8 * MB)},
    )
    table.insert(pa.table({"id": range(count), "doc": [b"narrow"] * count}, SCHEMA))
    # More than is held in memory, and more than one piece; rows that are new among them, in another order.
    wide = [bytes([n % 256]) * MB for n in range(0, count + 20, 2)]
    changes = pa.table({"id": range(0, count + 20, 2), "doc": wide}, SCHEMA).sort_by([("id", "descending")])

    result = table.refresh().upsert(changes)
    if table_type == "mor":
        table.refresh().services.compact()

    assert (result.updated, result.inserted) == (70, 10)
    stored = table.refresh().scan(SCHEMA.names).to_arrow().sort_by("id")
    expected = [b"narrow" if n % 2 else bytes([n % 256]) * MB for n in range(count)]
    expected += [bytes([n % 256]) * MB for n in range(count, count + 20, 2)]
    assert stored.column("doc").to_pylist() == expected


def peak_of_an_upsert(path: Path, count: int, size: int) -> int:
    """The most bytes that Arrow holds while all rows of a table get new values, from a stream."""
    options = {"hoodie.parquet.compression.codec": "uncompressed", "hoodie.parquet.max.file.size": str(size)}
    table = pyhudi.HudiTable.create(str(path), schema=SCHEMA, record_key="id", hudi_options=options)

    def rows() -> pa.RecordBatchReader:
        one = (pa.record_batch([[number], [os.urandom(size)]], schema=SCHEMA) for number in range(count))
        return pa.RecordBatchReader.from_batches(SCHEMA, one)

    table.insert(rows())
    previous = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(previous)
    pa.set_memory_pool(counted)
    try:
        assert table.refresh().upsert(rows()).updated == count
        return int(counted.max_memory())
    finally:
        pa.set_memory_pool(previous)


def test_memory_of_an_upsert_of_wide_rows_does_not_grow_with_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 4 * MB
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    # As large to these rows as the real ones to rows of 100 MB.
    monkeypatch.setattr(route, "CHUNK_BYTES", size)
    monkeypatch.setattr(exchange, "BYTES_IN_MEMORY_MAX", size)
    few, many = (peak_of_an_upsert(tmp_path / str(count), count, size) for count in (2, 8))
    assert many < 1.1 * few
    assert many < 3.5 * size


def test_log_block_whose_values_outgrow_it_is_read_in_whole(tmp_path: Path) -> None:
    path, count = tmp_path / "t", 150
    table = pyhudi.HudiTable.create(str(path), schema=SCHEMA, record_key="id", table_type="mor")
    table.insert(pa.table({"id": range(count), "doc": [b"a"] * count}, SCHEMA))
    table.refresh().upsert(pa.table({"id": range(count), "doc": [b"b"] * count}, SCHEMA))
    (log,) = table.refresh().inspect.files().column("logs")[0].as_py()
    with open_log(table.handle.state.storage, log) as reader:
        (block,) = reader.blocks()
        rows = pq.ParquetFile(pa.BufferReader(reader.content(block).to_pybytes())).read()
    # One value, stored once, that takes more than a piece of memory in all of its rows.
    wide = pa.chunked_array([pa.array([b"b" * MB] * count)])
    rows = rows.set_column(rows.schema.get_field_index("doc"), "doc", wide)
    content = pa.BufferOutputStream()
    pq.write_table(rows, content, store_schema=False)
    encoded = encode_block(BlockType.PARQUET_DATA, block.headers, content.getvalue().to_pybytes())
    (path / log).write_bytes(b"".join(bytes(part) for part in encoded))

    batches = list(table.refresh().scan(["id", "doc"]).to_batches())

    assert sum(batch.num_rows for batch in batches) == count
    assert all(batch.nbytes < 100 * MB for batch in batches)
    assert {len(doc) for batch in batches for doc in batch.column("doc").to_pylist()} == {MB}
