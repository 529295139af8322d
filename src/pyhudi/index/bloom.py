"""The bloom indexes' first pass: which base files may hold incoming keys, asked of their footers alone.

A file is a candidate for a key that lies in its key range and that its bloom filter does not rule out. The ranges are
compared by binary search in the sorted incoming keys: the mirror image of an interval tree over the files' ranges,
with the same candidates and one search per file instead of one per key.

Source: `format/logs-and-indexes.md` section 2; mission rows S2-13, S2-15 to S2-17.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.protocol import TaskContext
from pyhudi.format.bloom import (
    BLOOM_FILTER_KEY,
    BLOOM_FILTER_KIND_KEY,
    MAX_RECORD_KEY_KEY,
    MIN_RECORD_KEY_KEY,
    BloomFilterType,
    orders_like_bytes,
    parse_bloom_filter,
)
from pyhudi.index.stored_keys import check_stored_keys
from pyhudi.index.tagging import TagTask, keys_with_slices
from pyhudi.io.base_file import read_footer
from pyhudi.storage.open import open_spec


@dataclass(frozen=True, slots=True)
class ProbeTask:
    """Ask the footers of the base files of a tagging task. `prune_by_ranges`: compare key ranges before the filters."""

    tagging: TagTask
    prune_by_ranges: bool


@dataclass(frozen=True, slots=True)
class Candidates:
    """How many incoming keys one slice may hold. The measure by which the second pass is spread over tasks."""

    number: int
    keys: int


def probe_files(context: TaskContext, task: ProbeTask) -> tuple[Candidates, ...]:
    """Candidate counts of the task's slices. Cost: one footer per base file; no rows are read."""
    del context
    storage = open_spec(task.tagging.storage)
    counts: Counter[int] = Counter()
    footers: dict[int, dict[str, str]] = {}
    for staged, slices in keys_with_slices(storage, task.tagging):
        keys = staged.keys
        ordered = keys.take(pc.sort_indices(keys))
        for one in slices:
            base = one.files.base
            if base is None or one.files.logs:
                # A base file says nothing of what logs add to it.
                counts[one.number] += len(keys)
                continue
            if one.number not in footers:
                footers[one.number] = read_footer(storage, base).values
                _check_ends(footers[one.number], task.tagging.key_patterns)
            counts[one.number] += candidates_in(ordered, base, footers[one.number], task.prune_by_ranges)
    return tuple(Candidates(one.number, counts[one.number]) for one in task.tagging.slices)


def _check_ends(footer: dict[str, str], patterns: tuple[str, ...]) -> None:
    """A file that is no candidate is not opened: the ends of its key range show the form of its keys."""
    ends = [footer[key] for key in (MIN_RECORD_KEY_KEY, MAX_RECORD_KEY_KEY) if key in footer]
    check_stored_keys(pa.array(ends, pa.string()), patterns)


def candidates_in(ordered_keys: pa.Array, path: str, footer: dict[str, str], prune_by_ranges: bool) -> int:
    """How many of the keys (sorted by bytes) a file may hold by what its footer says; all where it says nothing.

    A range is compared by bytes only where that is the order it was made in (`orders_like_bytes`).
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
    """The first place whose key is at or above the bound; strictly above it with `after`."""
    low, high = 0, len(ordered_keys)
    while low < high:
        middle = (low + high) // 2
        key = ordered_keys[middle].as_py().encode()
        if key < bound or (after and key == bound):
            low = middle + 1
        else:
            high = middle
    return low
