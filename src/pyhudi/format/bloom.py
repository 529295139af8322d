"""Bloom filters of record keys, as stored in the footers of base files.

The bytes depend on the sizing formula, on a Murmur hash with quirks, and on the order in which a dynamic filter grows.
This module builds the same bytes as JVM Hudi. A filter that lost a bit would hide a key, and the next upsert of that
key would create a duplicate row.

    header  := int32 -1 | int32 hashes | byte 1 (Murmur) | int32 bits          big-endian
    SIMPLE  := header | bit vector
    DYNAMIC := header | int32 keys per row | int32 keys since the last row was opened | int32 rows
               | rows x (header | bit vector)

The text is base64 of it. Bit i of a vector is `byte[i >> 3] & (1 << (i & 7))`.
"""

from __future__ import annotations

import base64
import enum
import math
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import ConfigError, CorruptDataError, RecordKeyError, UnsupportedFeatureError

BLOOM_FILTER_KEY: Final = "org.apache.hudi.bloomfilter"
BLOOM_FILTER_KIND_KEY: Final = "hoodie_bloom_filter_type_code"
MIN_RECORD_KEY_KEY: Final = "hoodie_min_record_key"
MAX_RECORD_KEY_KEY: Final = "hoodie_max_record_key"

_KEYS_MAX: Final = 1 << 30  # far more than a file has; twice as many still fit into the filter's count
FILTER_BITS_MAX: Final = 1 << 30
"""The limit of all bit vectors of one filter together, in bits: 24 million keys at the default rate."""

_HASHES_MAX: Final = 1100  # -log2 of the smallest positive double, rounded up
_KEYS_PER_STEP: Final = 16384  # their words fit into the L2 cache; fewer keys would need more calls of numpy

