"""HFiles: those of JVM Hudi (tests/golden/hfile), those of a second writer below, our own, and damaged ones."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import json
import struct
import tracemalloc
import zlib
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import CorruptDataError, InternalError, RecordKeyError, UnsupportedFeatureError
from pyhudi.format.hfile.blocks import UNSUSPICIOUS_BYTES, crc32c_of_chunks
from pyhudi.format.hfile.codecs import HFileCodec
from pyhudi.format.hfile.reader import HFile, decode_hfile_records, read_hfile
from pyhudi.format.hfile.writer import write_hfile
from pyhudi.format.metadata_table.records import decode_metadata_records

GOLDEN = Path(__file__).parents[3] / "golden" / "hfile"
GOLDEN_NAMES = sorted(path.stem for path in GOLDEN.glob("*.hfile"))
PATH = "p/.f1_001.log.1_0-1-0"
USER_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "t_record",
        "fields": [
            {"name": "_hoodie_record_key", "type": ["null", "string"], "default": None},
            {"name": "id", "type": "string"},
            {"name": "n", "type": "int"},
        ],
    }
)
TRAILER = 4096
EPOCH_OF_GOLDEN = dt.datetime.fromtimestamp(1_700_000_000, dt.UTC)


def golden(name: str) -> bytes:
    return (GOLDEN / f"{name}.hfile").read_bytes()


def read(data: bytes) -> HFile:
    return read_hfile(data, path=PATH)


def entries_of(hfile: HFile) -> list[tuple[bytes, bytes]]:
    return list(zip(hfile.keys.to_pylist(), hfile.values.to_pylist(), strict=True))


def rows(name: str, columns: Sequence[str] | None = None) -> list[dict[str, object]]:
    data = golden(name)
    schema = read(data).schema
    assert schema is not None
    return decode_hfile_records(data, schema, columns=columns, path=name, offset=0).to_pylist()


def metadata_rows(name: str, payload: str) -> list[dict[str, Any]]:
    hfile = read(golden(name))
    assert hfile.schema is not None
    found = decode_metadata_records(hfile.keys, hfile.values, payload, avro_schema=hfile.schema, path=name, offset=0)
    return list(found.to_pylist())


# --- A second writer, of the HBase dialect, straight from the specification ---------------------------------


def crc32c(data: bytes) -> int:
    """Bit by bit, as the definition has it."""
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


def varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def message(*fields: tuple[int, int | bytes]) -> bytes:
    parts = (
        varint(number << 3) + varint(value)
        if isinstance(value, int)
        else varint(number << 3 | 2) + varint(len(value)) + value
        for number, value in fields
    )
    return b"".join(parts)


KEY_TAIL = bytes(1) + b"\x7f" + b"\xff" * 7 + b"\4"


def entry(row: bytes, value: bytes, *, tail: bytes = KEY_TAIL, mvcc: bytes = b"\0") -> bytes:
    key = struct.pack(">h", len(row)) + row + tail
    return struct.pack(">ii", len(key), len(value)) + key + value + mvcc


def block(
    magic: bytes,
    payload: bytes,
    *,
    store: Callable[[bytes], bytes] = bytes,
    checksum: int = 0,
    per_checksum: int = 16384,
    claimed: int | None = None,
) -> bytes:
    stored = store(payload)
    chunks = -(-(33 + len(stored)) // per_checksum)
    header = magic + struct.pack(
        ">iiqbii",
        len(stored) + 4 * chunks,
        len(payload) if claimed is None else claimed,
        -1,
        checksum,
        per_checksum,
        33 + len(stored),
    )
    covered = header + stored
    kinds = {0: lambda _: 0, 1: zlib.crc32, 2: crc32c}
    sums = [kinds[checksum](covered[n : n + per_checksum]) for n in range(0, len(covered), per_checksum)]
    return covered + struct.pack(f">{chunks}I", *sums)


INFO = ((b"KEY_VALUE_VERSION", b"\0\0\0\1"), (b"MAX_MEMSTORE_TS_KEY", bytes(8)))


def hfile(
    *scanned: bytes,
    count: int,
    last: int | None = None,
    codec: int = 2,
    store: Callable[[bytes], bytes] = bytes,
    info: Sequence[tuple[bytes, bytes]] = INFO,
    trailer: Sequence[tuple[int, int | bytes]] = (),
    version: int = 3,
) -> bytes:
    """A file of these scanned blocks; the last data block is the last of them unless `last` tells its number."""
    ends = [0]
    for piece in scanned:
        ends.append(ends[-1] + len(piece))
    body = message(*((1, message((1, name), (2, value))) for name, value in info))
    file_info = block(b"FILEINF2", b"PBUF" + varint(len(body)) + body, store=store)
    index = len(scanned) - 1 if last is None else last
    fields = {1: ends[-1], 2: ends[-1], 5: len(scanned), 6: 0, 7: count, 8: 1, 9: 0, 10: ends[index], 12: codec}
    body = message(*(fields | dict(trailer)).items())
    end = (b'TRABLK"$' + varint(len(body)) + body).ljust(TRAILER - 4, b"\0") + struct.pack(">i", 3 << 24 | version)
    return b"".join((*scanned, file_info, end))


def hadoop(compress: Callable[[bytes], bytes], piece_bytes: int) -> Callable[[bytes], bytes]:
    """Hadoop's block stream around a codec that knows no streams; several chunks end in an empty one."""

    def store(payload: bytes) -> bytes:
        pieces = [compress(payload[n : n + piece_bytes]) for n in range(0, len(payload), piece_bytes)]
        pieces += [b""] if len(pieces) > 1 else []
        return struct.pack(">i", len(payload)) + b"".join(struct.pack(">i", len(piece)) + piece for piece in pieces)

    return store


