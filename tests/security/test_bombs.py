"""A small file cannot take much memory or time: each bomb ends in a typed error, within limits that are declared.

The inputs are built on purpose; random ones are the business of `tests/fuzz`.
"""

from __future__ import annotations

import base64
import json
import os
import struct
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.security.bombs import (
    avro_file,
    deflated_zeros,
    doubling,
    gzipped_zeros,
    headers,
    log_block,
    overlapping_blocks,
    record_of,
    zigzag,
)
from tests.support.tables import MOR, new_table, open_table, rows

from pyhudi.errors import CorruptDataError, UnsupportedFeatureError
from pyhudi.format import markers
from pyhudi.format.avro.container import SCHEMA_BYTES_MAX, decode_container
from pyhudi.format.avro.records import decode_avro_records
from pyhudi.format.bloom import BloomFilterType, parse_bloom_filter
from pyhudi.format.hfile import blocks
from pyhudi.format.hfile import reader as hfile
from pyhudi.format.hfile.codecs import HFileCodec, decompress
from pyhudi.format.hfile.writer import write_hfile
from pyhudi.format.log.blocks import BlockHeader, BlockType, encode_block
from pyhudi.format.metadata.commit import decode_commit_metadata
from pyhudi.format.schema.avro_arrow import SCHEMA_DEPTH_MAX, avro_to_arrow
from pyhudi.format.timeline import lsm_history
from pyhudi.format.timeline.archived_log import parse_archive_file
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.format.timeline.lsm_history import parse_history_file, parse_manifest
from pyhudi.io.log.scan import scan_blocks
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table import commits as commits_module
from pyhudi.table import timeline as timeline_module
from pyhudi.table.state import PROPERTIES_PATH, load_table
from pyhudi.table.timeline import instant_path
from pyhudi.transaction.heartbeat import HeartbeatSettings, Liveness, heartbeat_path, liveness_of
from pyhudi.transaction.locks.storage_based import LockRecord
from pyhudi.transaction.markers import reading as reading_module

PATH = "t/.hoodie/x"
MEMORY_MAX = 64 << 20
SECONDS_MAX = 10.0
"""Most take milliseconds; the limit has room for a slow machine and tells from what would take hours."""
HUGE = 1 << 40


def avro(schema: object, record: bytes = b"", codec: str | None = None) -> Callable[[], object]:
    return lambda: decode_container(avro_file(schema, record, codec=codec), path=PATH)


def fixed_block(size: int) -> Callable[[], object]:
    schema = json.dumps(record_of(["null", {"type": "fixed", "name": "f", "size": size}]))
    content = struct.pack(">iI", 3, 3) + (struct.pack(">I", 1) + b"\0") * 3
    return lambda: decode_avro_records(content, schema, path=PATH, offset=0)


