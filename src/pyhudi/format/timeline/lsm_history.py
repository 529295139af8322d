"""The archived timeline of table versions 8 and 9: a log-structured merge tree of Parquet files.

    _version_       the number of the current manifest, as text
    manifest_<n>    JSON: {"files": [{"fileName": "<min>_<max>_<level>.parquet", "fileLen": bytes}, ...]}

The folder also contains files of previous manifests, so readers go from `_version_` to the manifest to its files.

https://hudi.apache.org/docs/timeline#lsm-timeline-history
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.errors import CorruptDataError
from pyhudi.format.timeline.instant import Action, InstantTime

VERSION_FILE: Final = "_version_"

VERSION_BYTES_MAX: Final = 64
"""The size limit of a version file."""

MANIFEST_BYTES_MAX: Final = 64 * 1024 * 1024
"""The size limit of a manifest: half a million files."""

HAVE_PLANS: Final = frozenset(
    {Action.CLEAN, Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING, Action.REPLACE_COMMIT}
)
"""Actions whose requested file says what they are going to do; it goes into the archive."""
HISTORY_BYTES_MAX: Final = 4 * 1024 * 1024 * 1024
"""The uncompressed size limit of a history file; JVM Hudi limits files to 1 GB compressed."""

HISTORY_ROWS_MAX: Final = 10_000_000
"""The limit of instants in a history file: run-length encoding lets a few bytes expand to billions of rows."""

_FILE_NAME: Final = re.compile(r"(?P<min>[0-9]+)_(?P<max>[0-9]+)_(?P<level>[0-9]{1,9})\.parquet")
_VERSION: Final = re.compile(rb"[0-9]{1,18}")
_TIMES: Final = ("instantTime", "completionTime", "action")
_METADATA: Final = "metadata"
_PLAN: Final = "plan"


_BEFORE_ALL: Final = InstantTime("0")
_AFTER_ALL: Final = InstantTime("9" * 17)
_ROW_VERSION: Final = 1
_SCHEMA: Final = pa.schema(
    [
        pa.field("instantTime", pa.string()),
        pa.field("completionTime", pa.string()),
        pa.field("action", pa.string()),
        pa.field("metadata", pa.binary()),
        pa.field("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ]
)


def _nullable(name: str, kind: object) -> dict[str, object]:
    return {"name": name, "type": ["null", kind], "default": None}


_TEXT: Final = {"type": "string", "avro.java.string": "String"}
_AVRO_SCHEMA: Final = json.dumps(
    {
        "type": "record",
        "name": "HoodieLSMTimelineInstant",
        "namespace": "org.apache.hudi.avro.model",
        "fields": [
            _nullable("instantTime", _TEXT),
            _nullable("completionTime", _TEXT),
            _nullable("action", _TEXT),
            _nullable("metadata", "bytes"),
            _nullable("plan", "bytes"),
            {"name": "version", "type": "int", "default": _ROW_VERSION},
        ],
    },
    separators=(",", ":"),
)
"""What JVM Hudi reads the rows by: it stands in the footer of each file."""


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """An entry of a manifest: file name, size in bytes, range of requested times, and level.

    `names_range`: whether the name has that range. JVM Hudi's upgrade names a file by its first and last row, in the
    order of the old archive; where that shows, the range is that of all times.
    """

    name: str
    size: int
    min_time: InstantTime
    max_time: InstantTime
    level: int
    names_range: bool = True


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One archived instant. `action` is the word of the completed action; `metadata` is the content of its file.

    `metadata` is None if it was not requested.
    """

    instant_time: InstantTime
    completion_time: InstantTime
    action: str
    metadata: bytes | None = field(repr=False)


def manifest_name(version: int) -> str:
    """The name of a manifest."""
    return f"manifest_{version}"


def parse_manifest_name(name: str) -> int | None:
    """The number in the name of a manifest, or None for another file."""
    digits = name.removeprefix("manifest_")
    return int(digits) if digits != name and digits.isascii() and digits.isdigit() else None


def parse_version_file(data: bytes, *, path: str) -> int:
    """The number of the current manifest.

    Raises:
        CorruptDataError: the content is not a number.
    """
    digits = data[:VERSION_BYTES_MAX].strip()
    if len(data) > VERSION_BYTES_MAX or not _VERSION.fullmatch(digits):
        raise CorruptDataError("the version file of the archived timeline does not contain a number", path=path)
    return int(digits)


def parse_manifest(data: bytes, *, path: str) -> tuple[HistoryFile, ...]:
    """The files that make up the archived timeline, by name.

    Raises:
        CorruptDataError: the manifest is damaged, or names a file that is not a history file.
    """
    if len(data) > MANIFEST_BYTES_MAX:
        raise CorruptDataError("the manifest is too large", path=path, size=len(data))
    try:
        values = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise CorruptDataError("the manifest does not parse", path=path) from error
    files = values.get("files") if isinstance(values, dict) else None
    if not isinstance(files, list):
        raise CorruptDataError("the manifest lists no files", path=path)
    return tuple(sorted((_history_file(entry, path) for entry in files), key=lambda file: file.name))


