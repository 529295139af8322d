"""Entries of an index over record keys on their way into the metadata table, from tasks to tasks.

Tasks read the changed rows of file groups, and send their entries to tasks for the file groups of the index, which
write one file each. So no entry passes the driver.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.protocol import TASKS_PER_CORE, AddressedRows, Exchange, TaskContext, spread
from pyhudi.engine.sorted_runs import in_order, sorted_batch
from pyhudi.engine.spilled_rows import SpillSettings
from pyhudi.errors import InvalidRequestError
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.format.metadata_table.schema import KEY, PAYLOAD_COLUMNS, TYPE, RecordType
from pyhudi.metadata_table.file_group import GroupTarget, write_base_of_pieces, write_log_of_pieces
from pyhudi.metadata_table.partitions.protocol import Source
from pyhudi.metadata_table.record_changes import RowSettings, changed_rows
from pyhudi.metadata_table.slice_changes import SliceChange
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage, StorageSpec

REMOVED: Final = -1
"""Instead of the number of a value: the entry is removed."""
ENTRIES: Final = pa.schema([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.int32())])
"""An entry: its key, and the number of its value among those of the change."""
ENTRIES_AT_ONCE: Final = 1_000_000
RUN_BYTES: Final = 64 << 20
"""Entries that are sorted in memory at once, if the options allow so much."""
PIECE_BYTES: Final = 2 << 20
"""Entries that are written at once. A record in an HFile takes some ten times the bytes of its entry."""
_ROW_TO_ENTRY: Final = 8
"""How many times the bytes of an entry a row is estimated to take."""


@dataclass(frozen=True, slots=True)
class Payloads:
    """The distinct payloads of the entries of a change: there are far fewer than entries."""

    type: RecordType
    values: pa.StructArray

    @property
    def column(self) -> str:
        """The name of their column."""
        return PAYLOAD_COLUMNS[self.type]


class EntryMaker(Protocol):
    """What an index keeps of rows. Frozen and picklable."""

    def entries(
        self, change: SliceChange, rows: pa.RecordBatch, *, is_added: bool
    ) -> tuple[pa.RecordBatch, npt.NDArray[np.int32]]:
        """The `ENTRIES` of some rows of a file group, and the file groups of the index that they belong to."""
        ...


@dataclass(frozen=True, slots=True)
class SendEntriesTask:
    """Send the entries of the changed rows of some file groups of the table."""

    storage: StorageSpec
    changes: tuple[SliceChange, ...]


def write_changes(
    source: Source,
    target: GroupTarget,
    changes: Sequence[SliceChange],
    settings: RowSettings,
    maker: EntryMaker,
    payloads: Payloads,
    *,
    is_base: bool,
) -> tuple[WriteStat, ...]:
    """Write the entries of changes into the file groups of an index, by tasks: base files, or logs of a commit.

    A group without entries gets no file. `source` has an engine. Cost: one exchange; nothing without changes.
    """
    if not changes:
        return ()
    engine = source.engine
    assert engine is not None
    by_number = {change.number: change for change in changes}
    shares = spread({change.number: change.size for change in changes}, engine.parallelism * TASKS_PER_CORE)
    size, groups = sum(change.size for change in changes), len(target.file_ids)
    written = engine.exchange(
        Exchange(
            send=functools.partial(send_entries, settings, maker),
            senders=[
                SendEntriesTask(source.storage.spec, tuple(by_number[number] for number in share)) for share in shares
            ],
            receive=functools.partial(write_entries, target, payloads, is_base, settings.merging.spill),
            receivers=range(groups),
            sizes=[size // (_ROW_TO_ENTRY * groups)] * groups,
            sent_bytes=size,
            spill=settings.merging.spill,
            description="write an index",
        )
    )
    return tuple(written)


def send_entries(
    settings: RowSettings, maker: EntryMaker, _: TaskContext, task: SendEntriesTask
) -> Iterator[AddressedRows]:
    """The entries of the task's changes, to their file groups. Memory: `ENTRIES_AT_ONCE` of them."""
    for entries, groups in _gathered(_entries_of(open_spec(task.storage), task, settings, maker)):
        yield AddressedRows(entries, groups.astype(np.int64))


def write_entries(
    target: GroupTarget,
    payloads: Payloads,
    is_base: bool,
    spill: SpillSettings,
    context: TaskContext,
    group: int,
    incoming: Iterator[pa.RecordBatch],
) -> WriteStat:
    """Write the file of one file group: its base file, or a log.

    Raises `InvalidRequestError` for a base file with a key of several file groups of the table. Memory: `RUN_BYTES`
    twice, some dozens of `PIECE_BYTES`, and three times the file, which is compressed except for what it removes.
    """
    pieces = in_order(
        incoming,
        _by_key_and_value,
        run_bytes=min(RUN_BYTES, spill.memory_bytes),
        head_bytes=PIECE_BYTES,
        spill_folder=spill.folder,
    )
    records = _records(pieces, payloads, refuses_several=is_base)
    write = write_base_of_pieces if is_base else write_log_of_pieces
    return write(open_spec(target.storage), target, group, records, context.write_token)


