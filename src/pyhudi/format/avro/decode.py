"""Decoding of Avro records into Arrow columns, one field at a time over many records.

If the starts of the records are known, each field can be read from all records in a few numpy operations, with one
cursor per record. Three techniques make it fast:

- eight bytes at any offset are one element of an overlapping view, so a varint of up to eight bytes takes a few mask
  and shift operations, only as many as the column needs;
- strings are copied together: offsets over the bytes of the records alternate between strings and gaps, and Arrow takes
  every second element;
- nulls are removed before reading and inserted afterwards, so the readers need not handle them.

A cursor never leaves its record, and no byte is read for two records. So work and memory are proportional to the bytes,
even if they are damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.errors import CorruptDataError
from pyhudi.format.avro.layout import Kind, Layout, null_bytes_max

PADDING: Final = 16
"""Bytes before and after the records of a source, so that whole words can be read at any offset."""

_Ints: TypeAlias = npt.NDArray[np.int64]
_Words: TypeAlias = npt.NDArray[np.uint64]

_ROUNDS_FREE: Final = 256
_BYTES_PER_ROUND: Final = 256
_DECIMAL_BYTES_MAX: Final = 16
_MILLISECONDS_PER_DAY: Final = 86_400_000

_ONE: Final = np.uint64(1)
_EVERY_BYTE: Final = np.uint64(0x0101010101010101)
_CONTINUES: Final = np.uint64(0x8080808080808080)
_PAYLOAD: Final = np.uint64(0x7F7F7F7F7F7F7F7F)
_GATHERINGS: Final = (
    # From groups of 7 bits in 8 to 14 in 16, 28 in 32, 56 in 64; needed when a varint is longer than so many bytes.
    (1, np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (2, np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (4, np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
)


class RaggedRecordsError(Exception):
    """A few records have so many items that reading them one by one is faster than reading columns."""


class Source:
    """The bytes of some records, with `PADDING` around them, and what all their cursors share.

    Args:
        data: The bytes, read-only or not.
        base: Where `data[PADDING]` stands in the block's content.
        path: The file, for errors.
        offset: Where the block stands in it, for errors.
    """

    def __init__(self, data: npt.NDArray[np.uint8], *, base: int, path: str, offset: int) -> None:
        self.data = data
        self.buffer = pa.py_buffer(data)
        self.words: _Words = np.ndarray((len(data) - 7,), "<u8", buffer=data, strides=(1,))
        self.column: str | None = None
        self._base, self._path, self._offset = base, path, offset
        # A round costs some numpy calls however few records take part.
        self._rounds_left = _ROUNDS_FREE + len(data) // _BYTES_PER_ROUND
        self._null_bytes_left = null_bytes_max(len(data))

    def damage(self, message: str, position: int) -> CorruptDataError:
        """The error for damage at this place of the source."""
        return CorruptDataError(
            f"a record in an Avro block is damaged: {message}",
            path=self._path,
            offset=self._offset,
            column=self.column,
            content_offset=self._base + position - PADDING,
        )

    def count_rounds(self, rounds: int) -> None:
        """Account for so many more items of arrays, of the longest array.

        Raises:
            RaggedRecordsError: the rounds are used up.
        """
        self._rounds_left -= rounds
        if self._rounds_left < 0:
            raise RaggedRecordsError

    def count_nulls(self, size: int, position: int) -> None:
        """Account for the bytes that nulls are about to take in Arrow.

        Raises:
            CorruptDataError: they are far more than the records have.
        """
        self._null_bytes_left -= size
        if self._null_bytes_left < 0:
            raise self.damage("nulls take many times its size", position)


@dataclass(slots=True)
class Cursors:
    """The read positions of some records: `position` advances, never past `end`. Both ascend."""

    source: Source
    position: _Ints
    end: _Ints

    def __len__(self) -> int:
        return len(self.position)

    def of(self, rows: npt.NDArray[np.intp]) -> Cursors:
        """The cursors of some records, as they stand; `put_back` moves these to where the others got."""
        return Cursors(self.source, self.position[rows], self.end[rows])

    def put_back(self, rows: npt.NDArray[np.intp], cursors: Cursors) -> None:
        """Move on to where the cursors `of` the same rows stand."""
        self.position[rows] = cursors.position

    def require(self, fine: npt.NDArray[np.bool_], message: str) -> None:
        """Raise `CorruptDataError` with the first place that is not fine."""
        if not fine.all():
            raise self.source.damage(message, int(self.position[int(fine.argmin())]))

    def advance(self, by: _Ints | int) -> _Ints:
        """Move by so many bytes, which must not be negative; returns where the cursors stood."""
        before = self.position
        after = before + by
        self.require(after <= self.end, "a value does not end inside it")
        self.position = after
        return before

    def bytes(self) -> npt.NDArray[np.uint8]:
        """The next byte of each."""
        found: npt.NDArray[np.uint8] = self.source.data[self.advance(1)]
        return found

    def varints(self) -> _Words:
        """The next varint of each, as it stands."""
        first = self.source.data[self.position]
        if first.max() <= 0x7F:
            self.advance(1)
            return first.astype(np.uint64)
        words = self.source.words[self.position]
        stops = ~words & _CONTINUES
        own = stops ^ (stops - _ONE)  # all bits up to the end of the varint's last byte; all ones if there is no end
        widest = int(own.max()).bit_length() // 8
        values = _gathered(words & own & _PAYLOAD, widest)
        lengths = (((own & _EVERY_BYTE) * _EVERY_BYTE) >> np.uint64(56)).view(np.int64)
        if widest == 8 and not stops.all():
            self._finish_long_varints(np.flatnonzero(stops == 0), values, lengths)
        self.advance(lengths)
        return values

    def _finish_long_varints(self, rows: npt.NDArray[np.intp], values: _Words, lengths: _Ints) -> None:
        """Add the ninth and tenth byte where a varint has them."""
        words = self.source.words[self.position[rows] + 8]
        ninth, tenth = words & np.uint64(0xFF), (words >> np.uint64(8)) & np.uint64(0xFF)
        is_longer = ninth > 0x7F
        self.of(rows).require(~is_longer | (tenth <= 1), "a number has more than 64 bits")
        values[rows] |= (ninth & np.uint64(0x7F)) << np.uint64(56)
        values[rows] |= np.where(is_longer, tenth, np.uint64(0)) << np.uint64(63)
        lengths[rows] = 9 + is_longer

    def longs(self) -> _Ints:
        """The next zigzag number of each."""
        values = self.varints()
        numbers: _Ints = (values >> _ONE).view(np.int64) ^ -(values & _ONE).view(np.int64)
        return numbers

    def ints(self) -> npt.NDArray[np.int32]:
        """The next zigzag number of each, which must have 32 bits."""
        values = self.varints()
        self.require(values <= np.uint64(0xFFFFFFFF), "a number has more than 32 bits")
        small = values.astype(np.uint32)
        numbers: npt.NDArray[np.int32] = (small >> np.uint32(1)).view(np.int32) ^ -(small & np.uint32(1)).view(np.int32)
        return numbers

    def spans(self) -> tuple[_Ints, _Ints]:
        """Begin and end of the next length-prefixed bytes of each."""
        lengths = self.longs()
        self.require((lengths >= 0) & (lengths <= self.end - self.position), "a length is wrong")
        return self.advance(lengths), self.position


def read(layout: Layout, cursors: Cursors) -> pa.Array:
    """The next value of each record, one at least, as an array of `layout.arrow`.

    Raises:
        CorruptDataError: the bytes are no such values.
        RaggedRecordsError: see there.
    """
    if layout.kind is Kind.UNION:
        return _read_union(layout, cursors)
    valid = _valid(layout, cursors)
    if valid is None:
        return _READERS[layout.kind](layout, cursors)
    rows = np.flatnonzero(valid)
    cursors.source.count_nulls((len(valid) - rows.size) * layout.null_bytes, int(cursors.position[0]))
    if not rows.size:
        return pa.nulls(len(valid), layout.arrow)
    present = cursors.of(rows)
    values = _READERS[layout.kind](layout, present)
    cursors.put_back(rows, present)
    return values.take(pa.array(np.cumsum(valid) - 1, mask=~valid))


def skip(layout: Layout, cursors: Cursors) -> None:
    """Skip the next value of each record. Raises as `read`, but only checks lengths."""
    if layout.kind is Kind.UNION:
        for child, _, present in _rows_by_branch(layout, cursors):
            _skip_value(child, present)
        return
    valid = _valid(layout, cursors)
    if valid is None:
        _skip_value(layout, cursors)
        return
    rows = np.flatnonzero(valid)
    if rows.size:
        present = cursors.of(rows)
        _skip_value(layout, present)
        cursors.put_back(rows, present)


def _skip_value(layout: Layout, cursors: Cursors) -> None:
    match layout.kind:
        case Kind.NULL:
            pass
        case Kind.BOOLEAN | Kind.FLOATING | Kind.FIXED | Kind.DECIMAL_FIXED:
            cursors.advance(layout.size)
        case Kind.INT | Kind.LONG | Kind.ENUM:
            cursors.varints()
        case Kind.TEXT | Kind.BYTES | Kind.DECIMAL_BYTES:
            cursors.spans()
        case Kind.RECORD:
            for child in layout.children:
                skip(child, cursors)
        case Kind.ARRAY | Kind.MAP:
            for _, present in _rounds(cursors):
                for child in layout.children:
                    skip(child, present)


def _valid(layout: Layout, cursors: Cursors) -> npt.NDArray[np.bool_] | None:
    """Which values are not null; None where all are there."""
    if not layout.is_union:
        return None
    branches = cursors.bytes()
    valid: npt.NDArray[np.bool_] = branches == (-1 if layout.value_branch is None else 2 * layout.value_branch)
    if valid.all():
        return None
    if layout.null_branch is None:
        raise cursors.source.damage("a union has no such branch", int(cursors.position[int(valid.argmin())]) - 1)
    cursors.require(valid | (branches == 2 * layout.null_branch), "a union has no such branch")
    return valid


def _rows_by_branch(layout: Layout, cursors: Cursors) -> Iterator[tuple[Layout, npt.NDArray[np.intp], Cursors]]:
    """The records by the branch of a union of several types: its layout, which records, and cursors at its values."""
    numbers = cursors.bytes()
    branches = layout.branches if layout.null_branch is None else (*layout.branches, layout.null_branch)
    cursors.require(np.isin(numbers, [2 * branch for branch in branches]), "a union has no such branch")
    for branch, child in zip(layout.branches, layout.children, strict=True):
        rows = np.flatnonzero(numbers == 2 * branch)
        if rows.size:
            present = cursors.of(rows)
            yield child, rows, present
            cursors.put_back(rows, present)


def _read_union(layout: Layout, cursors: Cursors) -> pa.Array:
    """The next value of each record: at most one field of the struct is not null."""
    first, is_valid = int(cursors.position[0]), np.zeros(len(cursors), np.bool_)
    nulls = len(cursors) * layout.null_bytes
    found: dict[int, pa.Array] = {}
    for child, rows, present in _rows_by_branch(layout, cursors):
        nulls -= rows.size * child.null_bytes
        numbers = np.full(len(cursors), -1)
        numbers[rows] = np.arange(rows.size)
        found[id(child)] = _READERS[child.kind](child, present).take(pa.array(numbers, mask=numbers < 0))
        is_valid[rows] = True
    cursors.source.count_nulls(nulls, first)
    children = [found.get(id(child), pa.nulls(len(cursors), child.arrow)) for child in layout.children]
    validity = None if is_valid.all() else pa.array(is_valid).buffers()[1]
    return pa.Array.from_buffers(layout.arrow, len(cursors), [validity], children=children)


def _gathered(groups: _Words, widest: int) -> _Words:
    """The numbers whose groups of seven bits stand in the bytes of each word, of which `widest` are in use."""
    for bytes_done, low, high, shift in _GATHERINGS:
        if widest <= bytes_done:
            break
        groups = (groups & low) | ((groups & high) >> shift)
    return groups


# --- one reader for each kind -----------------------------------------------------------------------------


def _read_null(layout: Layout, cursors: Cursors) -> pa.Array:
    return pa.nulls(len(cursors), layout.arrow)


def _read_boolean(layout: Layout, cursors: Cursors) -> pa.Array:
    values = cursors.bytes()
    cursors.require(values <= 1, "a boolean is neither 0 nor 1")
    return _array(layout, len(cursors), np.packbits(values, bitorder="little"))


def _read_int(layout: Layout, cursors: Cursors) -> pa.Array:
    return _array(layout, len(cursors), _checked(layout, cursors, cursors.ints()))


def _read_long(layout: Layout, cursors: Cursors) -> pa.Array:
    return _array(layout, len(cursors), _checked(layout, cursors, cursors.longs()))


def _checked(layout: Layout, cursors: Cursors, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The numbers, of which times of day lie within a day: Arrow's own functions fail at others."""
    if pa.types.is_time(layout.arrow):
        day = _MILLISECONDS_PER_DAY * (1 if layout.kind is Kind.INT else 1000)
        cursors.require((numbers >= 0) & (numbers < day), "a time of day is none")
    return numbers