def arrow_codec(name: str) -> Callable[[bytes], bytes]:
    return lambda payload: pa.Codec(name).compress(payload, asbytes=True)


STORED = {
    HFileCodec.GZ: gzip.compress,
    HFileCodec.NONE: bytes,
    HFileCodec.SNAPPY: hadoop(arrow_codec("snappy"), 1000),
    HFileCodec.LZ4: hadoop(arrow_codec("lz4_raw"), 1000),
    HFileCodec.BZIP2: bz2.compress,
    HFileCodec.ZSTD: arrow_codec("zstd"),
}
ENTRIES = [(f"key{n:03d}".encode(), b"v" * n) for n in range(100)]
PAYLOAD = b"".join(entry(row, value) for row, value in ENTRIES)


# --- Files of JVM Hudi --------------------------------------------------------------------------------------


def test_log_block_of_a_user_table_gives_its_rows_with_keys_restored():
    expected = [
        {
            "_hoodie_record_key": f"key{i:03d}",
            "_hoodie_partition_path": "a",
            "k": f"key{i:03d}",
            "p": "a",
            "ts": 1,
            "i": i,
            "s": f"s{i}é" if i % 3 else None,
            "d": Decimal(i) / 4,
            "t": EPOCH_OF_GOLDEN + dt.timedelta(microseconds=i),
        }
        for i in range(1, 20, 2)
    ]
    found = rows("v9-user-log")
    assert [{name: row[name] for name in expected[0]} for row in found] == expected


def test_block_that_is_not_compressed_gives_its_rows():
    expected = [{"k": f"key{i:03d}", "ts": 1, "s": chr(97 + i) * 5} for i in range(12)]
    assert rows("v6-user-log-none", ["k", "ts", "s"]) == expected


def test_block_of_several_lz4_chunks_gives_its_rows():
    expected = [{"_hoodie_record_key": f"key{i:03d}", "s": chr(97 + i % 26) * 2000} for i in range(150)]
    assert rows("v6-user-log-lz4", ["_hoodie_record_key", "s"]) == expected


@pytest.mark.parametrize("name", ["v6-files", "v9-files"])
def test_base_file_of_the_metadata_table_lists_partitions_and_files(name: str):
    found = metadata_rows(name, "filesystemMetadata")
    assert [(row["key"], row["type"]) for row in found] == [("__all_partitions__", 1), ("a", 2), ("b", 2)]
    partitions, *listings = [dict(row["filesystemMetadata"]) for row in found]
    assert partitions == {part: {"size": 0, "isDeleted": False} for part in ("a", "b")}
    for files in listings:
        assert len(files) == 3
        assert all(file.endswith(".parquet") and 436_000 < value["size"] < 437_000 for file, value in files.items())


