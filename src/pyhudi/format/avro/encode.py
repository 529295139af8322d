"""Encoding of Arrow columns as Avro records, one field at a time over many rows.

Every field becomes binary arrays, its *pieces*, with its bytes in each row. Arrow then joins the pieces of each row,
and the data of the joined array is the sequence of records. The pieces of a string column are the varints of its
lengths, and the column itself. Nulls are removed before encoding and inserted afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import SchemaMismatchError
from pyhudi.format.avro.layout import Kind, Layout, RecordLayout

_Ints: TypeAlias = npt.NDArray[np.int64]
_Words: TypeAlias = npt.NDArray[np.uint64]
_Octets: TypeAlias = npt.NDArray[np.uint8]

_PIECE_BYTES_MAX: Final = (1 << 31) - 1
_VARINT_BYTES_MAX: Final = 10
_DECIMAL_BYTES: Final = 16
_END_OF_BLOCKS: Final = b"\x00"

_SPREADINGS: Final = (
    # From 56 bits in 64 to 28 in 32, 14 in 16, 7 in 8; needed when a varint is longer than so many bytes.
    (4, np.uint64(0x000000000FFFFFFF), np.uint64(0x00FFFFFFF0000000), np.uint64(4)),
    (2, np.uint64(0x00003FFF00003FFF), np.uint64(0x0FFFC0000FFFC000), np.uint64(2)),
    (1, np.uint64(0x007F007F007F007F), np.uint64(0x3F803F803F803F80), np.uint64(1)),
)
_CONTINUES: Final = np.array([sum(0x80 << 8 * byte for byte in range(size - 1)) for size in range(9)], np.uint64)
"""By the length of a varint of up to eight bytes: the bits that say that another byte follows."""


def encode_records(layout: RecordLayout, batch: pa.RecordBatch) -> memoryview:
    """The rows as records, each behind its length in four bytes.

    Raises:
        SchemaMismatchError: the rows have other columns or types than the layout, or are too large for a block.
    """
    pieces, lengths = _record_pieces(layout, batch)
    prefix = _binary(lengths.astype(">u4").view(np.uint8).reshape(batch.num_rows, 4))
    return data_of(joined([prefix, *pieces]))


def encode_data(layout: RecordLayout, batch: pa.RecordBatch) -> pa.BinaryArray:
    """The rows as records, one value each. Raises as `encode_records`."""
    return joined(_record_pieces(layout, batch)[0])


def _record_pieces(layout: RecordLayout, batch: pa.RecordBatch) -> tuple[list[pa.Array], _Ints]:
    """The pieces of the rows, and how many bytes each row has."""
    if batch.schema.names != list(layout.record.names):
        raise SchemaMismatchError("the rows have other columns than the Avro schema of their block")
    pieces: list[pa.Array] = []
    for name, child, column in zip(layout.record.names, layout.record.children, batch.columns, strict=True):
        if column.type != child.arrow:
            raise SchemaMismatchError(
                f"column {name!r} is not of the type that it has in the Avro schema of its block",
                column=name,
                type=str(column.type),
                expected=str(child.arrow),
            )
        try:
            pieces += pieces_of(child, column)
        except _ValueWithoutFormError as error:
            raise SchemaMismatchError(f"column {name!r} {error}", column=name) from None
    rows = batch.num_rows
    ends = np.zeros(rows + 1, np.int64)
    for piece in pieces:
        ends += _offsets(piece)
    lengths = np.diff(ends)
    if int(lengths.sum()) + 4 * rows > _PIECE_BYTES_MAX:
        raise SchemaMismatchError("the rows are too large for one Avro block: write fewer at once")
    return pieces, lengths


class _ValueWithoutFormError(Exception):
    """A value that its Avro type does not have; the text says which, after the name of its column."""


def pieces_of(layout: Layout, values: pa.Array) -> list[pa.Array]:
    """What a field adds to each row."""
    if layout.kind is Kind.UNION:
        return [_encode_union(layout, values)]
    if layout.kind is Kind.NULL:
        branch = layout.null_branch
        return [] if branch is None else [constant(bytes([2 * branch]), len(values))]
    nulls = values.null_count
    if nulls and layout.null_branch is None:
        raise _ValueWithoutFormError("has nulls, and its Avro type does not")
    branch_byte = b"" if layout.value_branch is None else bytes([2 * layout.value_branch])
    if not nulls:
        return _ENCODERS[layout.kind](layout, values, branch_byte)
    assert layout.null_branch is not None
    null_byte = bytes([2 * layout.null_branch])
    if nulls == len(values):
        return [constant(null_byte, len(values))]
    present = joined(_ENCODERS[layout.kind](layout, values.drop_null(), branch_byte))
    # One more element, the null, which every null row takes.
    choices = pa.concat_arrays([present, pa.array([null_byte])])
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    numbers = np.where(valid, np.cumsum(valid) - 1, len(present))
    return [choices.take(pa.array(numbers))]


def _encode_union(layout: Layout, values: pa.Array) -> pa.Array:
    """What a union of several types adds to each row: the one field of its struct that is not null."""
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    numbers = np.full(len(values), -1)
    parts: list[pa.Array] = []
    size = 0
    for number, (branch, child) in enumerate(zip(layout.branches, layout.children, strict=True)):
        member = values.field(number)
        rows = np.flatnonzero(member.is_valid().to_numpy(zero_copy_only=False) & valid)
        if rows.size:
            if (numbers[rows] >= 0).any():
                raise _ValueWithoutFormError("has two values in a union")
            numbers[rows] = size + np.arange(rows.size)
            size += rows.size
            parts.append(joined(_ENCODERS[child.kind](child, member.take(pa.array(rows)), bytes([2 * branch]))))
    if (numbers[valid] < 0).any() or (layout.null_branch is None and not valid.all()):
        raise _ValueWithoutFormError("has no value in a union")
    if layout.null_branch is not None:
        numbers[~valid] = size
        parts.append(pa.array([bytes([2 * layout.null_branch])]))
    return pa.concat_arrays(parts).take(pa.array(numbers)) if parts else pa.nulls(0, pa.binary())


# --- one encoder for each kind: `head` goes before each value, and no value is null -----------------------


def _encode_boolean(_: Layout, values: pa.Array, head: bytes) -> list[pa.Array]:
    return [_with_head(head, values.cast(pa.uint8()).to_numpy().reshape(-1, 1))]


def _encode_int(_: Layout, values: pa.Array, head: bytes) -> list[pa.Array]:
    return [varints(values.view(pa.int32()).to_numpy().astype(np.int64), head)]


def _encode_long(_: Layout, values: pa.Array, head: bytes) -> list[pa.Array]:
    return [varints(values.view(pa.int64()).to_numpy(), head)]


def _encode_floating(layout: Layout, values: pa.Array, head: bytes) -> list[pa.Array]:
    numbers = np.ascontiguousarray(values.to_numpy(), dtype=f"<f{layout.size}")
    return [_with_head(head, numbers.view(np.uint8).reshape(-1, layout.size))]


def _encode_bytes(_: Layout, values: pa.Array, head: bytes) -> list[pa.Array]:
    data = values.cast(pa.binary())
    return [varints(np.diff(_offsets(data)).astype(np.int64), head), data]


def _encode_fixed(layout: Layout, values: pa.Array, head: bytes) -> list[pa.Array]:
    return [_with_head(head, _fixed_octets(values, layout.size))]


def _encode_decimal_fixed(layout: Layout, values: pa.Array, head: bytes) -> list[pa.Array]:
    octets = _decimal_octets(values)
    if layout.size <= _DECIMAL_BYTES:
        return [_with_head(head, octets[:, _DECIMAL_BYTES - layout.size :])]
    sign = np.where(octets[:, :1] > 0x7F, np.uint8(0xFF), np.uint8(0))
    extension = np.repeat(sign, layout.size - _DECIMAL_BYTES, axis=1)
    return [_with_head(head, np.concatenate([extension, octets], axis=1))]


def _encode_decimal_bytes(_: Layout, values: pa.Array, head: bytes) -> list[pa.Array]:
    octets = _decimal_octets(values)
    # A byte is needed if it, or the sign bit of the next one, is not just the sign once more.
    sign = np.where(octets[:, :1] > 0x7F, np.uint8(0xFF), np.uint8(0))
    says_more = octets[:, :-1] != sign
    says_more |= (octets[:, 1:] ^ sign) > 0x7F
    first = np.where(says_more.any(axis=1), says_more.argmax(axis=1), _DECIMAL_BYTES - 1)
    begin = np.arange(len(octets)) * _DECIMAL_BYTES
    data = spans(octets, begin + first, begin + _DECIMAL_BYTES)
    return [varints(_DECIMAL_BYTES - first, head), data]


def _encode_enum(layout: Layout, values: pa.Array, head: bytes) -> list[pa.Array]:
    numbers = pc.index_in(values, pa.array(layout.symbols, layout.arrow))
    if numbers.null_count:
        raise _ValueWithoutFormError("has a value that is no symbol of its enum")
    return [varints(numbers.to_numpy().astype(np.int64), head)]


def _encode_record(layout: Layout, values: pa.Array, head: bytes) -> list[pa.Array]:
    pieces = [constant(head, len(values))] if head else []
    for number, child in enumerate(layout.children):
        pieces += pieces_of(child, values.field(number))
    return pieces


def _encode_array(layout: Layout, values: pa.Array, head: bytes) -> list[pa.Array]:
    first, last = _item_range(values)
    (item,) = layout.children
    return _blocks(values, pieces_of(item, values.values.slice(first, last - first)), head)


def _encode_map(layout: Layout, values: pa.Array, head: bytes) -> list[pa.Array]:
    first, last = _item_range(values)
    key, value = layout.children
    keys = pieces_of(key, values.keys.slice(first, last - first))
    return _blocks(values, keys + pieces_of(value, values.items.slice(first, last - first)), head)


_ENCODERS: Final[Mapping[Kind, Callable[[Layout, pa.Array, bytes], list[pa.Array]]]] = {
    Kind.BOOLEAN: _encode_boolean,
    Kind.INT: _encode_int,
    Kind.LONG: _encode_long,
    Kind.FLOATING: _encode_floating,
    Kind.TEXT: _encode_bytes,
    Kind.BYTES: _encode_bytes,
    Kind.FIXED: _encode_fixed,
    Kind.DECIMAL_FIXED: _encode_decimal_fixed,
    Kind.DECIMAL_BYTES: _encode_decimal_bytes,
    Kind.ENUM: _encode_enum,
    Kind.RECORD: _encode_record,
    Kind.ARRAY: _encode_array,
    Kind.MAP: _encode_map,
}


def _item_range(values: pa.Array) -> tuple[int, int]:
    """Where the items of these lists begin, and where they end."""
    offsets = values.offsets
    return offsets[0].as_py(), offsets[-1].as_py()


def _blocks(values: pa.Array, item_pieces: list[pa.Array], head: bytes) -> list[pa.Array]:
    """The lists of these items as one block each, or none where there are no items, and the end of the blocks."""
    offsets = values.offsets.to_numpy()
    counts = np.diff(offsets).astype(np.int64)
    items = joined(item_pieces)
    # Items stand back to back, so those of a row are one span of them.
    bounds = _offsets(items)[offsets - offsets[0]].astype(np.int32)
    data = pa.Array.from_buffers(pa.binary(), len(counts), [None, pa.py_buffer(bounds), items.buffers()[2]])
    zero = np.zeros(len(counts), np.int64)
    end = spans(np.frombuffer(_END_OF_BLOCKS, np.uint8), zero, (counts > 0).astype(np.int64))
    return [varints(counts, head), data, end]


# --- bytes to pieces --------------------------------------------------------------------------------------


def varints(numbers: _Ints, head: bytes) -> pa.Array:
    """Zigzag varints, each behind `head`."""
    values = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    bits = int(values.max()).bit_length() if len(values) else 0
    if bits <= 7:
        return _with_head(head, values.astype(np.uint8).reshape(-1, 1))
    if bits > 56:
        octets, lengths = _long_varints(values)
    else:
        widest = -(-bits // 7)
        lengths = np.ones(len(values), np.int64)
        for size in range(1, widest):
            lengths += values >= np.uint64(1 << 7 * size)
        for bytes_done, low, high, shift in _SPREADINGS:
            if widest > bytes_done:
                values = (values & low) | ((values & high) << shift)
        octets = (values | _CONTINUES[lengths]).view(np.uint8).reshape(-1, 8)[:, :widest]
    lengths += len(head)
    octets = _headed(head, octets)
    if (lengths == octets.shape[1]).all():
        return _binary(octets)
    begin = np.arange(len(octets)) * octets.shape[1]
    return spans(octets, begin, begin + lengths)


def _long_varints(values: _Words) -> tuple[_Octets, _Ints]:
    octets = np.empty((len(values), _VARINT_BYTES_MAX), np.uint8)
    lengths = np.ones(len(values), np.int64)
    for byte in range(_VARINT_BYTES_MAX):
        rest = values >> np.uint64(7 * byte)
        continues = rest > np.uint64(0x7F)
        octets[:, byte] = (rest & np.uint64(0x7F)).astype(np.uint8) | (continues.astype(np.uint8) << 7)
        lengths += continues
    return octets, lengths


def _fixed_octets(values: pa.Array, size: int) -> _Octets:
    data = np.frombuffer(values.buffers()[1], np.uint8)
    start = values.offset * size
    return data[start : start + len(values) * size].reshape(-1, size)


def _decimal_octets(values: pa.Array) -> _Octets:
    """Unscaled values in 16 bytes, big-endian."""
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        raise _ValueWithoutFormError("has decimals with more digits than its type") from None
    return _fixed_octets(values, _DECIMAL_BYTES)[:, ::-1]


def _headed(head: bytes, octets: _Octets) -> _Octets:
    """A row of bytes for each value, behind `head`."""
    whole = np.empty((len(octets), len(head) + octets.shape[1]), np.uint8)
    whole[:, : len(head)] = np.frombuffer(head, np.uint8)
    whole[:, len(head) :] = octets
    return whole


def _with_head(head: bytes, octets: _Octets) -> pa.Array:
    return _binary(_headed(head, octets))


def constant(value: bytes, length: int) -> pa.Array:
    """The same bytes in each row."""
    return _with_head(value, np.empty((length, 0), np.uint8))


def _binary(octets: _Octets) -> pa.Array:
    """Each row of a matrix of bytes as a value."""
    length, size = octets.shape
    if length * size > _PIECE_BYTES_MAX:
        raise _ValueWithoutFormError("is too large for one Avro block: write fewer rows at once")
    offsets = np.arange(length + 1, dtype=np.int32) * np.int32(size)
    return pa.Array.from_buffers(pa.binary(), length, [None, pa.py_buffer(offsets), pa.py_buffer(octets)])


def spans(data: _Octets, begin: _Ints, end: _Ints) -> pa.Array:
    """The spans of these bytes as values; they must not overlap, and ascend."""
    if not len(begin):
        return pa.nulls(0, pa.binary())
    borders = np.empty(2 * len(begin), np.int32)
    borders[0::2], borders[1::2] = begin, end
    buffers = [None, pa.py_buffer(borders), pa.py_buffer(np.ascontiguousarray(data))]
    spans_and_gaps = pa.Array.from_buffers(pa.binary(), len(borders) - 1, buffers)
    return spans_and_gaps.take(pa.array(np.arange(0, len(borders), 2, dtype=np.int32)))


def joined(pieces: Sequence[pa.Array]) -> pa.Array:
    """The pieces of each row, one behind the other."""
    return pieces[0] if len(pieces) == 1 else pc.binary_join_element_wise(*pieces, b"")


def _offsets(values: pa.Array) -> npt.NDArray[np.int32]:
    """Where each value of a binary array begins in its data, and where the last one ends."""
    if not len(values):
        return np.zeros(1, np.int32)
    offsets = np.frombuffer(values.buffers()[1], np.int32)
    return offsets[values.offset : values.offset + len(values) + 1]


def data_of(values: pa.Array) -> memoryview:
    """The bytes of all values of a binary array, back to back."""
    offsets = _offsets(values)
    return memoryview(values.buffers()[2])[int(offsets[0]) : int(offsets[-1])]