def _read_floating(layout: Layout, cursors: Cursors) -> pa.Array:
    words = cursors.source.words[cursors.advance(layout.size)]
    return _array(layout, len(cursors), words if layout.size == 8 else words.astype(np.uint32))


def _read_fixed(layout: Layout, cursors: Cursors) -> pa.Array:
    begin = cursors.advance(layout.size)
    data = cursors.source.data
    places = np.ndarray((len(data) - layout.size + 1,), f"V{layout.size}", buffer=data, strides=(1,))
    return _array(layout, len(cursors), places[begin].view(np.uint8))


def _read_bytes(_: Layout, cursors: Cursors) -> pa.Array:
    begin, end = cursors.spans()
    borders = np.empty(2 * len(begin), np.int32)
    borders[0::2], borders[1::2] = begin, end
    buffers = [None, pa.py_buffer(borders), cursors.source.buffer]
    wanted_and_gaps = pa.Array.from_buffers(pa.binary(), len(borders) - 1, buffers)
    return wanted_and_gaps.take(pa.array(np.arange(0, len(borders), 2, dtype=np.int32)))


def _read_text(layout: Layout, cursors: Cursors) -> pa.Array:
    values = _read_bytes(layout, cursors)
    texts = values.buffers()[2]
    if texts is None or np.frombuffer(texts, np.uint8).max(initial=0) <= 0x7F:  # ASCII needs no other check
        return pa.Array.from_buffers(layout.arrow, len(values), values.buffers())
    try:
        return values.cast(layout.arrow)
    except pa.ArrowInvalid as cause:
        raise cursors.source.damage("a string is not UTF-8", int(cursors.position[0])) from cause


