"""Base64 as Arrow: whole columns at a time."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_PAD: Final = ord("=")
_BAD: Final = 255


def _alphabet() -> npt.NDArray[np.uint8]:
    table = np.full(256, _BAD, np.uint8)
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    table[np.frombuffer(letters, np.uint8)] = np.arange(64, dtype=np.uint8)
    table[_PAD] = 0
    return table


_VALUES: Final = _alphabet()


def decode_base64(texts: pa.StringArray) -> pa.BinaryArray:
    """The bytes that texts in base64, with padding, stand for. Raises `ValueError` for a text that is none."""
    texts = texts.cast(pa.large_string())
    is_known = texts.is_valid()
    texts = pc.fill_null(texts, "")
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset :][: len(texts) + 1]
    data = texts.buffers()[2]
    letters = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]] if data is not None else np.array([], np.uint8)
    lengths = np.diff(offsets)
    if (lengths % 4).any():
        raise ValueError("a text is no base64: its length is no multiple of 4")
    ends = offsets[1:] - offsets[0]
    pads = np.zeros(len(lengths), np.int64)
    filled = np.flatnonzero(lengths)
    pads[filled] = (letters[ends[filled] - 1] == _PAD).astype(np.int64)
    pads[filled] += (letters[ends[filled] - 2] == _PAD) & (pads[filled] == 1)
    numbers = _VALUES[letters]
    if (numbers == _BAD).any() or int((letters == _PAD).sum()) != int(pads.sum()):
        raise ValueError("a text is no base64")
    quads = numbers.reshape(-1, 4).astype(np.uint32)
    whole = (quads[:, 0] << 18) | (quads[:, 1] << 12) | (quads[:, 2] << 6) | quads[:, 3]
    octets = np.stack([whole >> 16, whole >> 8, whole], axis=1).astype(np.uint8).reshape(-1)
    sizes = lengths // 4 * 3 - pads
    kept = np.ones(len(octets), bool)
    octet_ends = np.cumsum(lengths // 4 * 3)
    for count in (1, 2):
        kept[octet_ends[pads >= count] - count] = False
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    found = pa.Array.from_buffers(
        pa.large_binary(), len(sizes), [None, pa.py_buffer(bounds), pa.py_buffer(octets[kept])]
    )
    return pc.if_else(is_known, found, None).cast(pa.binary())