_HEADER: Final = struct.Struct(">iibi")
_GROWTH: Final = struct.Struct(">iii")
_HEAD_CHARACTERS: Final = -(-(_HEADER.size + _GROWTH.size) // 3) * 4
"""Of the base64 text: those that have header and growth state."""
_VERSION: Final = -1
_JENKINS: Final = 0
_MURMUR: Final = 1

_M: Final = np.uint32(0x5BD1E995)  # Murmur2's multiplier

_Bytes = npt.NDArray[np.uint8]
_Words = npt.NDArray[np.uint32]
_Flags = npt.NDArray[np.bool_]
_Indices = npt.NDArray[np.intp]


class BloomFilterType(enum.Enum):
    """Whether a filter has a fixed size, or grows by rows up to a maximum. The value is its code in footers."""

    SIMPLE = "SIMPLE"
    DYNAMIC_V0 = "DYNAMIC_V0"

    @classmethod
    def from_footer(cls, code: str | None, *, path: str | None = None) -> BloomFilterType:
        """The type that a footer names; a footer without `BLOOM_FILTER_KIND_KEY` (None) means SIMPLE.

        Raises:
            UnsupportedFeatureError: the code is not one of Hudi 0.15 to 1.2.
        """
        if code is None:
            return cls.SIMPLE
        for kind in cls:
            if kind.value == code.upper():
                return kind
        raise UnsupportedFeatureError("the base file has a Bloom filter of an unknown type", type=code[:80], path=path)


@dataclass(frozen=True, slots=True)
class _Shape:
    """A filter's header: the length of one bit vector, and the number of bits that a key sets in it."""

    bits: int
    hashes: int

    @classmethod
    def for_load(cls, num_entries: int, fpp: float) -> _Shape:
        """Hudi's sizing for `num_entries` keys at false-positive rate `fpp`; double arithmetic as in Java."""
        if num_entries < 1:
            raise ConfigError("the size of a Bloom filter must be at least one key", num_entries=num_entries)
        if not 0.0 < fpp < 1.0:
            raise ConfigError("the false-positive rate of a Bloom filter must be between 0 and 1", fpp=fpp)
        bits = math.ceil(num_entries * (-math.log(fpp) / (math.log(2) * math.log(2))))
        return cls(bits=bits, hashes=math.ceil(math.log(2) * bits / num_entries))

    @property
    def vector_bytes(self) -> int:
        return (self.bits + 7) // 8

    def to_bytes(self) -> bytes:
        return _HEADER.pack(_VERSION, self.hashes, _MURMUR, self.bits)

    def crowded(self, keys: int) -> _Shape:
        """As many bits, and so few hashes that this many keys, more than they are for, have few false positives."""
        return _Shape(bits=self.bits, hashes=max(1, round(math.log(2) * self.bits / keys)))

    def rate(self, keys: float) -> float:
        """The false-positive rate of a bit vector that has so many keys."""
        return float((1.0 - math.exp(-self.hashes * keys / self.bits)) ** self.hashes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BloomFilter:
    """A Bloom filter for lookups.

    `rows` are the packed bit vectors (uint8, read-only): one in a SIMPLE filter, one or more in a DYNAMIC
    one. `row_capacity` (keys) and `last_row_keys` (keys added since the last row was opened) are the growth
    state of a DYNAMIC filter, 0 in a SIMPLE one.
    """

    kind: BloomFilterType
    bits: int
    hashes: int
    rows: tuple[_Bytes, ...]
    row_capacity: int = 0
    last_row_keys: int = 0

    def might_contain(self, keys: pa.Array | pa.ChunkedArray) -> _Flags:
        """Whether each utf8 key may have been added; never False for a key that was. Shape `[len(keys)]`.

        The computation drops a key at its first unset bit, so absent keys cost a fraction of present keys.

        Raises:
            RecordKeyError: a key is null or empty.
        """
        answers = np.zeros(len(keys), dtype=np.bool_)
        start = 0
        for step in _steps(keys):
            answers[start + step.order[self._survivors(step)]] = True
            start += len(step.order)
        return answers

    def to_text(self) -> str:
        """The filter as stored under `BLOOM_FILTER_KEY`."""
        header = _Shape(bits=self.bits, hashes=self.hashes).to_bytes()
        vectors = [row.tobytes() for row in self.rows]
        if self.kind is BloomFilterType.SIMPLE:
            return base64.b64encode(header + vectors[0]).decode("ascii")
        growth = _GROWTH.pack(self.row_capacity, self.last_row_keys, len(self.rows))
        body = b"".join(header + vector for vector in vectors)
        return base64.b64encode(header + growth + body).decode("ascii")

    def _survivors(self, step: _Step) -> _Indices:
        """The positions of `step` whose bits are all set in one row."""
        alive = np.arange(len(step.order))
        seeds = np.zeros(len(alive), dtype=np.uint32)
        hits = np.ones((len(self.rows), len(alive)), dtype=np.bool_)
        for _ in range(self.hashes):
            step.hash(seeds)
            position = _positions(seeds, self.bits)
            at, mask = position >> 3, np.left_shift(1, position & 7).astype(np.uint8)
            for row, bits in enumerate(self.rows):
                hits[row] &= (bits[at] & mask) != 0
            keep: _Flags = np.any(hits, axis=0)
            # Compacting costs about as much as one round, so it is done only if it halves the remaining keys.
            if 2 * np.count_nonzero(keep) <= len(alive):
                alive, seeds, hits, step = alive[keep], seeds[keep], hits[:, keep], step.keep(keep)
                if len(alive) == 0:
                    break
        return alive[np.any(hits, axis=0)]


class BloomFilterBuilder:
    """Builds a filter. Keys must come in the order of the file's rows, because the bytes depend on it.

    Cost: about 4 million keys of 36 bytes per second and core at Hudi's defaults. Memory: the bits, and while keys are
    added a byte for each bit of one row, 2.6 MB at Hudi's defaults.
    """

    def __init__(self, kind: BloomFilterType, num_entries: int, fpp: float, max_entries: int) -> None:
        """An empty filter.

        Args:
            kind: SIMPLE has one bit vector for any number of keys; DYNAMIC_V0 adds another when one is full.
            num_entries: Keys that one bit vector is sized for (`hoodie.index.bloom.num_entries`).
            fpp: The false-positive rate at that load (`hoodie.index.bloom.fpp`).
            max_entries: Number of keys at which a DYNAMIC_V0 filter stops growing
                (`hoodie.bloom.index.filter.dynamic.max.entries`); unused for SIMPLE.

        Raises:
            ConfigError: a number is out of range, or the filter would exceed `FILTER_BITS_MAX`.
        """
        self._kind = kind
        self._shape = _Shape.for_load(num_entries, fpp)
        self._row_capacity = num_entries
        self._max_entries = max_entries
        rows_max = max(1, -(-max_entries // num_entries)) if kind is BloomFilterType.DYNAMIC_V0 else 1
        if self._shape.bits * rows_max > FILTER_BITS_MAX:
            raise ConfigError(
                f"the Bloom filter would take more than {FILTER_BITS_MAX // 8} bytes; lower"
                " hoodie.index.bloom.num_entries or hoodie.bloom.index.filter.dynamic.max.entries, or raise"
                " hoodie.index.bloom.fpp",
                num_entries=num_entries,
                fpp=fpp,
                max_entries=max_entries,
            )
        self._rows: list[_Bytes] = [self._empty_row()]
        self._last_row_keys = 0

    @classmethod
    def for_keys(
        cls, kind: BloomFilterType, keys: int, *, num_entries: int, fpp: float, max_entries: int
    ) -> BloomFilterBuilder:
        """An empty filter for a file that will have about this many keys.

        A dynamic filter with several rows has as many times more false positives. So if the file will have more keys
        than a row is meant for, the row is made larger accordingly. If they are more than the filter may grow for, it
        is as large as it may be, and has fewer hashes. A SIMPLE filter has the size that is asked for.
        """
        shape, capacity = _fitting(kind, keys, num_entries, fpp, max_entries)
        builder = cls(kind, min(capacity, max(num_entries, max_entries)), fpp, max_entries)
        builder._shape, builder._row_capacity = shape, capacity
        return builder

    @classmethod
    def resume(cls, stored: BloomFilter, *, max_entries: int) -> BloomFilterBuilder:
        """A builder that continues the filter of a file.

        Adding the remaining keys gives the same bytes as adding all keys to one builder. So a base file that is
        rewritten without losing a key only hashes its new keys. `max_entries` must be the value that the filter was
        created with, which the filter does not contain.
        """
        builder = cls.__new__(cls)
        builder._kind = stored.kind
        builder._shape = _Shape(bits=stored.bits, hashes=stored.hashes)
        builder._row_capacity = stored.row_capacity
        builder._max_entries = max_entries
        builder._rows = list(stored.rows)
        builder._last_row_keys = stored.last_row_keys
        return builder

    def add(self, keys: pa.Array | pa.ChunkedArray) -> None:
        """Add utf8 keys, in order.

        Raises:
            RecordKeyError: a key is null or empty; the builder must not be used afterwards.
        """
        if self._kind is BloomFilterType.SIMPLE:
            self._set(0, keys)
            return
        start = 0
        while start < len(keys):
            room = self._row_capacity - self._last_row_keys
            if room > 0:
                taken = keys.slice(start, room)
                self._set(len(self._rows) - 1, taken)
            elif room == 0 and len(self._rows) * self._row_capacity < self._max_entries:
                self._rows.append(self._empty_row())
                self._last_row_keys = 0
                continue
            else:
                taken = keys.slice(start)
                self._spread(taken, already_spread=-room)
            self._last_row_keys += len(taken)
            start += len(taken)

    def to_text(self) -> str:
        """The filter as stored under `BLOOM_FILTER_KEY`."""
        return BloomFilter(
            kind=self._kind,
            bits=self._shape.bits,
            hashes=self._shape.hashes,
            rows=tuple(self._rows),
            row_capacity=self._row_capacity,
            last_row_keys=self._last_row_keys,
        ).to_text()

    def _spread(self, keys: pa.Array | pa.ChunkedArray, *, already_spread: int) -> None:
        """Distribute keys over all rows in turn, as a dynamic filter at its maximum size does.

        The first such key goes to row 0 without advancing the turn, so row 0 gets the second key, too.
        """
        if len(self._rows) == 1:
            self._set(0, keys)
            return
        turn = np.arange(already_spread, already_spread + len(keys))
        target = np.maximum(turn - 1, 0) % len(self._rows)
        for number in range(len(self._rows)):
            self._set(number, keys.take(pa.array(np.flatnonzero(target == number))))

    def _empty_row(self) -> _Bytes:
        return np.zeros(self._shape.vector_bytes, dtype=np.uint8)

    def _set(self, number: int, keys: pa.Array | pa.ChunkedArray) -> None:
        """Add keys to a row, in which a bit is a byte meanwhile: numpy sets bytes many times faster."""
        row = np.unpackbits(self._rows[number], count=self._shape.bits, bitorder="little").view(np.bool_)
        for step in _steps(keys):
            seeds = np.zeros(len(step.order), dtype=np.uint32)
            for _ in range(self._shape.hashes):
                step.hash(seeds)
                row[_positions(seeds, self._shape.bits)] = True
        self._rows[number] = np.packbits(row, bitorder="little")


def rate_for_keys(kind: BloomFilterType, keys: int, *, num_entries: int, fpp: float, max_entries: int) -> float:
    """The false-positive rate of a filter that was made for this many keys (`BloomFilterBuilder.for_keys`)."""
    return _fitting(kind, keys, num_entries, fpp, max_entries)[0].rate(keys)


def _fitting(kind: BloomFilterType, keys: int, num_entries: int, fpp: float, max_entries: int) -> tuple[_Shape, int]:
    """The shape of a row, and the number of keys that it is for."""
    if kind is BloomFilterType.SIMPLE or keys <= num_entries:
        return _Shape.for_load(num_entries, fpp), num_entries
    limit = max(num_entries, max_entries)
    shape = _Shape.for_load(min(keys, limit), fpp)
    if keys <= limit:
        return shape, keys
    # By powers of two: filters of files of about one size have one shape, so that they can be joined.
    crowd = limit << (-(-keys // limit) - 1).bit_length()
    return shape.crowded(crowd), crowd


def parse_bloom_filter(text: str, kind: BloomFilterType, *, path: str | None = None) -> BloomFilter:
    """Decode the filter in a footer's text.

    Args:
        text: The value under `BLOOM_FILTER_KEY`.
        kind: The type under `BLOOM_FILTER_KIND_KEY` (`BloomFilterType.from_footer`).
        path: The base file, for errors.

    Raises:
        CorruptDataError: the text is not base64, or not a filter of this type; the context has the byte offset.
        UnsupportedFeatureError: the filter uses the Jenkins hash, which no release of Hudi uses by default.
    """
    if len(text) > FILTER_BITS_MAX // 4:
        raise CorruptDataError("the Bloom filter is too large", path=path, size=len(text))
    data = _decoded(text, path)
    head = _parse_head(data, kind, path)
    if kind is BloomFilterType.SIMPLE:
        row = _parse_vector(data, _HEADER.size, head.shape, path)
        _check_end(data, _HEADER.size + head.shape.vector_bytes, path)
        return BloomFilter(kind=kind, bits=head.shape.bits, hashes=head.shape.hashes, rows=(row,))
    offset = _HEADER.size + _GROWTH.size
    rows: list[_Bytes] = []
    for _ in range(head.rows):
        if _parse_header(data, offset, path) != head.shape:
            raise CorruptDataError("the rows of the Bloom filter differ in shape", path=path, offset=offset)
        offset += _HEADER.size
        rows.append(_parse_vector(data, offset, head.shape, path))
        offset += head.shape.vector_bytes
    _check_end(data, offset, path)
    return BloomFilter(
        kind=kind,
        bits=head.shape.bits,
        hashes=head.shape.hashes,
        rows=tuple(rows),
        row_capacity=head.row_capacity,
        last_row_keys=head.last_row_keys,
    )


def stored_rate(text: str, kind: BloomFilterType, keys: int, *, max_entries: int, path: str | None = None) -> float:
    """The false-positive rate of a filter in a footer once it has grown to this many keys.

    Only the head of the text is decoded, so bit vectors may be damaged. `max_entries`: of the filter's builder. Raises
    the errors of `parse_bloom_filter`.
    """
    head = _parse_head(_decoded(text[:_HEAD_CHARACTERS], path), kind, path)
    rows, load = 1, float(keys)
    if kind is BloomFilterType.DYNAMIC_V0:
        rows_max = max(head.rows, -(-max_entries // head.row_capacity))
        rows = max(1, min(rows_max, -(-keys // head.row_capacity)))
        load = max(keys / rows, min(keys, head.row_capacity))
    # All rows but the last one are full; it has the rest.
    last = keys - load * (rows - 1)
    return 1.0 - (1.0 - head.shape.rate(load)) ** (rows - 1) * (1.0 - head.shape.rate(last))


_FIRST_BYTE_OF_E000: Final = 0xEE


def min_max_keys(keys: pa.Array | pa.ChunkedArray) -> tuple[str, str]:
    """The smallest and the largest of at least one utf8 key, in the order of JVM Hudi.

    That is Java's order by UTF-16 code units. It differs from byte order only for characters from U+E000 on, whose
    first byte is 0xEE or more; only keys with such bytes are compared one by one.
    """
    assert len(keys) > keys.null_count, "the range of no keys"
    if _may_have_characters_from_e000(keys):
        texts = [key for key in keys.to_pylist() if key is not None]
        return min(texts, key=_utf16), max(texts, key=_utf16)
    extremes = pc.min_max(keys)
    return extremes["min"].as_py(), extremes["max"].as_py()


def _may_have_characters_from_e000(keys: pa.Array | pa.ChunkedArray) -> bool:
    """Whether any byte can begin such a character. Checks whole buffers, so a slice may give a false positive."""
    chunks = keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]
    buffers = [chunk.buffers()[2] for chunk in chunks if len(chunk)]
    return any(b is not None and b.size and np.frombuffer(b, np.uint8).max() >= _FIRST_BYTE_OF_E000 for b in buffers)


def widest_range(ranges: Iterable[tuple[str, str]]) -> tuple[str, str]:
    """The range that covers several key ranges, in the order of `min_max_keys`."""
    lows, highs = zip(*ranges, strict=True)
    return min(lows, key=_utf16), max(highs, key=_utf16)


def orders_like_bytes(key: str) -> bool:
    """Whether comparing any key with this one by bytes gives the result of JVM Hudi."""
    return all(character < "\ue000" for character in key)


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be")


def _unpack(layout: struct.Struct, data: bytes, offset: int, path: str | None) -> tuple[Any, ...]:
    if offset + layout.size > len(data):
        raise CorruptDataError("the Bloom filter is cut off", path=path, offset=offset, size=len(data))
    return layout.unpack_from(data, offset)


def _parse_header(data: bytes, offset: int, path: str | None) -> _Shape:
    version, hashes, hash_type, bits = _unpack(_HEADER, data, offset, path)
    if version == _VERSION and hash_type == _JENKINS:
        raise UnsupportedFeatureError("the Bloom filter is hashed with Jenkins, not Murmur", path=path)
    if version != _VERSION or hash_type != _MURMUR or not 0 < hashes <= _HASHES_MAX or bits < 1:
        raise CorruptDataError("the Bloom filter has a damaged header", path=path, offset=offset)
    return _Shape(bits=bits, hashes=hashes)


def _decoded(text: str, path: str | None) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as cause:
        raise CorruptDataError("the Bloom filter is not base64 text", path=path) from cause


@dataclass(frozen=True, slots=True)
class _Head:
    """What precedes the bit vectors: the growth state of a DYNAMIC filter; a SIMPLE one has one row."""

    shape: _Shape
    row_capacity: int = 0
    last_row_keys: int = 0
    rows: int = 1


def _parse_head(data: bytes, kind: BloomFilterType, path: str | None) -> _Head:
    shape = _parse_header(data, 0, path)
    if kind is BloomFilterType.SIMPLE:
        return _Head(shape)
    capacity, last_row_keys, rows = _unpack(_GROWTH, data, _HEADER.size, path)
    if capacity < 1 or not 0 <= last_row_keys <= _KEYS_MAX or rows < 1:
        raise CorruptDataError("the Bloom filter's growth state is impossible", path=path, offset=_HEADER.size)
    return _Head(shape, capacity, last_row_keys, rows)


def _parse_vector(data: bytes, offset: int, shape: _Shape, path: str | None) -> _Bytes:
    if offset + shape.vector_bytes > len(data):
        raise CorruptDataError("the Bloom filter is cut off", path=path, offset=offset, size=len(data))
    return np.frombuffer(data, dtype=np.uint8, count=shape.vector_bytes, offset=offset)


def _check_end(data: bytes, end: int, path: str | None) -> None:
    if end != len(data):
        raise CorruptDataError("bytes follow the Bloom filter", path=path, offset=end, size=len(data))


@dataclass(frozen=True, slots=True)
class _Step:
    """Some thousand keys, arranged for hashing them together, longest key first.

    `order[i]` is the input position of key i. `words[w]` holds word w of the keys that are long enough, already mixed;
    these keys come first, so no key needs padding. Mixing does not depend on the seed, so it is done once for all
    rounds.
    """

    order: _Indices
    lengths: _Words
    words: tuple[_Words, ...]
    tails: _Words
    tail_factors: _Words

    def hash(self, seeds: _Words) -> None:
        """Replace each seed by the hash of its key under that seed: Hudi's Murmur2, modulo 2^32."""
        seeds ^= self.lengths
        for word in self.words:
            head = seeds[: len(word)]
            head *= _M
            head ^= word
        seeds ^= self.tails
        seeds *= self.tail_factors
        seeds ^= seeds >> np.uint32(13)
        seeds *= _M
        seeds ^= seeds >> np.uint32(15)

    def keep(self, chosen: _Flags) -> _Step:
        """The step, reduced to the chosen keys."""
        return _Step(
            order=self.order[chosen],
            lengths=self.lengths[chosen],
            words=tuple(word[chosen[: len(word)]] for word in self.words),
            tails=self.tails[chosen],
            tail_factors=self.tail_factors[chosen],
        )


def _positions(hashes: _Words, bits: int) -> _Indices:
    """The bit of each hash: `abs(hash % bits)` of Java, where the hash is signed and `%` truncates.

    This equals the absolute value followed by an unsigned remainder. The remainder of numpy is slow; its division by a
    constant is fast.
    """
    magnitude = np.abs(hashes.view(np.int32)).view(np.uint32)  # the smallest int becomes 2^31, as required
    magnitude -= magnitude // np.uint32(bits) * np.uint32(bits)
    return magnitude.astype(np.intp)


def _steps(keys: pa.Array | pa.ChunkedArray) -> Iterator[_Step]:
    """Arrange keys in steps, in order."""
    chunks = keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]
    for chunk in chunks:
        if len(chunk) == 0:
            continue
        starts, lengths, data = _key_buffers(chunk)
        for first in range(0, len(chunk), _KEYS_PER_STEP):
            last = first + _KEYS_PER_STEP
            yield _step(starts[first:last], lengths[first:last], data)


def _key_buffers(keys: pa.Array) -> tuple[npt.NDArray[Any], npt.NDArray[Any], _Bytes]:
    """The start and length of each key, and the bytes of all keys, without a copy."""
    if not (pa.types.is_string(keys.type) or pa.types.is_large_string(keys.type)):
        raise TypeError(f"record keys are utf8, not {keys.type}")
    if keys.null_count:
        raise RecordKeyError("a record key is null")
    _, offset_buffer, data_buffer = keys.buffers()
    width = np.int64 if pa.types.is_large_string(keys.type) else np.int32
    offsets = np.frombuffer(offset_buffer, dtype=width)[keys.offset : keys.offset + len(keys) + 1]
    lengths = np.diff(offsets)
    if lengths.min() == 0:
        raise RecordKeyError("a record key is empty")
    return offsets[:-1], lengths, np.frombuffer(data_buffer, dtype=np.uint8)


def _step(starts: npt.NDArray[Any], lengths: npt.NDArray[Any], data: _Bytes) -> _Step:
    if lengths.min() == lengths.max():
        order = np.arange(len(lengths))
        words = _words_of_equal_keys(int(starts[0]), len(lengths), int(lengths[0]), data)
    else:
        order = np.argsort(-(lengths >> 2), kind="stable")
        starts, lengths = starts[order].astype(np.intp), lengths[order]
        words = _words_of_sorted_keys(starts, lengths >> 2, data)
    for word in words:
        _mix(word)
    tails, tail_factors = _tails(starts + lengths, lengths & 3, data)
    return _Step(order, lengths.astype(np.uint32), words, tails, tail_factors)


def _mix(word: _Words) -> None:
    word *= _M
    word ^= word >> np.uint32(24)
    word *= _M


def _words_of_equal_keys(start: int, count: int, length: int, data: _Bytes) -> tuple[_Words, ...]:
    """The words of keys of equal length, such as UUIDs, whose bytes already form a matrix."""
    matrix = data[start : start + count * length].reshape(count, length)
    whole = matrix[:, : length & ~3].view("<u4")
    return tuple(whole.T.astype(np.uint32, order="C"))


def _words_of_sorted_keys(starts: _Indices, word_counts: npt.NDArray[Any], data: _Bytes) -> tuple[_Words, ...]:
    """The words of keys of different lengths, those with most words first."""
    # A little-endian number of four bytes at every byte offset.
    words_at = np.ndarray((max(0, len(data) - 3),), dtype="<u4", buffer=data, strides=(1,))
    having = np.searchsorted(-word_counts, -np.arange(word_counts[0]), side="left")
    return tuple(
        words_at[starts[:count] + 4 * index].astype(np.uint32, copy=False) for index, count in enumerate(having)
    )


def _tails(ends: npt.NDArray[Any], rest: npt.NDArray[Any], data: _Bytes) -> tuple[_Words, _Words]:
    """The last one to three bytes of each key as one number to mix in, and the multiplier after it.

    Hudi treats these bytes as signed, and combines them in the reverse order of whole words. A key of whole words mixes
    in 0 and multiplies by 1, which has no effect.
    """
    signed = data.view(np.int8)
    tails = np.where(rest >= 1, signed[ends - 1], 0).astype(np.int32)
    for distance in (2, 3):
        byte = signed[np.maximum(ends - distance, 0)].astype(np.int32)
        tails ^= np.where(rest >= distance, byte << (8 * (distance - 1)), 0)
    return tails.view(np.uint32), np.where(rest >= 1, _M, np.uint32(1))