def test_log_block_of_the_record_index_gives_locations():
    found = metadata_rows("v9-record-index-log", "recordIndexMetadata")
    assert [row["key"] for row in found] == [f"key{i:03d}" for i in range(20, 25)]
    locations = [row["recordIndexMetadata"] for row in found]
    assert [location["partitionName"] for location in locations] == ["b", "a", "b", "a", "b"]
    assert {location["instantTime"] for location in locations} == {1_795_275_414_319}


@pytest.mark.parametrize(
    ("name", "codec", "keys"),
    [
        ("v6-files", HFileCodec.GZ, 3),
        ("v6-user-log-lz4", HFileCodec.LZ4, 150),
        ("v6-user-log-none", HFileCodec.NONE, 12),
        ("v9-files", HFileCodec.GZ, 3),
        ("v9-record-index-log", HFileCodec.GZ, 5),
        ("v9-user-log", HFileCodec.GZ, 10),
    ],
)
def test_real_file_says_codec_schema_and_last_key(name: str, codec: HFileCodec, keys: int):
    found = read(golden(name))
    assert (found.codec, len(found.keys), len(found.values)) == (codec, keys, keys)
    assert json.loads(found.schema or "")["type"] == "record"
    last = found.file_info["hfile.LASTKEY"]
    assert last[2 : 2 + int.from_bytes(last[:2], "big")] == found.keys[-1].as_py()


def blocks_of(data: bytes) -> list[tuple[bytes, bytes]]:
    """Magic and decompressed payload of every block of a file with gzip."""
    found, position = [], 0
    while position < len(data) - TRAILER:
        magic, stored, _, _, _, _, end = struct.unpack_from(">8siiqbii", data, position)
        found.append((magic, gzip.decompress(data[position + 33 : position + end])))
        position += 33 + stored
    return found


@pytest.mark.parametrize("name", ["v6-files", "v9-files", "v9-record-index-log", "v9-user-log"])
def test_rewriting_a_real_file_gives_the_same_blocks(name: str):
    data = golden(name)
    found = read(data)
    blooms = [payload for magic, payload in blocks_of(data) if magic == b"METABLKc"]
    meta = dict(zip(["bloomFilter"], blooms, strict=False))
    again = write_hfile(
        found.keys, found.values, schema=found.schema or "", file_info=found.file_info, meta_blocks=meta
    )
    assert read(again).file_info == found.file_info
    ours, theirs = blocks_of(again), blocks_of(data)
    assert [magic for magic, _ in ours] == [magic for magic, _ in theirs]
    same = {b"DATABLK*", b"METABLKc"}
    assert [pair for pair in ours if pair[0] in same] == [pair for pair in theirs if pair[0] in same]
    # The stored size in the index depends on the gzip library. Its key is the whole one, as the HBase library has it.
    (_, our_index), (_, their_index) = ours[-3], theirs[-3]
    tail = b"" if name.startswith("v6") else KEY_TAIL
    assert (our_index[:8], our_index[13:]) == (their_index[:8], their_index[13:] + tail)
    assert our_index[12] == their_index[12] + len(tail)


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_statistics_that_the_writer_computes_are_those_of_jvm_hudi(name: str):
    found = read(golden(name))
    ours = read(write_hfile(found.keys, found.values, schema=found.schema or "")).file_info
    names = {"KEY_VALUE_VERSION", "MAX_MEMSTORE_TS_KEY", "hfile.AVG_VALUE_LEN", "schema"}
    names |= {"hfile.AVG_KEY_LEN"} if name.startswith("v9") else {"hfile.LASTKEY"}  # HBase counts the whole key
    assert {key: ours[key] for key in names} == {key: found.file_info[key] for key in names}


# --- Forms that the golden files do not have -------------------------------------------------------------------