def _read_enum(layout: Layout, cursors: Cursors) -> pa.Array:
    numbers = cursors.ints()
    cursors.require((numbers >= 0) & (numbers < len(layout.symbols)), "an enum has no such symbol")
    return pa.array(layout.symbols, layout.arrow).take(pa.array(numbers))


def _read_decimal_fixed(layout: Layout, cursors: Cursors) -> pa.Array:
    begin = cursors.advance(layout.size)
    if (extra := layout.size - _DECIMAL_BYTES_MAX) > 0:
        data = cursors.source.data
        sign = np.where(data[begin + extra] > 0x7F, 0xFF, 0)
        for place in range(extra):
            cursors.require(data[begin + place] == sign, "a decimal has too many digits")
    return _decimals(layout, cursors, np.array([min(layout.size, _DECIMAL_BYTES_MAX)]))


def _read_decimal_bytes(layout: Layout, cursors: Cursors) -> pa.Array:
    begin, end = cursors.spans()
    sizes = end - begin
    cursors.require((sizes > 0) & (sizes <= _DECIMAL_BYTES_MAX), "a decimal has no digits, or too many")
    return _decimals(layout, cursors, sizes)


def _decimals(layout: Layout, cursors: Cursors, sizes: _Ints) -> pa.Array:
    """The big-endian numbers of these sizes, or this one, that end where the cursors stand."""
    words, end = cursors.source.words, cursors.position
    numbers = np.empty((len(end), 2), np.int64)
    # What lies before a number's first byte is shifted out at the top, and the sign comes down from there.
    surplus = np.maximum(64 - 8 * sizes, 0)
    numbers[:, 0] = (words[end - 8].byteswap().view(np.int64) << surplus) >> surplus
    if sizes.max() <= 8:
        numbers[:, 1] = numbers[:, 0] >> 63
    else:
        surplus = np.clip(128 - 8 * sizes, 0, 63)
        high = (words[end - 16].byteswap().view(np.int64) << surplus) >> surplus
        numbers[:, 1] = np.where(sizes <= 8, numbers[:, 0] >> 63, high)
    values = _array(layout, len(end), numbers)
    try:
        values.validate(full=True)
    except pa.ArrowInvalid as cause:
        raise cursors.source.damage("a decimal has too many digits", int(end[0])) from cause
    return values


