"""Excluding the blocks of one write from the logs of table version 6, where logs of several writes are one slice.

The blocks stay, and a command block behind them takes them back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.log.blocks import BlockType, rollback_block
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
