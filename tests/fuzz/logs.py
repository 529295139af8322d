"""Parsers of log files: their frames, and what the blocks of each kind hold."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from random import Random

import pyarrow as pa
from tests.fuzz import golden, mutations
from tests.fuzz.hostile_avro import (
    all_null,
    any_record,
    block,
    damaged_records,
    datum,
    long_arrays,
    made_records,
    record,
)
from tests.fuzz.target import PATH, Target, joined, require, split, text_of

from pyhudi.engine.spilled_rows import SpillSettings
from pyhudi.errors import SchemaMismatchError
from pyhudi.format.avro.records import decode_avro_data, decode_avro_records, encode_avro_data, encode_avro_records
from pyhudi.format.json_rows import JsonForm, rows_as_json
from pyhudi.format.log.blocks import BlockHeader, BlockType, encode_block, parse_block, rollback_block
from pyhudi.format.log.cdc import LoggingMode, change_rows, change_schema, decode_changes, encode_changes
from pyhudi.format.log.delete_block_decode import decode_delete_block
from pyhudi.format.log.delete_block_encode import encode_delete_block
from pyhudi.format.schema.avro_arrow import arrow_to_avro
from pyhudi.io.log.block_filter import BlockFilter
from pyhudi.io.log.records import read_log_versions
from pyhudi.io.log.scan import open_log
from pyhudi.merge.rules import MergeRules
from pyhudi.storage.memory import MemoryStorage

_SEED_BYTES_MAX = 16 * 1024
_SCHEMA = pa.schema(
    [
        *(
            pa.field(name, pa.string())
            for name in ("_hoodie_record_key", "_hoodie_partition_path", "id", "name", "part")
        ),
        *(pa.field(name, pa.int64()) for name in ("ts", "n", "count")),
    ]
)
_ORDERINGS: tuple[tuple[pa.DataType, ...], ...] = (
    (),
    (pa.int64(),),
    (pa.int32(),),
    (pa.string(),),
    (pa.float64(),),
    (pa.decimal128(10, 2),),
    (pa.date32(),),
    (pa.timestamp("us", "UTC"),),
    (pa.time64("us"),),
    (pa.bool_(),),
    (pa.binary(),),
    (pa.float32(),),
    (pa.int64(), pa.string()),
    (pa.timestamp("ms"), pa.decimal128(38, 15), pa.int8()),
)


@cache
def _logs() -> tuple[bytes, ...]:
    """Log files of real writers: small ones, of which more damage tells."""
    found = golden.chosen(lambda path: ".log." in path and "/.hoodie/" not in path)
    return tuple(data for data in found if len(data) <= _SEED_BYTES_MAX)


@cache
def _blocks() -> tuple[tuple[BlockType, str, bytes], ...]:
    """Kind, schema and content of every block of the logs."""
    blocks = []
    for data in _logs():
        with open_log(_stored(data), PATH) as reader:
            blocks += [(one.kind, one.schema or "", reader.content(one).to_pybytes()) for one in reader.blocks()]
    return tuple(blocks)


def _stored(data: bytes) -> MemoryStorage:
    storage = MemoryStorage()
    storage.put(PATH, data)
    return storage


def _frames() -> tuple[bytes, ...]:
    headers = {BlockHeader.INSTANT_TIME: "001", BlockHeader.SCHEMA: "{}"}
    small = [
        b"".join(encode_block(kind, headers, b"#HUDI#" + b"x" * kind))
        for kind in (BlockType.AVRO_DATA, BlockType.DELETE)
    ]
    return (b"".join(small), b"".join([*small, rollback_block("002", "001")]), _many_headers(), *_logs())


def _many_headers() -> bytes:
    """A block with more headers than there are kinds of them."""
    headers = b"".join(struct.pack(">ii", key, 0) for key in range(5000))
    body = struct.pack(">iii", 1, 3, 5000) + headers + struct.pack(">q", 0) + struct.pack(">i", 0)
    size = len(body) + 8
    return b"#HUDI#" + struct.pack(">q", size) + body + struct.pack(">q", size + 6)


def _check_frames(data: bytes) -> None:
    """The blocks cover the file, and a block's headers say the same once they are written again."""
    end = 0
    with open_log(_stored(data), PATH) as reader:
        for one in reader.blocks():
            require(one.offset == end and one.size > 0, "blocks with a gap")
            end = one.end
            content = reader.content(one)
            require(content.size == one.content_size, "another size of the content")
            if one.kind is BlockType.CORRUPT:
                continue
            again = b"".join(encode_block(one.kind, one.headers, content.to_pybytes()))
            parsed = parse_block(_reading(again), 0, len(again), path=PATH)
            require(parsed.headers == one.headers and parsed.kind is one.kind, "other headers after encoding")
            _ = one.compacted_instants, one.is_partial, one.target_instant_time, one.instant_time
    require(end == len(data), "blocks that do not cover the file")


def _reading(data: bytes) -> Callable[[int, int], memoryview]:
    return lambda start, length: memoryview(data)[start : start + length]


