"""Scanning log files: which blocks come, what damage costs, and how much is read.

What is guaranteed after damage: the blocks and the CORRUPT stretches cover the file;
every block comes as it is unless a byte of it is damaged outside of its content and header texts, or the magic right
after it is. There is no checksum: other damage inside of contents and texts goes unseen here.
"""

from __future__ import annotations

import io
import logging
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import CorruptDataError, NotFoundError, StorageError, UnsupportedFeatureError
from pyhudi.format.log.blocks import MAGIC, BlockHeader, BlockType, LogBlock, encode_block, rollback_block
from pyhudi.io.log import scan as log_scan
from pyhudi.io.log.scan import open_log, scan_blocks
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage

PATH = "p/.f_1.log.1_0-0-0"
INSTANT = "20260101000000001"


def block_of(kind: BlockType, content: bytes, **more: str) -> bytes:
    headers = {BlockHeader.INSTANT_TIME: INSTANT, BlockHeader.SCHEMA: "{}"}
    headers |= {BlockHeader[name]: text for name, text in more.items()}
    return b"".join(encode_block(kind, headers, content))


BLOCKS = (
    block_of(BlockType.AVRO_DATA, b"first"),
    block_of(BlockType.DELETE, b"second", IS_PARTIAL="no"),
    rollback_block("20260101000000003", INSTANT),
    block_of(BlockType.PARQUET_DATA, b""),
)
STARTS = tuple(sum(len(block) for block in BLOCKS[:n]) for n in range(len(BLOCKS) + 1))
FILE = b"".join(BLOCKS)


def stored(data: bytes) -> MemoryStorage:
    storage = MemoryStorage()
    storage.put(PATH, data)
    return storage


def scan(data: bytes) -> list[LogBlock]:
    """The blocks, after checking that they cover the file."""
    blocks = list(scan_blocks(stored(data), PATH))
    assert [block.offset for block in blocks] == [0, *(block.end for block in blocks)][: len(blocks)]
    assert (blocks[-1].end if blocks else 0) == len(data)
    return blocks


WHOLE = scan(FILE)


