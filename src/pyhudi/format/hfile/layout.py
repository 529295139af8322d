"""Constants of the HFile format, and the parts of protobuf that its reader and writer need.

https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from typing import Final

import numpy as np

MAJOR_VERSION: Final = 3
TRAILER_BYTES: Final = 4096
TRAILER_MAGIC: Final = b'TRABLK"$'
DATA_MAGIC: Final = b"DATABLK*"
META_MAGIC: Final = b"METABLKc"
ROOT_INDEX_MAGIC: Final = b"IDXROOT2"
FILE_INFO_MAGIC: Final = b"FILEINF2"
FILE_INFO_PREFIX: Final = b"PBUF"

BLOCK_HEADER: Final = struct.Struct(">8siiqbii")
"""Magic; payload with checksums; payload decompressed; previous block; checksum type; bytes per checksum; header with
payload."""
CHECKSUM_BYTES: Final = 4
BYTES_PER_CHECKSUM: Final = 16384

ENTRY_HEADER: Final = np.dtype([("key", ">i4"), ("value", ">i4"), ("row", ">i2")])
"""Sizes at the front of an entry: the whole key, the value, the row in the key."""
PUT: Final = 4
KEY_TAIL: Final = bytes.fromhex("007fffffffffffffff") + bytes([PUT])
"""What follows the row in every key: no column family, the latest time, the kind of entry."""
KEY_OVERHEAD: Final = 2 + len(KEY_TAIL)
ROW_BYTES_MAX: Final = (1 << 15) - 1

# Names in the file info block.
SCHEMA: Final = "schema"
LAST_KEY: Final = "hfile.LASTKEY"
AVERAGE_KEY_SIZE: Final = "hfile.AVG_KEY_LEN"
AVERAGE_VALUE_SIZE: Final = "hfile.AVG_VALUE_LEN"
CREATE_TIME: Final = "hfile.CREATE_TIME_TS"
KEY_VALUE_VERSION: Final = "KEY_VALUE_VERSION"
KEY_VALUE_VERSION_WITH_MVCC: Final = bytes([0, 0, 0, 1])
MAX_MVCC: Final = "MAX_MEMSTORE_TS_KEY"

COMPARATOR: Final = "org.apache.hudi.io.storage.HoodieHBaseKVComparator"

_VARINT_BYTES_MAX: Final = 10
_FIXED_BYTES: Final = {1: 8, 5: 4}
"""Wire types of protobuf with a fixed size."""
_VARINT: Final = 0
_BYTES: Final = 2


class Checksum(enum.IntEnum):
    """The kinds of checksums behind a block."""

    NONE = 0
    CRC32 = 1
    CRC32C = 2


class TrailerField(enum.IntEnum):
    """Numbers of the trailer's protobuf fields."""

    FILE_INFO_OFFSET = 1
    LOAD_ON_OPEN_OFFSET = 2
    UNCOMPRESSED_INDEX_BYTES = 3
    DATA_BLOCK_COUNT = 5
    META_BLOCK_COUNT = 6
    ENTRY_COUNT = 7
    INDEX_LEVELS = 8
    FIRST_DATA_BLOCK = 9
    LAST_DATA_BLOCK = 10
    COMPARATOR = 11
    CODEC = 12
    ENCRYPTION_KEY = 13


def parse_varint(data: memoryview | bytes, position: int) -> tuple[int, int]:
    """An unsigned protobuf varint of at most 64 bits, and the position after it.

    Raises:
        ValueError: it is cut off, or too long.
    """
    number = 0
    for count, byte in enumerate(data[position : position + _VARINT_BYTES_MAX]):
        number |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return number & ((1 << 64) - 1), position + count + 1
    raise ValueError("a number is cut off or too long")


def format_varint(number: int) -> bytes:
    """A number that is not negative as protobuf varint."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def parse_message(data: memoryview | bytes, position: int, length: int) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message, in order: number and value, an int for varints and bytes for all else.

    Raises:
        ValueError: a length that does not fit, or a wire type that protobuf does not have.
    """
    end = position + length
    if end > len(data):
        raise ValueError("a message is cut off")
    while position < end:
        tag, position = parse_varint(data, position)
        wire_type = tag & 7
        if wire_type == _VARINT:
            number, position = parse_varint(data, position)
            yield tag >> 3, number
            continue
        if wire_type == _BYTES:
            size, position = parse_varint(data, position)
        elif wire_type in _FIXED_BYTES:
            size = _FIXED_BYTES[wire_type]
        else:
            raise ValueError("a field has an unknown wire type")
        if size > end - position:
            raise ValueError("a field is cut off")
        yield tag >> 3, bytes(data[position : position + size])
        position += size
    if position != end:
        raise ValueError("a message does not end where it should")


def format_field(number: int, value: int | bytes) -> bytes:
    """One field of a protobuf message: an int as varint, bytes with their length."""
    if isinstance(value, int):
        return format_varint(number << 3 | _VARINT) + format_varint(value)
    return format_varint(number << 3 | _BYTES) + format_varint(len(value)) + value
