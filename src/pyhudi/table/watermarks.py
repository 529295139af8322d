"""Watermarks: how far the rows of a table go in event time, by the source that they come from. Commits keep them.

Each source is taken to write its events in the order of their time, or as late as readers allow. So all its events up
to the largest event time that it has written are in the table. What holds for all sources is the smallest of these.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from pyhudi.format.metadata.commit import CommitMetadata, WriteStat
from pyhudi.format.timeline.instant import parse_instant_time
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.instant_times import table_zone
from pyhudi.table.state import TableState
from pyhudi.table.timeline import position_of

WATERMARK_KEY: Final = "pyhudi.watermark"
"""The key of commit metadata. JVM Hudi does not read it; its commits have the event times of files only."""
ONLY_SOURCE: Final = ""
"""The name of the source where a table has one."""


@dataclass(frozen=True, slots=True)
class SourceTime:
    """The largest event time that a source has written, and when it last wrote; milliseconds since the epoch.

    `time` is None if the source is known, and nothing of it has been written.
    """

    time: int | None
    written_at: int


SourceTimes: TypeAlias = Mapping[str, SourceTime]


def advanced(previous: SourceTimes, written: Mapping[str, int | None], now: int) -> dict[str, SourceTime]:
    """The times after a write of these sources, whose largest event times are given. No time moves back."""
    times = dict(previous)
    for source, time in written.items():
        known = previous.get(source)
        if time is None:
            times.setdefault(source, SourceTime(None, now))
        else:
            times[source] = SourceTime(time if known is None or known.time is None else max(known.time, time), now)
    return times


def times_to_text(times: SourceTimes) -> str:
    """The times as commit metadata keep them."""
    values = {source: [found.time, found.written_at] for source, found in sorted(times.items())}
    return json.dumps(values, separators=(",", ":"))


def largest_times(stats: Iterable[WriteStat], source: str) -> dict[str, int | None]:
    """The largest event time in files of a source; empty if they say none."""
    times = [stat.max_event_time for stat in stats if stat.max_event_time is not None]
    return {source: max(times)} if times else {}


def load_source_times(table: TableState) -> tuple[str | None, dict[str, SourceTime]]:
    """The times of all sources, and the newest write that says one; None and nothing if no write does.

    A commit carries along what it knew when it began, so those before that are not read. Commits of JVM Hudi count
    as writes of the only source. Cost: a read of the newest commit, and of those beside it; where commits do not say
    it, of all on the active timeline.
    """
    times: dict[str, SourceTime] = {}
    newest, known_from = None, None
    for write in sorted(table.timeline.completed_writes, key=position_of, reverse=True):
        if known_from is not None and position_of(write) < known_from:
            break
        metadata = load_commit_metadata(table.storage, write, table.version)
        said = _parsed(metadata.extra.get(WATERMARK_KEY))
        completed_at = parse_instant_time(position_of(write), table_zone(table.config)) or 0
        found = said or _of_files(metadata, completed_at)
        for source, time in found.items():
            times[source] = time if source not in times else _joined(times[source], time)
        if found and newest is None:
            newest = write.requested_time
        if said:
            known_from = write.requested_time if known_from is None else min(known_from, write.requested_time)
    return newest, times


def _of_files(metadata: CommitMetadata, written_at: int) -> dict[str, SourceTime]:
    """What a commit of JVM Hudi says of its files."""
    stats = itertools.chain.from_iterable(metadata.stats_by_partition.values())
    return advanced({}, largest_times(stats, ONLY_SOURCE), written_at)


def _joined(known: SourceTime, other: SourceTime) -> SourceTime:
    times = [found.time for found in (known, other) if found.time is not None]
    return SourceTime(max(times, default=None), max(known.written_at, other.written_at))


def _parsed(text: str | None) -> dict[str, SourceTime]:
    """What a commit says; nothing where it says nothing, or another program wrote something else there."""
    if text is None:
        return {}
    try:
        values = json.loads(text)
        return {
            str(source): SourceTime(None if time is None else int(time), int(at))
            for source, (time, at) in values.items()
        }
    except (ValueError, TypeError, AttributeError):
        return {}
