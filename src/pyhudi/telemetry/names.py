"""Hudi's names of metrics: the values that an event sets, the counters that it moves on, the timers it adds to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Final

from pyhudi.events import (
    ActionCompleted,
    CatalogSynced,
    ConflictsChecked,
    ErrorTableWritten,
    Event,
    FilesFinalized,
    InstantsArchived,
    KeysLookedUp,
    RoundEnded,
    TimelineLoaded,
    TopicAsked,
)
from pyhudi.format.metadata.commit import NO_PREVIOUS_COMMIT, CommitMetadata, WriteStat
from pyhudi.format.timeline.instant import Action, Instant, InstantState, completed_action

_SUMS: Final[Mapping[str, Callable[[WriteStat], int]]] = {
    "totalRecordsWritten": lambda stat: stat.num_writes,
    "totalUpdateRecordsWritten": lambda stat: stat.num_update_writes,
    "totalInsertRecordsWritten": lambda stat: stat.num_inserts,
    "totalRecordsDeleted": lambda stat: stat.num_deletes,
    "totalBytesWritten": lambda stat: stat.total_write_bytes,
    "totalScanTime": lambda stat: stat.runtime_stats.total_scan_time if stat.runtime_stats else 0,
    "totalCreateTime": lambda stat: stat.runtime_stats.total_create_time if stat.runtime_stats else 0,
    "totalUpsertTime": lambda stat: stat.runtime_stats.total_upsert_time if stat.runtime_stats else 0,
    "totalCompactedRecordsUpdated": lambda stat: stat.total_updated_records_compacted,
    "totalLogFilesCompacted": lambda stat: stat.total_log_files_compacted,
    "totalLogFilesSize": lambda stat: stat.total_log_size_compacted,
    "totalFilesInsert": lambda stat: int(stat.prev_commit in (None, NO_PREVIOUS_COMMIT)),
    "totalFilesUpdate": lambda stat: int(stat.prev_commit not in (None, NO_PREVIOUS_COMMIT)),
}

_STREAMER: Final = "deltastreamer"
"""As the streamer was called when its metrics got their names."""


def values_of(event: Event) -> Iterator[tuple[str, float]]:
    """The values that an event sets, by names without the prefix."""
    match event:
        case ActionCompleted():
            yield f"{event.action}.duration", _ms(event.seconds)
            if event.metadata is not None:
                for name, value in _of_commit(event, event.metadata):
                    yield f"{event.action}.{name}", value
            elif event.action in (Action.CLEAN, Action.ROLLBACK):
                yield f"{event.action}.numFilesDeleted", event.files_deleted
        case InstantsArchived():
            yield "archive.duration", _ms(event.seconds)
            yield "archive.numInstantsArchived", event.instants
        case KeysLookedUp():
            yield "index.lookup.duration", _ms(event.seconds)
        case FilesFinalized():
            yield "finalize.duration", _ms(event.seconds)
            yield "finalize.numFilesFinalized", event.files
        case TimelineLoaded():
            yield from _of_services(event.instants)
        case TopicAsked() | ErrorTableWritten() | RoundEnded():
            for name, value in _of_streamer(event):
                yield f"{_STREAMER}.{name}", value
        case CatalogSynced():
            yield f"meta_sync.duration.{event.tool}", _ms(event.seconds)
        case ConflictsChecked():
            pass


def _of_streamer(event: TopicAsked | ErrorTableWritten | RoundEnded) -> Iterator[tuple[str, float]]:
    match event:
        case TopicAsked():
            yield "kafkaMessageInCount", event.messages
            yield "kafkaDelayCount", event.behind
        case ErrorTableWritten():
            yield "errorTableCommitDuration", _ms(event.seconds)
        case RoundEnded():
            yield from _of_round(event)


def _of_round(event: RoundEnded) -> Iterator[tuple[str, float]]:
    yield "heartbeatTimestampMs", event.ended_ms
    if event.has_failed:
        return
    yield "lastSync", event.ended_ms
    yield "actualSyncDurationMs", _ms(event.seconds)
    yield "numConsecutiveFailures", 0
    if event.has_committed:
        yield "duration", _ms(event.seconds)


def counters_of(event: Event) -> Iterator[str]:
    """The counters that an event moves on by one, by names without the prefix."""
    if isinstance(event, ConflictsChecked):
        yield f"conflict_resolution.{'success' if event.is_resolved else 'failure'}.counter"
    if isinstance(event, CatalogSynced):
        yield f"meta_sync.{'failure' if event.has_failed else 'success'}.counter.{event.tool}"
    if isinstance(event, ActionCompleted) and event.action is Action.COMPACTION:
        yield "compaction.completed.counter"
    if isinstance(event, RoundEnded) and event.has_failed:
        yield f"{_STREAMER}.numFailedSyncs"
        yield f"{_STREAMER}.numConsecutiveFailures"
    elif isinstance(event, RoundEnded):
        yield f"{_STREAMER}.numSuccessfulSyncs"


def timings_of(event: Event) -> Iterator[tuple[str, float]]:
    """The timers that an event adds a duration to, by names without the prefix, and the seconds."""
    match event:
        case ActionCompleted():
            yield f"{event.action}.timer", event.seconds
        case InstantsArchived():
            yield "archive.timer", event.seconds
        case KeysLookedUp():
            yield "index.timer", event.seconds
        case FilesFinalized():
            yield "finalize.timer", event.seconds
        case ConflictsChecked():
            yield "conflict_resolution.timer", event.seconds
        case CatalogSynced():
            yield f"meta_sync.timer.{event.tool}", event.seconds
        case TimelineLoaded() | TopicAsked() | ErrorTableWritten() | RoundEnded():
            pass


def _of_commit(event: ActionCompleted, metadata: CommitMetadata) -> Iterator[tuple[str, float]]:
    stats = tuple(chain.from_iterable(metadata.stats_by_partition.values()))
    yield "commitTime", event.completed_ms
    yield "totalPartitionsWritten", len(metadata.stats_by_partition)
    for name, value_of in _SUMS.items():
        yield name, sum(map(value_of, stats))
    earliest = min((stat.min_event_time for stat in stats if stat.min_event_time is not None), default=None)
    latest = max((stat.max_event_time for stat in stats if stat.max_event_time is not None), default=None)
    if earliest is not None:
        yield "commitLatencyInMs", event.completed_ms - earliest
    if latest is not None:
        yield "commitFreshnessInMs", event.completed_ms - latest


def _of_services(instants: tuple[Instant, ...]) -> Iterator[tuple[str, float]]:
    for action in (Action.CLUSTERING, Action.COMPACTION, Action.CLEAN, Action.ROLLBACK):
        name = action.value.capitalize()
        pending = [
            instant for instant in instants if instant.action is action and instant.state is not InstantState.COMPLETED
        ]
        yield f"{action}.pending{name}InstantCount", len(pending)
        if pending:
            yield f"{action}.earliestInflight{name}Instant", int(pending[0].requested_time)
        completed_as = completed_action(action)
        completed = [
            instant
            for instant in instants
            if instant.action is completed_as and instant.state is InstantState.COMPLETED
        ]
        if completed:
            yield f"{completed_as}.latestCompleted{name}Instant", int(completed[-1].requested_time)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
