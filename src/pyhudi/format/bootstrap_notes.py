"""Notes of a bootstrap: what one run of it has finished, for the run that goes on when it has died.

A note is the metadata of a commit in JSON. It names the files of the table that were written, and the source files all
of whose rows they have.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyhudi.errors import CorruptDataError
from pyhudi.format.metadata.commit import (
    CommitMetadata,
    WriteStat,
    decode_commit_metadata,
    encode_commit_metadata,
    stats_by_partition,
)
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.table_version import V6

_TASK: Final = "task"
_SOURCES: Final = "sources"


@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """Which content of a source file was read: its path, its size, and when it was changed.

    `file_id`: the file group of its skeleton; empty for a file that was copied.
    """

    path: str
    size: int
    modified_ms: int
    file_id: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """The files that a task wrote, and those of the source that it wrote them of. `task`: its number."""

    task: int
    sources: tuple[SourceIdentity, ...]
    stats: tuple[WriteStat, ...]


def encode_note(task: int, sources: Sequence[SourceIdentity], stats: Sequence[WriteStat]) -> bytes:
    """The content of a note."""
    listed = [[source.path, source.size, source.modified_ms, source.file_id] for source in sources]
    metadata = CommitMetadata(
        operation=WriteOperation.BOOTSTRAP,
        stats_by_partition=stats_by_partition(stats),
        extra={_TASK: str(task), _SOURCES: json.dumps(listed)},
    )
    return encode_commit_metadata(metadata, V6)


def decode_note(data: bytes, *, path: str) -> Note:
    """Decode a note.

    Raises:
        CorruptDataError: it is truncated or damaged.
        UnsafePathError: a path leads out of the table.
    """
    metadata = decode_commit_metadata(data, path=path)
    stats = tuple(stat for group in metadata.stats_by_partition.values() for stat in group)
    try:
        task = int(metadata.extra[_TASK])
        sources = tuple(_source(*listed) for listed in json.loads(metadata.extra[_SOURCES]))
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise CorruptDataError("this is no note of a bootstrap", path=path) from error
    return Note(task, sources, stats)


def _source(path: object, size: object, modified_ms: object, file_id: object) -> SourceIdentity:
    if isinstance(path, str) and isinstance(size, int) and isinstance(modified_ms, int) and isinstance(file_id, str):
        return SourceIdentity(path, size, modified_ms, file_id)
    raise TypeError(path)
