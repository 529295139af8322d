"""Parsers of what a table says about itself: properties, partitions, names of files, markers, locks, schemas."""

from __future__ import annotations

import json
import zlib
from random import Random

from tests.fuzz import golden, mutations
from tests.fuzz.hostile_avro import any_record
from tests.fuzz.target import PATH, Target, require, text_of
from tests.support.tables import own_beat

from pyhudi.config.table_config import TableConfig
from pyhudi.environment import SYSTEM, SystemClock
from pyhudi.errors import CorruptDataError
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.keys.generator import key_generator_from_table, partition_field_names
from pyhudi.format.keys.partition_paths import (
    checked_segments,
    escape_value,
    format_segment,
    partition_depth,
    partition_values,
    unescape_value,
)
from pyhudi.format.markers import (
    marker_path,
    parse_marker_path,
    parse_markers_file,
)
from pyhudi.format.metadata.partition import decode_partition_metadata, encode_partition_metadata
from pyhudi.format.properties import check_table_properties, format_properties, parse_properties
from pyhudi.format.schema.avro_arrow import arrow_to_avro, avro_to_arrow, avro_with_meta_columns, normalise
from pyhudi.format.timeline.table_version import NEWEST
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.paths import check_relative
from pyhudi.transaction.heartbeat import HeartbeatSettings, liveness_of
from pyhudi.transaction.locks.storage_based import LOCK_PATH, SWITCH_PATH, LockRecord, open_audit
from pyhudi.transaction.locks.waiting import Lease

_INSTANT = "20260131235959999"
_MACHINE = "MACHINE"
"""Stands for the machine that the inputs are parsed on: what others say of their processes is not looked at."""


def _properties() -> tuple[bytes, ...]:
    return (
        b"a=b\n",
        b"#c\n\\ key\\=x : v\\\n  w\\u00e9\\ud83d\\ude00\r!x\nempty\n=\n",
        b"a" + b"\\" * 40 + b"b\n",
        *golden.chosen(lambda path: path.endswith("hoodie.properties")),
    )


def _check_properties(data: bytes) -> None:
    values = parse_properties(data, path=PATH)
    again = parse_properties(format_properties(values, comment="c\u00e9\n"), path=PATH)
    require(again == values, "other properties after writing and reading")


def _check_table_properties(data: bytes) -> None:
    values = parse_properties(data, path=PATH)
    check_table_properties(values, PATH)
    stored = values.get("hoodie.table.checksum")
    name = f"{values.get('hoodie.database.name', '')}.{values['hoodie.table.name']}"
    require(stored is None or stored.strip() == str(zlib.crc32(name.encode())), "a name that its checksum denies")
    config = TableConfig.from_properties(values, path=PATH)
    require(config.name == values["hoodie.table.name"] and config.version.number in (6, 8, 9), "another table")


def _check_key_generator(data: bytes) -> None:
    """What a write makes of the properties; no file is named, because options count beside them."""
    try:
        values = parse_properties(data, path=PATH)
    except CorruptDataError:
        return
    partition_field_names(values)
    key_generator_from_table(values, NEWEST, {})


def _check_partition_metadata(data: bytes) -> None:
    found = decode_partition_metadata(data, path=PATH)
    again = decode_partition_metadata(encode_partition_metadata(found.instant_time, found.depth), path=PATH)
    require(again == found, "another value after encoding and decoding")


def _check_partition_path(data: bytes) -> None:
    path = text_of(data)
    require(unescape_value(escape_value(path)) == path, "a value changed by escaping and back")
    partition_depth(path)
    for fields in ((), ("a",), ("a", "b")):
        for hive_style in (False, True):
            try:
                values = partition_values(path, fields, hive_style=hive_style, url_encoded=False)
            except CorruptDataError as error:
                require(error.context["path"] == path, "the error does not name the path")
                continue
            segments = [
                format_segment(name, text, hive_style=hive_style, url_encode=False) for name, text in values.items()
            ]
            require(
                "/".join(segments) == path or None in values.values() or "" in values.values(), "values of another path"
            )
    checked_segments("a", [path], is_first=True, hive_style=False, url_encode=False)
    if path:
        # What we are ready to write, a store must be ready to take.
        check_relative(path)


