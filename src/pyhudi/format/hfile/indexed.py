"""Lookup in HFiles through their index: only the blocks that may have the wanted keys are read.

    root index := ( long offset | int stored size | Hadoop varint length | key )*
    deep index := int n | int[n + 1] offsets | ( long offset | int stored size | key ) * n
    key        := short row size | row | possibly the rest of an HBase key

The key of an index entry is not above the first key of its block, and above the last key of the block before: the
HBase library shortens it, so it need not be a key of the file. A file of the HBase library with many blocks has an
index of several levels, which is read as a whole: it is small beside the data.
"""

from __future__ import annotations

import itertools
import operator
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.hfile.blocks import (
    Gathered,
    KeysAndValues,
    Source,
    Trailer,
    block_at,
    parse_file_info,
    parse_trailer,
    payload_of,
    schema_of,
)
from pyhudi.format.hfile.layout import DATA_MAGIC, ROOT_INDEX_MAGIC

LEVELS_MAX: Final = 8
"""The most levels of an index: with 128 KiB per block, three of them index terabytes."""
_DEEP_MAGICS: Final = (b"IDXINTE2", b"IDXLEAF2")
_ENTRY: Final = struct.Struct(">qi")
_ROOT_ENTRY: Final = struct.Struct(">qibh")
"""With a length of one byte, and the size of the row, with which a key begins."""
_INT: Final = struct.Struct(">i")
_ROW_SIZE: Final = struct.Struct(">h")


READ_AHEAD_BYTES: Final = 4 * 1024 * 1024
"""As many bytes of data blocks are read at once where all are wanted."""

Span = tuple[int, int]
"""Where a data block is: its offset and its stored size in bytes."""


