"""The archived timeline of table versions 8 and 9: a log-structured merge tree of Parquet files.

    _version_       the number of the current manifest, as text
    manifest_<n>    JSON: {"files": [{"fileName": "<min>_<max>_<level>.parquet", "fileLen": bytes}, ...]}

The folder also contains files of previous manifests, so readers go from `_version_` to the manifest to its files.

https://hudi.apache.org/docs/timeline#lsm-timeline-history
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.errors import CorruptDataError
from pyhudi.format.timeline.instant import InstantTime

VERSION_FILE: Final = "_version_"

VERSION_BYTES_MAX: Final = 64
"""The size limit of a version file."""

MANIFEST_BYTES_MAX: Final = 64 * 1024 * 1024
"""The size limit of a manifest: half a million files."""

HISTORY_BYTES_MAX: Final = 4 * 1024 * 1024 * 1024
"""The uncompressed size limit of a history file; JVM Hudi limits files to 1 GB compressed."""

HISTORY_ROWS_MAX: Final = 10_000_000
"""The limit of instants in a history file: run-length encoding lets a few bytes expand to billions of rows."""

_FILE_NAME: Final = re.compile(r"(?P<min>[0-9]+)_(?P<max>[0-9]+)_(?P<level>[0-9]{1,9})\.parquet")
_VERSION: Final = re.compile(rb"[0-9]{1,18}")
_TIMES: Final = ("instantTime", "completionTime", "action")
_METADATA: Final = "metadata"


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """An entry of a manifest: file name, size in bytes, range of requested times, and level."""

    name: str
    size: int
    min_time: InstantTime
    max_time: InstantTime
    level: int


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


def _history_file(entry: object, path: str) -> HistoryFile:
    name = entry.get("fileName") if isinstance(entry, dict) else None
    size = entry.get("fileLen") if isinstance(entry, dict) else None
    match = _FILE_NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None or type(size) is not int or size < 0:
        raise CorruptDataError("the manifest names a file that is not a history file", path=path, name=name)
    return HistoryFile(match.string, size, InstantTime(match["min"]), InstantTime(match["max"]), int(match["level"]))


def _history_entry(
    instant_time: object, completion_time: object, action: object, metadata: object, *, path: str
) -> HistoryEntry:
    if not (isinstance(instant_time, str) and isinstance(completion_time, str) and isinstance(action, str)):
        raise CorruptDataError("an archived instant lacks a time or its action", path=path, instant=instant_time)
    if not isinstance(metadata, bytes | None):
        raise CorruptDataError("the metadata of an archived instant is not binary", path=path, instant=instant_time)
    return HistoryEntry(InstantTime(instant_time), InstantTime(completion_time), action, metadata)