def _check_slice(data: bytes) -> None:
    """All versions in a log, as merging reads them, with and without ordering, written before and after version 8."""
    try:
        rules = MergeRules(ordering_fields=("ts",), delete_marker=("name", "D"))
        for blocks in (BlockFilter(), BlockFilter(committed=frozenset({"001"}), archived_before="9")):
            found = read_log_versions(
                _stored(data), [PATH], _SCHEMA, rules, blocks=blocks, spill=SpillSettings(), names=None
            )
            found.rows.validate(full=True)
    except SchemaMismatchError as error:
        require("path" in error.context, "the error does not name the file")
        raise


def _compacting(rng: Random, _: bytes, __: bytes) -> bytes:
    """Blocks that claim to stand for each other: a chain, a star, a ring."""
    instants = [f"00{number}" for number in range(rng.choice((1, 2, 3, 6)))]
    schema = json.dumps(record("T", _hoodie_record_key=["null", "string"], ts="long"))
    blocks = []
    for instant in instants:
        headers = {BlockHeader.INSTANT_TIME: instant, BlockHeader.SCHEMA: schema}
        headers[BlockHeader.COMPACTED_BLOCK_TIMES] = ",".join(rng.choices(instants, k=rng.randrange(3)))
        blocks.append(b"".join(encode_block(BlockType.AVRO_DATA, headers, block([b"\2\2a" + mutations.zigzag(5)]))))
    return b"".join(rng.sample(blocks, k=len(blocks)))


def _reframed(rng: Random, data: bytes, other: bytes) -> bytes:
    """A log of undamaged frames, with damage in the headers' texts or in the contents."""
    blocks = []
    with open_log(_stored(data), PATH) as reader:
        for one in reader.blocks():
            content, headers = reader.content(one).to_pybytes(), dict(one.headers)
            if one.kind is BlockType.CORRUPT:
                continue
            match rng.randrange(6):
                case 0 | 1 | 2:
                    content = mutations.binary(rng, content, other)
                case 3 if one.schema:
                    headers[BlockHeader.SCHEMA] = mutations.json_text(
                        rng, one.schema.encode(), one.schema.encode()
                    ).decode()
                case 4 if one.kind is BlockType.AVRO_DATA:
                    made = any_record(rng)
                    headers[BlockHeader.SCHEMA], content = json.dumps(made), block([datum(rng, made)] * 3)
            kind = rng.choice(tuple(BlockType)[2:]) if rng.random() < 0.05 and one.kind.has_rows else one.kind
            kind = one.kind if kind is BlockType.CORRUPT else kind
            blocks.append(b"".join(encode_block(kind, headers, content)))
    return b"".join(blocks)


def _record_seeds() -> tuple[bytes, ...]:
    rng = Random(2)
    real = {joined(schema.encode(), content) for kind, schema, content in _blocks() if kind is BlockType.AVRO_DATA}
    return (*(made_records(rng, b"", b"") for _ in range(30)), *sorted(real, key=len)[:20])


def check_records(data: bytes, *, with_unions: bool = False) -> None:
    """Records that can be read can be written, each column can be read alone, and all is the same then."""
    schema_bytes, content = split(data, 2)
    schema = text_of(schema_bytes)
    rows = decode_avro_records(content, schema, with_unions=with_unions, path=PATH, offset=7)
    rows.validate(full=True)
    names = rows.schema.names
    for name in names[:1] + names[-1:]:
        alone = decode_avro_records(content, schema, columns=[name], with_unions=with_unions, path=PATH, offset=7)
        require(_same(alone.column(0), rows.column(name)), f"column {name!r} differs when it is read alone")
    if with_unions:
        encoded = encode_avro_data(rows, schema, with_unions=True)
        again = decode_avro_data(encoded, schema, with_unions=True, path=PATH, offset=7)
    else:
        again = decode_avro_records(encode_avro_records(rows, schema), schema, path=PATH, offset=7)
    require(again.schema == rows.schema and again.num_rows == rows.num_rows, "other rows after encoding and decoding")
    for one, other, name in zip(rows.columns, again.columns, names, strict=True):
        require(_same(one, other), f"column {name!r} differs after encoding and decoding")


def _same(one: pa.Array, other: pa.Array) -> bool:
    """Equality by which NaN is NaN: to Arrow's `equals` it is nothing."""
    return bool(one.equals(other)) or repr(_plain(one)) == repr(_plain(other))


def _plain(array: pa.Array) -> object:
    """The values without converting to Python's types, which have no room for all of Arrow's times."""
    kind = array.type
    if pa.types.is_struct(kind):
        return [array.is_valid().to_pylist(), *(_plain(array.field(number)) for number in range(kind.num_fields))]
    if pa.types.is_map(kind):
        return [array.is_valid().to_pylist(), array.offsets.to_pylist(), _plain(array.keys), _plain(array.items)]
    if pa.types.is_list(kind):
        return [array.is_valid().to_pylist(), array.value_lengths().to_pylist(), _plain(array.flatten())]
    if pa.types.is_temporal(kind):
        return array.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
    return array.to_pylist()