def _check_accepted_path(data: bytes) -> None:
    path = text_of(data)
    require(check_relative(path) == path, "another path")
    parts = path.split("/")
    require(all(part not in ("", ".", "..") for part in parts), "a path that leaves its root")
    path.encode()


def _data_files() -> tuple[bytes, ...]:
    names = {path.rpartition("/")[2] for path in golden.files() if path.endswith(".parquet") or ".log." in path}
    return (b".f-0_001.log.12_1-2-3.cdc", b".f_1.log.1", *(name.encode() for name in sorted(names)[::5]))


def _check_data_file(data: bytes) -> None:
    name = parse_data_file(text_of(data))
    if name is not None:
        require(parse_data_file(str(name)) == name, f"{name!r} has another name")
        require("/" not in str(name) and name.file_id not in ("", ".", ".."), "a name with folders")


def _markers() -> tuple[bytes, ...]:
    file = "f-0_1-2-3_001.parquet"
    lines = [f"a/b/{file}.marker.CREATE", f"{file}.marker.MERGE", ".f-0_001.log.1_1-0-1.marker.APPEND"]
    return ("\n".join([*lines, ""]).encode(), f"{lines[0]}\n{lines[1]}".encode())


def _check_markers(data: bytes) -> None:
    for marker in parse_markers_file(data, path=PATH):
        parts = marker.data_path.split("/")
        require(
            parts[0] != ".hoodie" and all(part not in ("", ".", "..") for part in parts), "a marker of another folder"
        )
        direct = marker_path(_INSTANT, marker)
        require(parse_marker_path(direct, _INSTANT) == marker.data_path, "another data file")


def _check_marker_path(data: bytes) -> None:
    found = parse_marker_path(text_of(data), _INSTANT)
    if found is not None:
        require(all(part not in ("", ".", "..") for part in found.split("/")), "a marker of another folder")


def _check_lock(data: bytes) -> None:
    try:
        record = LockRecord.decode(data)
    except CorruptDataError as error:
        require(error.context["path"] == LOCK_PATH, "the error does not name the lock")
        return
    require(LockRecord.decode(record.encode()) == record, "another lock after encoding and decoding")
    record.is_free(0)


def _heartbeats() -> tuple[bytes, ...]:
    beats = [{"machine": _MACHINE, "pid": pid, "started": 1.5} for pid in (1, 2**22, -1, 2**70, 0)]
    return (*(json.dumps(beat).encode() for beat in beats), b"", b"null", b"{}")


def _check_heartbeat(data: bytes) -> None:
    storage = MemoryStorage()
    storage.put(PATH, data.replace(_MACHINE.encode(), str(own_beat()["machine"]).encode()))
    liveness_of(storage, PATH, HeartbeatSettings(), SYSTEM)


def _check_audit_switch(data: bytes) -> None:
    storage = MemoryStorage()
    storage.put(SWITCH_PATH, data)
    open_audit(storage, "owner", Lease(SystemClock(), 1, 0, 0.0))


def _schemas() -> tuple[bytes, ...]:
    found = []
    for data in golden.chosen(lambda path: path.endswith((".commit", ".deltacommit")) and path.startswith("v6")):
        schema = json.loads(data)["extraMetadata"].get("schema")
        if schema:
            found.append(schema.encode())
    rng = Random(1)
    return (*dict.fromkeys(found), *(json.dumps(any_record(rng)).encode() for _ in range(30)))


def _made_schema(rng: Random, _: bytes, __: bytes) -> bytes:
    return json.dumps(any_record(rng)).encode()


def _check_schema(data: bytes) -> None:
    text = text_of(data)
    schema = avro_to_arrow(text, source=PATH)
    avro_with_meta_columns(text)
    normal = _or_none(lambda: normalise(schema))
    if normal is None:
        return
    avro = _or_none(lambda: arrow_to_avro(normal, table_name="t"))
    if avro is not None and not any(name.startswith("_hoodie_") for name in normal.names):
        require(avro_to_arrow(avro, source=PATH) == normal, "another schema after encoding and decoding")