def nested_json(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


BOMBS: dict[str, Callable[[], object]] = {
    "avro deflate of 10 GB": avro(record_of("bytes"), deflated_zeros(10 << 30), "deflate"),
    "avro zstandard": avro(record_of("bytes"), b"x", "zstandard"),
    "avro snappy": avro(record_of("bytes"), b"x", "snappy"),
    "avro of 2**60 empty records": avro(doubling(60)),
    "avro of 2**25 empty records": avro(doubling(25)),
    "avro array of nothings": avro(record_of({"type": "array", "items": "null"}), zigzag(HUGE)),
    "avro array that promises items": avro(record_of({"type": "array", "items": "long"}), zigzag(HUGE) + b"\0"),
    "avro map that promises items": avro(record_of({"type": "map", "values": "null"}), zigzag(HUGE) + b"\0"),
    "avro text that promises length": avro(record_of("string"), zigzag(HUGE) + b"x"),
    "avro bytes that promise length": avro(record_of("bytes"), zigzag(HUGE) + b"x"),
    "avro fixed that promises length": avro(record_of({"type": "fixed", "name": "f", "size": HUGE})),
    "avro fixed of negative size": avro(
        record_of({"type": "array", "items": record_of({"type": "fixed", "name": "f", "size": -5}, "boolean")}),
        zigzag(1 << 30),
    ),
    "avro type in itself": avro(record_of("r")),
    "avro types nested deep": avro(b'{"type":"array","items":' * 5000 + b'"int"' + b"}" * 5000),
    "avro schema nested deep in arrays": avro(record_of(json.loads("[" * 500 + '"int"' + "]" * 500))),
    "avro schema that is long": avro(b" " * SCHEMA_BYTES_MAX + json.dumps(record_of("int")).encode(), b"\0"),
    "json nested deep": lambda: decode_commit_metadata(b'{"x":' + nested_json(1 << 20) + b"}", path=PATH),
    "json number that is long": lambda: decode_commit_metadata(b'{"x":' + b"9" * (1 << 20) + b"}", path=PATH),
    "manifest nested deep": lambda: parse_manifest(nested_json(1 << 20), path=PATH),
    "lock nested deep": lambda: LockRecord.decode(nested_json(1 << 20)),
    "table schema nested deep": lambda: avro_to_arrow('{"type":"array","items":' * 5000, source=PATH),
    "table schema of 2**60 parts": lambda: avro_to_arrow(json.dumps(doubling(60)), source=PATH),
    "log records of 2**15 parts": lambda: decode_avro_records(
        struct.pack(">iII", 3, 1, 0), json.dumps(doubling(15)), path=PATH, offset=0
    ),
    "fixed of 1 GiB that is null": fixed_block(1 << 30),
    "bloom filter that promises bits": lambda: parse_bloom_filter(
        base64.b64encode(struct.pack(">iibi", -1, 10, 1, (1 << 31) - 1)).decode(), BloomFilterType.SIMPLE
    ),
    "bloom filter that promises rows": lambda: parse_bloom_filter(
        base64.b64encode(
            struct.pack(">iibi", -1, 10, 1, 8) + struct.pack(">iii", 1, 0, (1 << 31) - 1) + bytes(8)
        ).decode(),
        BloomFilterType.DYNAMIC_V0,
    ),
    "HFile block, gzip of 10 GB": lambda: _hfile_payload(gzipped_zeros(10 << 30)),
    "archived timeline that is headers": lambda: list(
        parse_archive_file(log_block(struct.pack(">i", 1 << 20) + bytes(8 << 20)), path=PATH)
    ),
}


def _hfile_payload(stored: bytes) -> object:
    try:
        return decompress(HFileCodec.GZ, memoryview(stored), 1 << 20)
    except ValueError as error:
        # What the HFile reader makes of it.
        raise CorruptDataError(str(error), path=PATH) from error


def cost_of(action: Callable[[], object]) -> tuple[float, int]:
    """Seconds, and the most bytes that Python and Arrow held at once."""
    before, started = pa.total_allocated_bytes(), time.process_time()
    tracemalloc.start()
    try:
        action()
        return time.process_time() - started, tracemalloc.get_traced_memory()[1] + pa.total_allocated_bytes() - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", BOMBS)
def test_bomb_is_a_typed_error_in_bounded_time_and_memory(name: str) -> None:
    def explode() -> None:
        with pytest.raises((CorruptDataError, UnsupportedFeatureError)):
            BOMBS[name]()

    seconds, memory = cost_of(explode)
    assert seconds < SECONDS_MAX
    assert memory < MEMORY_MAX


# -- logs -------------------------------------------------------------------------------------------------------------


def log_of(data: bytes) -> MemoryStorage:
    storage = MemoryStorage()
    storage.put("log", data)
    return storage


def kinds_in(storage: MemoryStorage) -> set[BlockType]:
    return {block.kind for block in scan_blocks(storage, "log")}


@pytest.mark.parametrize(
    "headers_",
    [
        struct.pack(">i", (1 << 31) - 1),
        struct.pack(">i", 1 << 20) + bytes(8 << 20),
        b"".join([struct.pack(">i", 1 << 20), *(struct.pack(">ii", key, 0) for key in range(1 << 20))]),
        struct.pack(">iii", 1, 2, (1 << 31) - 1),
    ],
    ids=["promised", "all the same", "all different", "long"],
)
def test_block_with_impossible_headers_is_damage_in_bounded_memory(headers_: bytes) -> None:
    storage = log_of(log_block(headers_))

    seconds, memory = cost_of(lambda: kinds_in(storage))

    assert kinds_in(storage) == {BlockType.CORRUPT}
    assert seconds < SECONDS_MAX
    assert memory < MEMORY_MAX


def test_log_of_blocks_that_overlap_is_given_up_before_it_is_read_again_and_again() -> None:
    storage = log_of(overlapping_blocks(20_000, 8 << 20))

    def scan() -> None:
        with pytest.raises(CorruptDataError, match="too many places"):
            kinds_in(storage)

    assert cost_of(scan)[0] < SECONDS_MAX


def test_log_compactions_that_replaced_one_another_are_an_error_and_no_endless_loop() -> None:
    storage = MemoryStorage()
    table = new_table(storage, **MOR)
    table.upsert(rows((1, "oslo", 1, "a")))
    first = open_table(storage, **MOR).upsert(rows((1, "oslo", 2, "b")))
    second = open_table(storage, **MOR).upsert(rows((1, "oslo", 3, "c")))
    logs = open_table(storage).inspect.files().column("logs").to_pylist()[0]
    for path, other in zip(logs[-2:], (second.instant, first.instant), strict=True):
        _say_that_it_replaced(storage, path, other)

    with pytest.raises(CorruptDataError, match="names itself"):
        open_table(storage).scan().to_arrow()


def _say_that_it_replaced(storage: MemoryStorage, path: str, instant: str) -> None:
    data = storage.read(path)
    (block,) = scan_blocks(storage, path)
    content = data[block.content_offset : block.content_offset + block.content_size]
    changed = {**block.headers, BlockHeader.COMPACTED_BLOCK_TIMES: instant}
    storage.put(path, b"".join(encode_block(block.kind, changed, content)))


# -- HFiles, Parquet and manifests: limits that tests cannot afford to reach are lowered ------------------------------


def test_hfile_that_holds_far_more_than_its_size_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = pa.array([b"%06d" % n for n in range(5000)], pa.binary())
    values = pa.array([bytes(2000)] * 5000, pa.binary())
    data = bytes(write_hfile(keys, values, schema="{}", codec=HFileCodec.GZ))
    assert len(hfile.read_hfile(data, path=PATH).keys) == 5000

    monkeypatch.setattr(blocks, "UNSUSPICIOUS_BYTES", 1 << 20)
    monkeypatch.setattr(blocks, "EXPANSION_MAX", 16)
    with pytest.raises(UnsupportedFeatureError, match="more than can be read"):
        hfile.read_hfile(data, path=PATH)


def test_history_file_with_more_rows_than_any_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = pa.table({name: pa.nulls(1001, pa.string()) for name in ("instantTime", "completionTime", "action")})
    pq.write_table(table.append_column("metadata", pa.nulls(1001, pa.binary())), tmp_path / "bomb.parquet")
    monkeypatch.setattr(lsm_history, "HISTORY_ROWS_MAX", 1000)

    with pytest.raises(CorruptDataError, match="too large"):
        parse_history_file((tmp_path / "bomb.parquet").read_bytes(), path=PATH)


def test_manifest_that_is_too_large_is_refused_unparsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lsm_history, "MANIFEST_BYTES_MAX", 100)
    with pytest.raises(CorruptDataError, match="too large"):
        parse_manifest(b'{"files":[' + b" " * 100 + b"]}", path=PATH)


