"""Searching file slices for staged keys: how the work is divided into tasks, and how their results are joined."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pyhudi.engine.exchange_files import Segment
from pyhudi.engine.protocol import TASKS_PER_CORE, Engine, spread
from pyhudi.index.delivery import READ_KEYS_MAX, keys_read, search_shares, staged_rows
from pyhudi.index.hash_join import join_by_hash
from pyhudi.index.protocol import Lookup, SliceToSearch, Tagged
from pyhudi.index.tagging import KEYS_AT_ONCE, TagResult, tag_files
from pyhudi.table.file_slice import FileSlice, slice_files

JOIN_COSTS: Final = 3
READ_COSTS: Final = 3
"""What it costs to send a key, stored or staged, and to read a stored one, beside what it costs to search for a staged
one. That costs more the more keys are searched for at once. Measured with 3,000,000 stored keys, processor seconds:
300,000 staged keys and four tasks 1.4, and 5.1 sent; of whole upserts of 3,000,000 keys with eight tasks 91, and 60
sent; of 10,000,000 keys 180, and 117 sent."""


def to_search(lookup: Lookup, number: int, file_slice: FileSlice) -> SliceToSearch:
    """How a slice is searched: with its logs where they decide which keys, or which ordering values, it holds."""
    logs_decide = lookup.scope.is_table_wide or file_slice.base is None or file_slice.group in lookup.decided_by_logs
    files = slice_files(file_slice.base, file_slice.logs if logs_decide else ())
    return SliceToSearch(number, files, file_slice.partition_path)


def search(
    engine: Engine,
    lookup: Lookup,
    slices: Sequence[FileSlice],
    searched: Sequence[SliceToSearch],
    numbers: Iterable[int],
) -> Tagged:
    """Search the slices of these numbers for the staged keys.

    `searched`: how each of the `slices` is searched.

    Cost: one round of tasks, or where many keys meet one exchange; see `index/delivery.py` and `index/hash_join.py`.
    """
    sizes = {number: slices[number].size for number in numbers}
    shares = [[searched[number] for number in share] for share in spread(sizes, engine.parallelism * TASKS_PER_CORE)]
    if _meet_by_hash(lookup, sizes, shares):
        return joined(slices, join_by_hash(engine, lookup, [searched[number] for number in sizes], sizes))
    size = sum(sizes.values())
    results = search_shares(engine, lookup, shares, tag_files, size_bytes=size, description="look record keys up")
    return joined(slices, results)


def _meet_by_hash(lookup: Lookup, sizes: Mapping[int, int], shares: Sequence[Sequence[SliceToSearch]]) -> bool:
    """Whether it costs less to send stored and staged keys to where they meet than to search where they are."""
    read, rows = keys_read(lookup, shares), sum(split.rows for split in lookup.splits)
    if read <= READ_KEYS_MAX:
        return False
    together = rows if lookup.scope.is_table_wide else max(staged_rows(lookup).values())
    # Where the size of a stored record was not measured, a quarter of its size in memory.
    record_bytes = sum(split.rows * split.record_bytes or split.bytes / 4 for split in lookup.splits) / rows
    stored = sum(sizes.values()) / max(1.0, record_bytes)
    # Each portion of the staged keys reads all stored keys.
    portions = -(-together // KEYS_AT_ONCE)
    return read + READ_COSTS * (portions - 1) * stored > JOIN_COSTS * (rows + stored)


def joined(slices: Sequence[FileSlice], results: Iterable[TagResult]) -> Tagged:
    """What tasks have found."""
    segments: dict[int, list[Segment]] = defaultdict(list)
    updates: Counter[FileSlice] = Counter()
    known: Counter[tuple[int, str]] = Counter()
    for result in results:
        for split, segment in result.segments:
            segments[split].append(segment)
        for number, rows in result.updates_of_slice:
            updates[slices[number]] += rows
        for key, rows in result.known_rows:
            known[key] += rows
    return Tagged(tuple(slices), {split: tuple(found) for split, found in segments.items()}, updates, known)