def _change_seeds() -> tuple[bytes, ...]:
    schema = arrow_to_avro(pa.schema([("id", pa.string()), ("n", pa.int64())]), table_name="t")
    rows = pa.RecordBatch.from_pydict({"id": ["a", "b"], "n": [1, None]})
    seeds = []
    for mode in LoggingMode:
        of_mode = change_schema(mode, schema)
        for operation, before, after in (("i", None, rows), ("u", rows, rows), ("d", rows, None)):
            changes = change_rows(of_mode, operation, "001", rows.column("id"), before, after)
            seeds.append(joined(of_mode.encode(), encode_changes(changes, of_mode)))
    return tuple(seeds)


def _check_changes(data: bytes) -> None:
    """Changes that can be read can be printed, in both forms."""
    schema, content = split(data, 2)
    changes = decode_changes(content, text_of(schema), path=PATH, offset=7)
    changes.validate(full=True)
    for name in {"before", "after"} & set(changes.schema.names):
        for form in JsonForm:
            texts = rows_as_json(changes.column(name), form)
            texts.validate(full=True)
            require(len(texts) == changes.num_rows, "texts of another number of rows")
            for text in texts.drop_null().to_pylist():
                json.loads(text)


def _delete_seeds() -> tuple[bytes, ...]:
    seeds = []
    for number, types in enumerate(_ORDERINGS):
        keys, paths = pa.array(["k", "longer key", ""]), pa.array(["", "p/q", "p"])
        content = encode_delete_block(keys, paths, [_values_of(kind) for kind in types], array_wrapper_allowed=True)
        seeds.append(joined(bytes([number]), content))
    real = [content for kind, _, content in _blocks() if kind is BlockType.DELETE]
    return (*seeds, *(joined(bytes([number]), content) for number, content in enumerate(real[:20])))


def _values_of(kind: pa.DataType) -> pa.Array:
    if pa.types.is_binary(kind):
        return pa.array([b"a", b"", b"\xff"])
    if pa.types.is_decimal(kind):
        return pa.array([Decimal("1.5"), Decimal(-2), Decimal(0)], kind)
    small = pa.int32() if pa.types.is_date(kind) else pa.int64()
    return pa.array([1, 2, 0], small).cast(kind)


def _check_deletes(data: bytes) -> None:
    number, content = split(data, 2)
    types = _ORDERINGS[(number or b"\0")[0] % len(_ORDERINGS)]
    found = decode_delete_block(pa.py_buffer(content), types, path=PATH, offset=9)
    count = len(found.record_keys)
    columns = (found.record_keys, found.partition_paths, found.by_commit_time, *(found.ordering or ()))
    for column in columns:
        column.validate(full=True)
        require(len(column) == count, "columns of different lengths")
    if found.partition_paths.null_count or found.ordering is None:
        return
    if len(types) == 1 and found.ordering[0].null_count != sum(found.by_commit_time.to_pylist()):
        return
    if len(types) > 1 and any(found.by_commit_time.to_pylist()):
        return  # a delete by commit time among others by several values: only the JVM writes that
    encoded = encode_delete_block(found.record_keys, found.partition_paths, found.ordering, array_wrapper_allowed=True)
    again = decode_delete_block(pa.py_buffer(encoded), types, path=PATH, offset=9)
    require(_same(again.record_keys, found.record_keys), "other keys after encoding and decoding")
    for one, other in zip(found.ordering, again.ordering or (), strict=True):
        # An ordering value of 0 means commit time, of whatever type it is read back.
        require(_same(one, other) or pa.types.is_integer(one.type), "other ordering values after encoding and decoding")


TARGETS = (
    Target(name="log-frames", seeds=_frames, mutate=mutations.binary, check=_check_frames),
    Target(
        name="log-slice",
        seeds=_logs,
        mutate=mutations.several(_reframed, _reframed, mutations.binary, _compacting),
        check=_check_slice,
        share=0.5,
        names_path=False,
        arrow_allocates=True,
    ),
    Target(
        name="avro-records",
        seeds=_record_seeds,
        mutate=mutations.several(
            made_records,
            made_records,
            all_null,
            long_arrays,
            damaged_records,
            damaged_records,
            mutations.in_parts(mutations.as_it_is, mutations.binary),
            mutations.in_parts(mutations.json_text, mutations.binary),
        ),
        check=check_records,
        share=0.3,
    ),
    Target(
        name="change-data",
        seeds=_change_seeds,
        mutate=mutations.several(
            mutations.in_parts(mutations.as_it_is, mutations.binary),
            mutations.in_parts(mutations.json_text, mutations.binary),
        ),
        check=_check_changes,
        share=0.3,
    ),
    Target(
        name="delete-block",
        seeds=_delete_seeds,
        mutate=mutations.in_parts(mutations.binary, mutations.binary),
        check=_check_deletes,
        share=0.7,
    ),
)
