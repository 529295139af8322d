"""The framing of log blocks: bytes of JVM Hudi, and what a reader refuses."""

from __future__ import annotations

import base64
import struct
import zlib

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import CorruptDataError, InvalidRequestError, UnsupportedFeatureError
from pyhudi.format.log.blocks import (
    HEADERS_BYTES_MAX,
    BlockHeader,
    BlockType,
    LogBlock,
    corrupt_block,
    encode_block,
    encoded_size,
    parse_block,
    rollback_block,
)

PATH = "p/.f_20260101000000001.log.1_0-0-0"
INSTANT, TARGET = "20260101000000002", "20260101000000001"
SCHEMA = '{"type":"record","name":"r","fields":[]}'

#: A log file with one delete block, as Hudi 1.2.0 wrote it.
WRITTEN_BY_HUDI = zlib.decompress(
    base64.b64decode(
        "eNpT9gh18VRmAAPmPiDBCMUsQMwKxBqOgY4owD8LRLrC+TAWUC0TEL2vViqpLEhVslIqSk3OL0pR0lHKS8wF8UviUUSKCxKTQcIZ+fkpmal6JUDhtMzU"
        "nJRiJavoapieeIhsfHJ+bm5mSXxJJlBUB2pBtFJeaU4OkFtcUpSZl64Uq6OUkp8M1AQUSklNSyzNKVGyAimp1cFlXnFqYV4+VQyEeC0+O7WSKsYVJBaV"
        "ZJZk5ucBWSUZVDEyLTMnNR4sRolp2Xh149BUQI6mMkxNKfmlSTmp+DTBPJtZHJ+SmpNakpqCaUpSfn5OamIePmOwpImcfGzOja0FJnsOIBY0MjAyMzQ0"
        "MjQ0NTYzNjMxtITkKVQJE0MTUwOohCgoxwExLxMTR/bhlcZMTElsHAwIwDwFANc4E00="
    )
)


def parse(data: bytes, offset: int = 0) -> LogBlock:
    return parse_block(lambda start, length: memoryview(data)[start : start + length], offset, len(data), path=PATH)


def encode(kind: BlockType, headers: dict[BlockHeader, str], content: bytes = b"") -> bytes:
    return b"".join(encode_block(kind, headers, content))


def frame(kind: int, entries: list[tuple[int, bytes]], content: bytes = b"", *, version: int = 1) -> bytes:
    """A whole block, written here from the format's description alone."""
    headers = struct.pack(">i", len(entries))
    headers += b"".join(struct.pack(">ii", key, len(value)) + value for key, value in entries)
    body = struct.pack(">ii", version, kind) + headers + struct.pack(">q", len(content)) + content + bytes(4)
    return b"#HUDI#" + struct.pack(">q", len(body) + 8) + body + struct.pack(">q", len(body) + 14)


INSTANT_ENTRY = (0, INSTANT.encode())


def test_block_of_jvm_hudi_is_read_and_written_alike():
    block = parse(WRITTEN_BY_HUDI)
    assert (block.kind, block.offset, block.size) == (BlockType.DELETE, 0, len(WRITTEN_BY_HUDI))
    assert block.instant_time == "20261121153641450"
    assert block.headers[BlockHeader.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS] == "20261121153636419"
    assert block.headers[BlockHeader.RECORD_POSITIONS] == "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAAAEAAAAAAA"
    assert block.schema is not None
    assert block.schema.startswith('{"type":"record","name":"t_record","namespace":"hoodie.t"')
    content = WRITTEN_BY_HUDI[block.content_offset :][: block.content_size]
    assert content.hex() == "000000030000000d0202086bc3a933020262060800"
    assert encode(block.kind, dict(block.headers), content) == WRITTEN_BY_HUDI


def test_rollback_block_has_the_bytes_of_version_6():
    data = rollback_block(INSTANT, TARGET)
    expected = (
        b"#HUDI#" + struct.pack(">qiii", 91, 1, 0, 3)
        + struct.pack(">ii", 1, 17) + TARGET.encode()
        + struct.pack(">ii", 3, 1) + b"0"
        + struct.pack(">ii", 0, 17) + INSTANT.encode()
        + struct.pack(">qiq", 0, 0, 97)
    )  # fmt: skip
    assert len(data) == 105
    assert data == expected
    block = parse(data)
    assert (block.kind, block.instant_time, block.target_instant_time) == (BlockType.COMMAND, INSTANT, TARGET)


def test_content_is_passed_through_without_a_copy():
    for content in (b"content", memoryview(b"content"), pa.py_buffer(b"content")):
        head, middle, tail = encode_block(BlockType.DELETE, {BlockHeader.INSTANT_TIME: INSTANT}, content)
        assert middle is content
        assert head + b"content" + tail == frame(1, [INSTANT_ENTRY], b"content")


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from([BlockType.DELETE, BlockType.AVRO_DATA, BlockType.PARQUET_DATA, BlockType.HFILE_DATA]),
    more=st.dictionaries(st.sampled_from(list(BlockHeader)[3:]), st.text(max_size=20)),
    content=st.binary(max_size=50),
    before=st.binary(max_size=20),
)
def test_any_block_comes_back_and_has_the_announced_size(kind, more, content, before):
    headers = {BlockHeader.INSTANT_TIME: INSTANT, BlockHeader.SCHEMA: "é", **more}
    data = encode(kind, headers, content)
    assert len(data) == encoded_size(headers, len(content))
    block = parse(before + data, len(before))
    assert (block.kind, block.headers, block.offset, block.size) == (kind, headers, len(before), len(data))
    assert (before + data)[block.content_offset :][: block.content_size] == content
    assert block.end == len(before) + len(data)


