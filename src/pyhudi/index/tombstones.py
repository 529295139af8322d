"""Late rows of deleted records: a staged row that no stored one meets is held against the tombstones of its partition.

A row whose ordering value is below that of a delete in a footer (`format/tombstones.py`) is not written, as it would
not have been had the deleted row still been there. Cost: the footer of each base file of the touched partitions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.protocol import Engine, TaskContext
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.format.tombstones import TOMBSTONES_KEY, decode_tombstones
from pyhudi.index.lookup import TASKS_PER_CORE, Lookup, Tagged, spread
from pyhudi.index.tagging import KeyIndex, StagedKeys, TagTask, keys_with_slices
from pyhudi.io.base_file import read_footer
from pyhudi.merge.pairs import flattened, incoming_wins
from pyhudi.merge.versions import ordering_columns
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage, StorageSpec
from pyhudi.table.file_slice import FileSlice
from pyhudi.tasks.exchange import ExchangeWriter, Segment, open_exchange, read_segment
from pyhudi.tasks.stage import ROW, StagedSplit
from pyhudi.tasks.tagged_rows import BARRED, FILE, TAGS_SCHEMA

_Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SettleTask:
    """Which of a split's rows are late for good: `late` without those that have a tag of a stored row in `tags`."""

    storage: StorageSpec
    folder: str
    split: StagedSplit
    late: tuple[int, ...]
    tags: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Settled:
    """The tags of rows that are not to be written, and how many of each partition path there are."""

    segment: Segment
    rows: tuple[tuple[str, int], ...]


def bar_late_rows(engine: Engine, lookup: Lookup, slices: Sequence[FileSlice], tagged: Tagged) -> Tagged:
    """The tags, with those of rows that deletes of the past keep out."""
    searched = [lookup.to_search(number, one) for number, one in enumerate(slices) if one.base is not None]
    shares = spread(dict.fromkeys(range(len(searched)), 1), engine.parallelism * TASKS_PER_CORE)
    found: dict[int, set[int]] = defaultdict(set)
    for result in engine.map(
        find_late_rows,
        [lookup.task([searched[number] for number in share]) for share in shares],
        size_bytes=len(searched) * 500_000,
        description="look for deletes",
    ):
        for split, rows in result:
            found[split].update(rows.tolist())
    if not found:
        return tagged
    tasks = [
        SettleTask(lookup.storage, lookup.folder, lookup.splits[n], tuple(sorted(rows)), tagged.segments.get(n, ()))
        for n, rows in sorted(found.items())
    ]
    settled = engine.map(settle_late_rows, tasks, size_bytes=0, description="keep late rows out")
    segments, known = dict(tagged.segments), Counter(tagged.known_rows)
    for number, one in zip(sorted(found), settled, strict=True):
        segments[number] = (*segments.get(number, ()), one.segment)
        known.update({(number, path): rows for path, rows in one.rows})
    return replace(tagged, segments=segments, known_rows=known)


def find_late_rows(_: TaskContext, task: TagTask) -> list[tuple[int, _Rows]]:
    """The staged rows, by split, that are below a delete in the footers of the task's slices."""
    storage = open_spec(task.storage)
    late: dict[int, list[_Rows]] = defaultdict(list)
    for keys, slices in keys_with_slices(storage, task):
        index = KeyIndex.of(keys.keys, keys_repeat=task.keys_repeat)
        for one in slices:
            if one.files.base is not None:
                below = _below_deletes(storage, task, one.files.base, keys, index)
                for split in np.unique(keys.split[below]).tolist():
                    rows = keys.rows.column(ROW).take(pa.array(below[keys.split[below] == split]))
                    late[split].append(np.asarray(rows))
    return [(split, np.unique(np.concatenate(rows))) for split, rows in sorted(late.items())]


def _below_deletes(storage: Storage, task: TagTask, path: str, keys: StagedKeys, index: KeyIndex) -> _Rows:
    """The places of staged rows that are below a delete in a file's footer."""
    text = read_footer(storage, path).values.get(TOMBSTONES_KEY)
    rules = replace(task.merging.rules.with_base, ordering_fields=task.ordering_fields)
    types = [keys.rows.schema.field(name).type for name in task.ordering_fields]
    below = [np.zeros(0, dtype=np.int64)]
    for deleted in decode_tombstones(text, types, path=path):
        assert deleted.ordering is not None
        stones = pa.table([deleted.record_keys, *deleted.ordering], names=[RECORD_KEY, *task.ordering_fields])
        stones = stones.filter(pc.invert(deleted.by_commit_time)).combine_chunks()
        places, incoming = index.find(flattened(stones.column(RECORD_KEY)))
        met, rows = stones.take(pa.array(places)), keys.rows.take(pa.array(incoming))
        wins = incoming_wins(ordering_columns(rules, rows), ordering_columns(rules, met), len(incoming))
        below.append(incoming[~wins])
    return np.unique(np.concatenate(below))


def settle_late_rows(context: TaskContext, task: SettleTask) -> Settled:
    """Tag the late rows that meet no stored one: what meets one is merged with it, and so comes to nothing."""
    storage = open_spec(task.storage)
    met = [np.asarray(batch.column(ROW)) for segment in task.tags for batch in read_segment(storage, segment)]
    late = np.setdiff1d(np.array(task.late, dtype=np.int64), np.concatenate([np.zeros(0, np.int64), *met]))
    counts = []
    with open_exchange(storage, task.split.keys_path) as reader:
        for partition in task.split.partitions:
            rows = np.asarray(reader.get_batch(partition.batch).column(ROW))
            if among := int(np.isin(rows, late).sum()):
                counts.append((partition.partition_path, among))
    path = f"{task.folder}/late-{context.write_token}.arrow"
    count = len(late)
    tags = {
        ROW: pa.array(late),
        FILE: pa.array(np.full(count, BARRED, dtype=np.int32)),
    }
    others = [pa.array(np.full(count, -1, dtype=np.int64)), pa.array(np.zeros(count, dtype=bool))]
    with ExchangeWriter(storage, path, TAGS_SCHEMA) as writer:
        batch = pa.RecordBatch.from_arrays([*tags.values(), *others], schema=TAGS_SCHEMA)
        segment = Segment(path, (writer.write(batch),), count)
    return Settled(segment, tuple(counts))
