"""Parsers of base files: HFiles with every codec, Parquet as far as it is ours to check, and bloom filters."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import struct
import zlib
from collections.abc import Callable
from functools import cache
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
from tests.fuzz import golden, mutations
from tests.fuzz.hostile_avro import any_record, datum
from tests.fuzz.target import PATH, Target, joined, require, split, text_of
from tests.support.sources import encoded_partitions

from pyhudi.errors import RecordKeyError
from pyhudi.format.bloom import BloomFilterBuilder, BloomFilterType, parse_bloom_filter
from pyhudi.format.bootstrap_index import (
    SourcePartition,
    SourceStatus,
    decode_source_folder,
    decode_source_partition,
)
from pyhudi.format.hfile.blocks import source_of
from pyhudi.format.hfile.codecs import HFileCodec
from pyhudi.format.hfile.indexed import open_hfile
from pyhudi.format.hfile.layout import (
    BLOCK_HEADER,
    DATA_MAGIC,
    FILE_INFO_MAGIC,
    FILE_INFO_PREFIX,
    KEY_TAIL,
    KEY_VALUE_VERSION,
    KEY_VALUE_VERSION_WITH_MVCC,
    SCHEMA,
    TRAILER_BYTES,
    TRAILER_MAGIC,
    TrailerField,
    format_field,
    format_varint,
)
from pyhudi.format.hfile.reader import decode_hfile_records, read_hfile
from pyhudi.format.hfile.writer import write_hfile
from pyhudi.format.parquet.footer import TAIL, parse_footer
from pyhudi.format.parquet.thrift import decode_struct, encode_struct
from pyhudi.format.tombstones import decode_tombstones, encode_tombstones, joined_tombstones
from pyhudi.index.bloom import candidates_in
from pyhudi.io.base_file import read_batches, read_footer
from pyhudi.io.key_footer import BloomSettings, KeyFooter
from pyhudi.storage.memory import MemoryStorage

_USER_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "T",
        "fields": [{"name": "_hoodie_record_key", "type": ["null", "string"]}, {"name": "n", "type": "int"}],
    }
)
_KEYS = pa.array(["a", "id:3", "k-1", "z"])
_FILE_BYTES = 1 << 20

# ----- HFiles ---------------------------------------------------------------------------------------------------------


def _hadoop(compress: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def stream(payload: bytes) -> bytes:
        chunk = compress(payload)
        return struct.pack(">ii", len(payload), len(chunk)) + chunk

    return stream


def _zstd(payload: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(payload)
    return sink.getvalue().to_pybytes()


def _arrow(name: str) -> Callable[[bytes], bytes]:
    return lambda payload: pa.Codec(name).compress(payload, asbytes=True)


_COMPRESS: dict[HFileCodec, Callable[[bytes], bytes]] = {
    HFileCodec.GZ: gzip.compress,
    HFileCodec.NONE: bytes,
    HFileCodec.BZIP2: bz2.compress,
    HFileCodec.ZSTD: _zstd,
    HFileCodec.SNAPPY: _hadoop(_arrow("snappy")),
    HFileCodec.LZ4: _hadoop(_arrow("lz4_raw")),
}


def _block(magic: bytes, payload: bytes, codec: HFileCodec, *, promised: int | None = None) -> bytes:
    stored = _COMPRESS[codec](payload)
    size = len(payload) if promised is None else promised
    return BLOCK_HEADER.pack(magic, len(stored), size, -1, 0, 0, BLOCK_HEADER.size + len(stored)) + stored


def _file(data: bytes, info: dict[str, bytes], codec: HFileCodec, *, entries: int) -> bytes:
    """An HFile around one data block."""
    pairs = (format_field(1, name.encode()) + format_field(2, value) for name, value in info.items())
    message = b"".join(format_field(1, pair) for pair in pairs)
    info_block = _block(FILE_INFO_MAGIC, FILE_INFO_PREFIX + format_varint(len(message)) + message, codec)
    fields = {
        TrailerField.FILE_INFO_OFFSET: len(data),
        TrailerField.ENTRY_COUNT: entries,
        TrailerField.FIRST_DATA_BLOCK: 0,
        TrailerField.LAST_DATA_BLOCK: 0,
        TrailerField.CODEC: codec,
    }
    body = b"".join(format_field(number, value) for number, value in fields.items())
    trailer = (TRAILER_MAGIC + format_varint(len(body)) + body).ljust(TRAILER_BYTES - 4, b"\0") + b"\0\0\0\3"
    return data + info_block + trailer


_INFO = {SCHEMA: _USER_SCHEMA.encode(), KEY_VALUE_VERSION: KEY_VALUE_VERSION_WITH_MVCC}


def _entries(rows: dict[bytes, bytes]) -> bytes:
    return b"".join(
        struct.pack(">iih", len(row) + 12, len(value), len(row)) + row + KEY_TAIL + value + b"\0"
        for row, value in rows.items()
    )


@cache
def _bomb(codec: HFileCodec, size: int) -> bytes:
    """A block of one entry that holds so many zeros."""
    return _block(DATA_MAGIC, _entries({b"a": bytes(size)}), codec)


def _remade(rng: Random, _: bytes, other: bytes) -> bytes:
    """A whole file whose compressed payload, promised size, entries or info are wrong."""
    codec = rng.choice(tuple(_COMPRESS))
    payload = _entries({b"a": b"\0\2", b"b": b"\0\4"})
    info = dict(_INFO)
    promised = None
    match rng.randrange(5):
        case 0:
            payload = mutations.binary(rng, payload, other)
        case 1:
            promised = rng.choice((0, len(payload) - 1, len(payload) + 1, 1 << 20, 1 << 28, (1 << 31) - 1, -1))
        case 2:
            # Few bytes that grow to many, and say so.
            size = rng.choice((1 << 20, 1 << 23, (1 << 25) + 1))
            return _file(_bomb(codec, size), info, codec, entries=1)
        case 3:
            info[rng.choice((SCHEMA, KEY_VALUE_VERSION, "\u00e9", "MAX_MEMSTORE_TS_KEY"))] = rng.randbytes(
                rng.randrange(9)
            )
    data = _block(DATA_MAGIC, payload, codec, promised=promised)
    if rng.random() < 0.3:
        data = data[: BLOCK_HEADER.size] + mutations.binary(rng, data[BLOCK_HEADER.size :], other)
    return _file(data, info, codec, entries=rng.choice((2, 2, 1, 0, 1 << 62)))


@cache
def _hfiles() -> tuple[bytes, ...]:
    golden_files = [path.read_bytes() for path in sorted((golden.GOLDEN / "hfile").glob("*.hfile"))]
    keys, values = pa.array(["a", "b", "b"]), pa.array([b"\0\2", b"\0\4", b""], pa.binary())
    own = [write_hfile(keys, values, schema=_USER_SCHEMA, codec=codec) for codec in (HFileCodec.GZ, HFileCodec.NONE)]
    made = [
        _file(_block(DATA_MAGIC, _entries({b"a": b"\0\2", b"b": b"\0\4"}), codec), _INFO, codec, entries=2)
        for codec in _COMPRESS
    ]
    return tuple(data for data in (*own, *made, *golden_files) if len(data) <= 64 * 1024)


def _check_hfile(data: bytes) -> None:
    hfile = read_hfile(data, path=PATH)
    require(len(hfile.keys) == len(hfile.values), "keys without values")
    hfile.keys.validate(full=True)
    hfile.values.validate(full=True)
    keys = hfile.keys.to_pylist()
    if hfile.schema is None or keys != sorted(keys):
        return
    try:
        hfile.keys.cast(pa.string())
    except pa.ArrowInvalid:
        return
    again = read_hfile(write_hfile(hfile.keys, hfile.values, schema=hfile.schema), path=PATH)
    require(
        again.keys.equals(hfile.keys) and again.values.equals(hfile.values), "other entries after writing and reading"
    )


def _check_hfile_index(data: bytes) -> None:
    """By its index a file has the entries that it has from front to back, and each key is found."""
    indexed = open_hfile(source_of(data, PATH))
    keys, values = indexed.all_entries()
    whole = read_hfile(data, path=PATH)
    require(keys.equals(whole.keys) and values.equals(whole.values), "other entries by the index")
    if keys.to_pylist() == sorted(keys.to_pylist()):
        require(indexed.with_keys(keys)[0].equals(keys), "keys that are not found")
    require(indexed.with_prefixes([b""])[0].equals(keys), "keys without the empty prefix")


@cache
def _checksummed() -> tuple[tuple[bytes, list[tuple[bytes, bytes]]], ...]:
    """Files all of whose data blocks have checksums, of the format's own or of gzip, and their entries."""
    names = ("v6-files", "v6-user-log-lz4", "v6-user-log-none", "v9-files", "v9-user-log", "v9-record-index-log")
    files = [(golden.GOLDEN / "hfile" / f"{name}.hfile").read_bytes() for name in names]
    return tuple((data, _pairs(data)) for data in files if len(data) <= 64 * 1024)