@pytest.fixture(params=["in-one-piece", "in-windows"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to read a file, the second with windows that are far too small."""
    if request.param == "in-windows":
        monkeypatch.setattr(log_scan, "WHOLE_FILE_BYTES_MAX", 0)
        monkeypatch.setattr(log_scan, "WINDOW_BYTES", 16)
        monkeypatch.setattr(log_scan, "SEARCH_BYTES", 7)


@pytest.mark.usefixtures("way")
def test_every_block_comes_with_its_content(tmp_path):
    local = LocalStorage(str(tmp_path))
    local.put(PATH, FILE)
    for storage in (stored(FILE), local):
        with open_log(storage, PATH) as reader:
            blocks = list(reader.blocks())
            contents = [reader.content(block).to_pybytes() for block in blocks]
        assert [block.kind.name for block in blocks] == ["AVRO_DATA", "DELETE", "COMMAND", "PARQUET_DATA"]
        assert [block.offset for block in blocks] == list(STARTS[:-1])
        assert contents == [b"first", b"second", b"", b""]


def test_empty_file_has_no_blocks():
    assert scan(b"") == []


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("flip", [0x01, 0xFF])
def test_damage_of_any_byte_spares_the_other_blocks(flip):
    outcomes = set()
    for place in range(len(FILE)):
        damaged = bytearray(FILE)
        damaged[place] ^= flip
        hit = next(n for n in range(len(BLOCKS)) if place < STARTS[n + 1])
        lost = {hit - 1, hit} if place < STARTS[hit] + len(MAGIC) else {hit}
        try:
            found = scan(bytes(damaged))
        except UnsupportedFeatureError as error:
            outcomes.add(("unsupported", error.context["offset"] == STARTS[hit]))
            continue
        others = [block for block in found if block.kind is not BlockType.CORRUPT and block.offset != STARTS[hit]]
        assert others == [block for n, block in enumerate(WHOLE) if n not in lost]
        outcomes |= {(block.kind is BlockType.CORRUPT, True) for block in found}
    assert outcomes == {("unsupported", True), (True, True), (False, True)}


@pytest.mark.usefixtures("way")
def test_file_cut_at_any_place_keeps_the_blocks_before_it():
    for length in range(len(FILE)):
        found = scan(FILE[:length])
        kept = [block for block in WHOLE if block.end <= length]
        assert found[: len(kept)] == kept
        assert all(block.kind is BlockType.CORRUPT for block in found[len(kept) :])
        assert (len(found) > len(kept)) == (length not in STARTS)


@pytest.mark.usefixtures("way")
def test_garbage_between_blocks_is_reported_and_costs_the_block_before_it():
    garbage = b"#HUD" * 5
    found = scan(garbage + BLOCKS[0] + BLOCKS[1] + garbage + BLOCKS[2])
    kinds = [block.kind for block in found]
    assert kinds == [BlockType.CORRUPT, BlockType.AVRO_DATA, BlockType.CORRUPT, BlockType.COMMAND]
    assert found[2].size == len(BLOCKS[1]) + len(garbage)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("garbage", [b"x", b"#", b"#HUDI", b"x" * 100])
def test_garbage_at_the_start_is_reported_and_costs_no_block(garbage):
    found = scan(garbage + BLOCKS[0])
    assert [(block.kind, block.size) for block in found] == [
        (BlockType.CORRUPT, len(garbage)),
        (BlockType.AVRO_DATA, len(BLOCKS[0])),
    ]


def test_torn_write_of_jvm_hudi_keeps_the_block_before_it():
    """A failed append of Hudi 1.2.0 leaves the magic alone behind the last whole block."""
    found = scan(BLOCKS[0] + MAGIC)
    assert [(block.kind, block.size) for block in found[1:]] == [(BlockType.CORRUPT, 6)]
    assert found[0] == WHOLE[0]


def test_magic_inside_of_a_content_is_no_block():
    data = block_of(BlockType.AVRO_DATA, b"x" + MAGIC + b"y") + BLOCKS[1]
    assert [block.kind for block in scan(data)] == [BlockType.AVRO_DATA, BlockType.DELETE]
    damaged = data[:20] + b"\xff" + data[21:]
    with pytest.raises(UnsupportedFeatureError):
        scan(damaged)
    damaged = data[:13] + b"\xff" + data[14:]
    assert [block.kind for block in scan(damaged)] == [BlockType.CORRUPT, BlockType.CORRUPT, BlockType.DELETE]


def test_block_that_its_writer_marked_as_corrupt_is_corrupt():
    data = bytearray(BLOCKS[0])
    data[21] = BlockType.CORRUPT
    assert [block.kind for block in scan(bytes(data))] == [BlockType.CORRUPT]


def test_damage_is_logged_with_file_offset_and_size(caplog):
    with caplog.at_level(logging.WARNING, logger="pyhudi"):
        scan(BLOCKS[0] + b"garbage" + BLOCKS[1])
    assert len(caplog.messages) == 1
    assert f"log file {PATH} is damaged: {len(BLOCKS[0]) + 7} bytes from offset 0" in caplog.messages[0]


@settings(max_examples=60, deadline=None)
@given(
    pieces=st.lists(
        st.one_of(st.sampled_from(BLOCKS), st.binary(max_size=30), st.sampled_from([MAGIC, MAGIC[:3], BLOCKS[0][:40]])),
        max_size=8,
    ),
    edits=st.lists(st.tuples(st.integers(0, 2000), st.binary(min_size=1, max_size=9)), max_size=3),
)
def test_any_bytes_give_blocks_that_cover_the_file_or_a_typed_error(pieces, edits):
    data = b"".join(pieces)
    for place, new in edits:
        data = data[:place] + new + data[place + len(new) :]
    with suppress(UnsupportedFeatureError):
        scan(data)


class CountingFile(io.RawIOBase):
    """What an object store gives: no file of Arrow's. Remembers what was read."""

    def __init__(self, data: bytes) -> None:
        self._bytes = io.BytesIO(data)
        self.reads: list[tuple[int, int]] = []

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._bytes.seek(offset, whence)

    def tell(self) -> int:
        return self._bytes.tell()

    def read(self, size: int = -1, /) -> bytes:
        self.reads.append((self._bytes.tell(), size))
        return self._bytes.read(size)


class OneFileStorage(MemoryStorage):
    def __init__(self, file: Any) -> None:
        super().__init__()
        self.file = file

    def open_input(self, path: str) -> Any:
        assert path == PATH
        return self.file


def large_file() -> bytes:
    return b"".join(block_of(BlockType.AVRO_DATA, bytes([65 + n]) * 700_000) for n in range(3))


def test_small_file_is_read_once_with_its_contents():
    file = CountingFile(FILE)
    with open_log(OneFileStorage(file), PATH) as reader:
        assert [reader.content(block).size for block in reader.blocks()] == [5, 6, 0, 0]
    assert file.reads == [(0, len(FILE))]
    assert file.closed


def test_large_file_is_read_around_the_ends_of_blocks_only():
    data = large_file()
    file = CountingFile(data)
    with open_log(OneFileStorage(file), PATH) as reader:
        blocks = list(reader.blocks())
        assert len(blocks) == 3
        assert len(file.reads) == 4
        assert sum(size for _, size in file.reads) <= 4 * log_scan.WINDOW_BYTES
        content = reader.content(blocks[1])
    assert file.reads[4:] == [(blocks[1].content_offset, 700_000)]
    assert content.equals(pa.py_buffer(b"B" * 700_000))


def test_header_larger_than_a_window_is_read_whole():
    schema = "s" * (3 * log_scan.WINDOW_BYTES)
    data = block_of(BlockType.AVRO_DATA, bytes(1_000_000), SCHEMA=schema) + BLOCKS[1]
    first, second = scan(data)
    assert (first.schema, first.content_size) == (schema, 1_000_000)
    assert second.kind is BlockType.DELETE


def test_known_size_leaves_out_what_was_appended_later():
    with open_log(stored(FILE), PATH, size=STARTS[2]) as reader:
        assert list(reader.blocks()) == WHOLE[:2]


def test_file_that_lost_its_end_is_refused():
    with pytest.raises(CorruptDataError) as caught:
        open_log(stored(FILE), PATH, size=len(FILE) + 1)
    assert caught.value.context["path"] == PATH


def test_missing_file_is_not_found():
    with pytest.raises(NotFoundError):
        open_log(MemoryStorage(), PATH)


class FailingFile(CountingFile):
    def read(self, _size: int = -1, /) -> bytes:
        raise OSError(5, "Input/output error")


class ShrinkingFile(CountingFile):
    def read(self, size: int = -1, /) -> bytes:
        return super().read(size)[:-1]


@pytest.mark.parametrize("kind", [FailingFile, ShrinkingFile])
def test_failure_of_the_store_is_no_damage(kind):
    with open_log(OneFileStorage(kind(FILE)), PATH) as reader, pytest.raises(StorageError) as caught:
        list(reader.blocks())
    assert caught.value.context["path"] == PATH
