"""Rows of records that are in a base file still, and that logs over it have deleted.

Such a record comes back where it was, in a log of the same file group, so that its key stays in one group: an index
that looks at base files alone, as JVM Hudi's do, finds it there. Its row is tagged as a new record of that group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pyhudi.engine.protocol import Engine, TaskContext
from pyhudi.index.protocol import Lookup, SliceToSearch, Tagged
from pyhudi.index.search import search
from pyhudi.io.exchange import ExchangeWriter, Segment, open_exchange, read_segment
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import StorageSpec
from pyhudi.table.file_slice import FileSlice, slice_files
from pyhudi.tasks.stage import ROW, StagedSplit
from pyhudi.tasks.tagged_rows import FILE, NEW_RECORD, TAGS_SCHEMA


@dataclass(frozen=True, slots=True)
class ReturningTask:
    """Tag the rows of a split that have tags of base files in `of_bases`, and none of a stored record in `stored`."""

    storage: StorageSpec
    folder: str
    split: StagedSplit
    of_bases: tuple[Segment, ...]
    stored: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Returning:
    """The tags of the rows, and how many there are by the number of the slice, and by partition path."""

    segment: Segment
    by_slice: tuple[tuple[int, int], ...]
    by_partition: tuple[tuple[str, int], ...]


def tag_returning_rows(engine: Engine, lookup: Lookup, slices: Sequence[FileSlice], tagged: Tagged) -> Tagged:
    """The tags, and in addition those of rows whose records logs have deleted from the base file that has them.

    Cost: the key columns of the base files of `lookup.decided_by_logs`; two rounds of tasks. Nothing without any.
    """
    searched = [
        SliceToSearch(number, slice_files(file_slice.base, ()), file_slice.partition_path)
        for number, file_slice in enumerate(slices)
    ]
    weights = {
        number: file_slice.size
        for number, file_slice in enumerate(slices)
        if file_slice.base is not None and file_slice.group in lookup.decided_by_logs
    }
    if not weights:
        return tagged
    of_bases = search(engine, replace(lookup, folder=f"{lookup.folder}/bases"), slices, searched, weights)
    tasks = [
        ReturningTask(lookup.storage, lookup.folder, lookup.splits[n], found, tagged.segments.get(n, ()))
        for n, found in sorted(of_bases.segments.items())
    ]
    segments, updates, known = dict(tagged.segments), Counter(tagged.updates), Counter(tagged.known_rows)
    results = engine.map(tag_returning, tasks, size_bytes=0, description="tag deleted records that come back")
    for number, result in zip(sorted(of_bases.segments), results, strict=True):
        segments[number] = (*segments.get(number, ()), result.segment)
        updates.update({slices[at]: rows for at, rows in result.by_slice})
        known.update({(number, path): rows for path, rows in result.by_partition})
    return replace(tagged, segments=segments, updates=updates, known_rows=known)


def tag_returning(context: TaskContext, task: ReturningTask) -> Returning:
    """Tag the rows of a split; each record comes back in one group. Memory: the tags of the split."""
    storage = open_spec(task.storage)
    of_bases = pa.Table.from_batches(
        (batch for segment in task.of_bases for batch in read_segment(storage, segment)), TAGS_SCHEMA
    )
    stored = [np.asarray(batch.column(ROW)) for segment in task.stored for batch in read_segment(storage, segment)]
    rows, first = np.unique(np.asarray(of_bases.column(ROW)), return_index=True)
    returns = ~np.isin(rows, np.concatenate([np.zeros(0, np.int64), *stored]))
    rows, files = rows[returns], np.asarray(of_bases.column(FILE))[first[returns]]
    with open_exchange(storage, task.split.keys_path) as reader:
        by_partition = [
            (partition.partition_path, int(np.isin(reader.get_batch(partition.batch).column(ROW), rows).sum()))
            for partition in task.split.partitions
        ]
    count = len(rows)
    tags = [
        pa.array(rows),
        pa.array(files.astype(np.int32)),
        pa.array(np.full(count, NEW_RECORD, dtype=np.int64)),
        pa.array(np.zeros(count, dtype=bool)),
    ]
    path = f"{task.folder}/returning-{context.write_token}.arrow"
    with ExchangeWriter(storage, path, TAGS_SCHEMA) as writer:
        segment = Segment(path, (writer.write(pa.RecordBatch.from_arrays(tags, schema=TAGS_SCHEMA)),), count)
    numbers, counts = np.unique(files, return_counts=True)
    return Returning(segment, tuple(zip(numbers.tolist(), counts.tolist(), strict=True)), tuple(by_partition))