@dataclass(frozen=True)
class IndexedHFile:
    """An HFile whose index is read, and whose data blocks are read as they are wanted.

    Attributes:
        schema: The Avro JSON of the values; None where they are something else.
        file_info: Names and values of the file info block.
        entry_count: How many entries it has.
        starts: For each data block a key that is not above its first one, and above those of the block before.
        spans: Where the data blocks are.
    """

    source: Source = field(repr=False)
    trailer: Trailer = field(repr=False)
    schema: str | None = field(repr=False)
    file_info: Mapping[str, bytes] = field(repr=False)
    starts: tuple[bytes, ...] = field(repr=False)
    spans: tuple[Span, ...] = field(repr=False)

    @property
    def entry_count(self) -> int:
        """How many entries it has."""
        return self.trailer.entry_count

    def all_entries(self) -> KeysAndValues:
        """All keys and values, in their order.

        Raises: as `pyhudi.format.hfile.reader.read_hfile`.
        """
        gathered = Gathered(self.source)
        for block in self.blocks():
            gathered.add(block)
        return gathered.entries()

    def blocks(self) -> Iterator[KeysAndValues]:
        """All keys and values, in their order, those of one data block at a time. Raises: as `all_entries`.

        Cost: a read for each `READ_AHEAD_BYTES`, or data block that is larger.
        """
        missing = self.entry_count
        read = 0
        for number, (offset, size) in enumerate(self.spans):
            if offset + size > read:
                read = self._end_of_run(number)
                self.source.read(offset, read)
            entries = self._block(number, Gathered(self.source))
            missing -= len(entries[0])
            yield entries
        if missing:
            raise self.source.damage("the HFile does not hold as many entries as it says", self.source.size)

    def _end_of_run(self, number: int) -> int:
        """Where the blocks end that are read at once, from this one on."""
        offset, size = self.spans[number]
        end = offset + size
        for following, more in itertools.islice(self.spans, number + 1, None):
            if following != end or following + more - offset > READ_AHEAD_BYTES:
                break
            end += more
        return end

    def with_keys(self, keys: pa.BinaryArray) -> KeysAndValues:
        """The entries with these keys, in the file's order. `keys` ascend by their bytes; more than once counts once.

        Cost: the blocks that may have them, each once. Raises: as `all_entries`.
        """
        gathered = Gathered(self.source)
        for number, first, last in self._blocks_of(keys):
            entries = self._block(number, gathered)
            gathered.add(_filtered(entries, pc.is_in(entries[0], keys.slice(first, last - first))))
        return gathered.entries()

    def with_prefixes(self, prefixes: Iterable[bytes]) -> KeysAndValues:
        """The entries whose key begins with one of these, in the file's order, each once.

        Cost: the blocks that may have them, each once. Raises: as `all_entries`.
        """
        wanted: dict[int, list[bytes]] = {}
        for prefix in sorted(set(prefixes)):
            for number in self._blocks_between(prefix, _successor(prefix)):
                wanted.setdefault(number, []).append(prefix)
        gathered = Gathered(self.source)
        for number in sorted(wanted):
            entries = self._block(number, gathered)
            masks = [pc.starts_with(entries[0], prefix) for prefix in wanted[number]]
            mask = masks[0]
            for other in masks[1:]:
                mask = pc.or_(mask, other)
            gathered.add(_filtered(entries, mask))
        return gathered.entries()

    def _blocks_of(self, keys: pa.BinaryArray) -> Iterator[tuple[int, int, int]]:
        """The blocks that may have some of the keys, and from where to where these stand among them."""
        at = 0
        while at < len(keys):
            number = bisect_right(self.starts, keys[at].as_py()) - 1
            following = number + 1
            end = len(keys)
            if following < len(self.starts):
                end = bisect_left(
                    range(len(keys)), self.starts[following], lo=at, key=lambda place: keys[place].as_py()
                )
            if number >= 0:
                yield number, at, end
            at = end

    def _blocks_between(self, first: bytes, end: bytes | None) -> range:
        """The blocks that may have keys from `first` to before `end`."""
        start = max(bisect_right(self.starts, first) - 1, 0)
        return range(start, len(self.starts) if end is None else bisect_left(self.starts, end))

    def _block(self, number: int, gathered: Gathered) -> KeysAndValues:
        offset, size = self.spans[number]
        self.source.read(offset, offset + size)  # header, payload and checksums at once
        block = block_at(self.source, offset)
        if block.magic != DATA_MAGIC:
            raise self.source.damage("a data block of the HFile is not where the index says", offset)
        entries = gathered.read(block, self.trailer.codec)
        self._check_place(number, entries[0])
        return entries

    def _check_place(self, number: int, keys: pa.BinaryArray) -> None:
        """A block is where the index says if its keys lie between its entry and the next."""
        if not len(keys):
            return
        is_below = keys[0].as_py() < self.starts[number]
        if is_below or (number + 1 < len(self.starts) and keys[-1].as_py() > self.starts[number + 1]):
            raise self.source.damage(
                "a data block of the HFile has other keys than the index says", self.spans[number][0]
            )


def open_hfile(source: Source) -> IndexedHFile:
    """Read trailer, index and file info.

    Raises: as `pyhudi.format.hfile.reader.read_hfile`.
    """
    trailer = parse_trailer(source)
    file_info = parse_file_info(source, trailer)
    entries = _root_entries(source, trailer) if trailer.entry_count else []
    for _ in range(min(trailer.index_levels, LEVELS_MAX) - 1):
        entries = [below for _, span in entries for below in _deep_entries(source, trailer, span)]
    starts, spans = zip(*entries, strict=True) if entries else ((), ())
    if not (all(map(operator.le, starts, starts[1:])) and all(map(operator.lt, spans, spans[1:]))):
        raise source.damage("the index of the HFile is not in order", trailer.load_on_open_offset)
    return IndexedHFile(source, trailer, schema_of(file_info, source, trailer), file_info, starts, spans)


_Entry = tuple[bytes, Span]