def _pairs(data: bytes) -> list[tuple[bytes, bytes]]:
    hfile = read_hfile(data, path=PATH)
    return list(zip(hfile.keys.to_pylist(), hfile.values.to_pylist(), strict=True))


def _flipped_file(rng: Random, data: bytes, other: bytes) -> bytes:
    number, content = split(data, 2)
    return joined(number, mutations.flips(rng, content, other))


def _check_checksummed(data: bytes) -> None:
    """Flipped bits give an error or the very same entries, never others."""
    number, content = split(data, 2)
    if number not in [bytes([n]) for n in range(len(_checksummed()))]:
        return  # cut off before the file begins: there is nothing to compare with
    require(_pairs(content) == _checksummed()[number[0]][1], "damage that the checksums did not show")


def _record_seeds() -> tuple[bytes, ...]:
    return tuple(joined((read_hfile(data, path=PATH).schema or _USER_SCHEMA).encode(), data) for data in _hfiles())


def _made_hfile(rng: Random, _: bytes, __: bytes) -> bytes:
    """Records of a made-up schema under undamaged keys."""
    schema = any_record(rng)
    schema["fields"].insert(0, {"name": "_hoodie_record_key", "type": ["null", "string"]})
    rows = {key: datum(rng, schema) for key in (b"a", b"b", b"\xff")[: rng.choice((1, 2, 2, 3))]}
    codec = rng.choice((HFileCodec.GZ, HFileCodec.NONE))
    data = _file(_block(DATA_MAGIC, _entries(rows), codec), _INFO, codec, entries=len(rows))
    return joined(json.dumps(schema).encode(), data)


