"""Joining files by copying row groups: every reader finds the rows of all of them, decoded from the same pages."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi.errors import CorruptDataError
from pyhudi.format.bloom import BLOOM_FILTER_KEY, MAX_RECORD_KEY_KEY, BloomFilterType, parse_bloom_filter
from pyhudi.format.parquet.footer import MAGIC, TAIL, footer_size, parse_footer
from pyhudi.format.schema.meta_columns import FILE_NAME, META_FIELDS, RECORD_KEY
from pyhudi.io.base_file import BaseFileSettings, BaseFileWriter, read_batches
from pyhudi.io.column_statistics import read_statistics
from pyhudi.io.key_footer import BloomSettings, KeyFooter
from pyhudi.io.row_group_copy import FileJoin, NotAlikeError
from pyhudi.storage.memory import MemoryStorage

BLOOM = BloomSettings(BloomFilterType.DYNAMIC_V0, 500, 1e-3, 1000)
SETTINGS = BaseFileSettings("zstd", 1 << 30, 4000, 1 << 12, '{"type": "record"}', BLOOM)
USER = pa.schema(
    [
        ("n", pa.int64()),
        ("f", pa.float64()),
        ("d", pa.decimal128(20, 2)),
        ("s", pa.struct([("x", pa.int32())])),
        ("l", pa.list_(pa.string())),
    ]
)
SCHEMA = pa.schema([*META_FIELDS, *USER])


def rows_of(begin: int, count: int) -> pa.Table:
    numbers = range(begin, begin + count)
    meta = [["20260101000000000"] * count, [f"t_{n}" for n in numbers], [f"k{n:04}" for n in numbers], ["p"] * count]
    values: list[list[Any]] = [
        [None if n % 7 == 0 else n for n in numbers],
        [float("nan") if n % 50 == 3 else -0.0 if n % 50 == 4 else n / 2 for n in numbers],
        [Decimal(n) / 4 for n in numbers],
        [{"x": n} if n % 3 else None for n in numbers],
        [[None, str(n)] * (n % 4) for n in numbers],
    ]
    arrays = [*meta, [f"f{begin}"] * count, *values]
    return pa.table([pa.array(one, field.type) for one, field in zip(arrays, SCHEMA, strict=True)], schema=SCHEMA)


def write(storage: MemoryStorage, path: str, rows: pa.Table, settings: BaseFileSettings = SETTINGS) -> None:
    keys = None if settings.bloom is None else KeyFooter(settings.bloom)
    with BaseFileWriter(storage, path, rows.schema, settings, keys) as writer:
        for batch in rows.to_batches(max_chunksize=20):
            writer.write(batch)
        writer.close()


def joined(storage: MemoryStorage, paths: Sequence[str], bloom: BloomSettings | None = BLOOM) -> int:
    with storage.open_output("new.parquet") as sink:
        return FileJoin(storage, paths, bloom).write(sink, "new.parquet", "zstd")


def two_files(settings: BaseFileSettings = SETTINGS) -> MemoryStorage:
    storage = MemoryStorage()
    write(storage, "a.parquet", rows_of(0, 130), settings)
    write(storage, "b.parquet", rows_of(500, 70), settings)
    return storage


def test_rows_of_all_files_come_back_in_order_with_the_name_of_the_new_file() -> None:
    storage = two_files()
    assert joined(storage, ["a.parquet", "b.parquet"]) == 200

    found = pa.Table.from_batches(read_batches(storage, "new.parquet"))

    expected = pa.concat_tables([rows_of(0, 130), rows_of(500, 70)])
    assert set(found[FILE_NAME].to_pylist()) == {"new.parquet"}
    for name in SCHEMA.names:
        if name != FILE_NAME:
            assert str(found[name].to_pylist()) == str(expected[name].to_pylist()), name  # NaN is unlike itself


def test_every_row_group_is_read_on_its_own_with_its_statistics() -> None:
    storage = two_files()
    joined(storage, ["a.parquet", "b.parquet"])
    new = pq.ParquetFile(io.BytesIO(storage.read("new.parquet")), page_checksum_verification=True)
    old = [pq.ParquetFile(io.BytesIO(storage.read(path))) for path in ("a.parquet", "b.parquet")]
    groups = [(file, number) for file in old for number in range(file.num_row_groups)]
    assert new.num_row_groups == len(groups) > 3
    for number, (file, of_file) in enumerate(groups):
        kept = [name for name in SCHEMA.names if name != FILE_NAME]
        assert str(new.read_row_group(number, kept).to_pydict()) == str(file.read_row_group(of_file, kept).to_pydict())
        for column in range(new.metadata.num_columns):
            chunk = new.metadata.row_group(number).column(column)
            if chunk.path_in_schema != FILE_NAME:
                assert chunk.statistics == file.metadata.row_group(of_file).column(column).statistics
            assert chunk.statistics is None or chunk.statistics.null_count is not None
    statistics = {one.column: one for one in read_statistics(storage, "new.parquet").columns}
    assert (statistics[RECORD_KEY].low, statistics[RECORD_KEY].high) == ("k0000", "k0569")
    assert statistics[FILE_NAME].low == statistics[FILE_NAME].high == "new.parquet"
    assert statistics["f"].low is None


def test_footer_has_the_keys_of_all_files_and_what_they_all_say() -> None:
    storage = two_files()
    values = FileJoin(storage, ["a.parquet", "b.parquet"], BLOOM).values
    assert values["parquet.avro.schema"] == SETTINGS.avro_schema
    assert values[MAX_RECORD_KEY_KEY] == "k0569"
    bloom = parse_bloom_filter(values[BLOOM_FILTER_KEY], BLOOM.kind)
    assert bloom.might_contain(pa.array([f"k{n:04}" for n in (0, 129, 500, 569)])).all()
    assert bloom.might_contain(pa.array([f"z{n}" for n in range(1000)])).mean() < 0.05


def test_joined_file_can_be_joined_again() -> None:
    storage = two_files()
    joined(storage, ["a.parquet", "b.parquet"])
    with storage.open_output("third.parquet") as sink:
        assert FileJoin(storage, ["new.parquet", "b.parquet"], BLOOM).write(sink, "third.parquet", "zstd") == 270
    assert sum(batch.num_rows for batch in read_batches(storage, "third.parquet")) == 270


def test_file_of_no_rows_adds_nothing() -> None:
    storage = two_files()
    pq.write_table(SCHEMA.empty_table(), sink := io.BytesIO(), store_schema=False)
    storage.put("none.parquet", sink.getvalue())
    with storage.open_output("new.parquet") as output:
        assert FileJoin(storage, ["none.parquet", "none.parquet"], None).write(output, "new.parquet", "zstd") == 0
    assert list(read_batches(storage, "new.parquet")) == []


def test_page_indexes_and_page_filters_of_other_writers_are_left_out() -> None:
    storage = MemoryStorage()
    for path, rows in (("a.parquet", rows_of(0, 100)), ("b.parquet", rows_of(100, 100))):
        sink = io.BytesIO()
        pq.write_table(rows, sink, write_page_index=True, store_schema=False, row_group_size=30)
        storage.put(path, sink.getvalue())
    joined(storage, ["a.parquet", "b.parquet"], None)
    footer = pq.read_metadata(io.BytesIO(storage.read("new.parquet")))
    chunks = [footer.row_group(g).column(c) for g in range(footer.num_row_groups) for c in range(footer.num_columns)]
    assert not any(chunk.has_column_index or chunk.has_offset_index for chunk in chunks)
    assert footer.num_rows == 200


def without(name: str) -> pa.Table:
    return rows_of(0, 10).drop_columns([name])


@pytest.mark.parametrize(
    ("other", "cause"),
    [
        (rows_of(0, 10).append_column("more", pa.array(range(10))), "schema"),
        (without("n"), "schema"),
        (rows_of(0, 10).set_column(5, "n", pa.array(range(10), pa.int32())), "schema"),
    ],
)
def test_files_of_other_schemas_are_not_alike(other: pa.Table, cause: str) -> None:
    storage = two_files()
    write(storage, "c.parquet", other)
    with pytest.raises(NotAlikeError, match=cause):
        FileJoin(storage, ["a.parquet", "c.parquet"], BLOOM)


def test_files_whose_footers_say_other_things_are_not_alike() -> None:
    storage = two_files()
    write(storage, "c.parquet", rows_of(0, 10), replace(SETTINGS, avro_schema='{"type": "other"}'))
    with pytest.raises(NotAlikeError, match="says other things"):
        FileJoin(storage, ["a.parquet", "c.parquet"], BLOOM)


@pytest.mark.parametrize(
    "bloom",
    [
        None,
        BloomSettings(BloomFilterType.DYNAMIC_V0, 600, 1e-3, 1000),
        BloomSettings(BloomFilterType.SIMPLE, 500, 1e-3, 1000),
    ],
)
def test_files_with_other_bloom_filters_are_not_alike(bloom: BloomSettings | None) -> None:
    storage = two_files()
    write(
        storage,
        "c.parquet",
        rows_of(0, 10),
        BaseFileSettings("zstd", 1 << 30, 4000, 1 << 12, '{"type": "record"}', bloom),
    )
    with pytest.raises(NotAlikeError, match="bloom filter"):
        FileJoin(storage, ["a.parquet", "c.parquet"], BLOOM)
    FileJoin(storage, ["a.parquet", "c.parquet"], None)


def test_files_without_the_column_of_file_names_are_not_alike() -> None:
    storage = MemoryStorage()
    write(storage, "a.parquet", without(FILE_NAME))
    with pytest.raises(NotAlikeError, match=FILE_NAME):
        FileJoin(storage, ["a.parquet"], BLOOM)


def test_rows_of_large_files_are_copied_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyhudi.io.row_group_copy._COPY_BYTES", 100)
    storage = two_files()
    joined(storage, ["a.parquet", "b.parquet"])
    assert sum(batch.num_rows for batch in read_batches(storage, "new.parquet")) == 200


@pytest.mark.parametrize(
    "damage", [b"", b"PAR1", b"PAR1PAR1", b"PAR1\xff\xff\xff\x7fPAR1", b"PAR1\x00\x01\x00\x00\x00PAR1"]
)
def test_damaged_file_is_named(damage: bytes) -> None:
    storage = two_files()
    storage.put("c.parquet", damage)
    with pytest.raises(CorruptDataError) as caught:
        FileJoin(storage, ["a.parquet", "c.parquet"], BLOOM)
    assert caught.value.context["path"] == "c.parquet"


def with_gaps(data: bytes) -> bytes:
    """The same file with bytes between its column chunks, as filters of pages are, and the chunks in another order."""
    size = footer_size(data[-TAIL.size :], len(data), path="f")
    footer = parse_footer(data[-TAIL.size - size : -TAIL.size], len(data), path="f")
    out, encoded = bytearray(MAGIC), []
    for number, group in enumerate(footer.row_groups):
        moved = {}
        for chunk in sorted(group.chunks, key=lambda one: one.column[-1]):
            out += b"filter"
            moved[chunk.column] = chunk.moved_to(len(out))
            out += data[chunk.start : chunk.end]
        encoded.append(group.encoded([moved[column] for column in group.columns], number))
    return bytes(out) + footer.joined(encoded, footer.rows, footer.values)


def test_chunks_that_do_not_follow_each_other_are_copied_one_by_one() -> None:
    storage = two_files()
    storage.put("gaps.parquet", with_gaps(storage.read("a.parquet")))
    assert joined(storage, ["gaps.parquet", "b.parquet"]) == 200
    found = pa.Table.from_batches(read_batches(storage, "new.parquet"))
    expected = pa.concat_tables([rows_of(0, 130), rows_of(500, 70)])
    assert str(found.drop_columns([FILE_NAME]).to_pydict()) == str(expected.drop_columns([FILE_NAME]).to_pydict())
