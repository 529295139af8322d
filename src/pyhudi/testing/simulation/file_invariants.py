"""Invariants of files in `docs/reliability.md`: K18, the files that the metadata table knows, and log blocks in K14."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from pyhudi.format.file_names import BaseFileName, LogFileName, parse_data_file
from pyhudi.format.log.blocks import BlockType
from pyhudi.format.metadata.commit import CommitMetadata
from pyhudi.io.log.scan import scan_blocks
from pyhudi.metadata_table.lister import MetadataLister
from pyhudi.metadata_table.state import load_metadata_state
from pyhudi.metadata_table.write_checks import problem_for_writes
from pyhudi.storage.protocol import Storage
from pyhudi.table.lister import list_data_files
from pyhudi.table.metadata_partitions import FILES
from pyhudi.table.state import TableState


def check_metadata_table(table: TableState, metadata: Mapping[str, CommitMetadata]) -> Iterator[str]:
    """K18, where the table has a metadata table. `metadata`: of its completed writes, by instant time."""
    if FILES not in table.config.metadata_partitions:
        return
    reason = problem_for_writes(table)
    if reason is not None:
        yield f"K18: the metadata table cannot be trusted: {reason}"
        return
    known = {info.path: info.size for info in MetadataLister(load_metadata_state(table)).table()}
    for time, written in metadata.items():
        for path in sorted(written.paths()):
            info = table.storage.info(path)
            if info is not None and known.get(path) != info.size:
                yield f"K18: the metadata table does not know {path} of {time} as it is"
    for path in sorted(known):
        if not _may_be_known(table, path):
            yield f"K18: the metadata table knows {path}, which is of no completed write"


def _may_be_known(table: TableState, path: str) -> bool:
    """Whether a file is of a completed write, as far as its name shows its write."""
    name, timeline = parse_data_file(path.rpartition("/")[2]), table.timeline
    if name is None or not (isinstance(name, BaseFileName) or table.version.has_completion_times):
        return True
    return timeline.is_committed(name.instant_time) or timeline.starts_after(name.instant_time)


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