def records_on_driver(
    storage: Storage, changes: Iterable[SliceChange], settings: RowSettings, maker: EntryMaker, payloads: Payloads
) -> Iterator[pa.RecordBatch]:
    """The records of all changes, without tasks. Memory: all of them."""
    batches = [
        maker.entries(change, rows, is_added=is_added)[0]
        for change in changes
        for is_added, rows in changed_rows(storage, change, settings)
        if rows.num_rows
    ]
    if batches:
        yield records_of_entries(batches, payloads)


def records_of_entries(batches: Iterable[pa.RecordBatch], payloads: Payloads) -> pa.RecordBatch:
    """Records of entries of one file group of the index, or of all where the key alone says in which one it is.

    They ascend by the bytes of their keys, each of which is there once.
    """
    (records,) = _records([sorted_batch([*batches], _by_key_and_value)], payloads)
    return records


def _by_key_and_value(entries: pa.RecordBatch) -> list[pa.Array]:
    return list(entries.columns)


def _records(
    pieces: Iterable[pa.RecordBatch], payloads: Payloads, *, refuses_several: bool = False
) -> Iterator[pa.RecordBatch]:
    """Records of entries that are sorted by key and value, each key once: its last entry, maybe in a later piece.

    So what one file group of the table lost and another has now is there, as removals have the lowest number.
    `refuses_several`: see `_check_one_value_each`.
    """
    for piece, following in itertools.pairwise(itertools.chain(pieces, [None])):
        assert piece is not None
        entries = piece if following is None else pa.concat_batches([piece, following.slice(0, 1)])
        keys, numbers = entries.columns
        is_last = np.append(np.asarray(pc.not_equal(keys[:-1], keys[1:])), True)
        if refuses_several:
            _check_one_value_each(keys, numbers, is_last)
        yield _as_records(piece.filter(pa.array(is_last[: piece.num_rows])), payloads)


def _check_one_value_each(keys: pa.Array, numbers: pa.Array, is_last: npt.NDArray[np.bool_]) -> None:
    """Refuse an index over keys that are in two file groups each: writes would find only one of the records.

    Raises `InvalidRequestError` naming such a key.
    """
    several = np.flatnonzero(~is_last[:-1] & np.asarray(pc.not_equal(numbers[:-1], numbers[1:])))
    if len(several):
        raise InvalidRequestError(
            "several file groups have a record with the same key, as inserts or one key in several partitions leave "
            "them, so the table can have no index by its record keys: remove such records first",
            record_key=keys[several[0]].as_py(),
        )


def _as_records(entries: pa.RecordBatch, payloads: Payloads) -> pa.RecordBatch:
    keys, numbers = entries.columns
    places = pc.if_else(pc.equal(numbers, REMOVED), pa.scalar(None, pa.int32()), numbers)
    types = pa.repeat(pa.scalar(int(payloads.type), pa.int32()), len(keys))
    values = pa.DictionaryArray.from_arrays(places, payloads.values)
    return pa.RecordBatch.from_arrays([keys, types, values], names=[KEY, TYPE, payloads.column])


def _entries_of(
    storage: Storage, task: SendEntriesTask, settings: RowSettings, maker: EntryMaker
) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int32]]]:
    for change in task.changes:
        for is_added, rows in changed_rows(storage, change, settings):
            entries, groups = maker.entries(change, rows, is_added=is_added)
            if len(groups):  # rows without a value have none in the first version of a secondary index
                yield entries, groups


def _gathered(
    parts: Iterable[tuple[pa.RecordBatch, npt.NDArray[np.int32]]],
) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int32]]]:
    """The same entries in larger batches, so that each file group gets few of them."""
    waiting: list[tuple[pa.RecordBatch, npt.NDArray[np.int32]]] = []
    rows = 0
    for part in parts:
        waiting.append(part)
        rows += part[0].num_rows
        if rows >= ENTRIES_AT_ONCE:
            yield _joined(waiting)
            waiting, rows = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(
    parts: Sequence[tuple[pa.RecordBatch, npt.NDArray[np.int32]]],
) -> tuple[pa.RecordBatch, npt.NDArray[np.int32]]:
    return pa.concat_batches([entries for entries, _ in parts]), np.concatenate([groups for _, groups in parts])


def key_entries(keys: pa.Array, value: int) -> pa.RecordBatch:
    """Entries of these keys, all with one value."""
    return pa.RecordBatch.from_arrays(
        [keys.cast(pa.string()), pa.array(np.full(len(keys), value, dtype=np.int32))], schema=ENTRIES
    )
