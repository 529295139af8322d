"""Lookup in HFiles by their index: present and absent keys, prefixes, deep indexes, and only the wanted blocks."""

from __future__ import annotations

import gzip
import random
import struct
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import CorruptDataError, StorageError, UnsupportedFeatureError
from pyhudi.format.hfile.blocks import source_of
from pyhudi.format.hfile.codecs import HFileCodec
from pyhudi.format.hfile.indexed import IndexedHFile, open_hfile, sorted_keys
from pyhudi.format.hfile.layout import (
    BLOCK_HEADER,
    DATA_MAGIC,
    FILE_INFO_MAGIC,
    FILE_INFO_PREFIX,
    KEY_TAIL,
    KEY_VALUE_VERSION,
    KEY_VALUE_VERSION_WITH_MVCC,
    ROOT_INDEX_MAGIC,
    TRAILER_BYTES,
    TRAILER_MAGIC,
    TrailerField,
    format_field,
    format_varint,
)
from pyhudi.format.hfile.reader import read_hfile
from pyhudi.format.hfile.writer import write_hfile
from pyhudi.io.hfile import WHOLE_FILE_BYTES_MAX, open_hfile_of
from pyhudi.storage.memory import MemoryStorage

GOLDEN = Path(__file__).parents[3] / "golden" / "hfile"
PATH = "files/f_0-0-0_1.hfile"
ODD = ["a", "b$c", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "zz", ""]


def opened(data: bytes) -> IndexedHFile:
    return open_hfile(source_of(data, PATH))


def made(keys: list[str], *, block_bytes: int = 64, codec: HFileCodec = HFileCodec.GZ) -> bytes:
    rows = sorted_keys(keys)
    values = pa.array([b"v" + key for key in rows.to_pylist()], pa.binary())
    return write_hfile(rows, values, schema="{}", codec=codec, block_bytes=block_bytes)


def found(hfile: IndexedHFile, keys: list[str]) -> list[bytes]:
    rows, values = hfile.with_keys(sorted_keys(keys))
    assert values.to_pylist() == [b"v" + key for key in rows.to_pylist()]
    return list(rows.to_pylist())


@pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("*.hfile")))
def test_files_of_jvm_hudi_give_every_key_that_they_have(name: str):
    data = (GOLDEN / f"{name}.hfile").read_bytes()
    whole, indexed = read_hfile(data, path=PATH), opened(data)
    assert indexed.all_entries()[0].equals(whole.keys)
    keys, values = indexed.with_keys(sorted_keys(whole.keys.cast(pa.string())))
    assert keys.equals(whole.keys)
    assert values.equals(whole.values)
    assert indexed.schema == whole.schema


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.text("abc\ud7ff\ue000\uffff\U00010000", max_size=4), unique=True, max_size=40),
    st.lists(st.text("abc\ud7ff\ue000\uffff\U00010000", max_size=4), max_size=20),
)
def test_any_keys_are_found_and_absent_ones_are_not(present: list[str], wanted: list[str]):
    hfile = opened(made(present))
    expected = sorted(key.encode() for key in {*wanted} & {*present})
    assert found(hfile, wanted) == expected
    prefixes = [key.encode() for key in wanted]
    rows, _ = hfile.with_prefixes(prefixes)
    assert rows.to_pylist() == sorted(
        key.encode() for key in present if any(key.encode().startswith(prefix) for prefix in prefixes)
    )


def test_keys_around_the_borders_of_utf16_are_found():
    hfile = opened(made(ODD))
    for key in ODD:
        assert found(hfile, [key]) == [key.encode()]
    assert found(hfile, ODD) == sorted(key.encode() for key in ODD)


def test_shuffled_keys_give_what_sorted_keys_give():
    keys = [f"k{number:05}" for number in range(3000)]
    hfile = opened(made(keys, block_bytes=1000))
    wanted = random.Random(4).sample(keys, 500)
    assert found(hfile, wanted) == found(hfile, sorted(wanted)) == sorted(key.encode() for key in wanted)