@pytest.mark.parametrize("codec", STORED, ids=lambda codec: codec.name)
def test_every_codec_gives_the_same_entries(codec: HFileCodec):
    store = STORED[codec]
    found = read(hfile(block(b"DATABLK*", PAYLOAD, store=store), count=100, codec=codec, store=store))
    assert entries_of(found) == ENTRIES
    assert found.codec is codec


@pytest.mark.parametrize("number", [0, 7, 200])
def test_codec_that_cannot_be_decoded_is_refused_by_name(number: int):
    with pytest.raises(UnsupportedFeatureError, match="LZO" if number == 0 else f"number {number}"):
        read(hfile(block(b"DATABLK*", PAYLOAD), count=100, codec=number))


def test_leaves_of_a_deep_index_between_data_blocks_are_passed_over():
    pieces = [
        block(b"DATABLK*", b"".join(entry(*pair) for pair in ENTRIES[:40])),
        block(b"IDXLEAF2", b"\0\0\0\1" + b"index" * 10),
        block(b"DATABLK*", b"".join(entry(*pair) for pair in ENTRIES[40:])),
        block(b"IDXINTE2", b"more index"),
    ]
    assert entries_of(read(hfile(*pieces, count=100, last=2))) == ENTRIES


@pytest.mark.parametrize("nothing", [0, (1 << 64) - 1], ids=["native", "HBase"])
def test_file_without_entries_is_read(nothing: int):
    found = read(hfile(count=0, last=0, trailer=[(9, nothing), (10, nothing)]))
    assert entries_of(found) == []
    assert found.schema is None


@pytest.mark.parametrize("kind", [1, 2], ids=["CRC-32", "CRC-32C"])
def test_wrong_byte_under_a_checksum_is_found(kind: int):
    data = hfile(block(b"DATABLK*", PAYLOAD, checksum=kind, per_checksum=1024), count=100)
    assert entries_of(read(data)) == ENTRIES
    position = data.index(b"v" * 99) + 50
    with pytest.raises(CorruptDataError, match="checksum") as caught:
        read_hfile(data[:position] + b"w" + data[position + 1 :], path=PATH, offset=1000)
    assert caught.value.context == {"path": PATH, "offset": 1000}


@pytest.mark.parametrize("kind", [1, 2], ids=["CRC-32", "CRC-32C"])
def test_zeros_in_place_of_checksums_are_none_whatever_the_type_says(kind: int):
    part = block(b"DATABLK*", PAYLOAD, checksum=kind, per_checksum=1024)
    sums = -(-(33 + len(PAYLOAD)) // 1024) * 4
    assert any(part[-sums:])
    assert entries_of(read(hfile(part[:-sums] + bytes(sums), count=100))) == ENTRIES
    with pytest.raises(CorruptDataError, match="checksum"):
        read(hfile(part[:-sums] + bytes(sums - 1) + b"\1", count=100))


@pytest.mark.parametrize("kind", [1, 2], ids=["CRC-32", "CRC-32C"])
def test_a_damaged_byte_does_not_switch_checksums_off(kind: int):
    data = bytearray(hfile(block(b"DATABLK*", PAYLOAD, checksum=kind, per_checksum=1024), count=100))
    assert data[24] == kind
    data[24] = 0
    with pytest.raises(CorruptDataError, match="says that it has none"):
        read_hfile(bytes(data), path=PATH)


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (bytes(range(32)), 0x46DD794E)],
)
def test_crc32c_of_published_examples_is_theirs(data: bytes, expected: int):
    assert crc32c_of_chunks(memoryview(data), 512).tolist() == [expected]


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=3000), st.integers(512, 1200))
def test_crc32c_of_any_chunks_is_that_of_the_definition(data: bytes, size: int):
    expected = [crc32c(data[n : n + size]) for n in range(0, len(data), size)]
    assert crc32c_of_chunks(memoryview(data), size).tolist() == expected


# --- Our writer ------------------------------------------------------------------------------------------------


