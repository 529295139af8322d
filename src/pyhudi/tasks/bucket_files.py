"""The rows of buckets that are resized: by the hash of their keys, each into the file of its new bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyhudi.errors import CorruptDataError
from pyhudi.format.buckets import HashRing, ring_hashes
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.tasks.data_file import DataFile


@dataclass(frozen=True, slots=True)
class ResizedBuckets:
    """The ring of a partition before and after its resize, and which file groups of it a task reads.

    `fields`: the record key fields whose values are hashed.
    """

    before: HashRing
    after: HashRing
    read: frozenset[str]
    fields: tuple[str, ...]

    def split(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of each bucket to come, by the id of its file group.

        Raises `CorruptDataError` for a row that was in another bucket than its key says: it would get lost.
        """
        keys = rows.column(RECORD_KEY)
        hashes = ring_hashes(keys, self.fields)
        ids = np.array([node.file_id for node in self.before.nodes])
        strange = ~np.isin(ids[self.before.nodes_of(hashes)], list(self.read))
        if strange.any():
            raise CorruptDataError(
                "a record is not in the bucket that its key says, so the buckets cannot be resized; nothing was "
                "changed: if other fields than all record key fields are hashed, name them in "
                "hoodie.bucket.index.hash.field",
                partition_path=self.before.partition_path,
                first_key=keys[int(np.flatnonzero(strange)[0])].as_py(),
                hashed_fields=self.fields,
            )
        numbers = self.after.nodes_of(hashes)
        for number in np.unique(numbers).tolist():
            yield self.after.nodes[number].file_id, rows.filter(pa.array(numbers == number))


def write_buckets(
    rows: Iterator[pa.RecordBatch], resized: ResizedBuckets, opened: Callable[[str], DataFile]
) -> list[WriteStat]:
    """Write rows into one file for each bucket that gets any. `opened` gives the file of a file group.

    Memory: that of as many open files as buckets come of a group of the plan, one or two.
    """
    files: dict[str, DataFile] = {}
    with ExitStack() as stack:
        for batch in rows:
            for file_id, part in resized.split(batch):
                if file_id not in files:
                    files[file_id] = stack.enter_context(opened(file_id))
                _carry(files[file_id], part)
        return [file.close() for file in files.values()]


def _carry(file: DataFile, rows: pa.RecordBatch) -> None:
    carried = 0
    while carried < rows.num_rows:
        carried += file.carry_fitting(rows.slice(carried))
        file.is_full()  # ends the row group where it is
