"""The files of one file slice, in the form that tasks get."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyhudi.io.log.block_filter import BlockFilter, Stretch


@dataclass(frozen=True, slots=True)
class SliceFiles:
    """The files of one slice by their paths in the table: a base file if there is one, logs in merge order.

    `committed`: for each log, what completed writes wrote; empty if that was not loaded.
    """

    base: str | None
    logs: tuple[str, ...]
    committed: tuple[tuple[Stretch, ...], ...] = ()

    def judged_by(self, blocks: BlockFilter) -> BlockFilter:
        """The filter of a table's blocks, for this slice."""
        if not self.committed:
            return blocks
        return replace(blocks, stretches=dict(zip(self.logs, self.committed, strict=True)))
