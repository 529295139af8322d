"""The archived timeline of table version 6: log files of Avro data blocks, a record per instant and state.

The blocks have a schema and no instant time. Records are in no order, and merged files may repeat them.

Source: `format/timeline.md` 1.6.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import CorruptDataError, SchemaMismatchError
from pyhudi.format.avro_records import decode_avro_records
from pyhudi.format.log_blocks import BlockType, LogBlock, parse_block

ARCHIVE_BYTES_MAX: Final = 1024 * 1024 * 1024
"""The size of a file that is still read; real writers begin a new one after some hundred instants."""

_COLUMNS: Final = ("commitTime", "actionType", "actionState", "hoodieRollbackMetadata")
_FILE_PREFIX: Final = ".commits_.archive."
_COMPLETED: Final = "COMPLETED"
_ROLLED_BACK: Final = "commitsRollback"


@dataclass(frozen=True, slots=True)
class ArchivedInstant:
    """A completed instant; `rolled_back` are the instants that it took away, if it is a rollback."""

    instant_time: str
    action: str
    rolled_back: frozenset[str] = frozenset()


def is_archive_file(name: str) -> bool:
    """Whether this is the name of a file of the archived timeline."""
    return name.startswith(_FILE_PREFIX)


def parse_archive_file(data: bytes, *, path: str) -> Iterator[ArchivedInstant]:
    """The completed instants in one file.

    Raises:
        CorruptDataError: a block is damaged, of another kind, or without the columns of an archived instant.
        UnsupportedFeatureError: a block of an unknown format.
    """
    view = memoryview(data)
    offset = 0
    while offset < len(data):
        block = parse_block(
            lambda start, length: view[start : start + length], offset, len(data), path=path, needs_headers=False
        )
        yield from _completed(data, block, path)
        offset = block.end


def _completed(data: bytes, block: LogBlock, path: str) -> Iterator[ArchivedInstant]:
    if block.kind is not BlockType.AVRO_DATA or block.schema is None:
        raise CorruptDataError("the archived timeline holds a block without instants", path=path, offset=block.offset)
    content = data[block.content_offset : block.content_offset + block.content_size]
    try:
        rows = decode_avro_records(content, block.schema, columns=_COLUMNS, path=path, offset=block.offset)
    except SchemaMismatchError as error:
        raise CorruptDataError(
            "the archived timeline holds something else than instants", path=path, offset=block.offset
        ) from error
    columns = (*rows.columns[:-1], _rolled_back(rows.columns[-1]))
    if not all(_is_text(column.type) for column in columns[:-1]) or not _is_texts(columns[-1].type):
        raise CorruptDataError(
            "a column of the archived timeline is of the wrong type",
            path=path,
            offset=block.offset,
            types=[str(column.type)[:100] for column in columns],
        )
    for time, action, state, times in zip(*(column.to_pylist() for column in columns), strict=True):
        if state == _COMPLETED and time is not None:
            yield ArchivedInstant(time, str(action), frozenset(time for time in times or () if time is not None))


def _rolled_back(metadata: pa.Array) -> pa.Array:
    """The instants that each rollback took away; of all else that its metadata hold nothing is made into a value."""
    is_record = pa.types.is_struct(metadata.type) and metadata.type.get_field_index(_ROLLED_BACK) >= 0
    return pc.struct_field(metadata, [_ROLLED_BACK]) if is_record else pa.nulls(len(metadata))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_null(kind))


def _is_texts(kind: pa.DataType) -> bool:
    return bool(pa.types.is_null(kind) or (pa.types.is_list(kind) and _is_text(kind.value_type)))