def _root_entries(source: Source, trailer: Trailer) -> list[_Entry]:
    """The entries of the root index, one for each block of a large file: so each takes few steps."""
    block = block_at(source, trailer.load_on_open_offset)
    if block.magic != ROOT_INDEX_MAGIC:
        raise source.damage("the index of the HFile is not where the trailer says", block.position)
    payload = bytes(payload_of(block, source, trailer.codec))
    entries: list[_Entry] = []
    position, unpack, limit = 0, _ROOT_ENTRY.unpack_from, source.size
    try:
        for _ in range(trailer.data_index_count):
            offset, size, length, row_size = unpack(payload, position)
            position += _ENTRY.size + 1
            if length < 0:
                length, position = _hadoop_varint(payload, position - 1)
                (row_size,) = _ROW_SIZE.unpack_from(payload, position)
            is_whole = 0 <= row_size <= length - _ROW_SIZE.size and position + length <= len(payload)
            if not is_whole or offset < 0 or size < 0 or offset + size > limit:
                break
            start = position + _ROW_SIZE.size
            entries.append((payload[start : start + row_size], (offset, size)))
            position += length
    except (struct.error, ValueError) as error:
        raise source.damage("the index of the HFile is damaged", block.position, cause=str(error)) from error
    if len(entries) < trailer.data_index_count:
        raise source.damage("an entry in the index of the HFile is damaged", block.position, entry=len(entries))
    return entries


def _deep_entries(source: Source, trailer: Trailer, span: Span) -> Iterator[_Entry]:
    block = block_at(source, span[0])
    if block.magic not in _DEEP_MAGICS:
        raise source.damage("a block of the HFile's index is not where it should be", block.position)
    payload = bytes(payload_of(block, source, trailer.codec))
    try:
        for entry in _deep_parts(payload):
            offset, size = _ENTRY.unpack_from(entry)
            yield _row_of(entry[_ENTRY.size :]), _span(source, offset, size)
    except (struct.error, ValueError) as error:
        raise source.damage("the index of the HFile is damaged", block.position, cause=str(error)) from error


def _deep_parts(payload: bytes) -> Iterator[bytes]:
    (count,) = _INT.unpack_from(payload)
    base = _INT.size * (count + 2)
    if count < 0 or base > len(payload):
        raise ValueError("a wrong number of entries")
    for begin, end in pairwise(struct.unpack_from(f">{count + 1}i", payload, _INT.size)):
        if not 0 <= begin <= end <= len(payload) - base:
            raise ValueError("an entry outside of the block")
        yield payload[base + begin : base + end]


def _row_of(key: bytes) -> bytes:
    (size,) = _ROW_SIZE.unpack_from(key)
    if not 0 <= size <= len(key) - _ROW_SIZE.size:
        raise ValueError("a key is cut off")
    return key[_ROW_SIZE.size : _ROW_SIZE.size + size]


def _span(source: Source, offset: int, size: int) -> Span:
    if offset < 0 or size < 0 or offset + size > source.size:
        raise ValueError("a block outside of the file")
    return offset, size


def _hadoop_varint(data: bytes, position: int) -> tuple[int, int]:
    """A number as Hadoop's WritableUtils write it, and the position after it. Lengths are not negative."""
    (first,) = struct.unpack_from(">b", data, position)
    if first >= 0:
        return first, position + 1
    digits = -112 - first
    if not 1 <= digits <= 8 or position + 1 + digits > len(data):
        raise ValueError("a length is damaged")
    return int.from_bytes(data[position + 1 : position + 1 + digits], "big"), position + 1 + digits


def _successor(prefix: bytes) -> bytes | None:
    """The least text above all that begin with a prefix; None if there is none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None


def _filtered(entries: KeysAndValues, mask: pa.BooleanArray) -> KeysAndValues:
    keys, values = entries
    return keys.filter(mask), values.filter(mask)


def sorted_keys(keys: Sequence[str] | pa.Array) -> pa.BinaryArray:
    """Keys as `IndexedHFile.with_keys` wants them: their bytes, ascending."""
    texts = keys if isinstance(keys, pa.Array) else pa.array(keys, pa.string())
    data = texts.cast(pa.binary())
    return data.take(pc.sort_indices(data))
