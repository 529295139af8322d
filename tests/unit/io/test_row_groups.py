"""What Parquet row groups say of floating-point columns, and that files of several writers are one file."""

from __future__ import annotations

import io
import math
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.tables import MOR, new_table, open_table, plan_of

from pyhudi.io.log.records import list_log_blocks
from pyhudi.io.row_groups import WIDE_VALUE_BYTES, RowGroupWriter
from pyhudi.storage.memory import MemoryStorage

DEEP = pa.schema(
    [
        ("id", pa.int64()),
        ("plain", pa.float64()),
        ("short", pa.float32()),
        ("in", pa.struct([("x", pa.float64()), ("y", pa.float64())])),
        ("list", pa.list_(pa.float64())),
        ("map", pa.map_(pa.string(), pa.float32())),
    ]
)
FLOATS = ("plain", "short", "in.x", "in.y", "list.list.element", "map.key_value.value")


def deep(value: float | None, *, rows: int = 4) -> pa.Table:
    row = {"plain": value, "short": value, "in": {"x": value, "y": 1.5}, "list": [value], "map": [("k", value)]}
    return pa.Table.from_pylist([{"id": n, **row} for n in range(rows)], schema=DEEP)


def written(*groups: pa.Table) -> pq.ParquetFile:
    sink = io.BytesIO()
    writer = RowGroupWriter(sink, groups[0].schema, codec="zstd", page_size=1 << 20)
    for group in groups:
        writer.write(group)
    writer.close({"key": "value"})
    return pq.ParquetFile(io.BytesIO(sink.getvalue()), page_checksum_verification=True)


class CountedWrites(io.BytesIO):
    """A file that counts its calls."""

    calls = 0

    def write(self, data: Any, /) -> int:
        self.calls += 1
        return super().write(data)


def test_small_row_groups_and_their_footer_are_written_in_a_call_each() -> None:
    sink = CountedWrites()
    rows = pa.table({f"column {number}": list(range(20)) for number in range(20)})
    writer = RowGroupWriter(sink, rows.schema, codec="zstd", page_size=1 << 20)
    writer.write(rows)
    writer.write(rows)
    writer.close({"key": "value"})

    assert pq.read_table(io.BytesIO(sink.getvalue())).num_rows == 40
    assert sink.calls == 3


def chunks(file: pq.ParquetFile, group: int) -> dict[str, Any]:
    found = file.metadata.row_group(group)
    return {found.column(n).path_in_schema: found.column(n) for n in range(found.num_columns)}


def with_statistics(file: pq.ParquetFile, group: int) -> set[str]:
    found = chunks(file, group)
    return {path for path, chunk in found.items() if chunk.is_stats_set and chunk.statistics.has_min_max}


def by_dictionary(file: pq.ParquetFile, group: int) -> set[str]:
    return {path for path, chunk in chunks(file, group).items() if chunk.has_dictionary_page}


def test_column_chunks_with_nan_have_no_statistics_at_any_depth() -> None:
    file = written(pa.concat_tables([deep(5.0), deep(math.nan)]))

    assert with_statistics(file, 0) == {"id", "in.y", "map.key_value.key"}


def test_column_chunks_without_nan_have_statistics() -> None:
    assert with_statistics(written(deep(5.0)), 0) == {"id", *FLOATS, "map.key_value.key"}


def test_nan_under_a_null_is_no_nan() -> None:
    values = pa.Array.from_buffers(
        pa.float64(), 2, [pa.py_buffer(b"\x01"), pa.array([5.0, math.nan]).buffers()[1]], null_count=1
    )

    assert with_statistics(written(pa.table({"f": values})), 0) == {"f"}


def test_zeros_of_both_signs_are_within_the_statistics() -> None:
    file = written(pa.table({"f": [0.0, 0.0]}), pa.table({"f": [-0.0, -0.0]}))

    for group in (0, 1):
        statistics = chunks(file, group)["f"].statistics
        assert [math.copysign(1, value) for value in (statistics.min, statistics.max)] == [-1, 1]


