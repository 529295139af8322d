"""Selects the log blocks that count, by the active timeline and the archive."""

from __future__ import annotations

from dataclasses import replace

from pyhudi.io.log.block_filter import BlockFilter
from pyhudi.table.archive.writes import ArchivedWrites
from pyhudi.table.timeline import Timeline


def block_filter(timeline: Timeline, completed: frozenset[str]) -> BlockFilter:
    """The filter for a timeline: the writes `completed` count, and those that were archived.

    Where the names of logs show their writes, the file-system view has selected the logs already.
    """
    if timeline.version.has_completion_times:
        return BlockFilter()
    return BlockFilter(committed=completed, archived_before=timeline.first_time or "", known=completed)


def with_archive(blocks: BlockFilter, archived: ArchivedWrites) -> BlockFilter:
    """The filter by which blocks from before the active timeline count only if the archive has their writes."""
    if blocks.committed is None:
        return blocks
    committed = blocks.committed.union(archived.completed)
    return replace(blocks, committed=committed, archived_before=archived.known_from or "")