def _check_hfile_records(data: bytes) -> None:
    schema, content = split(data, 2)
    rows = decode_hfile_records(content, text_of(schema), path=PATH, offset=5)
    rows.validate(full=True)
    alone = decode_hfile_records(content, text_of(schema), columns=rows.schema.names[:1], path=PATH, offset=5)
    require(
        alone.num_rows == rows.num_rows and alone.column(0).equals(rows.column(0)), "a column differs when read alone"
    )


# ----- Bootstrap index ------------------------------------------------------------------------------------------------


@cache
def _bootstrap_indexes() -> tuple[bytes, ...]:
    def partition(path: str, *files: str) -> SourcePartition:
        return SourcePartition(path, path, {file: SourceStatus(f"file:/s/{path}/{file}", 9, 7) for file in files})

    few = [partition("city=oslo", "f1", "f2"), partition("city=é", "f3")]
    return tuple(encoded_partitions(partitions, "file:/s") for partitions in (few, few[:1]))


def _damaged_entry(rng: Random, data: bytes, other: bytes) -> bytes:
    """A sound HFile with a damaged value, or a damaged file."""
    if rng.random() < 0.4:
        return mutations.binary(rng, data, other)
    index = read_hfile(data, path=PATH)
    values = index.values.to_pylist()
    number = rng.randrange(len(values))
    values[number] = mutations.binary(rng, values[number], values[0])
    info = {"INDEX_INFO": index.file_info["INDEX_INFO"]}
    if rng.random() < 0.2:
        info["INDEX_INFO"] = mutations.binary(rng, info["INDEX_INFO"], values[0])
    return write_hfile(
        index.keys, pa.array(values, pa.binary()), schema=None, codec=HFileCodec.NONE, created_ms=1, file_info=info
    )


