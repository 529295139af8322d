"""`Watermark`: up to which event time a table is complete, and whether a partition is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from pyhudi.api.handle import TableHandle
from pyhudi.errors import InvalidRequestError
from pyhudi.format.keys.partition_times import partition_end
from pyhudi.markup import Shown
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.timeline import position_of
from pyhudi.table.watermarks import load_source_times

_NONE: Final = timedelta()


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark(Shown):
    """Up to which event time a table is complete, as its writers report it.

    Attributes:
        time: all events before this moment are in the table, if no source is later than it says; None if that is not
            known: no write has reported event times, or a source has none yet.
        instant: the newest write that reported one.
        sources: how far each source has come; None if nothing of it was written.
        idle: the sources that were left out, as they have written nothing for a while.
    """

    time: datetime | None
    instant: str | None
    sources: Mapping[str, datetime | None] = field(default_factory=dict)
    idle: tuple[str, ...] = ()

    def covers(self, partition: str, *, lateness: timedelta = _NONE, zone: tzinfo = UTC) -> bool:
        """Whether a partition is complete: whether its end is at least `lateness` before the watermark.

        Args:
            partition: the path of a partition of an hour, a day or a month: `2026-11-22/09`, `2026/11/22`, `20261122`,
                `day=2026-11-22/hour=09` or `2026-11`.
            lateness: how much later than others an event of the same source may be written.
            zone: whose hours and days the partitions are.

        Raises:
            InvalidRequestError: the path is that of no hour, day or month.

        Cost: none.
        """
        end = partition_end(partition, zone)
        if end is None:
            raise InvalidRequestError(
                "the partition is no hour, day or month, so it has no end: a path is like 2026-11-22/09",
                partition=partition,
            )
        return self.time is not None and self.time - lateness >= end


def watermark_of(handle: TableHandle, sources: Sequence[str], idle_after: timedelta | None) -> Watermark:
    """The watermark of a table; see `HudiTable.watermark`."""
    instant, times = load_source_times(handle.state)
    now = handle.environment.clock.now_ms()
    found = {source: times[source].time if source in times else None for source in sorted({*times, *sources})}
    idle: tuple[str, ...] = ()
    if idle_after is not None:
        limit = now - idle_after / timedelta(milliseconds=1)
        idle = tuple(source for source in found if source in times and times[source].written_at < limit)
        if len(idle) == len(found):  # nothing is known of what is left: the table stays where it is
            idle = ()
    counted = [time for source, time in found.items() if source not in idle]
    known = [time for time in counted if time is not None]
    return Watermark(
        time=_moment(min(known)) if known and len(known) == len(counted) else None,
        instant=instant,
        sources={source: None if time is None else _moment(time) for source, time in found.items()},
        idle=idle,
    )


def late_rows_of(handle: TableHandle, partition: str, after: str) -> int:
    """How many rows were written to a partition after a write; see `Inspect.late_rows`."""
    table = handle.state
    known = next((write for write in table.timeline.completed_writes if write.requested_time == after), None)
    if known is None:
        raise InvalidRequestError("there is no such completed write on the active timeline", instant=after)
    later = [write for write in table.timeline.completed_writes if position_of(write) > position_of(known)]
    return sum(
        stat.num_inserts + stat.num_update_writes + stat.num_deletes
        for write in later
        for stat in load_commit_metadata(table.storage, write, table.version).stats_by_partition.get(partition, ())
    )


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