def test_properties_say_what_the_headers_say():
    headers = {
        BlockHeader.INSTANT_TIME: INSTANT,
        BlockHeader.SCHEMA: SCHEMA,
        BlockHeader.COMPACTED_BLOCK_TIMES: f"{TARGET}, {INSTANT}",
        BlockHeader.IS_PARTIAL: "true",
    }
    block = parse(encode(BlockType.AVRO_DATA, headers))
    assert (block.schema, block.compacted_instants, block.is_partial) == (SCHEMA, (TARGET, INSTANT), True)
    plain = parse(encode(BlockType.DELETE, {BlockHeader.INSTANT_TIME: INSTANT}))
    assert (plain.schema, plain.compacted_instants, plain.is_partial) == (None, (), False)
    assert plain.target_instant_time is None


def test_corrupt_block_has_no_instant():
    with pytest.raises(CorruptDataError):
        _ = corrupt_block(3, 10).instant_time


def test_unknown_header_is_left_out():
    block = parse(frame(1, [INSTANT_ENTRY, (9, b"new"), (-1, b"\xff")]))
    assert block.headers == {BlockHeader.INSTANT_TIME: INSTANT}


def test_footers_are_stepped_over():
    body = frame(1, [INSTANT_ENTRY], b"content")[14:-12]
    body += struct.pack(">iii", 1, 0, 3) + b"foo"
    data = b"#HUDI#" + struct.pack(">q", len(body) + 8) + body + struct.pack(">q", len(body) + 14)
    block = parse(data)
    assert (block.size, block.content_size) == (len(data), 7)


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (frame(7, [INSTANT_ENTRY]), {"type": 7}),
        (frame(-1, [INSTANT_ENTRY]), {"type": -1}),
        (frame(1, [INSTANT_ENTRY], version=0), {"version": 0}),
        (frame(1, [INSTANT_ENTRY], version=2), {"version": 2}),
        (frame(0, [INSTANT_ENTRY, (1, b"1"), (3, b"1")]), {"command": "1"}),
    ],
    ids=["type-7", "type-negative", "version-0", "version-2", "command-1"],
)
def test_whole_block_of_an_unknown_sort_is_refused_by_name(data, named):
    with pytest.raises(UnsupportedFeatureError) as caught:
        parse(b"xx" + data, 2)
    assert caught.value.context.items() >= {**named, "path": PATH, "offset": 2}.items()


def _with(data: bytes, at: int, fixed: str, value: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(fixed, changed, at, value)
    return bytes(changed)


WHOLE = frame(1, [INSTANT_ENTRY], b"content")
CONTENT_SIZE_AT = 22 + 4 + 8 + 17

DAMAGED = {
    "another-magic": b"#HUDJ#" + WHOLE[6:],
    "size-past-the-end": _with(WHOLE, 6, ">q", len(WHOLE) - 13),
    "size-negative": _with(WHOLE, 6, ">q", -1),
    "size-too-small": _with(WHOLE, 6, ">q", 31),
    "pointer-elsewhere": _with(WHOLE, len(WHOLE) - 8, ">q", len(WHOLE) - 9),
    "followed-by-garbage": WHOLE + b"#HUDX#",
    "more-headers-than-there-are": _with(WHOLE, 22, ">i", 2),
    "fewer-headers-than-there-are": _with(WHOLE, 22, ">i", 0),
    "headers-negative": _with(WHOLE, 22, ">i", -1),
    "header-too-long": _with(WHOLE, 30, ">i", 1 << 30),
    "header-negative": _with(WHOLE, 30, ">i", -1),
    "header-twice": frame(1, [INSTANT_ENTRY, INSTANT_ENTRY]),
    "header-not-utf8": frame(1, [(0, b"\xff")]),
    "content-too-long": _with(WHOLE, CONTENT_SIZE_AT, ">q", 8),
    "content-too-short": _with(WHOLE, CONTENT_SIZE_AT, ">q", 6),
    "content-negative": _with(WHOLE, CONTENT_SIZE_AT, ">q", -1),
    "no-instant": frame(1, [(2, b"{}")]),
    "rows-without-schema": frame(3, [INSTANT_ENTRY]),
    "rollback-of-nothing": frame(0, [INSTANT_ENTRY, (3, b"0")]),
    "ends-early": WHOLE[:-1],
    "ends-in-the-frame": WHOLE[:13],
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_damaged_block_is_refused_with_its_place(data):
    with pytest.raises(CorruptDataError) as caught:
        parse(data)
    assert caught.value.context["path"] == PATH
    assert "offset" in caught.value.context


def test_fewer_bytes_than_a_magic_after_a_block_do_not_spoil_it():
    assert parse(WHOLE + b"#HUDI").size == len(WHOLE)


def test_writing_a_block_that_no_reader_takes_is_refused():
    with pytest.raises(InvalidRequestError, match="needs this header"):
        encode_block(BlockType.AVRO_DATA, {BlockHeader.INSTANT_TIME: INSTANT}, b"")
    huge = {BlockHeader.INSTANT_TIME: INSTANT, BlockHeader.RECORD_POSITIONS: "x" * HEADERS_BYTES_MAX}
    with pytest.raises(InvalidRequestError, match="too large"):
        encode_block(BlockType.DELETE, huge, b"")