@pytest.mark.parametrize("value", [-0.0, [-0.0], {"x": -0.0}], ids=["plain", "list", "struct"])
def test_column_chunks_with_negative_zeros_have_no_dictionary(value: Any) -> None:
    assert by_dictionary(written(pa.table({"f": pa.array([value] * 500), "g": [1.5] * 500})), 0) == {"g"}


def test_row_groups_of_few_bytes_have_no_dictionaries() -> None:
    assert by_dictionary(written(pa.table({"s": ["same"] * 20, "n": [1] * 20})), 0) == set()
    assert by_dictionary(written(pa.table({"s": ["same"] * 500, "n": [1] * 500})), 0) == {"s", "n"}


def test_text_is_never_cut_short_in_statistics() -> None:
    """Readers who take a cut-off text for the largest one would pass over the whole one."""
    for size in (100, 10_000):
        text = "x" * size
        statistics = chunks(written(pa.table({"s": [text, "a"]})), 0)["s"].statistics

        assert not statistics.has_min_max or (statistics.min, statistics.max) == ("a", text)


def test_row_groups_of_different_kinds_make_one_file() -> None:
    groups = [deep(5.0, rows=100), deep(5.0, rows=100_000), deep(math.nan), deep(5.0), deep(-0.0), deep(None)]

    file = written(*groups)

    assert file.metadata.num_row_groups == len(groups)
    assert file.metadata.metadata == {b"key": b"value"}
    for number, group in enumerate(groups):
        # As text: NaN is not equal to NaN.
        assert str(file.read_row_group(number).to_pylist()) == str(group.to_pylist())
    assert "plain" in with_statistics(file, 0)
    assert "plain" in with_statistics(file, 1)
    assert "plain" not in with_statistics(file, 2)
    assert "plain" in by_dictionary(file, 3)
    assert "plain" not in by_dictionary(file, 4)


def test_base_files_and_parquet_blocks_of_logs_have_no_statistics_of_columns_with_nan() -> None:
    schema = pa.schema([("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64()), ("f", pa.float64())])
    storage, options = MemoryStorage(), {**MOR, "hoodie.logfile.data.block.format": "parquet"}
    rows = pa.table([[1, 2, 3], ["oslo"] * 3, [1] * 3, [5.0, math.nan, 5.0]], schema=schema)

    new_table(storage, schema=schema, **options).insert(rows)
    open_table(storage, **options).upsert(rows)

    plan = plan_of(open_table(storage))
    (one,) = plan.slices
    assert one.files.base is not None
    ((place, block),) = list_log_blocks(storage, one.files.logs, plan.merging.blocks)
    log = storage.read(place.path, offset=block.content_offset, length=block.content_size)
    for data in (storage.read(one.files.base), log):
        found = with_statistics(pq.ParquetFile(io.BytesIO(data)), 0)
        assert "id" in found
        assert "f" not in found


WIDE = pa.schema(
    [("id", pa.int64()), ("blob", pa.binary()), ("in", pa.struct([("text", pa.string()), ("n", pa.int8())]))]
)


def wide(size: int, *, rows: int = 2) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": n, "blob": b"b" * size, "in": {"text": "t" * size, "n": n}} for n in range(rows)], schema=WIDE
    )


def test_values_of_a_megabyte_have_neither_dictionary_nor_statistics() -> None:
    file = written(wide(WIDE_VALUE_BYTES))
    assert with_statistics(file, 0) == {"id", "in.n"}
    for path in ("blob", "in.text"):
        assert not any("DICTIONARY" in encoding for encoding in chunks(file, 0)[path].encodings)
    assert file.read().equals(wide(WIDE_VALUE_BYTES))


def test_row_group_of_wide_values_after_one_of_narrow_values_makes_one_file() -> None:
    groups = (wide(10), wide(WIDE_VALUE_BYTES), wide(20))
    file = written(*groups)
    assert with_statistics(file, 0) == {"id", "blob", "in.text", "in.n"}
    assert with_statistics(file, 1) == {"id", "in.n"}
    assert file.read().combine_chunks().equals(pa.concat_tables(groups).combine_chunks())