def _read_record(layout: Layout, cursors: Cursors) -> pa.Array:
    children = [read(child, cursors) for child in layout.children]
    return pa.Array.from_buffers(layout.arrow, len(cursors), [None], children=children)


def _read_array(layout: Layout, cursors: Cursors) -> pa.Array:
    (values,), offsets = _items(layout.children, cursors)
    return pa.Array.from_buffers(layout.arrow, len(cursors), [None, pa.py_buffer(offsets)], children=[values])


def _read_map(layout: Layout, cursors: Cursors) -> pa.Array:
    children, offsets = _items(layout.children, cursors)
    entry = pa.struct([layout.arrow.key_field, layout.arrow.item_field])
    entries = pa.Array.from_buffers(entry, len(children[0]), [None], children=children)
    return pa.Array.from_buffers(layout.arrow, len(cursors), [None, pa.py_buffer(offsets)], children=[entries])


_READERS: Final[Mapping[Kind, Callable[[Layout, Cursors], pa.Array]]] = {
    Kind.NULL: _read_null,
    Kind.BOOLEAN: _read_boolean,
    Kind.INT: _read_int,
    Kind.LONG: _read_long,
    Kind.FLOATING: _read_floating,
    Kind.TEXT: _read_text,
    Kind.BYTES: _read_bytes,
    Kind.FIXED: _read_fixed,
    Kind.DECIMAL_FIXED: _read_decimal_fixed,
    Kind.DECIMAL_BYTES: _read_decimal_bytes,
    Kind.ENUM: _read_enum,
    Kind.RECORD: _read_record,
    Kind.ARRAY: _read_array,
    Kind.MAP: _read_map,
}


