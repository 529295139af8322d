"""Searching file slices for staged keys: how the work is divided into tasks, and how their results are joined."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from pyhudi.engine.protocol import TASKS_PER_CORE, Engine, spread
from pyhudi.index.protocol import Lookup, SliceToSearch, Tagged
from pyhudi.index.tagging import TagTask, tag_files
from pyhudi.io.exchange import Segment
from pyhudi.table.file_slice import FileSlice, slice_files


def to_search(lookup: Lookup, number: int, file_slice: FileSlice) -> SliceToSearch:
    """How a slice is searched: with its logs where they decide which keys, or which ordering values, it holds."""
    logs_decide = lookup.scope.is_table_wide or file_slice.base is None or file_slice.group in lookup.decided_by_logs
    files = slice_files(file_slice.base, file_slice.logs if logs_decide else ())
    return SliceToSearch(number, files, file_slice.partition_path)


def tag_task(lookup: Lookup, slices: Sequence[SliceToSearch]) -> TagTask:
    """The task that searches some slices."""
    return TagTask(
        storage=lookup.storage,
        folder=lookup.folder,
        slices=tuple(slices),
        splits=lookup.splits,
        merging=lookup.merging,
        scope=lookup.scope,
        ordering_fields=lookup.ordering_fields,
        keys_repeat=lookup.keys_repeat,
        key_patterns=lookup.key_patterns,
    )


def search(
    engine: Engine,
    lookup: Lookup,
    slices: Sequence[FileSlice],
    searched: Sequence[SliceToSearch],
    weights: Mapping[int, int],
) -> Tagged:
    """Search the slices whose numbers are in `weights` for the staged keys. One round of tasks.

    `searched`: how each of the `slices` is searched. `weights`: the measure by which they are spread over tasks.
    """
    shares = spread(weights, engine.parallelism * TASKS_PER_CORE)
    results = engine.map(
        tag_files,
        [tag_task(lookup, [searched[number] for number in share]) for share in shares],
        size_bytes=sum(slices[number].size for number in weights),
        description="look record keys up",
    )
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