def array_of(values: Sequence[bytes]) -> pa.Array:
    return pa.array(values, pa.binary())


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.text(max_size=9), st.binary(max_size=40)), max_size=30),
    st.sampled_from([HFileCodec.GZ, HFileCodec.NONE]),
    st.integers(1, 300),
)
def test_written_entries_are_read_back(pairs: list[tuple[str, bytes]], codec: HFileCodec, block_bytes: int):
    pairs.sort(key=lambda pair: pair[0].encode())
    keys, values = pa.array([key for key, _ in pairs], pa.string()), array_of([value for _, value in pairs])
    data = write_hfile(keys, values, schema=USER_SCHEMA, codec=codec, block_bytes=block_bytes)
    found = read(data)
    assert entries_of(found) == [(key.encode(), value) for key, value in pairs]
    assert (found.schema, found.codec) == (USER_SCHEMA, codec)
    assert write_hfile(keys, values, schema=USER_SCHEMA, codec=codec, block_bytes=block_bytes) == data


def test_equal_keys_are_never_in_two_blocks():
    keys = [b"a"] * 5 + [b"b"] * 5 + [b"c"]
    data = write_hfile(array_of(keys), array_of([b"x" * 20] * 11), schema="{}", block_bytes=60)
    blocks = [payload for magic, payload in blocks_of(data) if magic == b"DATABLK*"]
    assert [{payload[n + 10] for n in range(0, len(payload), 42)} for payload in blocks] == [{97}, {98}, {99}]


def test_index_names_every_block_with_its_first_key():
    keys = [f"k{n:03d}".encode() for n in range(300)]
    data = write_hfile(array_of(keys), array_of([b"x"] * 300), schema="{}", block_bytes=1000, codec=HFileCodec.NONE)
    starts = [position for position in range(len(data)) if data.startswith(b"DATABLK*", position)]
    first_keys = [data[start + 43 : start + 47] for start in starts]
    root = data.index(b"IDXROOT2")
    sizes = [after - start for start, after in pairwise([*starts, root])]
    expected = b"".join(
        struct.pack(">qi", start, size) + b"\x10\0\4" + key + KEY_TAIL
        for start, size, key in zip(starts, sizes, first_keys, strict=True)
    )
    assert len(starts) > 3
    assert data[root + 33 : root + 33 + len(expected)] == expected


def test_long_key_in_the_index_has_a_hadoop_number_for_its_length():
    data = write_hfile(array_of([b"k" * 300]), array_of([b""]), schema="{}", codec=HFileCodec.NONE)
    root = data.index(b"IDXROOT2") + 33
    assert data[root + 12 : root + 17] == bytes([0x8E]) + struct.pack(">hh", 312, 300)


@pytest.mark.parametrize(
    ("keys", "values", "error"),
    [
        (pa.array(["b", "a"]), [b"", b""], InternalError),
        (pa.array(["a", None]), [b"", b""], RecordKeyError),
        (pa.array(["a" * 32768]), [b""], RecordKeyError),
        (pa.array(["a"]), [None], InternalError),
        (pa.array(["a"]), [], InternalError),
    ],
    ids=["descending", "null key", "long key", "null value", "no value"],
)
def test_entries_that_no_hfile_can_hold_are_refused(keys: pa.Array, values: list[bytes | None], error: type[Exception]):
    with pytest.raises(error):
        write_hfile(keys, array_of(values), schema="{}")


def test_codec_that_native_readers_lack_is_not_written():
    with pytest.raises(UnsupportedFeatureError, match="GZ and NONE"):
        write_hfile(array_of([]), array_of([]), schema="{}", codec=HFileCodec.ZSTD)


# --- Records ---------------------------------------------------------------------------------------------------


def user_block(keys: Sequence[bytes], schema: str = USER_SCHEMA) -> bytes:
    datums = [b"\2\0" + b"\4id" + varint(2 * n) for n in range(len(keys))]
    return write_hfile(array_of(keys), array_of(datums), schema=schema)


def test_wanted_columns_come_without_the_others():
    found = decode_hfile_records(user_block([b"a", b"b"]), USER_SCHEMA, columns=["n"], path=PATH, offset=0)
    assert found.to_pydict() == {"n": [0, 1]}


def test_named_key_column_gets_the_keys_instead_of_the_default_one():
    found = decode_hfile_records(user_block([b"a", b"b"]), USER_SCHEMA, key_column="id", path=PATH, offset=0)
    assert found.to_pydict() == {"_hoodie_record_key": ["", ""], "id": ["a", "b"], "n": [0, 1]}


