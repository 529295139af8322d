"""The bloom indexes: footers of base files say which files may hold incoming keys, and only those are searched.

A file is a candidate for a key that lies in its key range and that its bloom filter does not rule out. The ranges are
compared by binary search in the sorted incoming keys. JVM Hudi searches an interval tree over the files' ranges once
per key; the candidates are the same, with one search per file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.protocol import TASKS_PER_CORE, Engine, TaskContext, spread
from pyhudi.errors import CorruptDataError
from pyhudi.format.bloom import (
    BLOOM_FILTER_KEY,
    BLOOM_FILTER_KIND_KEY,
    MAX_RECORD_KEY_KEY,
    MIN_RECORD_KEY_KEY,
    BloomFilterType,
    orders_like_bytes,
    parse_bloom_filter,
)
from pyhudi.index.protocol import Lookup, Tagged
from pyhudi.index.search import search, tag_task, to_search
from pyhudi.index.stored_keys import check_stored_keys
from pyhudi.index.tagging import TagTask, keys_with_slices
from pyhudi.io.base_file import read_footer
from pyhudi.metadata_table.partitions.bloom_filters import FilterReader
from pyhudi.metadata_table.read_checks import warn_of_index
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage
from pyhudi.table.file_slice import FileSlice
from pyhudi.table.metadata_partitions import BLOOM_FILTERS

_FOOTER_BYTES = 500_000
"""About how much of a base file is read for its footer."""


@dataclass(frozen=True, slots=True)
class BloomIndex:
    """BLOOM, and GLOBAL_BLOOM with a table-wide lookup. `prune_by_ranges`: compare key ranges before the filters.

    `filters`: reads them from the metadata table; then no ranges are known. Cost: one footer per base file that has no
    filter there, then the key columns of the candidates; two rounds of tasks.
    """

    prune_by_ranges: bool
    filters: FilterReader | None = None

    def tag(self, engine: Engine, lookup: Lookup, slices: Sequence[FileSlice]) -> Tagged:
        """See `Index.tag`."""
        searched = [to_search(lookup, number, file_slice) for number, file_slice in enumerate(slices)]
        shares = spread(dict.fromkeys(range(len(searched)), 1), engine.parallelism * TASKS_PER_CORE)
        tasks = [
            ProbeTask(tag_task(lookup, [searched[number] for number in share]), self.prune_by_ranges, self.filters)
            for share in shares
        ]
        results = engine.map(
            probe_files, tasks, size_bytes=len(searched) * _FOOTER_BYTES, description="ask bloom filters"
        )
        damage = next((result.damage for result in results if result.damage is not None), None)
        if damage is not None:
            warn_of_index(open_spec(lookup.storage), BLOOM_FILTERS, f"{damage}; footers are read instead")
        candidates = {found.number: found.keys for result in results for found in result.candidates if found.keys}
        return search(engine, lookup, slices, searched, candidates)


@dataclass(frozen=True, slots=True)
class ProbeTask:
    """Read the footers of the base files of a tagging task. `prune_by_ranges` and `filters`: see `BloomIndex`."""

    tagging: TagTask
    prune_by_ranges: bool
    filters: FilterReader | None = None


@dataclass(frozen=True, slots=True)
class Candidates:
    """How many incoming keys one slice may hold. The measure by which the second pass is spread over tasks."""

    number: int
    keys: int


@dataclass(frozen=True, slots=True)
class Probed:
    """The candidates of a task. `damage`: why filters of the metadata table were not used, if they were to be."""

    candidates: tuple[Candidates, ...]
    damage: str | None = None


def probe_files(context: TaskContext, task: ProbeTask) -> Probed:
    """Candidate counts of the task's slices. Cost: one footer per base file; no rows are read."""
    del context
    storage = open_spec(task.tagging.storage)
    counts: Counter[int] = Counter()
    footers: dict[int, dict[str, str]] = {}
    damage: str | None = None
    try:
        footers = _known_filters(storage, task)
    except CorruptDataError as error:
        damage = str(error)
    for staged, slices in keys_with_slices(task.tagging):
        keys = staged.keys
        ordered = keys.take(pc.sort_indices(keys))
        for searched in slices:
            base = searched.files.base
            if base is None or searched.files.logs:
                # The footer of a base file does not cover the records that logs add.
                counts[searched.number] += len(keys)
                continue
            if searched.number not in footers:
                footers[searched.number] = read_footer(storage, base).values
                _check_ends(footers[searched.number], task.tagging.key_patterns)
            counts[searched.number] += candidates_in(ordered, base, footers[searched.number], task.prune_by_ranges)
    found = tuple(Candidates(searched.number, counts[searched.number]) for searched in task.tagging.slices)
    return Probed(found, damage)


def _known_filters(storage: Storage, task: ProbeTask) -> dict[int, dict[str, str]]:
    """By the number of the slice what its footer says of the filter, as far as the metadata table knows it."""
    if task.filters is None or task.tagging.key_patterns:
        return {}
    slices = [
        file_slice
        for file_slice in task.tagging.slices
        if file_slice.files.base is not None and not file_slice.files.logs
    ]
    found = task.filters.find(
        storage, [file_slice.files.base for file_slice in slices if file_slice.files.base is not None]
    )
    return {file_slice.number: found[file_slice.files.base] for file_slice in slices if file_slice.files.base in found}


def _check_ends(footer: dict[str, str], patterns: tuple[str, ...]) -> None:
    """Check the form of a file's keys by the ends of their range, as only candidates are searched."""
    ends = [footer[key] for key in (MIN_RECORD_KEY_KEY, MAX_RECORD_KEY_KEY) if key in footer]
    check_stored_keys(pa.array(ends, pa.string()), patterns)


def candidates_in(ordered_keys: pa.Array, path: str, footer: dict[str, str], prune_by_ranges: bool) -> int:
    """How many of the keys (sorted by bytes) a file may hold by its footer; all if it has no filter and no range.

    A range is compared by bytes only where JVM Hudi's order of strings is that of their bytes (`orders_like_bytes`).
    """
    keys = ordered_keys
    low, high = footer.get(MIN_RECORD_KEY_KEY), footer.get(MAX_RECORD_KEY_KEY)
    if prune_by_ranges and low is not None and high is not None and orders_like_bytes(low + high):
        start, end = key_range(ordered_keys, low, high)
        keys = ordered_keys.slice(start, end - start)
    text = footer.get(BLOOM_FILTER_KEY)
    if text is None or len(keys) == 0:
        return len(keys)
    kind = BloomFilterType.from_footer(footer.get(BLOOM_FILTER_KIND_KEY), path=path)
    return int(np.count_nonzero(parse_bloom_filter(text, kind, path=path).might_contain(keys)))


def key_range(ordered_keys: pa.Array, low: str, high: str) -> tuple[int, int]:
    """Where the keys from `low` to `high`, both included, begin and end in keys sorted by their bytes."""
    return _first(ordered_keys, low.encode(), after=False), _first(ordered_keys, high.encode(), after=True)


def _first(ordered_keys: pa.Array, bound: bytes, *, after: bool) -> int:
    """The index of the first key at or above the bound; strictly above it with `after`."""
    low, high = 0, len(ordered_keys)
    while low < high:
        middle = (low + high) // 2
        key = ordered_keys[middle].as_py().encode()
        if key < bound or (after and key == bound):
            low = middle + 1
        else:
            high = middle
    return low
