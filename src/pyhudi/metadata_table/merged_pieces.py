"""Merging a file group of the metadata table in the order of its keys, some records at a time.

Base file and logs are HFiles, whose keys ascend. So each is read some blocks at a time, and all that lies up to a key
that each has been read to can be merged.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from pyhudi.format.hfile.blocks import KeysAndValues
from pyhudi.format.hfile.indexed import IndexedHFile
from pyhudi.format.log.blocks import BlockType, LogBlock
from pyhudi.format.metadata_table.records import sorted_by_key
from pyhudi.format.metadata_table.schema import KEY
from pyhudi.io.hfile import open_hfile_of
from pyhudi.io.log.scan import LogReader, open_log
from pyhudi.metadata_table.file_group import GroupSlice
from pyhudi.metadata_table.lookup import counting_blocks, decoded, no_records, not_removed, removed_by
from pyhudi.metadata_table.merging import REMOVED, merged_records
from pyhudi.metadata_table.state import MetadataState

PIECE_ENTRIES: Final = 65_536
"""So many entries of all files together are merged at a time, and at least a block of each."""


def merged_in_pieces(state: MetadataState, group: GroupSlice, payload: str) -> Iterator[pa.Table]:
    """All records of one file group after all of its versions, ascending by the bytes of their keys, in pieces.

    Cost: its files. Memory: a piece, what its delete blocks say, and of each HFile the index and up to three reads of
    `READ_AHEAD_BYTES`. Raises as `pyhudi.metadata_table.lookup.all_records`.
    """
    with ExitStack() as files:

        def opened(path: str) -> AbstractContextManager[LogReader]:
            return nullcontext(files.enter_context(open_log(state.storage, path)))

        def read(reader: LogReader, block: LogBlock, path: str) -> Callable[[int], Iterator[pa.Table]]:
            if block.kind is BlockType.HFILE_DATA:
                hfile = reader.hfile(block).file
                return lambda entries: map(
                    not_removed, _pieces_of(hfile, payload, block.schema or hfile.schema, path, block.offset, entries)
                )
            deletes = removed_by(reader, block, payload, path)
            return lambda _: iter([sorted_by_key(deletes)])

        logs = [begin for _, begin in counting_blocks(state.storage, group, state.is_named, read, opened)]
        entries = max(1, PIECE_ENTRIES // (1 + len(logs)))
        base = _Source(iter(()), no_records(payload))
        if group.base is not None:
            hfile = files.enter_context(open_hfile_of(state.storage, group.base)).file
            pieces = _pieces_of(hfile, payload, hfile.schema, group.base, 0, entries)
            base = _Source((pa.Table.from_batches([piece]) for piece in pieces), no_records(payload))
        nothing = no_records(payload).append_column(REMOVED, pa.array([], pa.bool_()))
        sources = [base, *(_Source(begin(entries), nothing) for begin in logs)]
        while (last := _read_to(sources)) is not None:
            first, *later = [source.take_to(last) for source in sources]
            merged = merged_records(first, pa.concat_tables([nothing, *later]).combine_chunks(), payload)
            yield sorted_by_key(merged)


@dataclass(slots=True)
class _Source:
    """Records of one HFile or delete block, in the order of their keys: those that wait, and those to come."""

    coming: Iterator[pa.Table]
    waiting: pa.Table
    has_ended: bool = False

    def fill(self) -> None:
        """Let some wait, if there are more."""
        while not self.waiting.num_rows and not self.has_ended:
            piece = next(self.coming, None)
            if piece is None:
                self.has_ended = True
            else:
                self.waiting = piece

    @property
    def last(self) -> bytes:
        """The key up to which it has been read."""
        return _key(self.waiting, -1)

    def take_to(self, last: bytes) -> pa.Table:
        """Those that wait up to a key."""
        count = bisect_right(range(self.waiting.num_rows), last, key=lambda place: _key(self.waiting, place))
        taken, self.waiting = self.waiting.slice(0, count), self.waiting.slice(count)
        return taken


def _read_to(sources: list[_Source]) -> bytes | None:
    """The key up to which all sources have been read; None if nothing is left."""
    for source in sources:
        source.fill()
    return min((source.last for source in sources if source.waiting.num_rows), default=None)


def _key(records: pa.Table, place: int) -> bytes:
    return str(records.column(KEY)[place].as_py()).encode()


def _pieces_of(
    hfile: IndexedHFile, payload: str, schema: str | None, path: str, offset: int, entries_max: int
) -> Iterator[pa.RecordBatch]:
    """The records of an HFile, some blocks at a time."""
    waiting: list[KeysAndValues] = []
    entries = 0
    for block in itertools.chain(hfile.blocks(), [None]):
        if waiting and (block is None or entries + len(block[0]) > entries_max):
            keys, values = (pa.concat_arrays(arrays) for arrays in zip(*waiting, strict=True))
            yield decoded((keys, values), payload, schema, path, offset)
            waiting, entries = [], 0
        if block is not None and len(block[0]):
            waiting.append(block)
            entries += len(block[0])
