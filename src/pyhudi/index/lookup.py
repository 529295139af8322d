"""Looking a staged batch up in the table: which slices are searched, by how many tasks, and what they found."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pyhudi.engine.protocol import Engine
from pyhudi.index.bloom import ProbeTask, probe_files
from pyhudi.index.tagging import SliceToSearch, TagTask, tag_files
from pyhudi.io.slices.merged import MergeSettings
from pyhudi.storage.protocol import StorageSpec
from pyhudi.table.file_slice import FileGroupId, FileSlice, slice_files
from pyhudi.tasks.exchange import Segment
from pyhudi.tasks.stage import StagedSplit

TASKS_PER_CORE = 2
"""More tasks than cores, so that one slow file does not leave the other cores idle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """How to look records up. `table_wide` for the global indexes, whose records may `move` between partitions.

    `inserts_in_logs`: the groups whose logs may hold records that their base files do not. `key_patterns`: what every
    stored key must fit (`check_stored_keys`).
    """

    storage: StorageSpec
    folder: str
    splits: tuple[StagedSplit, ...]
    merging: MergeSettings
    inserts_in_logs: Collection[FileGroupId]
    ordering_fields: tuple[str, ...]
    table_wide: bool
    move: bool
    bloom: bool
    prune_by_ranges: bool
    keys_repeat: bool = False
    key_patterns: tuple[str, ...] = ()

    def to_search(self, number: int, one: FileSlice) -> SliceToSearch:
        """How a slice is searched: with its logs where they decide which keys, or which ordering values, it holds."""
        with_logs = bool(one.logs) and (self.table_wide or one.base is None or one.group in self.inserts_in_logs)
        files = slice_files(one.base, one.logs if with_logs else ())
        return SliceToSearch(number, files, one.partition_path)

    def task(self, slices: Sequence[SliceToSearch]) -> TagTask:
        """The task that searches some slices."""
        return TagTask(
            storage=self.storage,
            folder=self.folder,
            slices=tuple(slices),
            splits=self.splits,
            merging=self.merging,
            table_wide=self.table_wide,
            move=self.move,
            ordering_fields=self.ordering_fields,
            keys_repeat=self.keys_repeat,
            key_patterns=self.key_patterns,
        )


@dataclass(frozen=True, slots=True)
class Tagged:
    """What a lookup found.

    `slices` in the order of the numbers that tags carry; `segments` of tags by split; `updates`: stored rows that meet
    an incoming one, by slice; `known_rows`: staged rows that are no new records, by (split, partition path).
    """

    slices: tuple[FileSlice, ...] = ()
    segments: Mapping[int, tuple[Segment, ...]] = field(default_factory=dict)
    updates: Mapping[FileSlice, int] = field(default_factory=dict)
    known_rows: Mapping[tuple[int, str], int] = field(default_factory=dict)


def look_up(engine: Engine, lookup: Lookup, slices: Sequence[FileSlice]) -> Tagged:
    """Search slices for the staged keys. One round of tasks for SIMPLE, two for BLOOM."""
    slices = tuple(slices)
    searched = [lookup.to_search(number, one) for number, one in enumerate(slices)]
    weights = {number: one.size for number, one in enumerate(slices)}
    if lookup.bloom and slices:
        weights = _candidates(engine, lookup, searched)
    shares = spread(weights, engine.parallelism * TASKS_PER_CORE)
    results = engine.map(
        tag_files,
        [lookup.task([searched[number] for number in share]) for share in shares],
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
    return Tagged(slices, {split: tuple(found) for split, found in segments.items()}, updates, known)


def spread(weights: Mapping[int, int], parts: int) -> tuple[tuple[int, ...], ...]:
    """Divide numbered items into at most `parts` shares of about equal weight, the heaviest item first."""
    shares: list[tuple[int, int, list[int]]] = [(0, n, []) for n in range(max(1, min(parts, len(weights))))]
    for item, weight in sorted(weights.items(), key=lambda entry: (-entry[1], entry[0])):
        total, place, share = heapq.heappop(shares)
        share.append(item)
        heapq.heappush(shares, (total + weight + 1, place, share))
    return tuple(tuple(sorted(share)) for _, _, share in sorted(shares, key=lambda entry: entry[1]) if share)


def _candidates(engine: Engine, lookup: Lookup, searched: Sequence[SliceToSearch]) -> dict[int, int]:
    """Slices that may hold a key, with the number of keys that they may hold."""
    shares = spread(dict.fromkeys(range(len(searched)), 1), engine.parallelism * TASKS_PER_CORE)
    results = engine.map(
        probe_files,
        [ProbeTask(lookup.task([searched[number] for number in share]), lookup.prune_by_ranges) for share in shares],
        size_bytes=len(searched) * 500_000,
        description="ask bloom filters",
    )
    return {found.number: found.keys for result in results for found in result if found.keys}
