"""The archived timeline of table version 6: log files of Avro data blocks, a record per instant and state.

The blocks have a schema and no instant time. Records are in no order, and merged files may repeat them.

Source: `format/timeline.md` 1.6.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyhudi.errors import CorruptDataError, SchemaMismatchError
from pyhudi.format.avro_records import decode_avro_records
from pyhudi.format.log_blocks import BlockType, LogBlock, parse_block

_COLUMNS: Final = ("commitTime", "actionType", "actionState", "hoodieRollbackMetadata")
_FILE_PREFIX: Final = ".commits_.archive."
_COMPLETED: Final = "COMPLETED"


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
    for time, action, state, rollback in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        if state == _COMPLETED and isinstance(time, str):
            yield ArchivedInstant(time, str(action), _rolled_back(rollback))


def _rolled_back(metadata: Any) -> frozenset[str]:
    times = metadata.get("commitsRollback") if isinstance(metadata, dict) else None
    return frozenset(str(time) for time in times or ())
