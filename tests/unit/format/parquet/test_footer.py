"""Key-value pairs in footers: the bytes are those that Arrow writes."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyhudi.errors import InternalError
from pyhudi.format.parquet.footer import MAGIC, TAIL, with_values

TEXTS = st.text(max_size=300)


def file_of_arrow(values: Mapping[str, str], groups: int, columns: int) -> tuple[bytes, str]:
    """A file with these pairs, and what its footer says of its writer."""
    rows = pa.table({f"column {number}": ["a", None, "b"] for number in range(columns)})
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, rows.schema, store_schema=False) as writer:
        for _ in range(groups):
            writer.write_table(rows)
        if values:
            writer.add_key_value_metadata(values)
    data = sink.getvalue()
    return data, pq.read_metadata(io.BytesIO(data)).created_by


def footer_of(data: bytes) -> bytes:
    """The footer without its tail."""
    size, magic = TAIL.unpack(data[-TAIL.size :])
    assert magic == MAGIC
    return data[-TAIL.size - size : -TAIL.size]


@given(st.dictionaries(TEXTS, TEXTS, max_size=20), st.integers(0, 20), st.integers(1, 20))
@example({"a Bloom filter": "A" * 400_000}, 1, 3)
@example({"names a writer": "parquet-cpp-arrow version 1.0.0"}, 1, 1)
def test_pairs_in_a_footer_are_the_bytes_of_arrow(values: dict[str, str], groups: int, columns: int) -> None:
    expected, writer = file_of_arrow(values, groups, columns)
    plain, _ = file_of_arrow({}, groups, columns)
    assert with_values(footer_of(plain), values, created_by=writer) == footer_of(expected) + expected[-TAIL.size :]


def test_footer_of_another_writer_is_refused_by_its_name() -> None:
    plain, _ = file_of_arrow({}, 1, 1)
    with pytest.raises(InternalError) as caught:
        with_values(footer_of(plain), {"key": "value"}, created_by="somebody else")
    assert caught.value.context["created_by"] == "somebody else"
