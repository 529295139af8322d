"""The part of invariant K14 of `docs/reliability.md` that is about log blocks of table version 6."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.log.blocks import BlockType
from pyhudi.io.log.scan import scan_blocks
from pyhudi.storage.protocol import Storage
from pyhudi.table.lister import list_data_files


def check_blocks(storage: Storage, committed: Collection[str], excused: Collection[str]) -> Iterator[str]:
    """K14 in version 6: behind the blocks of a dead write stands a block that takes them back.

    The write of a block is dead unless the timeline or the archive has it as completed.
    """
    slices: dict[tuple[str, str, str], list[tuple[int, str]]] = {}
    for info in list_data_files(storage):
        name = parse_data_file(info.name)
        if isinstance(name, LogFileName):
            key = (info.path.rpartition("/")[0], name.file_id, name.instant_time)
            slices.setdefault(key, []).append((name.version, info.path))
    for logs in slices.values():
        dead: set[str] = set()
        for _, path in sorted(logs):
            for block in scan_blocks(storage, path):
                if block.kind is BlockType.COMMAND:
                    dead.discard(block.target_instant_time or "")
                elif block.kind is not BlockType.CORRUPT and block.instant_time not in committed:
                    dead.add(block.instant_time)
        for instant in dead - {*excused}:
            yield f"K14: blocks of {instant} count again as soon as its instant time is archived"
