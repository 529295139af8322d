"""Record keys that occur more than once in the skeleton files of a partition: exact, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.protocol import TaskContext
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.io.base_file import read_batches
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import StorageSpec
from pyhudi.tasks.sort_rows import SortOrder, sorted_rows

EXAMPLES_MAX = 5
"""How many keys an error names."""


@dataclass(frozen=True, slots=True)
class RepeatedKeysTask:
    """The skeleton files of one partition, their size in bytes, and where rows may wait on local disk."""

    storage: StorageSpec
    paths: tuple[str, ...]
    size: int
    spill_folder: str | None


@dataclass(frozen=True, slots=True)
class RepeatedKeys:
    """How many rows have the key of a row before them, and some of these keys."""

    rows: int
    examples: tuple[str, ...]


def find_repeated_keys(_: TaskContext, task: RepeatedKeysTask) -> RepeatedKeys:
    """Sort the keys, and compare neighbours. Memory: see `sorted_rows`."""
    rows, examples, last = 0, list[str](), pa.scalar(None, pa.string())
    for batch in sorted_rows(
        _keys(task), SortOrder((RECORD_KEY,)), stored_bytes=task.size, spill_folder=task.spill_folder
    ):
        keys = pa.concat_arrays([pa.array([last.as_py()], pa.string()), batch.column(RECORD_KEY)])
        repeats = pc.fill_null(pc.equal(keys[1:], keys[:-1]), False)
        rows += repeats.true_count
        if len(examples) < EXAMPLES_MAX:
            found = pc.unique(keys[1:].filter(repeats))[:EXAMPLES_MAX].to_pylist()
            examples += [key for key in found if key not in examples]
        last = keys[-1]
    return RepeatedKeys(rows, tuple(examples[:EXAMPLES_MAX]))


def _keys(task: RepeatedKeysTask) -> Iterator[pa.RecordBatch]:
    storage = open_spec(task.storage)
    for path in task.paths:
        yield from read_batches(storage, path, columns=[RECORD_KEY])