def _check_bootstrap_index(data: bytes) -> None:
    index = read_hfile(data, path=PATH)
    folder = decode_source_folder(index.file_info, path=PATH)
    read = [decode_source_partition(value, path=PATH) for value in index.values.to_pylist()]
    by_path = {one.partition_path: one for one in read}
    again = read_hfile(encoded_partitions(list(by_path.values()), folder), path=PATH)
    require(decode_source_folder(again.file_info, path=PATH) == folder, "another folder after writing and reading")
    found = [decode_source_partition(value, path=PATH) for value in again.values.to_pylist()]
    require({one.partition_path: one for one in found} == by_path, "other files after writing and reading")


# ----- Parquet and bloom filters --------------------------------------------------------------------------------------


def _bloom(kind: BloomFilterType, keys: pa.Array) -> str:
    builder = BloomFilterBuilder(kind, num_entries=4, fpp=0.01, max_entries=8)
    builder.add(keys)
    return builder.to_text()


def _base_file(footer: dict[bytes, bytes], table: pa.Table | None = None) -> bytes:
    sink = io.BytesIO()
    rows = pa.table({"_hoodie_record_key": _KEYS, "n": [1, 2, 3, 4]}) if table is None else table
    pq.write_table(
        rows.replace_schema_metadata(footer), sink, store_schema=False, compression="gzip", write_page_checksum=True
    )
    return sink.getvalue()


def _footer_of(*, bloom: bytes, kind: bytes = b"SIMPLE", low: bytes = b"a", high: bytes = b"z") -> dict[bytes, bytes]:
    names = (b"org.apache.hudi.bloomfilter", b"hoodie_bloom_filter_type_code", b"hoodie_min_record_key")
    return dict(zip((*names, b"hoodie_max_record_key"), (bloom, kind, low, high), strict=True))


def _damaged_footer(rng: Random, _: bytes, __: bytes) -> bytes:
    """A sound Parquet file whose footer says something wrong about its keys."""
    kind = rng.choice(tuple(BloomFilterType))
    values = _footer_of(bloom=_bloom(kind, _KEYS).encode(), kind=kind.value.encode())
    name = rng.choice(tuple(values))
    values[name] = (
        _damaged_bloom(rng, values[name], b"") if name.endswith(b"filter") else mutations.text(rng, values[name], b"")
    )
    if rng.random() < 0.2:
        values[rng.choice((b"\xff", b"", b"\0", b"ARROW:schema"))] = rng.choice((b"\xff\xfe", b"", b"x" * 100))
    return _base_file(values)


@cache
def _base_files() -> tuple[bytes, ...]:
    """Some of real writers, and small ones, of which more damage hits the footer."""
    real = golden.chosen(lambda path: path.endswith(".parquet") and "/.hoodie/" not in path and "expected" not in path)
    nested = pa.table(
        {"a": [[1, 2], None], "b": [{"x": "y"}, {"x": None}], "c": pa.array([b"1", None]), "d": [1.5, None]}
    )
    return (
        _base_file(_footer_of(bloom=_bloom(BloomFilterType.SIMPLE, _KEYS).encode())),
        _base_file({}, nested),
        *(_trimmed(data) for data in real[:6]),
    )


def _trimmed(data: bytes) -> bytes:
    """The same rows with a short footer: the bloom filter of a real file is 400 kB of the same letter."""
    table = pq.read_table(pa.BufferReader(data))
    return _base_file({}, table)


def _stored(data: bytes) -> MemoryStorage:
    storage = MemoryStorage()
    storage.put(PATH, data)
    return storage