def test_block_without_records_has_the_columns():
    found = decode_hfile_records(user_block([]), USER_SCHEMA, path=PATH, offset=0)
    assert found.num_rows == 0
    assert found.schema.names == ["_hoodie_record_key", "id", "n"]


def test_key_that_is_no_text_is_damage():
    with pytest.raises(CorruptDataError, match="UTF-8") as caught:
        decode_hfile_records(user_block([b"\xff"]), USER_SCHEMA, path=PATH, offset=7)
    assert caught.value.context["offset"] == 7


def test_record_that_does_not_fit_its_schema_is_damage():
    data = write_hfile(array_of([b"a"]), array_of([b"\2\0\4id"]), schema=USER_SCHEMA)
    with pytest.raises(CorruptDataError) as caught:
        decode_hfile_records(data, USER_SCHEMA, path=PATH, offset=0)
    assert caught.value.context["path"] == PATH


def test_records_without_a_known_key_column_are_refused():
    schema = USER_SCHEMA.replace("_hoodie_record_key", "other")
    with pytest.raises(UnsupportedFeatureError, match="key column"):
        decode_hfile_records(user_block([b"a"]), schema, path=PATH, offset=0)


@pytest.mark.parametrize("schema", ["{", "[]", '{"type":"record","name":"r"}', '{"fields":[1]}'])
def test_malformed_schema_is_damage(schema: str):
    with pytest.raises(CorruptDataError):
        decode_hfile_records(user_block([b"a"]), schema, path=PATH, offset=0)


# --- Damage ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 1, 4095, 4096, 4097, 5000])
def test_file_that_is_cut_off_is_damage(length: int):
    with pytest.raises(CorruptDataError) as caught:
        read(golden("v9-user-log")[:length])
    assert caught.value.context["path"] == PATH


def test_schema_that_is_no_text_is_damage():
    data = hfile(block(b"DATABLK*", PAYLOAD), count=100, info=[*INFO, (b"schema", b"\xff")])
    with pytest.raises(CorruptDataError, match="schema"):
        read(data)


@pytest.mark.parametrize("cut", [1, 100, 500, 900])
def test_file_without_its_front_is_damage(cut: int):
    with pytest.raises(CorruptDataError):
        read(golden("v9-user-log")[cut:])


@pytest.mark.parametrize("name", ["v9-user-log", "v6-user-log-none"])
def test_any_flipped_byte_gives_an_error_or_the_same_entries(name: str):
    data = golden(name)
    expected = entries_of(read(data))
    errors = 0
    positions = range(0, len(data) - TRAILER + 150, 7)
    for position in positions:
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        try:
            found = entries_of(read(bytes(damaged)))
        except (CorruptDataError, UnsupportedFeatureError):
            errors += 1
        else:
            assert found == expected, position
    # What may change unseen: index blocks, which a whole read does not need, and fields that nobody reads.
    assert errors > len(positions) / 2


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_damage_gives_an_error_or_entries(data: st.DataObject):
    store = STORED[codec := data.draw(st.sampled_from(sorted(STORED)))]
    whole = hfile(block(b"DATABLK*", PAYLOAD, store=store), count=100, codec=codec, store=store)
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(whole) - TRAILER + 60))] = data.draw(st.integers(0, 255))
    try:
        found = read(bytes(damaged[data.draw(st.sampled_from([0, 0, 0, 1, 50])) :]))
    except (CorruptDataError, UnsupportedFeatureError):
        pass
    else:
        assert len(found.keys) == len(found.values) == 100


@pytest.mark.parametrize("codec", STORED, ids=lambda codec: codec.name)
def test_block_that_promises_too_much_is_refused_without_the_memory(codec: HFileCodec):
    store, huge = STORED[codec], UNSUSPICIOUS_BYTES
    data = hfile(block(b"DATABLK*", PAYLOAD, store=store, claimed=huge), count=100, codec=codec, store=store)
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        with pytest.raises(CorruptDataError, match="decompress"):
            read(data)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert pa.total_allocated_bytes() - before < 8 << 20


