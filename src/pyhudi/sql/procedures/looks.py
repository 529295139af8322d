"""Looks that several procedures take: writes with their metadata, bodies of instants, and times of their files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pyhudi.errors import InvalidRequestError
from pyhudi.format.avro.container import CONTAINER_BYTES_MAX
from pyhudi.format.metadata.commit import NO_PREVIOUS_COMMIT, CommitMetadata, WriteStat
from pyhudi.format.timeline.instant import (
    Action,
    Instant,
    InstantState,
    completed_action,
    format_instant_time,
    parse_instant_file_name,
)
from pyhudi.storage.bounded import read_at_most
from pyhudi.table.archive.history import archived_metadata
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.instant_times import table_zone
from pyhudi.table.state import TableState
from pyhudi.table.timeline import instant_path

StateTimes = Mapping[tuple[str, Action], Mapping[InstantState, int]]
"""By instant time and completed action: when the file of each state was made, in milliseconds since the epoch."""


def writes_newest_first(table: TableState) -> Iterator[tuple[Instant, CommitMetadata]]:
    """The completed writes of the active timeline. Cost: one read each, as far as the caller iterates."""
    for instant in reversed(table.timeline.completed_writes):
        yield instant, load_commit_metadata(table.storage, instant, table.version)


def write_of(table: TableState, instant_time: str) -> tuple[Instant, CommitMetadata]:
    """A completed write, of the archive if it left the active timeline. Raises `InvalidRequestError` if there is none.

    Cost: one read; for an older write those of the archive.
    """
    for instant in table.timeline.completed_writes:
        if instant.requested_time == instant_time:
            return instant, load_commit_metadata(table.storage, instant, table.version)
    if table.timeline.starts_after(instant_time):
        for instant, metadata in archived_metadata(table.storage, table.version):
            if instant.requested_time == instant_time:
                return instant, metadata
    raise InvalidRequestError("the table has no completed write with this instant", instant_time=instant_time)


def completed(table: TableState, action: Action) -> list[Instant]:
    """The completed instants of an action on the active timeline, newest first."""
    return [
        instant
        for instant in reversed(table.timeline.instants)
        if instant.action is action and instant.state is InstantState.COMPLETED
    ]


def body_of(table: TableState, instant: Instant) -> tuple[bytes, str]:
    """The bytes of an instant's file, and its path. Cost: one read."""
    path = instant_path(instant, table.version)
    return read_at_most(table.storage, path, CONTAINER_BYTES_MAX), path


def requested(instant: Instant, action: Action | None = None) -> Instant:
    """The instant as it was planned, under the word of the pending action."""
    return replace(instant, action=action or instant.action, state=InstantState.REQUESTED, completion_time=None)


def state_times(table: TableState) -> StateTimes:
    """When the files of the active timeline were made. Cost: one listing."""
    found: dict[tuple[str, Action], dict[InstantState, int]] = {}
    for info in table.storage.list_folder(table.version.timeline_folder).files:
        instant = parse_instant_file_name(info.name, table.version)
        if instant is not None:
            key = (instant.requested_time, completed_action(instant.action))
            found.setdefault(key, {})[instant.state] = info.modified_ms
    return found


def completion_text(table: TableState, instant: Instant, times: StateTimes) -> str | None:
    """The completion time of an instant; in table version 6, which keeps none, when its file was made."""
    if instant.completion_time is not None:
        return instant.completion_time
    made_ms = times.get((instant.requested_time, completed_action(instant.action)), {}).get(InstantState.COMPLETED)
    return None if made_ms is None else format_instant_time(made_ms, table_zone(table.config))


def times_if_needed(table: TableState) -> StateTimes:
    """What `completion_text` needs: nothing where the names of files have completion times."""
    return {} if table.version.has_completion_times else state_times(table)


def stats_of(metadata: CommitMetadata) -> list[WriteStat]:
    """The statistics of all files of a write."""
    return [stat for stats in metadata.stats_by_partition.values() for stat in stats]


def is_new(stat: WriteStat) -> bool:
    """Whether the file begins a file group."""
    return stat.prev_commit is not None and stat.prev_commit.lower() == NO_PREVIOUS_COMMIT


def totals(metadata: CommitMetadata) -> tuple[int, int, int, int, int, int, int]:
    """Bytes, new and changed files, partitions, records, updated records and errors of a write."""
    stats = stats_of(metadata)
    return (
        sum(stat.total_write_bytes for stat in stats),
        sum(map(is_new, stats)),
        sum(stat.prev_commit is not None and not is_new(stat) for stat in stats),
        len(metadata.stats_by_partition),
        sum(stat.num_writes for stat in stats),
        sum(stat.num_update_writes for stat in stats),
        sum(stat.total_write_errors for stat in stats),
    )


def as_list(texts: Sequence[str]) -> str:
    """A list of texts as JVM Hudi shows one."""
    return f"[{', '.join(texts)}]"
