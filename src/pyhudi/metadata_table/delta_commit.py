"""The instants of delta commits of the metadata table: their metadata and completion times."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Final

from pyhudi.environment import Environment
from pyhudi.format.metadata.commit import SCHEMA_KEY, CommitMetadata, WriteStat, stats_by_partition
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.metadata_table.schema import record_schema
from pyhudi.format.schema.meta_columns import META_COLUMNS
from pyhudi.format.timeline.instant import (
    Instant,
    InstantState,
    InstantTime,
    advanced,
    format_instant_time,
    next_instant_time,
)
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.table.instant_times import table_zone
from pyhudi.table.state import TableState
from pyhudi.table.timeline import Timeline

_TIME_DIGITS: Final = 17
"""Those of a time of the clock; compactions of a metadata table of version 6 have three more."""

CheckHeld = Callable[[], None]
"""Raises `LockLostError` unless the table lock is still held."""


def delta_commit_metadata(
    version: TableVersion, operation: WriteOperation, stats: Sequence[WriteStat], *, compacted: bool = False
) -> CommitMetadata:
    """The metadata of a commit of the metadata table that wrote these files."""
    return CommitMetadata(
        operation=operation,
        stats_by_partition=stats_by_partition(stats),
        extra={SCHEMA_KEY: _schema_without_meta_columns(version)},
        compacted=compacted,
    )


def completed_after(inflight: Instant, inner: Timeline, table: TableState, environment: Environment) -> Instant:
    """An instant of the metadata table as completed now: later than all of its own timeline and of the table's."""
    if not inner.version.has_completion_times:
        return advanced(inflight, InstantState.COMPLETED)
    latest = max(table.timeline.latest_time, inner.latest_time, inflight.requested_time)[:_TIME_DIGITS]
    now = format_instant_time(environment.clock.now_ms(), table_zone(table.config))
    return advanced(inflight, InstantState.COMPLETED, now if now > latest else next_instant_time(InstantTime(latest)))


@functools.cache
def _schema_without_meta_columns(version: TableVersion) -> str:
    record = json.loads(record_schema(version))
    fields = [field for field in record["fields"] if field["name"] not in META_COLUMNS]
    return json.dumps({**record, "fields": fields}, separators=(",", ":"), ensure_ascii=False)
