"""The newest writes, compactions and clusterings: what they did to rows, file groups and columns, and what it cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

from pyhudi.api.sizes import amplification_table
from pyhudi.errors import CorruptDataError, NotFoundError
from pyhudi.format.metadata.commit import WRITER_KEY, CommitMetadata, decode_commit_metadata
from pyhudi.format.timeline.instant import Instant
from pyhudi.storage.bounded import at_once
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.file_slice import FileGroupId
from pyhudi.table.schema import TableSchema
from pyhudi.table.state import TableState
from pyhudi.table.timeline import instant_path

_CHANGES_OF_SCHEMA: Final = 50
_BYTES_OF_A_WRITE: Final = 20_000
"""So many bytes of metadata are read per write, on an average: some 60 files."""
_READ_AT_ONCE: Final = 32
WritesRead: TypeAlias = Sequence[tuple[Instant, CommitMetadata]]


@dataclass(frozen=True, slots=True)
class Write:
    """One of the newest writes, compactions and clusterings, and what it cost."""

    instant: str
    operation: str
    writer: str
    inserted: int
    updated: int
    deleted: int
    bytes_written: int
    bytes_changed: int


@dataclass(frozen=True, slots=True)
class Column:
    """One write, or some after each other as their sums: a column of a picture. `writes` says which, in words."""

    writes: str
    inserted: int
    updated: int
    deleted: int
    bytes_written: int
    bytes_changed: int


@dataclass(frozen=True, slots=True)
class GroupEvent:
    """What a write did to a file group: `kind` is "base file", "log" or "replaced"."""

    kind: str
    instant: str
    begin_ms: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """How the columns differ from those before a write."""

    instant: str
    added: tuple[str, ...]
    dropped: tuple[str, ...]
    changed: tuple[str, ...]


def read_newest(state: TableState, limit: int) -> list[tuple[Instant, CommitMetadata]]:
    """So many of the newest writes of the active timeline, or fewer where they name very many files; oldest first.

    Writes that have been rolled back since are not among them. Cost: a read of each.
    """
    writes = state.timeline.completed_writes
    newest = writes[: -limit - 1 : -1]
    left, read = limit * _BYTES_OF_A_WRITE, list[tuple[Instant, CommitMetadata]]()
    for at in range(0, len(newest), _READ_AT_ONCE):
        some = newest[at : at + _READ_AT_ONCE]
        budget = left
        bodies = at_once(state.storage, lambda instant: _body(state, instant, budget), some)  # noqa: B023  # called now
        for instant, body in zip(some, bodies, strict=True):
            left -= 0 if body is None else len(body)
            if left < 0:
                return read[::-1]
            if body is not None and (metadata := _decoded(state, instant, body)) is not None:
                read.append((instant, metadata))
    return read[::-1]


def _body(state: TableState, instant: Instant, bytes_max: int) -> bytes | None:
    """The metadata of a write, cut off after so many bytes; None if they are gone."""
    try:
        return state.storage.read(instant_path(instant, state.version), length=bytes_max + 1)
    except NotFoundError:
        return None


def _decoded(state: TableState, instant: Instant, body: bytes) -> CommitMetadata | None:
    try:
        return decode_commit_metadata(body, path=instant_path(instant, state.version))
    except CorruptDataError:  # or another program has not written all of it yet
        with suppress(NotFoundError):
            return load_commit_metadata(state.storage, instant, state.version)
    return None


def costs_of(read: WritesRead) -> list[Write]:
    """What each of these writes did."""
    writes = []
    for (instant, metadata), cost in zip(read, amplification_table(read).to_pylist(), strict=True):
        stats = [stat for group in metadata.stats_by_partition.values() for stat in group]
        writes.append(
            Write(
                instant=instant.requested_time,
                operation=metadata.operation.value,
                writer=f"pyhudi {metadata.extra[WRITER_KEY]}" if WRITER_KEY in metadata.extra else "",
                inserted=sum(stat.num_inserts or 0 for stat in stats),
                updated=sum(stat.num_update_writes or 0 for stat in stats),
                deleted=sum(stat.num_deletes or 0 for stat in stats),
                bytes_written=cost["bytes_written"],
                bytes_changed=cost["bytes_changed"],
            )
        )
    return writes


def columns_of(writes: Sequence[Write], most: int) -> list[Column]:
    """At most so many columns of these writes."""
    size = max(1, -(-len(writes) // most))
    return [_column(writes[at : at + size]) for at in range(0, len(writes), size)]


def _column(writes: Sequence[Write]) -> Column:
    first, last = writes[0], writes[-1]
    return Column(
        f"{first.operation} {first.instant}"
        if len(writes) == 1
        else f"{len(writes):,} writes from {first.instant} to {last.instant}",
        inserted=sum(write.inserted for write in writes),
        updated=sum(write.updated for write in writes),
        deleted=sum(write.deleted for write in writes),
        bytes_written=sum(write.bytes_written for write in writes),
        bytes_changed=sum(write.bytes_changed for write in writes),
    )


def amplification(costs: Sequence[Write | Column]) -> float | None:
    """Bytes written over bytes changed; None where nothing was changed."""
    changed = sum(cost.bytes_changed for cost in costs)
    return sum(cost.bytes_written for cost in costs) / changed if changed else None


def replaced_groups(read: WritesRead) -> set[FileGroupId]:
    """The file groups that these writes replaced."""
    return {
        FileGroupId(path, file_id)
        for _, metadata in read
        for path, file_ids in (metadata.replaced_file_ids or {}).items()
        for file_id in file_ids
    }


def lives_of(
    read: WritesRead, ms: Callable[[str], int], limit: int
) -> tuple[dict[FileGroupId, tuple[GroupEvent, ...]], int]:
    """What these writes did to the file groups that they changed most often, and how many groups they changed."""
    events: defaultdict[FileGroupId, list[GroupEvent]] = defaultdict(list)
    for instant, metadata in read:
        time, begin_ms = instant.requested_time, ms(instant.requested_time)
        for path, stats in metadata.stats_by_partition.items():
            for stat in stats:
                kind = "base file" if stat.log_version is None else "log"
                events[FileGroupId(path, stat.file_id)].append(GroupEvent(kind, time, begin_ms, stat.total_write_bytes))
        for group in replaced_groups([(instant, metadata)]):
            events[group].append(GroupEvent("replaced", time, begin_ms, 0))
    often = sorted(events.items(), key=lambda item: -len(item[1]))[:limit]
    return {group: tuple(life) for group, life in often}, len(events)


def schema_changes(read: WritesRead) -> list[SchemaChange]:
    """The newest changes of columns among these writes, oldest first."""
    changes: list[SchemaChange] = []
    previous: dict[str, str] | None = None
    previous_text = None
    for instant, metadata in read:
        text = metadata.schema
        if text is None or text == previous_text:
            continue
        arrow = TableSchema.from_avro(text, source=instant.requested_time).arrow
        columns = {column.name: str(column.type) for column in arrow}
        if previous is not None and columns != previous:
            changes.append(_change(instant.requested_time, previous, columns))
        previous, previous_text = columns, text
    return changes[-_CHANGES_OF_SCHEMA:]


def _change(instant: str, previous: dict[str, str], now: dict[str, str]) -> SchemaChange:
    return SchemaChange(
        instant,
        tuple(f"{name} {kind}" for name, kind in now.items() if name not in previous),
        tuple(f"{name} {kind}" for name, kind in previous.items() if name not in now),
        tuple(
            f"{name} {previous[name]} \N{RIGHTWARDS ARROW} {kind}"
            for name, kind in now.items()
            if previous.get(name, kind) != kind
        ),
    )