def _check_footer(data: bytes) -> None:
    footer = read_footer(_stored(data), PATH)
    require(footer.rows >= 0, "a negative number of rows")
    candidates = candidates_in(_KEYS, PATH, footer.values, prune_by_ranges=True).tolist()
    require(set(candidates) <= set(range(len(_KEYS))), "candidates that are no keys")
    settings = BloomSettings(kind=BloomFilterType.SIMPLE, num_entries=4, fpp=0.01, max_entries=8)
    resumed = KeyFooter.of_previous_version(settings, footer.values, PATH, keys=footer.rows + 1)
    if resumed is not None:
        resumed.add(pa.array(["new"]), expected=1)
        resumed.values()


def _check_base_file(data: bytes) -> None:
    """The rows of a file, within what its footer says; Arrow's own checks decide whether it can be read."""
    storage = _stored(data)
    rows = 0
    for batch in read_batches(storage, PATH, batch_rows=1000):
        rows += batch.num_rows
    require(rows == read_footer(storage, PATH).rows, "another number of rows than the footer says")


def _blooms() -> tuple[bytes, ...]:
    many = pa.array([f"key-{number}" for number in range(30)])
    return tuple(
        joined(kind.value.encode(), _bloom(kind, keys).encode())
        for kind in BloomFilterType
        for keys in (_KEYS, many, many[:5])
    )


def _damaged_bloom(rng: Random, data: bytes, other: bytes) -> bytes:
    """Damage behind the Base64, and rarely to it."""
    import base64

    try:
        return base64.b64encode(mutations.binary(rng, base64.b64decode(data), base64.b64decode(other)))
    except ValueError:
        return mutations.text(rng, data, other)


def _check_bloom(data: bytes) -> None:
    code, text = (text_of(part) for part in split(data, 2))
    kind = BloomFilterType.from_footer(code, path=PATH)
    found = parse_bloom_filter(text, kind, path=PATH)
    try:
        found.might_contain(_KEYS)
    except RecordKeyError:
        require(False, "a key is refused that is neither null nor empty")
    builder = BloomFilterBuilder.resume(found, max_entries=8)
    before = parse_bloom_filter(builder.to_text(), kind, path=PATH)
    require(
        (before.bits, before.hashes, before.row_capacity) == (found.bits, found.hashes, found.row_capacity), "changed"
    )
    require(bool((before.might_contain(_KEYS) == found.might_contain(_KEYS)).all()), "other answers after encoding")
    builder.add(_KEYS)
    after = parse_bloom_filter(builder.to_text(), kind, path=PATH)
    require(bool(after.might_contain(_KEYS).all()), "a key is not found that was added")


# ----- footers for copying row groups ---------------------------------------------------------------------------------


@cache
def _footers() -> tuple[bytes, ...]:
    nested = pa.table({"a": [[1, 2], None] * 30, "b": [{"x": "y"}, None] * 30, "_hoodie_file_name": ["f", None] * 30})
    files = []
    for options in ({"write_page_index": True}, {"row_group_size": 7}, {"use_dictionary": False, "row_group_size": 20}):
        pq.write_table(nested, sink := io.BytesIO(), **options)
        files.append(sink.getvalue())
    return tuple(file[-TAIL.size - TAIL.unpack(file[-TAIL.size :])[0] : -TAIL.size] for file in files)


def _check_copied_footer(data: bytes) -> None:
    """What a footer says is the same in the footer of a file with its chunks elsewhere."""
    footer = parse_footer(data, _FILE_BYTES, path=PATH)
    fields = decode_struct(data, path=PATH)
    require(decode_struct(encode_struct(fields), path=PATH) == fields, "other fields after encoding")
    moved = [[chunk.moved_to(chunk.start + 100) for chunk in group.chunks] for group in footer.row_groups]
    groups = [
        group.encoded(chunks, number)
        for number, (group, chunks) in enumerate(zip(footer.row_groups, moved, strict=True))
    ]
    new = footer.joined(groups, footer.rows, footer.values)[: -TAIL.size]
    again = parse_footer(new, 2 * _FILE_BYTES, path=PATH)
    require((again.rows, again.values, again.kind) == (footer.rows, footer.values, footer.kind), "it says other things")
    for group, before in zip(again.row_groups, footer.row_groups, strict=True):
        require((group.rows, group.columns) == (before.rows, before.columns), "another row group")
        for chunk, previous in zip(group.chunks, before.chunks, strict=True):
            require(
                (chunk.start, chunk.size) == (previous.start + 100, previous.size), "a chunk is not where it was put"
            )


