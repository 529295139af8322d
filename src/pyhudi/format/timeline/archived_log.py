"""The archived timeline of table version 6: log files of Avro data blocks, a record per instant and state.

The blocks have a schema and no instant time. Records are unordered, and merged files may repeat them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import CorruptDataError, SchemaMismatchError
from pyhudi.format.avro.container import AvroRecord
from pyhudi.format.avro.records import decode_avro_records
from pyhudi.format.log.blocks import BlockType, LogBlock, parse_block
from pyhudi.format.metadata.clean import clean_metadata_of
from pyhudi.format.metadata.commit import CommitMetadata, commit_metadata_of
from pyhudi.format.metadata.record_fields import RecordFields

ARCHIVE_BYTES_MAX: Final = 1024 * 1024 * 1024
"""The size limit of a file; JVM Hudi begins a new file after some hundred instants."""

_COLUMNS: Final = ("commitTime", "actionType", "actionState", "hoodieRollbackMetadata")
_CLEAN: Final = "HoodieCleanMetadata"
_DETAILS: Final = {
    "hoodieCleanMetadata": _CLEAN,
    "hoodieCommitMetadata": "HoodieCommitMetadata",
    "hoodieReplaceCommitMetadata": "HoodieReplaceCommitMetadata",
}
"""Columns with details, and the record names of their values."""
_FILE_PREFIX: Final = ".commits_.archive."
_COMPLETED: Final = "COMPLETED"
_ROLLED_BACK: Final = "commitsRollback"


@dataclass(frozen=True, slots=True)
class ArchivedInstant:
    """A completed instant. `rolled_back` are the instants that a rollback rolled back.

    With details, `cleaned` are the files that a clean deleted, relative to the table, and `metadata` is the commit
    metadata of a write.
    """

    instant_time: str
    action: str
    rolled_back: frozenset[str] = frozenset()
    cleaned: frozenset[str] = frozenset()
    metadata: CommitMetadata | None = field(default=None, repr=False)


def is_archive_file(name: str) -> bool:
    """Whether this is the name of a file of the archived timeline."""
    return name.startswith(_FILE_PREFIX)


def archive_blocks(data: bytes, *, path: str) -> Iterator[LogBlock]:
    """The blocks of a file. What is in them is not decoded. Raises `CorruptDataError` for one that is not whole."""
    view, offset = memoryview(data), 0
    while offset < len(data):
        block = parse_block(
            lambda start, length: view[start : start + length], offset, len(data), path=path, needs_headers=False
        )
        yield block
        offset = block.end


def parse_archive_file(data: bytes, *, path: str, details: bool = False) -> Iterator[ArchivedInstant]:
    """Decode the completed instants of one file; with `details`, also the files that they cleaned or wrote.

    Raises:
        CorruptDataError: a block is damaged, of another kind, or without the columns of an archived instant.
        UnsafePathError: a path in the details leads out of the table's data.
        UnsupportedFeatureError: a block has an unknown format.
    """
    for block in archive_blocks(data, path=path):
        yield from _completed(data, block, path, details)


def _completed(data: bytes, block: LogBlock, path: str, details: bool) -> Iterator[ArchivedInstant]:
    if block.kind is not BlockType.AVRO_DATA or block.schema is None:
        raise CorruptDataError("the archived timeline holds a block without instants", path=path, offset=block.offset)
    content = data[block.content_offset : block.content_offset + block.content_size]
    # A column that is null in all instants of the block may be missing from its schema.
    names = [*_COLUMNS, *(name for name in _DETAILS if details and f'"{name}"' in block.schema)]
    try:
        rows = decode_avro_records(content, block.schema, columns=names, path=path, offset=block.offset)
    except SchemaMismatchError as error:
        raise CorruptDataError(
            "the archived timeline contains records that are not instants", path=path, offset=block.offset
        ) from error
    times = rows.select(_COLUMNS).columns
    columns = (*times[:-1], _rolled_back(times[-1]))
    if not all(_is_text(column.type) for column in columns[:-1]) or not _is_texts(columns[-1].type):
        raise CorruptDataError(
            "a column of the archived timeline has the wrong type",
            path=path,
            offset=block.offset,
            types=[str(column.type)[:100] for column in columns],
        )
    found = zip(*(column.to_pylist() for column in columns), strict=True)
    for number, (time, action, state, undone) in enumerate(found):
        if state == _COMPLETED and time is not None:
            rolled_back = frozenset(instant for instant in undone or () if instant is not None)
            yield ArchivedInstant(time, str(action), rolled_back, **_details(rows.slice(number, 1), path))


def _details(row: pa.RecordBatch, path: str) -> dict[str, Any]:
    """The details of one instant, if they were requested."""
    details: dict[str, Any] = {}
    for column, record in _DETAILS.items():
        value = _avro_value(row.column(column)[0]) if column in row.schema.names else None
        if value is not None and record == _CLEAN:
            details["cleaned"] = clean_metadata_of(RecordFields(value, path=path, name=record), path=path).paths
        elif value is not None:
            details["metadata"] = commit_metadata_of(AvroRecord(record, value), path)
    return details


def _avro_value(value: pa.Scalar) -> Any:
    """Convert an Arrow value to the form of `decode_container`, where maps are dictionaries."""
    kind = value.type
    if not value.is_valid:
        return None
    if pa.types.is_map(kind):
        return {entry["key"].as_py(): _avro_value(entry["value"]) for entry in value.values}
    if pa.types.is_list(kind):
        return [_avro_value(item) for item in value.values]
    if pa.types.is_struct(kind):
        return {name: _avro_value(value[name]) for name in kind.names}
    return value.as_py()


def _rolled_back(metadata: pa.Array) -> pa.Array:
    """The instants that each rollback rolled back, without decoding the rest of its metadata."""
    is_record = pa.types.is_struct(metadata.type) and metadata.type.get_field_index(_ROLLED_BACK) >= 0
    return pc.struct_field(metadata, [_ROLLED_BACK]) if is_record else pa.nulls(len(metadata))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_null(kind))


def _is_texts(kind: pa.DataType) -> bool:
    return bool(pa.types.is_null(kind) or (pa.types.is_list(kind) and _is_text(kind.value_type)))
