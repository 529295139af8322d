"""Instant times: strictly above everything on the timeline, also where the clock stands still or goes back."""

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


def next_time(timeline: Timeline, config: TableConfig, clock: Clock, *, after: str = "") -> InstantTime:
    """The present as an instant time in the table's zone, or the next one above the timeline, and `after`, if later.

    JVM Hudi would ignore, without an error, a later write whose instant is not above the others.
    """
    now = format_instant_time(clock.now_ms(), table_zone(config))
    latest = max(timeline.latest_time, after)
    return now if now > latest else next_instant_time(InstantTime(latest))


def table_zone(config: TableConfig) -> tzinfo | None:
    """The zone of the table's instant times: UTC, or None for the zone of this machine."""
    return UTC if config.timeline_timezone is TimelineTimezone.UTC else None


def completed_now(
    instant: Instant, timeline: Timeline, config: TableConfig, clock: Clock, *, after: str = ""
) -> Instant:
    """An inflight instant in its completed state, with a completion time, above `after`, if the version has them."""
    has_time = timeline.version.has_completion_times
    completion_time = next_time(timeline, config, clock, after=after) if has_time else None
    return advanced(instant, InstantState.COMPLETED, completion_time)