def _array(layout: Layout, length: int, values: npt.NDArray[Any]) -> pa.Array:
    return pa.Array.from_buffers(layout.arrow, length, [None, pa.py_buffer(values)])


# --- arrays and maps --------------------------------------------------------------------------------------


def _items(layouts: Sequence[Layout], cursors: Cursors) -> tuple[list[pa.Array], npt.NDArray[np.int32]]:
    """All items of the arrays or maps that come next, one array for each of `layouts`, and the offsets into them."""
    owners: list[npt.NDArray[np.intp]] = [np.empty(0, np.intp)]
    parts: list[list[pa.Array]] = [[pa.nulls(0, layout.arrow)] for layout in layouts]
    for rows, present in _rounds(cursors):
        owners.append(rows)
        for layout, part in zip(layouts, parts, strict=True):
            part.append(read(layout, present))
    owner = np.concatenate(owners)
    offsets = np.zeros(len(cursors) + 1, np.int32)
    np.cumsum(np.bincount(owner, minlength=len(cursors)), out=offsets[1:])
    # A stable sort by record keeps the items of each in the order of the rounds.
    order = pa.array(np.argsort(owner, kind="stable"))
    return [pa.concat_arrays(part).take(order) for part in parts], offsets


def _rounds(cursors: Cursors) -> Iterator[tuple[npt.NDArray[np.intp], Cursors]]:
    """Rounds that take one item from every record that has one left: which records, and cursors to take it with.

    Their number is that of the longest array's items. Leaves `cursors` behind the arrays.
    """
    rows = np.arange(len(cursors))
    while rows.size:
        left = _block_counts(cursors, rows)
        rows, left = rows[left > 0], left[left > 0]
        block_rows = rows
        cursors.source.count_rounds(int(left.max(initial=0)))
        while block_rows.size:
            present = cursors.of(block_rows)
            yield block_rows, present
            cursors.put_back(block_rows, present)
            left = left - 1
            block_rows, left = block_rows[left > 0], left[left > 0]


def _block_counts(cursors: Cursors, rows: npt.NDArray[np.intp]) -> _Ints:
    """How many items the next block of each of these records has: 0 at the end of its array."""
    present = cursors.of(rows)
    counts = present.longs()
    negative = np.flatnonzero(counts < 0)
    if negative.size:  # the block's size in bytes follows, for those who skip it
        sized = present.of(negative)
        sized.longs()
        present.put_back(negative, sized)
        counts[negative] = -counts[negative]
    # Every item takes a byte at least.
    present.require((counts >= 0) & (counts <= present.end - present.position), "a count is wrong")
    cursors.put_back(rows, present)
    return counts