# ----- tombstones in footers ------------------------------------------------------------------------------------------


def _tombstone_seeds() -> tuple[bytes, ...]:
    text = None
    for time, keys in (("20260921120000000", ["a"]), ("20260921120000001", ["b", "ü", "c" * 40])):
        paths, ordering = pa.array([""] * len(keys)), pa.array(range(1, len(keys) + 1), pa.int64())
        text = joined_tombstones(text, time, encode_tombstones(pa.array(keys), paths, [ordering]), since="", path=PATH)
    return ((text or "").encode(), b"{}")


def _damaged_tombstones(rng: Random, data: bytes, other: bytes) -> bytes:
    """Damage behind JSON, Base64 and compression, and sometimes to them."""
    entries = json.loads(data)
    if not entries or rng.random() < 0.3:
        return mutations.text(rng, data, other)
    time = rng.choice(sorted(entries))
    block = zlib.decompress(base64.b64decode(entries[time]))
    if rng.random() < 0.2:
        packed = mutations.binary(rng, zlib.compress(block), block)
    else:
        packed = zlib.compress(mutations.binary(rng, block, block))
    return json.dumps({**entries, time: base64.b64encode(packed).decode()}).encode()


def _check_tombstones(data: bytes) -> None:
    text = text_of(data)
    for found in decode_tombstones(text, [pa.int64()], path=PATH):
        require(len(found.record_keys) == len(found.by_commit_time), "columns of different lengths")
    kept = joined_tombstones(text, "9", None, since="", path=PATH)
    before = [found.record_keys.to_pylist() for found in decode_tombstones(text, [pa.int64()], path=PATH)]
    after = [found.record_keys.to_pylist() for found in decode_tombstones(kept, [pa.int64()], path=PATH)]
    require(sorted(before) == sorted(after), "other keys after they were taken over")


TARGETS = (
    Target(
        name="bootstrap-index",
        seeds=_bootstrap_indexes,
        mutate=_damaged_entry,
        check=_check_bootstrap_index,
        share=0.5,
    ),
    Target(name="tombstones", seeds=_tombstone_seeds, mutate=_damaged_tombstones, check=_check_tombstones),
    Target(
        name="hfile",
        seeds=_hfiles,
        mutate=mutations.several(mutations.binary, mutations.binary, _remade),
        check=_check_hfile,
        share=0.7,
    ),
    Target(
        name="hfile-index",
        seeds=lambda: tuple(data for data in _hfiles() if len(data) > TRAILER_BYTES),
        mutate=mutations.several(mutations.binary, mutations.binary, mutations.flips),
        check=_check_hfile_index,
        share=0.5,
    ),
    Target(
        name="hfile-checksums",
        seeds=lambda: tuple(joined(bytes([number]), data) for number, (data, _) in enumerate(_checksummed())),
        mutate=_flipped_file,
        check=_check_checksummed,
    ),
    Target(
        name="hfile-records",
        seeds=_record_seeds,
        mutate=mutations.several(
            _made_hfile,
            mutations.in_parts(mutations.json_text, mutations.as_it_is),
            mutations.in_parts(mutations.as_it_is, mutations.binary),
        ),
        check=_check_hfile_records,
        share=0.5,
    ),
    Target(
        name="parquet-footer",
        seeds=_base_files,
        mutate=mutations.several(_damaged_footer, mutations.binary),
        check=_check_footer,
        arrow_allocates=True,
    ),
    Target(name="parquet-footer-copy", seeds=_footers, mutate=mutations.binary, check=_check_copied_footer, share=0.7),
    Target(
        name="parquet-rows",
        seeds=_base_files,
        mutate=mutations.binary,
        check=_check_base_file,
        arrow_allocates=True,
    ),
    Target(
        name="bloom-filter",
        seeds=_blooms,
        mutate=mutations.in_parts(mutations.text, _damaged_bloom),
        check=_check_bloom,
    ),
)
