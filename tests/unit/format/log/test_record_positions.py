"""Record positions in log blocks: the texts that real Hudi writes, and every kind of container."""

from __future__ import annotations

import base64
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from pyhudi.errors import CorruptDataError
from pyhudi.format.log.record_positions import POSITIONS_MAX, decode_positions, encode_positions

PATH = "p/.f_1.log.1_0-0-0"

WRITTEN_BY_HUDI = {
    "AQAAAAAAAAAAAAAAOzAAAAEAAAMAAQANAAMA": [13, 14, 15, 16],
    "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAAAEAAAAAIA": [2],
    "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAEAEAAAAAAAAQA=": [0, 1],
}


def decode(text: str) -> list[int]:
    return decode_positions(text, path=PATH, offset=7).tolist()


@pytest.mark.parametrize(("text", "positions"), WRITTEN_BY_HUDI.items())
def test_positions_of_real_hudi_are_read_and_written_alike(text, positions):
    assert decode(text) == positions
    assert encode_positions(np.array(positions, dtype=np.int64)) == text


@settings(max_examples=25, deadline=None)
@given(st.sets(st.integers(0, 1 << 33)), st.integers(0, 1 << 33), st.integers(0, 9_000), st.integers(1, 3))
def test_any_positions_come_back(scattered, start, length, step):
    positions = np.array(sorted(scattered | set(range(start, start + length, step))), dtype=np.int64)
    found = decode_positions(encode_positions(positions), path=PATH, offset=0)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, positions)


@pytest.mark.parametrize("text", ["", "AA", "not base64!", "AQAAAAAAAAAAAAAAOzAAAAEAAAMAAQANAAM="])
def test_text_that_is_no_bitmap_is_refused_with_its_place(text):
    with pytest.raises(CorruptDataError) as caught:
        decode(text)
    assert caught.value.context["path"] == PATH
    assert caught.value.context["offset"] == 7


def test_bitmap_that_miscounts_itself_is_refused():
    data = bytearray(BitMap64(range(0, 131_072, 2)).serialize())
    struct.pack_into("<H", data, 22, 4096)  # the first container has 32768 positions
    with pytest.raises(CorruptDataError):
        decode(base64.b64encode(data).decode())


def test_short_text_for_billions_of_positions_is_refused():
    bitmap = BitMap64()
    bitmap.add_range(0, POSITIONS_MAX + 1)
    bitmap.run_optimize()
    with pytest.raises(CorruptDataError, match="too many"):
        decode(base64.b64encode(bitmap.serialize()).decode())


def test_position_beyond_int64_is_refused():
    with pytest.raises(CorruptDataError, match="impossible"):
        decode(base64.b64encode(BitMap64([1 << 63]).serialize()).decode())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 26), st.integers(1, 255))
def test_damaged_bitmap_gives_positions_or_a_typed_error(place, flip):
    data = bytearray(base64.b64decode("AQAAAAAAAAAAAAAAOzAAAAEAAAMAAQANAAMA"))
    data[place] ^= flip
    try:
        found = decode(base64.b64encode(data).decode())
    except CorruptDataError:
        return
    assert found == sorted(set(found))
