"""Which blocks of a log count: those of completed writes, where a completed write says that it wrote them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pyhudi.errors import CorruptDataError, DamagedFileWarning
from pyhudi.format.log.blocks import LogBlock


class Stretch(NamedTuple):
    """The bytes of a log file that a completed write put there, from `start` to `end`.

    `instant_time` is empty where nothing says which writes of the archive they were.
    """

    instant_time: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockFilter:
    """Which blocks of a log count, by the instants of their writes.

    `until`: none later than this. `committed`: only of these writes and of those before `archived_before`, for tables
    whose file names do not tell (version 6); None: of all.

    `stretches`: what completed writes put into each log, by its path. A block of a write in `told` counts where that
    write says that it wrote to the log. Damage in what was committed is an error, but where the filter `skips_damaged`
    blocks; other damage is what a dead writer left.
    """

    until: str | None = None
    committed: frozenset[str] | None = None
    archived_before: str = ""
    told: frozenset[str] = frozenset()
    stretches: Mapping[str, tuple[Stretch, ...]] = field(default_factory=dict)
    skips_damaged: bool = False

    def counts(self, instant_time: str, path: str = "") -> bool:
        """Whether the blocks of this write count, in this log."""
        if self.until is not None and instant_time > self.until:
            return False
        if self.committed is None or instant_time < self.archived_before:
            return True
        if instant_time not in self.committed:
            return False
        if instant_time not in self.told or path not in self.stretches:
            return True
        return any(one.instant_time == instant_time for one in self.stretches[path])

    def check_writer(self, path: str, block: LogBlock) -> None:
        """Raise `CorruptDataError` for a block in what completed writes put into a log that names none of them."""
        around = [one for one in self.stretches.get(path, ()) if one.start <= block.offset and block.end <= one.end]
        named = {one.instant_time for one in around}
        if named and not self.skips_damaged and named.isdisjoint({"", block.instant_time}):
            raise CorruptDataError(
                "a block of a log names another write than the one that completed it",
                path=path,
                offset=block.offset,
                named=block.instant_time,
                instant=around[0].instant_time,
            )

    def check_damage(self, path: str, block: LogBlock) -> None:
        """Raise `CorruptDataError` for a stretch that is no block, and that a completed write wrote to."""
        for one in self.stretches.get(path, ()):
            if one.start >= block.end or block.offset >= one.end:
                continue
            if not self.skips_damaged:
                raise CorruptDataError(
                    "a log file is damaged in what a completed write put there",
                    path=path,
                    offset=block.offset,
                    instant=one.instant_time,
                )
            warnings.warn(
                f"what {one.instant_time} wrote to {path} is damaged from offset {block.offset} on and is left out",
                DamagedFileWarning,
                stacklevel=2,
            )
