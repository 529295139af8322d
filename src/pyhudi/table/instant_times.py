"""Instant times: strictly above everything on the timeline, whatever the clock does (DESIGN D11)."""

from __future__ import annotations

from datetime import UTC, tzinfo

from pyhudi.config.enums import TimelineTimezone
from pyhudi.config.table_config import TableConfig
from pyhudi.environment import Clock
from pyhudi.format.timeline.instant import (
    Instant,
    InstantState,
    InstantTime,
    advanced,
    format_instant_time,
    next_instant_time,
)
from pyhudi.table.timeline import Timeline


def next_time(timeline: Timeline, config: TableConfig, clock: Clock) -> InstantTime:
    """The present as an instant time in the table's zone, or the smallest one above the timeline if that is later.

    Equal or future instants would hide later writes of real Hudi without an error (`format/timeline.md` 8.3).
    """
    now = format_instant_time(clock.now_ms(), table_zone(config))
    latest = timeline.latest_time
    return now if now > latest else next_instant_time(InstantTime(latest))


def table_zone(config: TableConfig) -> tzinfo | None:
    """The zone in which the table's instant times are written: UTC, or None for this machine's own."""
    return UTC if config.timeline_timezone is TimelineTimezone.UTC else None


def completed_now(instant: Instant, timeline: Timeline, config: TableConfig, clock: Clock) -> Instant:
    """The instant, which is inflight, in its completed state, with a completion time where the version has them."""
    has_time = timeline.version.has_completion_times
    completion_time = next_time(timeline, config, clock) if has_time else None
    return advanced(instant, InstantState.COMPLETED, completion_time)