def parse_history_file(data: bytes, *, path: str, metadata: bool = True) -> tuple[HistoryEntry, ...]:
    """The instants in one file, ascending by requested time, without plans.

    Cost: memory for the uncompressed content; without `metadata` only for times and actions.

    Raises:
        CorruptDataError: the file is not Parquet, is damaged, or lacks a column or a time.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
        size = sum(group.total_byte_size for group in groups)
        if not 0 <= size <= HISTORY_BYTES_MAX or file.metadata.num_rows > HISTORY_ROWS_MAX:
            raise CorruptDataError("the archived timeline file is too large", path=path)
        rows = file.read(columns=[*_TIMES, _METADATA] if metadata else list(_TIMES))
        columns = [rows.column(name).to_pylist() for name in _TIMES]
        columns.append(rows.column(_METADATA).to_pylist() if metadata else [None] * rows.num_rows)
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise CorruptDataError("the archived timeline file is damaged", path=path, cause=str(error)[:200]) from error
    return tuple(_history_entry(*row, path=path) for row in zip(*columns, strict=True))


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """An archived instant: `metadata` is the content of its completed file, `plan` that of its requested one."""

    instant_time: str
    completion_time: str
    action: str
    metadata: bytes = field(repr=False)
    plan: bytes | None = field(repr=False)


def encode_version_file(number: int) -> bytes:
    """The content of the file that names the current manifest."""
    return str(number).encode()


def encode_manifest(files: Iterable[HistoryFile]) -> bytes:
    """The content of a manifest."""
    listed = [{"fileName": file.name, "fileLen": file.size} for file in sorted(files, key=lambda file: file.name)]
    return json.dumps({"files": listed}).encode()


def history_file_name(times: Iterable[str], level: int) -> str:
    """The name of a file that holds the instants of these requested times."""
    known = sorted(times)
    return f"{known[0]}_{known[-1]}_{level}.parquet"


def encode_history_file(rows: Iterable[HistoryRow]) -> bytes:
    """A history file with these instants, ascending by requested time."""
    ordered = sorted(rows, key=lambda row: (row.instant_time, row.action))
    columns = [
        [row.instant_time for row in ordered],
        [row.completion_time for row in ordered],
        [row.action for row in ordered],
        [row.metadata for row in ordered],
        [row.plan for row in ordered],
        [_ROW_VERSION] * len(ordered),
    ]
    return _parquet(pa.table([pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA))


def parse_history_rows(data: bytes, *, path: str) -> tuple[HistoryRow, ...]:
    """The instants in one file, with their plans. Raises as `parse_history_file`. Cost: memory for all of it."""
    entries = parse_history_file(data, path=path)
    plans = pq.read_table(pa.BufferReader(data), columns=[_PLAN]).column(_PLAN).to_pylist()
    return tuple(
        HistoryRow(entry.instant_time, entry.completion_time, entry.action, entry.metadata or b"", plan or None)
        for entry, plan in zip(entries, plans, strict=True)
    )


def merge_history_files(contents: Iterable[bytes], *, path: str) -> tuple[bytes, tuple[str, ...]]:
    """One history file with the instants of several, and their requested times. An instant that two have is kept once.

    Raises:
        CorruptDataError: one of them is damaged.
    """
    try:
        tables = [pq.read_table(pa.BufferReader(data), columns=_SCHEMA.names) for data in contents]
        merged = pa.concat_tables([table.cast(_SCHEMA) for table in tables]).sort_by("instantTime")
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise CorruptDataError(
            "a file of the archived timeline is damaged", path=path, cause=str(error)[:200]
        ) from error
    times, actions = merged.column("instantTime").to_pylist(), merged.column("action").to_pylist()
    first: dict[tuple[str, str], int] = {}
    for row, key in enumerate(zip(times, actions, strict=True)):
        first.setdefault(key, row)
    return _parquet(merged.take(pa.array(first.values(), pa.int64()))), tuple(times)


def _parquet(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, _SCHEMA, compression="gzip", use_dictionary=False, store_schema=False) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata({"parquet.avro.schema": _AVRO_SCHEMA, "writer.model.name": "avro"})
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _history_file(entry: object, path: str) -> HistoryFile:
    name = entry.get("fileName") if isinstance(entry, dict) else None
    size = entry.get("fileLen") if isinstance(entry, dict) else None
    match = _FILE_NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None or type(size) is not int or size < 0:
        raise CorruptDataError("the manifest names a file that is not a history file", path=path, name=name)
    first, last = InstantTime(match["min"]), InstantTime(match["max"])
    if first > last:
        return HistoryFile(match.string, size, _BEFORE_ALL, _AFTER_ALL, int(match["level"]), names_range=False)
    return HistoryFile(match.string, size, first, last, int(match["level"]))


def _history_entry(
    instant_time: object, completion_time: object, action: object, metadata: object, *, path: str
) -> HistoryEntry:
    if not (isinstance(instant_time, str) and isinstance(completion_time, str) and isinstance(action, str)):
        raise CorruptDataError("an archived instant lacks a time or its action", path=path, instant=instant_time)
    if not isinstance(metadata, bytes | None):
        raise CorruptDataError("the metadata of an archived instant is not binary", path=path, instant=instant_time)
    return HistoryEntry(InstantTime(instant_time), InstantTime(completion_time), action, metadata)
