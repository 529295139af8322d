"""The bytes of an Arrow array of strings as numpy arrays, for hashes over all strings at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa


class StringBytes(NamedTuple):
    """The UTF-8 bytes of all strings after one another; string n has those from `ends[n]` to `ends[n + 1]`."""

    data: npt.NDArray[np.uint8]
    ends: npt.NDArray[np.int64]


def string_bytes(strings: pa.Array | pa.ChunkedArray) -> StringBytes:
    """The bytes of strings. A null counts as an empty string. Memory: the bytes are copied only for what is chunked."""
    if isinstance(strings, pa.ChunkedArray):
        strings = pa.concat_arrays(strings.chunks) if strings.num_chunks else pa.array([], strings.type)
    if not pa.types.is_large_string(strings.type):
        strings = strings.cast(pa.large_string())
    if len(strings) == 0:
        return StringBytes(np.zeros(0, np.uint8), np.zeros(1, np.int64))
    _, ends_buffer, data_buffer = strings.buffers()
    ends = np.frombuffer(ends_buffer, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    first, last = int(ends[0]), int(ends[-1])
    data = np.frombuffer(data_buffer, np.uint8)[first:last] if last > first else np.zeros(0, np.uint8)
    return StringBytes(data, ends - first)
