"""Thrift's compact protocol: what it says comes back, and damage ends in a typed error."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.errors import CorruptDataError
from pyhudi.format.parquet.footer import TAIL
from pyhudi.format.parquet.thrift import (
    BINARY,
    BYTE,
    DOUBLE,
    FALSE,
    I16,
    I32,
    I64,
    LIST,
    SET,
    STRUCT,
    TRUE,
    Items,
    decode_struct,
    encode_struct,
)

LONGS = st.integers(-(2**63), 2**63 - 1)
SCALARS: dict[int, st.SearchStrategy[Any]] = {
    BYTE: st.integers(0, 255),
    I16: LONGS,
    I32: LONGS,
    I64: LONGS,
    DOUBLE: st.binary(min_size=8, max_size=8),
    BINARY: st.binary(max_size=200),
}


def fields_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.integers(1, 2**15 - 1), values, max_size=5)


def items_of(kind: int, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(values, max_size=20).map(lambda found: Items(kind, tuple(found)))


FIELDS = st.one_of(
    *(st.tuples(st.just(kind), values) for kind, values in SCALARS.items()),
    *(st.tuples(st.sampled_from([LIST, SET]), items_of(kind, values)) for kind, values in SCALARS.items()),
    st.sampled_from([(TRUE, True), (FALSE, False)]),
)
STRUCTS = st.recursive(
    fields_of(FIELDS),
    lambda inner: fields_of(
        st.one_of(FIELDS, st.tuples(st.just(STRUCT), inner), st.tuples(st.just(LIST), items_of(STRUCT, inner)))
    ),
    max_leaves=10,
)


@given(STRUCTS)
def test_structure_comes_back_as_it_was_encoded(fields: dict[int, Any]) -> None:
    assert decode_struct(encode_struct(fields), path="f") == fields


def footer_of_pyarrow() -> bytes:
    sink = io.BytesIO()
    rows = pa.table({"id": range(100), "name": [None, *map(str, range(99))], "l": [[1.5]] * 100})
    pq.write_table(rows, sink, row_group_size=30, write_page_index=True)
    data = sink.getvalue()
    size, _ = TAIL.unpack(data[-8:])
    return data[-8 - size : -8]


def test_footer_of_pyarrow_is_encoded_in_the_same_bytes() -> None:
    data = footer_of_pyarrow()
    assert encode_struct(decode_struct(data, path="f")) == data


def test_encoded_structures_stand_for_their_fields_in_lists() -> None:
    inner = {1: (I32, 7), 20: (TRUE, True)}
    with_bytes = {3: (LIST, Items(STRUCT, (encode_struct(inner), inner)))}
    assert decode_struct(encode_struct(with_bytes), path="f") == {3: (LIST, Items(STRUCT, (inner, inner)))}


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"", "cut off"),
        (b"\x15", "cut off"),
        (b"\x18\x05ab", "cut off"),
        (b"\x00\x00", "bytes follow"),
        (b"\x1b\x00\x00", "kind 11"),
        (b"\x19\xfc\xff\xff\xff\xff\x0f\x00", "does not fit"),
        (b"\x16" + b"\xff" * 10 + b"\x00", "64 bits"),
        (b"\x16" + b"\xff" * 9 + b"\x02\x00", "64 bits"),
        (b"\x05\x00\x00\x00", "field 0"),
        (b"\x15\x02\x05\x02\x02\x00", "field 1"),
        (b"\x1c" * 40 + b"\x00" * 41, "nested"),
        (b"\x19" + b"\x19" * 40 + b"\x00" * 4, "nested"),
    ],
    ids=str,
)
def test_bytes_that_are_no_structure_are_refused(data: bytes, cause: str) -> None:
    with pytest.raises(CorruptDataError) as caught:
        decode_struct(data, path="f.parquet")
    assert cause in str(caught.value.context["cause"])
    assert caught.value.context["path"] == "f.parquet"