def test_block_that_expands_beyond_its_size_is_refused_without_the_memory():
    bomb = gzip.compress(bytes(20 << 20), compresslevel=1)
    data = hfile(block(b"DATABLK*", PAYLOAD, store=lambda _: bomb), count=100, codec=1, store=gzip.compress)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptDataError, match="decompress"):
            read(data)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_snappy_chunk_that_promises_too_much_is_refused_without_the_memory():
    huge = UNSUSPICIOUS_BYTES
    stream = struct.pack(">ii", huge, 10) + varint(huge) + b"\0" * 5
    data = hfile(block(b"DATABLK*", PAYLOAD, store=lambda _: stream, claimed=huge), count=100, codec=3, store=STORED[3])
    tracemalloc.start()
    try:
        with pytest.raises(CorruptDataError, match="decompress"):
            read(data)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


WRONG_ENTRIES = {
    "longer than its block": entry(b"k", b"v")[:-1],
    "negative value size": struct.pack(">ii", 16, -1) + bytes(30),
    "key shorter than its fixed part": struct.pack(">ii", 4, 20) + bytes(25),
    "row longer than its key": entry(b"k", b"v").replace(b"\0\1k", b"\0\2k"),
    "row longer than the block": entry(b"k", b"v").replace(b"\0\1k", b"\x7f\xffk"),
    "negative row size": entry(b"k", b"v").replace(b"\0\1k", b"\xff\xffk"),
    "column family": entry(b"k", b"v", tail=b"\1" + b"\xff" * 8 + b"\4"),
    "tombstone": entry(b"k", b"v", tail=b"\0" + b"\xff" * 8 + b"\x08"),
    "transaction number": entry(b"k", b"v", mvcc=b"\1"),
    "bytes left over": entry(b"k", b"v") + b"\0",
}


@pytest.mark.parametrize("wrong", WRONG_ENTRIES)
def test_entry_with_a_wrong_key_is_damage_at_its_block(wrong: str):
    first = block(b"DATABLK*", PAYLOAD)
    data = hfile(first, block(b"DATABLK*", WRONG_ENTRIES[wrong]), count=101)
    with pytest.raises(CorruptDataError) as caught:
        read_hfile(data, path=PATH, offset=50)
    assert caught.value.context["offset"] == 50 + len(first)


TRAILERS = {
    "too many entries": [(7, 101)],
    "too few entries": [(7, 99)],
    "last block too far": [(10, 1 << 40)],
    "last block inside a block": [(10, 5)],
    "first block inside a block": [(9, 5)],
    "first block behind everything": [(9, (1 << 64) - 2)],
    "file info inside a block": [(1, 5)],
    "file info behind everything": [(1, 1 << 63)],
    "file info at the data": [(1, 0)],
}


@pytest.mark.parametrize("wrong", TRAILERS)
def test_trailer_that_contradicts_the_file_is_damage(wrong: str):
    half = len(b"".join(entry(*pair) for pair in ENTRIES[:70]))
    pieces = [block(b"DATABLK*", PAYLOAD[:half]), block(b"DATABLK*", PAYLOAD[half:])]
    assert entries_of(read(hfile(*pieces, count=100))) == ENTRIES
    with pytest.raises(CorruptDataError):
        read(hfile(*pieces, count=100, trailer=TRAILERS[wrong]))


@pytest.mark.parametrize(
    ("data", "feature"),
    [
        (hfile(block(b"DATABLK*", PAYLOAD), count=100, version=2), "version 2"),
        (hfile(block(b"DATABLK*", PAYLOAD), count=100, trailer=[(13, b"secret")]), "encrypted"),
        (hfile(block(b"DATABLK*", PAYLOAD), count=100, info=[INFO[0], (INFO[1][0], bytes(7) + b"\1")]), "transaction"),
        (hfile(block(b"DATABLK*", PAYLOAD), count=100, info=INFO[1:]), "transaction"),
    ],
    ids=["version", "encryption", "transaction numbers", "old entries"],
)
def test_feature_that_no_hudi_writer_uses_is_refused_by_name(data: bytes, feature: str):
    with pytest.raises(UnsupportedFeatureError, match=feature) as caught:
        read(data)
    assert caught.value.context["path"] == PATH