def _or_none(make):
    """The value, or None where the rows' schema is refused, which has no file to name."""
    from pyhudi.errors import SchemaMismatchError

    try:
        return make()
    except SchemaMismatchError:
        return None


_CUSTOM_KEYS = b"""hoodie.table.recordkey.fields=a,b
hoodie.table.partition.fields=c:TIMESTAMP,d:SIMPLE
hoodie.table.keygenerator.type=CUSTOM
hoodie.keygen.timebased.timestamp.type=DATE_STRING
hoodie.keygen.timebased.input.dateformat=yyyy-MM-dd,yyyy
hoodie.keygen.timebased.input.dateformat.list.delimiter.regex=,|;
hoodie.keygen.timebased.output.dateformat=yyyy/MM
hoodie.keygen.timebased.timezone=GMT+8
"""

TARGETS = (
    Target(
        name="properties",
        seeds=_properties,
        mutate=mutations.several(mutations.text, mutations.binary),
        check=_check_properties,
    ),
    Target(
        name="table-properties",
        seeds=lambda: golden.chosen(lambda path: path.endswith("hoodie.properties")),
        mutate=mutations.several(mutations.text, mutations.text, mutations.flips),
        check=_check_table_properties,
    ),
    Target(
        name="key-generator",
        seeds=lambda: (
            _CUSTOM_KEYS,
            *golden.chosen(lambda path: path.endswith("hoodie.properties")),
        ),
        mutate=mutations.text,
        check=_check_key_generator,
        names_path=False,
    ),
    Target(
        name="partition-metadata",
        seeds=lambda: (
            b"commitTime=001\npartitionDepth=1\n",
            *golden.chosen(lambda path: path.endswith(".hoodie_partition_metadata")),
        ),
        mutate=mutations.several(mutations.text, mutations.binary),
        check=_check_partition_metadata,
    ),
    Target(
        name="partition-path",
        seeds=lambda: (
            b"",
            b"2026/01/31",
            b"a=1/b=2",
            b"a=__HIVE_DEFAULT_PARTITION__",
            b"a%2Fb",
            "caf\u00e9/x".encode(),
        ),
        mutate=mutations.text,
        check=_check_partition_path,
        names_path=False,
    ),
    Target(
        name="storage-path",
        seeds=lambda: (b"a/b.parquet", b".hoodie/timeline/001.commit", "caf\u00e9/x=1/f".encode()),
        mutate=mutations.text,
        check=_check_accepted_path,
        names_path=False,
    ),
    Target(name="data-file-name", seeds=_data_files, mutate=mutations.text, check=_check_data_file),
    Target(name="markers-file", seeds=_markers, mutate=mutations.text, check=_check_markers),
    Target(
        name="marker-path",
        seeds=lambda: (f".hoodie/.temp/{_INSTANT}/a/f-0_1-2-3_{_INSTANT}.parquet.marker.CREATE".encode(),),
        mutate=mutations.text,
        check=_check_marker_path,
    ),
    Target(
        name="storage-lock",
        seeds=lambda: (
            LockRecord(owner="o", valid_until_ms=2**41).encode(),
            LockRecord(owner="", valid_until_ms=-1).encode(),
        ),
        mutate=mutations.several(mutations.json_text, mutations.text),
        check=_check_lock,
    ),
    Target(
        name="heartbeat",
        seeds=_heartbeats,
        mutate=mutations.several(mutations.json_text, mutations.text),
        check=_check_heartbeat,
    ),
    Target(
        name="lock-audit",
        seeds=lambda: (b'{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED":true}',),
        mutate=mutations.several(mutations.json_text, mutations.text),
        check=_check_audit_switch,
    ),
    Target(
        name="avro-schema",
        seeds=_schemas,
        mutate=mutations.several(mutations.json_text, mutations.json_text, _made_schema, mutations.text),
        check=_check_schema,
    ),
)