def test_one_open_file_is_scanned_and_looked_up_again_and_again():
    keys = [f"k{number:05}" for number in range(300)]
    hfile = opened(made(keys, block_bytes=500))
    for _ in range(2):
        assert len(hfile.all_entries()[0]) == 300
        assert found(hfile, ["k00299", "k00000"]) == [b"k00000", b"k00299"]


def as_of_hbase(keys: list[str], *, levels: int, per_block: int = 3, per_index: int = 2) -> bytes:
    """A file as the HBase library makes it: a deep index, whose keys are shortened so that no block has them."""
    out = bytearray()

    def block(magic: bytes, payload: bytes) -> tuple[int, int]:
        stored = gzip.compress(payload)
        at = len(out)
        checksums = bytes(4 * -(-(BLOCK_HEADER.size + len(stored)) // 16384))
        header = BLOCK_HEADER.pack(
            magic, len(stored) + len(checksums), len(payload), -1, 0, 16384, BLOCK_HEADER.size + len(stored)
        )
        out.extend(header + stored + checksums)
        return at, len(out) - at

    def whole_key(row: bytes) -> bytes:
        return struct.pack(">h", len(row)) + row + KEY_TAIL

    entries: list[tuple[bytes, tuple[int, int]]] = []
    first = 0
    for start in range(0, len(keys), per_block):
        rows = [key.encode() for key in keys[start : start + per_block]]
        payload = b"".join(
            struct.pack(">iih", len(row) + 12, len(row) + 1, len(row)) + row + KEY_TAIL + b"v" + row + b"\0"
            for row in rows
        )
        span = block(DATA_MAGIC, payload)
        fake = rows[0] if not start else rows[0][:-1] + bytes([rows[0][-1] - 1]) + b"~"
        entries.append((fake, span))
    last = entries[-1][1][0]
    for level in range(levels - 1):
        magic = b"IDXLEAF2" if level == 0 else b"IDXINTE2"
        above = []
        for start in range(0, len(entries), per_index):
            parts = entries[start : start + per_index]
            packed = [struct.pack(">qi", *span) + whole_key(key) for key, span in parts]
            borders = [sum(map(len, packed[:number])) for number in range(len(packed) + 1)]
            payload = struct.pack(f">i{len(borders)}i", len(packed), *borders) + b"".join(packed)
            above.append((parts[0][0], block(magic, payload)))
        entries = above
    root, _ = block(
        ROOT_INDEX_MAGIC,
        b"".join(struct.pack(">qi", *span) + bytes([len(whole_key(key))]) + whole_key(key) for key, span in entries),
    )
    block(ROOT_INDEX_MAGIC, b"")
    pair = format_field(1, KEY_VALUE_VERSION.encode()) + format_field(2, KEY_VALUE_VERSION_WITH_MVCC)
    message = format_field(1, pair)
    info, _ = block(FILE_INFO_MAGIC, FILE_INFO_PREFIX + format_varint(len(message)) + message)
    fields = {
        TrailerField.FILE_INFO_OFFSET: info,
        TrailerField.LOAD_ON_OPEN_OFFSET: root,
        TrailerField.DATA_BLOCK_COUNT: len(entries),
        TrailerField.ENTRY_COUNT: len(keys),
        TrailerField.INDEX_LEVELS: levels,
        TrailerField.FIRST_DATA_BLOCK: first,
        TrailerField.LAST_DATA_BLOCK: last,
        TrailerField.CODEC: HFileCodec.GZ,
    }
    body = b"".join(format_field(number, value) for number, value in fields.items())
    trailer = (TRAILER_MAGIC + format_varint(len(body)) + body).ljust(TRAILER_BYTES - 4, b"\0") + b"\0\0\0\3"
    return bytes(out) + trailer


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_index_with_shortened_keys_and_levels_finds_every_key_and_no_other(levels: int):
    keys = [f"k{number:04}m" for number in range(0, 200, 2)]
    hfile = opened(as_of_hbase(keys, levels=levels))
    assert len(hfile.spans) == 34
    for key in keys:
        assert found(hfile, [key]) == [key.encode()]
    absent = [
        f"k{number:04}{letter}" for number in range(200) for letter in "alz~" if f"k{number:04}{letter}" not in keys
    ]
    assert found(hfile, absent) == []
    assert found(hfile, [*absent, *keys]) == [key.encode() for key in keys]
    for one, other in pairwise(absent):  # two misses in a row
        assert found(hfile, [one]) == found(hfile, [other]) == []
    assert [*hfile.with_prefixes([b"k0010", b"k0012"])[0].to_pylist()] == [b"k0010m", b"k0012m"]


def test_many_absent_keys_in_any_order_are_not_found():
    keys = [f"k{number:06}" for number in range(0, 20_000, 2)]
    hfile = opened(made(keys, block_bytes=4000))
    absent = [f"k{number:06}" for number in range(1, 20_000, 2)] + [f"j{number}" for number in range(45_000)] * 2
    assert found(hfile, absent) == []
    random.Random(1).shuffle(absent)
    assert found(hfile, absent) == []


class Counting:
    """A file that counts what is read of it, and gives at most some bytes at a time."""

    def __init__(self, data: bytes, at_most: int) -> None:
        self.data, self.at, self.at_most, self.given = data, 0, at_most, 0

    def seek(self, offset: int, whence: int = 0) -> None:
        self.at = offset if whence == 0 else len(self.data)

    def tell(self) -> int:
        return self.at

    def read(self, length: int) -> bytes:
        piece = self.data[self.at : self.at + min(length, self.at_most)]
        self.at += len(piece)
        self.given += len(piece)
        return piece

    def close(self) -> None:
        pass


class OneFile(MemoryStorage):
    def __init__(self, source: Counting) -> None:
        super().__init__()
        self.source = source

    def open_input(self, path: str) -> Counting:  # noqa: ARG002
        return self.source


def large() -> tuple[list[str], bytes]:
    keys = [f"k{number:07}" for number in range(60_000)]
    rows = sorted_keys(keys)
    noise = random.Random(3)
    values = pa.array([noise.randbytes(40) for _ in keys], pa.binary())
    return keys, write_hfile(rows, values, schema="{}", block_bytes=30_000)


def test_lookup_reads_index_and_wanted_blocks_only():
    keys, data = large()
    assert len(data) > 2 * WHOLE_FILE_BYTES_MAX
    source = Counting(data, 1 << 30)
    with open_hfile_of(OneFile(source), PATH) as reader:
        rows, _ = reader.file.with_keys(sorted_keys([keys[5], keys[30_000]]))
    assert rows.to_pylist() == [keys[5].encode(), keys[30_000].encode()]
    assert source.given < 300_000


def test_store_that_gives_fewer_bytes_than_asked_is_asked_again():
    keys, data = large()
    with open_hfile_of(OneFile(Counting(data, 1000)), PATH) as reader:
        rows, _ = reader.file.with_keys(sorted_keys([keys[5], keys[59_999]]))
    assert rows.to_pylist() == [keys[5].encode(), keys[59_999].encode()]


def test_file_that_shrinks_while_it_is_read_is_no_endless_loop():
    _, data = large()
    source = Counting(data, 1 << 30)
    with open_hfile_of(OneFile(source), PATH) as reader:
        source.data = data[:1000]
        with pytest.raises(StorageError, match="changed"):
            reader.file.all_entries()


def test_every_damaged_byte_of_index_and_blocks_is_an_error_or_changes_nothing():
    keys = [f"k{number:03}" for number in range(40)]
    data = made(keys, block_bytes=100)
    expected = opened(data).all_entries()[0].to_pylist()
    for at in range(len(data) - TRAILER_BYTES):
        damaged = data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :]
        try:
            rows, values = opened(damaged).all_entries()
        except (CorruptDataError, UnsupportedFeatureError):
            continue
        assert rows.to_pylist() == expected
        assert values.to_pylist() == [b"v" + key for key in expected]


def test_index_that_points_outside_or_is_not_in_order_is_damage():
    data = as_of_hbase([f"k{number:03}m" for number in range(30)], levels=2)
    at = data.index(b"IDXLEAF2")
    with pytest.raises(CorruptDataError):
        opened(data[:at] + b"IDXLEAFX" + data[at + 8 :])
