"""`GroupSlice`: the newest file slice of a file group of the metadata table."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyhudi.io.log.block_filter import BlockFilter


@dataclass(frozen=True, slots=True)
class GroupSlice:
    """The newest slice of a file group: a base file, or None, and the logs after it in the order of their writes.

    Paths are relative to the data table. `blocks`: which blocks of the logs count. `log_compactions`: instants whose
    logs stand for others; empty in version 6, where the names of logs do not show their write.
    """

    file_id: str
    base: str | None
    base_instant: str
    logs: tuple[str, ...]
    blocks: BlockFilter = field(repr=False)
    log_sizes: tuple[int, ...] = ()
    base_size: int = 0
    log_compactions: frozenset[str] = frozenset()
