"""The filter of log blocks: those of completed writes count, at the offsets that these name; how one is excluded."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pyhudi.errors import CorruptDataError, DamagedFileWarning
from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.log.blocks import BlockType, LogBlock, rollback_block
from pyhudi.io.log.scan import scan_blocks
from pyhudi.storage.protocol import FileInfo, Storage

UNKNOWN_TASK: Final = "1-0-1"
"""As in JVM Hudi, the log of a command block has the write token of no task."""


@dataclass(frozen=True, slots=True)
class LogSlice:
    """The logs of one file slice in table version 6, which share a name: those of a file group and a base instant."""

    partition_path: str
    file_id: str
    base_instant: str


class Stretch(NamedTuple):
    """The bytes of a log file that a completed write wrote, from `start` to `end`.

    `instant_time` is empty if it is not known which archived writes wrote them.
    """

    instant_time: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockFilter:
    """Which blocks of a log count, by the instants of their writes.

    `until`: only blocks up to this instant. `committed`: only blocks of these writes and of writes before
    `archived_before`, for tables whose file names do not show the write (version 6); None: of all writes.

    `stretches`: what completed writes wrote into each log, by its path. A block of a write in `known` counts only if
    the metadata of that write name the log. Damage in what was committed is an error, unless the filter `skips_damaged`
    blocks; other damage was left by a dead writer.
    """

    until: str | None = None
    committed: frozenset[str] | None = None
    archived_before: str = ""
    known: frozenset[str] = frozenset()
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
        if instant_time not in self.known or path not in self.stretches:
            return True
        return any(stretch.instant_time == instant_time for stretch in self.stretches[path])

    def check_writer(self, path: str, block: LogBlock) -> None:
        """Raise `CorruptDataError` for a block within committed bytes that has the instant of another write."""
        around = [
            stretch
            for stretch in self.stretches.get(path, ())
            if stretch.start <= block.offset and block.end <= stretch.end
        ]
        named = {stretch.instant_time for stretch in around}
        if named and not self.skips_damaged and named.isdisjoint({"", block.instant_time}):
            raise CorruptDataError(
                "a block of a log names another write than the one that completed it",
                path=path,
                offset=block.offset,
                named=block.instant_time,
                instant=around[0].instant_time,
            )

    def check_damage(self, path: str, block: LogBlock) -> None:
        """Raise `CorruptDataError` for bytes that are not a block where a completed write wrote one."""
        for stretch in self.stretches.get(path, ()):
            if stretch.start >= block.end or block.offset >= stretch.end:
                continue
            if not stretch.instant_time and block.claimed_instant and not self.counts(block.claimed_instant):
                continue  # no write is known to have completed this log, and the block shows that it is another's
            if not self.skips_damaged:
                raise CorruptDataError(
                    "a log file is damaged in bytes that a completed write wrote",
                    path=path,
                    offset=block.offset,
                    instant=stretch.instant_time,
                )
            warnings.warn(
                f"what {stretch.instant_time} wrote to {path} is damaged from offset {block.offset} on and is left out",
                DamagedFileWarning,
                stacklevel=2,
            )


def exclude_blocks(
    storage: Storage, rollback_time: str, instant_time: str, log_slice: LogSlice
) -> tuple[str, int] | None:
    """Make sure that a command block excludes the blocks of a write in a slice. Returns its log and the size in bytes.

    None where no log has such blocks. Can be repeated: one command block behind all of them is enough.
    """
    undo: tuple[str, int] | None = None
    counting = False
    logs = logs_of_slice(storage, log_slice)
    for _, info in logs:
        for block in scan_blocks(storage, info.path):
            if block.kind is BlockType.COMMAND:
                if block.target_instant_time == instant_time:
                    undo, counting = (info.path, info.size), False
            elif block.kind is not BlockType.CORRUPT and block.instant_time == instant_time:
                counting = True
    if counting:
        name = LogFileName(
            log_slice.file_id, log_slice.base_instant, max(name.version for name, _ in logs) + 1, UNKNOWN_TASK
        )
        path = f"{log_slice.partition_path}/{name}" if log_slice.partition_path else str(name)
        data = rollback_block(rollback_time, instant_time)
        storage.put_if_absent(path, data)
        undo = (path, len(data))
    return undo


def logs_of_slice(storage: Storage, log_slice: LogSlice) -> list[tuple[LogFileName, FileInfo]]:
    """The logs of a slice in the order in which readers read their blocks. Cost: one listing."""
    found = [
        (name, info)
        for info in storage.list_folder(log_slice.partition_path).files
        if isinstance(name := parse_data_file(info.name), LogFileName)
        and (name.file_id, name.instant_time, name.is_cdc) == (log_slice.file_id, log_slice.base_instant, False)
    ]
    return sorted(
        found, key=lambda log: (log[0].version, [int(part) for part in (log[0].write_token or "0").split("-")])
    )
