"""Which log blocks count, decided by the active timeline and by the archive."""

from __future__ import annotations

from dataclasses import replace

from pyhudi.io.log.block_filter import BlockFilter
from pyhudi.table.archived_writes import ArchivedWrites
from pyhudi.table.timeline import Timeline


def block_filter(timeline: Timeline, completed: frozenset[str]) -> BlockFilter:
    """The filter for a timeline of which the writes `completed` count, and those that were archived.

    Where the names of log files say which writes made them, the file-system view has chosen already.
    """
    if timeline.version.has_completion_times:
        return BlockFilter()
    return BlockFilter(committed=completed, archived_before=timeline.first_time or "", told=completed)


def with_archive(blocks: BlockFilter, archived: ArchivedWrites) -> BlockFilter:
    """The filter that takes from before the active timeline what the archive knows as completed, and no more."""
    if blocks.committed is None:
        return blocks
    committed = blocks.committed.union(archived.completed)
    return replace(blocks, committed=committed, archived_before=archived.known_from or "")
