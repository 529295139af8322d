"""Byte layout of a delete block: which records are deleted, and at which ordering values.

    content    := int32 3 (block version) | int32 size of the datum | datum          int32: big-endian
    datum      := Avro datum of HoodieDeleteRecordList, an array of records
    record     := record key | partition path | ordering value
    record key := 02 | text                      text: zigzag varint of its size, then UTF-8
    partition  := 00 (null) or 02 | text
    ordering   := one wrapper, or 18 02 | count | count wrappers | 00 for several ordering fields
    wrapper    := 2 * branch | value:

    branch             value                          branch             value
    0 null             nothing                        7 string           text
    1 boolean          1 byte                         8 date             varint of days since 1970
    2 int              varint                         9 decimal          size, two's complement, 15 fractional digits
    3 long             varint                         10 time            varint of microseconds
    4 float            4 bytes, little-endian         11 timestamp       varint of microseconds
    5 double           8 bytes, little-endian         12 array           see ordering; in an array: a date
    6 bytes            size, bytes

https://github.com/apache/hudi/blob/master/hudi-common/src/main/avro/HoodieDeleteRecordList.avsc
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

BLOCK_VERSION: Final = 3
CONTENT_BYTES_MAX: Final = (1 << 31) - 1
"""The size is an int32."""
PREFIX: Final = struct.Struct(">ii")
VARINT_BYTES_MAX: Final = 10
DECIMAL: Final = pa.decimal256(76, 15)
"""The wrapper fixes 15 fractional digits; 76 digits hold the values of any column."""
DECIMAL_BYTES: Final = 32
MICROSECONDS: Final = "us"

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
TypeCheck = Callable[[pa.DataType], bool]


class Wrapper(enum.IntEnum):
    """The branches of an ordering value. Inside an array, the number of ARRAY means LOCAL_DATE."""

    NULL = 0
    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    STRING = 7
    DATE = 8
    DECIMAL = 9
    TIME_MICROS = 10
    TIMESTAMP_MICROS = 11
    ARRAY = 12


LOCAL_DATE: Final = Wrapper.ARRAY


def is_integer(wanted: pa.DataType) -> bool:
    """Whether a column of this type holds signed integers."""
    return bool(pa.types.is_signed_integer(wanted))


def is_text(wanted: pa.DataType) -> bool:
    """Whether a column of this type holds text."""
    return bool(pa.types.is_string(wanted) or pa.types.is_large_string(wanted))


def is_binary(wanted: pa.DataType) -> bool:
    """Whether a column of this type holds bytes."""
    return bool(pa.types.is_binary(wanted) or pa.types.is_large_binary(wanted))
