"""Thrift's compact protocol, in which Parquet writes its footers: structures as values, without their declarations.

Fields that this release does not know survive decoding and encoding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pyhudi.errors import CorruptDataError

TRUE: Final = 1
FALSE: Final = 2
BYTE: Final = 3
I16: Final = 4
I32: Final = 5
I64: Final = 6
DOUBLE: Final = 7
BINARY: Final = 8
LIST: Final = 9
SET: Final = 10
STRUCT: Final = 12

_DEPTH_MAX: Final = 32
_INT_BYTES_MAX: Final = 10
_SHORT_LIST: Final = 15
_DOUBLE_BYTES: Final = 8
_FIELD_ID_MAX: Final = 2**15 - 1

Field: TypeAlias = tuple[int, Any]
"""A kind and its value: bool for TRUE and FALSE, int, bytes for DOUBLE and BINARY, `Items`, or a structure."""
Struct: TypeAlias = dict[int, Field]
"""The fields of a structure by their ids."""


@dataclass(frozen=True, slots=True)
class Items:
    """The elements of a list or set, all of one kind. An encoded structure may stand for its fields."""

    kind: int
    values: tuple[Any, ...]


def decode_struct(data: bytes, *, path: str) -> Struct:
    """The structure that all of the bytes are.

    Raises:
        CorruptDataError: the bytes are no structure; names `path` and the offset within the bytes.
    """
    decoder = _Decoder(data, path)
    fields = decoder.struct(0)
    if decoder.at != len(data):
        raise decoder.damaged("bytes follow it")
    return fields


def encode_struct(fields: Struct) -> bytes:
    """The bytes of a structure."""
    out = bytearray()
    _encode_struct(out, fields)
    return bytes(out)


class _Decoder:
    def __init__(self, data: bytes, path: str) -> None:
        self._data, self._path, self.at = data, path, 0

    def damaged(self, cause: str) -> CorruptDataError:
        return CorruptDataError(
            "the footer of this base file is damaged",
            path=self._path,
            cause=cause,
            offset=self.at,
            size=len(self._data),
        )

    def struct(self, depth: int) -> Struct:
        if depth > _DEPTH_MAX:
            raise self.damaged("its structures are nested too deeply")
        fields: Struct = {}
        number = 0
        while (head := self._byte()) != 0:
            kind, step = head & 15, head >> 4
            number = number + step if step else self._int()
            if not 0 < number <= _FIELD_ID_MAX or number in fields:
                raise self.damaged(f"the field {number} must not be there")
            fields[number] = (kind, kind == TRUE if kind in (TRUE, FALSE) else self._value(kind, depth))
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (I16, I32, I64):
            return self._int()
        if kind == BINARY:
            return self._bytes(self._varint())
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind in (LIST, SET):
            return self._items(depth + 1)
        if kind == DOUBLE:
            return self._bytes(_DOUBLE_BYTES)
        if kind in (TRUE, FALSE, BYTE):
            return self._byte()
        raise self.damaged(f"no field is of kind {kind}")

    def _items(self, depth: int) -> Items:
        if depth > _DEPTH_MAX:
            raise self.damaged("its lists are nested too deeply")
        head = self._byte()
        count = head >> 4
        if count == _SHORT_LIST:
            count = self._varint()
        if count > len(self._data) - self.at:  # no element takes less than a byte
            raise self.damaged(f"a list of {count} elements does not fit")
        return Items(head & 15, tuple(self._value(head & 15, depth) for _ in range(count)))

    def _byte(self) -> int:
        if self.at >= len(self._data):
            raise self.damaged("it is cut off")
        self.at += 1
        return self._data[self.at - 1]

    def _bytes(self, count: int) -> bytes:
        if count > len(self._data) - self.at:
            raise self.damaged("it is cut off")
        self.at += count
        return self._data[self.at - count : self.at]

    def _varint(self) -> int:
        number = 0
        for place in range(_INT_BYTES_MAX):
            byte = self._byte()
            number |= (byte & 127) << (7 * place)
            if byte < 128:
                if number >= 1 << 64:
                    break
                return number
        raise self.damaged("a number has more than 64 bits")

    def _int(self) -> int:
        number = self._varint()
        return number >> 1 ^ -(number & 1)


def _encode_struct(out: bytearray, fields: Struct) -> None:
    before = 0
    for number, (kind, value) in sorted(fields.items()):
        wire = (TRUE if value else FALSE) if kind in (TRUE, FALSE) else kind
        step = number - before
        if step <= _SHORT_LIST:
            out.append(step << 4 | wire)
        else:
            out.append(wire)
            _encode_int(out, number)
        if kind not in (TRUE, FALSE):
            _encode_value(out, kind, value)
        before = number
    out.append(0)


def _encode_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in (I16, I32, I64):
        _encode_int(out, value)
    elif kind == BINARY:
        _encode_varint(out, len(value))
        out += value
    elif kind == STRUCT:
        if isinstance(value, bytes):
            out += value
        else:
            _encode_struct(out, value)
    elif kind in (LIST, SET):
        count = len(value.values)
        out.append(min(count, _SHORT_LIST) << 4 | value.kind)
        if count >= _SHORT_LIST:
            _encode_varint(out, count)
        for item in value.values:
            _encode_value(out, value.kind, item)
    elif kind == DOUBLE:
        out += value
    else:
        out.append(value)


def _encode_int(out: bytearray, number: int) -> None:
    _encode_varint(out, (number << 1 ^ number >> 63) & (1 << 64) - 1)


def _encode_varint(out: bytearray, number: int) -> None:
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