# -- files that are larger than the disk they are on: sparse ones -----------------------------------------------------


def _sparse(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.truncate(path, HUGE)


@pytest.fixture
def local(tmp_path: Path) -> LocalStorage:
    storage = LocalStorage(tmp_path / "table")
    new_table(storage).upsert(rows((1, "oslo", 1, "a")))
    return storage


@pytest.mark.parametrize(
    "victim", [PROPERTIES_PATH, "commit", "rollback", "MARKERS0", ".hoodie/timeline/history/_version_"]
)
def test_metadata_file_of_a_terabyte_is_not_read(
    local: LocalStorage, tmp_path: Path, victim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 1 GiB of zeros could be held; the test need not.
    monkeypatch.setattr(commits_module, "JSON_BYTES_MAX", 1 << 20)
    monkeypatch.setattr(timeline_module, "CONTAINER_BYTES_MAX", 1 << 20)
    state = load_table(local)
    path = victim
    if victim == "commit":
        path = instant_path(state.timeline.completed_writes[0], state.version)
    elif victim == "rollback":
        instant = Instant(InstantTime("29990101000000000"), Action.ROLLBACK, InstantState.REQUESTED)
        path = instant_path(instant, state.version)
    elif victim == "MARKERS0":
        monkeypatch.setattr(markers, "MARKERS_BYTES_MAX", 1 << 20)
        monkeypatch.setattr(reading_module, "MARKERS_BYTES_MAX", 1 << 20)
        path = _with_dead_write(local)
    _sparse(tmp_path / "table" / path)

    def use() -> None:
        if victim == "MARKERS0":
            # Markers that cannot be read make a rollback look everywhere; they must not stop it.
            open_table(local).recovery.roll_back_failed_writes(eager=True)
            return
        with pytest.raises(CorruptDataError, match=r"exceeds the size limit|too large"):
            _use(local, victim)

    seconds, memory = cost_of(use)
    assert seconds < SECONDS_MAX
    assert memory < MEMORY_MAX


def _use(storage: LocalStorage, victim: str) -> None:
    table = open_table(storage)
    if victim.endswith("_version_"):
        table.recovery.outcome_of("20200101000000000")
    table.upsert(rows((2, "oslo", 1, "b")))
    table.scan().to_arrow()


def _with_dead_write(storage: LocalStorage) -> str:
    state = load_table(storage)
    dead = Instant(InstantTime("29990101000000000"), Action.COMMIT, InstantState.REQUESTED)
    storage.put_if_absent(instant_path(dead, state.version), b"")
    return f"{markers.marker_folder(dead.requested_time)}/MARKERS0"


@pytest.mark.parametrize("content", [None, nested_json(2000)], ids=["a terabyte", "nested deep"])
def test_heartbeat_that_is_no_heartbeat_counts_as_one_of_jvm_hudi(
    local: LocalStorage, tmp_path: Path, content: bytes | None
) -> None:
    path = heartbeat_path("29990101000000000")
    if content is None:
        _sparse(tmp_path / "table" / path)
    else:
        local.put(path, content)

    class Now:
        now_ms = staticmethod(lambda: local.info(path).modified_ms)  # type: ignore[union-attr]

    found: list[Liveness] = []
    environment = type("Env", (), {"clock": Now})
    _, memory = cost_of(
        lambda: found.append(liveness_of(local, path, HeartbeatSettings(), environment))  # type: ignore[arg-type]
    )
    assert found == [Liveness.ALIVE]
    assert memory < 1 << 20


# -- a limit is no use if honest files reach it -----------------------------------------------------------------------


def test_honest_files_are_far_below_the_limits() -> None:
    assert fixed_block(1024)().num_rows == 3  # type: ignore[attr-defined]
    deep = '"int"'
    for _ in range(SCHEMA_DEPTH_MAX - 4):
        deep = f'{{"type":"array","items":{deep}}}'
    avro_to_arrow(json.dumps(record_of(json.loads(deep))), source=PATH)
    assert decode_container(avro_file(doubling(12), b""), path=PATH).name == "r12"
    storage = log_of(log_block(headers((0, b"1"), (2, b"{}"), *((key, b"new") for key in range(9, 40))), b"x"))
    assert kinds_in(storage) == {BlockType.AVRO_DATA}
