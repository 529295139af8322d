"""Looking up many keys: stored and staged keys with the same hash are sent to one task.

Each key column and each staged key is read once, whatever the number of tasks. The keys of a partition go to as many
tasks as its size asks for, so that neither a large partition nor a large file is the work of one task.

Memory of a task: the stored keys of about `STORED_BYTES_PER_TASK` of base files, as many staged keys, and
`TAGS_AT_ONCE` tags. The versions of a key that is staged many times pass through.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.engine.exchange_files import FilePart, TaskFiles
from pyhudi.engine.protocol import TASKS_PER_CORE, AddressedRows, Engine, Exchange, TaskContext, spread
from pyhudi.format.hashes import java_hash
from pyhudi.format.pieces import one_batch
from pyhudi.format.schema.meta_columns import PARTITION_PATH, RECORD_KEY
from pyhudi.index.delivery import KEY_BYTES, SendKeysTask, gathered, staged_rows, tag_task
from pyhudi.index.protocol import Lookup, SliceToSearch
from pyhudi.index.tagging import KeyIndex, TagResult, TagSink, TagTask, stored_keys_of, tags_of
from pyhudi.merge.pairs import as_mask
from pyhudi.tasks.stage import ROW

STORED_BYTES_PER_TASK: Final = 64 << 20
"""Of base files. Their keys take at most about as much in memory."""
STORED_BYTES_PER_SENDER: Final = 1 << 30
STAGED_KEYS_AT_ONCE: Final = 100_000

_OF, _IS_STORED = "#of", "#stored"
"""The number of the split or of the slice that a key is of, and whether it is that of a slice."""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Receivers:
    """The tasks that keys go to: for each partition path the number of the first, and how many there are.

    `None` in place of a path: keys of all partitions meet.
    """

    of: Mapping[str | None, tuple[int, int]]

    def __len__(self) -> int:
        return sum(count for _, count in self.of.values())

    def numbers(self, path: str, keys: pa.Array) -> Numbers | None:
        """The task of each key of a partition path; None: no slice may have the keys."""
        first, count = self.of.get(None, self.of.get(path, (0, 0)))
        if not count:
            return None
        # Neighbours of a text have neighbouring hashes, so they are mixed.
        mixed = java_hash(keys).view(np.uint32).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        numbers: Numbers = first + ((mixed >> np.uint64(32)) % np.uint64(count)).astype(np.int64)
        return numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class HowToJoin:
    """How keys meet. `tagging` has no slices."""

    tagging: TagTask
    receivers: Receivers

    @property
    def schema(self) -> pa.Schema:
        """The columns of sent keys: `ROW` is the row in the split, or in the slice."""
        fields = [
            pa.field(RECORD_KEY, pa.string()),
            pa.field(ROW, pa.int64()),
            pa.field(_OF, pa.int32()),
            pa.field(_IS_STORED, pa.bool_()),
            pa.field(PARTITION_PATH, pa.string()),
        ]
        if self.tagging.scope.is_table_wide:
            fields += [self.tagging.merging.schema.field(name) for name in self.tagging.ordering_fields]
        return pa.schema(fields)

    def sent(
        self, path: str, keys: pa.RecordBatch, rows: pa.Array, of: int, *, is_stored: bool
    ) -> Iterator[AddressedRows]:
        """Keys of a slice or of a split, with the tasks that they go to."""
        numbers = self.receivers.numbers(path, keys.column(RECORD_KEY))
        if numbers is None:
            return
        count = keys.num_rows
        added = {
            ROW: rows,
            _OF: pa.array(np.full(count, of, dtype=np.int32)),
            _IS_STORED: pa.repeat(is_stored, count),
            PARTITION_PATH: pa.repeat(path, count),
        }
        columns = [
            added[field.name] if field.name in added else keys.column(field.name).cast(field.type)
            for field in self.schema
        ]
        yield AddressedRows(pa.RecordBatch.from_arrays(columns, schema=self.schema), numbers)


@dataclass(frozen=True, slots=True)
class SendStoredTask:
    """Send the stored keys of some slices."""

    slices: tuple[SliceToSearch, ...]


def join_by_hash(
    engine: Engine, lookup: Lookup, searched: Sequence[SliceToSearch], sizes: Mapping[int, int]
) -> list[TagResult]:
    """Tag the staged keys that these slices hold; `sizes`: the bytes of each slice by its number.

    Cost: the key column of each slice, and one exchange of these keys and of the staged ones.
    """
    receivers, receiver_sizes = _receivers(lookup, searched, sizes)
    by_number = {file_slice.number: file_slice for file_slice in searched}
    parts = max(engine.parallelism * TASKS_PER_CORE, sum(sizes.values()) // STORED_BYTES_PER_SENDER)
    shares = [tuple(by_number[number] for number in share) for share in spread(sizes, parts)]
    how = HowToJoin(tagging=tag_task(lookup, ()), receivers=receivers)
    return engine.exchange(
        Exchange(
            send=functools.partial(send_keys, how),
            # Those of slices first: a task has all stored keys when the first staged ones reach it.
            senders=[
                *(SendStoredTask(share) for share in shares),
                *(SendKeysTask(lookup.folder, number, split) for number, split in enumerate(lookup.splits)),
            ],
            receive=functools.partial(join_keys, how),
            receivers=range(len(receivers)),
            sizes=receiver_sizes,
            sent_bytes=sum(sizes.values()) + KEY_BYTES * sum(split.rows for split in lookup.splits),
            spill=lookup.merging.spill,
            description="look record keys up by their hashes",
            files=TaskFiles(lookup.folder, _read_by),
        )
    )


def _read_by(task: SendStoredTask | SendKeysTask) -> Iterator[FilePart]:
    return task.reads() if isinstance(task, SendKeysTask) else iter(())


def _receivers(
    lookup: Lookup, searched: Sequence[SliceToSearch], sizes: Mapping[int, int]
) -> tuple[Receivers, list[int]]:
    """The tasks that keys go to, and about what each of them reads."""
    table_wide = lookup.scope.is_table_wide
    stored: Counter[str | None] = Counter()
    for file_slice in searched:
        stored[None if table_wide else file_slice.partition_path] += sizes[file_slice.number]
    by_path = staged_rows(lookup)
    of: dict[str | None, tuple[int, int]] = {}
    receiver_sizes: list[int] = []
    for path, size in stored.items():
        staged = KEY_BYTES * (sum(by_path.values()) if path is None else by_path.get(path, 0))
        if staged:
            count = 1 + (size + staged) // STORED_BYTES_PER_TASK
            of[path] = (len(receiver_sizes), count)
            receiver_sizes += [(size + staged) // count] * count
    return Receivers(of), receiver_sizes


def send_keys(how: HowToJoin, _: TaskContext, task: SendStoredTask | SendKeysTask) -> Iterator[AddressedRows]:
    """The keys of some slices, or of a split. Memory: a batch of stored keys, or the staged ones of a partition."""
    if isinstance(task, SendKeysTask):
        for path, keys in task.partitions():
            yield from how.sent(path, keys, keys.column(ROW), task.number, is_stored=False)
        return
    for stored in stored_keys_of(how.tagging, task.slices):
        rows = pa.array(np.arange(stored.start, stored.start + stored.batch.num_rows))
        searched = stored.searched
        yield from how.sent(searched.partition_path, stored.batch, rows, searched.number, is_stored=True)


def join_keys(how: HowToJoin, context: TaskContext, _: int, incoming: Iterator[pa.RecordBatch]) -> TagResult:
    """Tag the staged keys that are stored. See the module for the memory."""
    stored, staged = _apart(incoming)
    with TagSink(how.tagging.folder, f"tags-{context.write_token}") as sink:
        if stored.num_rows:
            index = KeyIndex.of(stored.column(RECORD_KEY), may_repeat=True)
            # Each search hashes all stored keys, so as many staged ones are gathered for it.
            for keys in gathered(staged, max(STAGED_KEYS_AT_ONCE, stored.num_rows)):
                found, met = index.find(keys.column(RECORD_KEY))
                rows, stored_rows = keys.take(pa.array(found)), stored.take(pa.array(met))
                of, positions = (np.asarray(stored_rows.column(name)) for name in (_OF, ROW))
                paths = stored_rows.column(PARTITION_PATH)
                tags = tags_of(how.tagging, pa.Table.from_batches([rows]), stored_rows, of, positions, paths)
                sink.add(tags, np.asarray(rows.column(_OF)), rows.column(PARTITION_PATH))
    return sink.result()


def _apart(incoming: Iterator[pa.RecordBatch]) -> tuple[pa.RecordBatch, Iterator[pa.RecordBatch]]:
    """The stored keys, which come first, and the staged ones."""
    stored: list[pa.RecordBatch] = []
    for batch in incoming:
        is_stored = as_mask(batch.column(_IS_STORED))
        stored.append(batch.filter(pa.array(is_stored)))
        if not is_stored.all():
            return one_batch(pa.Table.from_batches(stored)), chain([batch.filter(pa.array(~is_stored))], incoming)
    return one_batch(pa.Table.from_batches(stored)), iter(())
