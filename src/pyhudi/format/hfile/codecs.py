"""Compression codecs of HFile blocks, decoded without trusting the sizes in the file.

JVM Hudi uses gzip (metadata table, log blocks) and none (bootstrap index). The others come from the HBase library of
older releases: Snappy and LZ4 in the framing of Hadoop's block streams, the rest as plain streams.

    hadoop := int decoded length of the stream | ( int length | compressed bytes )*
"""

from __future__ import annotations

import bz2
import enum
import struct
import zlib
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

_INT: Final = struct.Struct(">i")
_GZIP_WINDOW: Final = 31
"""zlib's number for a gzip stream with any window."""
_PIECE_BYTES: Final = 1 << 20
_SNAPPY_EXPANSION_MAX: Final = 64
"""The densest element of Snappy expands 2 bytes to 64, so a larger factor is damage."""
_LZ4_FRAME_HEADER: Final = bytes.fromhex("04224d18607073")
"""A frame of independent blocks of at most 4 MiB, without checksums."""
_LZ4_FRAME_END: Final = bytes(4)


class HFileCodec(enum.IntEnum):
    """How the payload of every block of an HFile is compressed; the number stands in the trailer."""

    LZO = 0
    GZ = 1
    NONE = 2
    SNAPPY = 3
    LZ4 = 4
    BZIP2 = 5
    ZSTD = 6


READABLE_CODECS: Final = frozenset(HFileCodec) - {HFileCodec.LZO}
WRITABLE_CODECS: Final = frozenset({HFileCodec.NONE, HFileCodec.GZ})
"""What Hudi's native reader takes, besides the HBase one."""


def compress(codec: HFileCodec, payload: pa.Buffer | bytes) -> pa.Buffer | bytes:
    """A block's payload as it is stored. The same payload gives the same bytes.

    `codec` is one of `WRITABLE_CODECS`.
    """
    if codec is HFileCodec.NONE:
        return payload
    assert codec is HFileCodec.GZ
    deflater = zlib.compressobj(level=6, wbits=_GZIP_WINDOW)
    return deflater.compress(memoryview(payload)) + deflater.flush()


def decompress(codec: HFileCodec, stored: memoryview, size: int) -> memoryview:
    """The payload of a block.

    Args:
        codec: One of `READABLE_CODECS`.
        stored: The bytes as they are in the file.
        size: Bytes that the block's header promises.

    Returns:
        Exactly `size` bytes; without compression a view of `stored`.

    Raises:
        ValueError: damage: the stream does not decode, or to another size than promised. Never holds more than
            `size` bytes plus one piece, however much the stream would expand to, and allocates for what is there,
            not for what is promised.
    """
    if codec is HFileCodec.NONE:
        payload: bytes | memoryview = stored
    elif codec is HFileCodec.GZ:
        payload = _gunzip(stored, size)
    elif codec is HFileCodec.BZIP2:
        payload = _bunzip(stored, size)
    elif codec is HFileCodec.ZSTD:
        payload = _from_stream(stored, "zstd", size)
    elif codec is HFileCodec.SNAPPY:
        payload = _from_snappy(stored, size)
    else:
        assert codec is HFileCodec.LZ4
        payload = _from_lz4(stored, size)
    if len(payload) != size:
        raise ValueError("the decompressed size is not the promised one")
    return memoryview(payload)


def _gunzip(stored: memoryview, size: int) -> bytes:
    stream = zlib.decompressobj(wbits=_GZIP_WINDOW)
    try:
        # One byte more than wanted, so that a longer stream shows and the checksum at the end is read.
        payload = stream.decompress(stored, size + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not stream.eof or stream.unused_data:
        raise ValueError("the gzip stream does not end with its block")
    return payload


def _bunzip(stored: memoryview, size: int) -> bytes:
    stream = bz2.BZ2Decompressor()
    try:
        payload = stream.decompress(stored, size + 1)
    except OSError as error:
        raise ValueError(str(error)) from error
    if not stream.eof or stream.unused_data:
        raise ValueError("the bzip2 stream does not end with its block")
    return payload


def _from_stream(stored: memoryview | bytes, codec: str, size: int) -> bytes:
    pieces: list[bytes] = []
    missing = size + 1
    try:
        with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(stored)), codec) as stream:
            while missing and (piece := stream.read(min(missing, _PIECE_BYTES))):
                pieces.append(piece)
                missing -= len(piece)
    except OSError as error:
        raise ValueError(str(error)) from error
    return b"".join(pieces)


def _hadoop_chunks(stored: memoryview, size: int) -> Iterator[memoryview]:
    """The compressed chunks of a Hadoop block stream, which HBase writes as one run of chunks per HFile block."""
    if len(stored) < _INT.size or _INT.unpack_from(stored)[0] != size:
        raise ValueError("the compressed stream does not begin with the size of the block")
    position = _INT.size
    while position < len(stored):
        if position + _INT.size > len(stored):
            raise ValueError("a compressed chunk is cut off")
        start = position + _INT.size
        position = start + _INT.unpack_from(stored, position)[0]
        if not start <= position <= len(stored):
            raise ValueError("a compressed chunk has a wrong length")
        if position > start:  # Hadoop ends a stream of several chunks with an empty one
            yield stored[start:position]


def _from_snappy(stored: memoryview, size: int) -> bytes:
    codec = pa.Codec("snappy")
    pieces: list[bytes] = []
    missing = size
    for chunk in _hadoop_chunks(stored, size):
        length = _snappy_length(chunk)
        if length > missing or length > len(chunk) * _SNAPPY_EXPANSION_MAX:
            raise ValueError("a Snappy chunk promises more than the block holds")
        try:
            pieces.append(codec.decompress(chunk, decompressed_size=length, asbytes=True))
        except (OSError, pa.ArrowInvalid) as error:
            raise ValueError(str(error)) from error
        missing -= length
    return b"".join(pieces)


def _snappy_length(chunk: memoryview) -> int:
    """The size of a chunk when decoded, which is a little-endian varint of at most 5 bytes at its front."""
    length = 0
    for position, byte in enumerate(chunk[:5]):
        length |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            return length
    raise ValueError("a Snappy chunk has no length")


def _from_lz4(stored: memoryview, size: int) -> bytes:
    """Chunks of bare LZ4 do not tell their size; as blocks of an LZ4 frame they need not."""
    frame: list[bytes | memoryview] = [_LZ4_FRAME_HEADER]
    for chunk in _hadoop_chunks(stored, size):
        frame += (struct.pack("<I", len(chunk)), chunk)
    return _from_stream(b"".join((*frame, _LZ4_FRAME_END)), "lz4", size)
