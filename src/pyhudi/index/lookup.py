"""Looking a staged batch up in the table: which base files are searched, by how many tasks, and what they found."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyhudi.engine.protocol import Engine
from pyhudi.index.bloom import ProbeTask, probe_files
from pyhudi.index.tagging import FileToSearch, TagTask, tag_files
from pyhudi.io.exchange import Segment
from pyhudi.io.stage import StagedSplit
from pyhudi.storage.protocol import StorageSpec
from pyhudi.table.file_system_view import BaseFile

TASKS_PER_CORE = 2
"""More tasks than cores, so that one slow file does not leave the other cores idle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """How to look records up. `table_wide` for the global indexes, whose records may `move` between partitions."""

    storage: StorageSpec
    folder: str
    splits: tuple[StagedSplit, ...]
    ordering_fields: tuple[str, ...]
    table_wide: bool
    move: bool
    bloom: bool
    prune_by_ranges: bool
    keys_repeat: bool = False

    def task(self, files: Sequence[FileToSearch]) -> TagTask:
        """The task that searches some files."""
        return TagTask(
            storage=self.storage,
            folder=self.folder,
            files=tuple(files),
            splits=self.splits,
            table_wide=self.table_wide,
            move=self.move,
            ordering_fields=self.ordering_fields,
            keys_repeat=self.keys_repeat,
        )


@dataclass(frozen=True, slots=True)
class Tagged:
    """What a lookup found.

    `files` in the order of the numbers that tags carry; `segments` of tags by split; `updates`: stored rows that meet
    an incoming one, by base file; `known_rows`: staged rows that are no new records, by (split, partition path).
    """

    files: tuple[BaseFile, ...] = ()
    segments: Mapping[int, tuple[Segment, ...]] = field(default_factory=dict)
    updates: Mapping[BaseFile, int] = field(default_factory=dict)
    known_rows: Mapping[tuple[int, str], int] = field(default_factory=dict)


def look_up(engine: Engine, lookup: Lookup, files: Sequence[BaseFile]) -> Tagged:
    """Search base files for the staged keys. One round of tasks for SIMPLE, two for BLOOM."""
    files = tuple(files)
    weights = {number: file.size for number, file in enumerate(files)}
    if lookup.bloom and files:
        weights = _candidates(engine, lookup, files)
    shares = spread(weights, engine.parallelism * TASKS_PER_CORE)
    results = engine.map(
        tag_files,
        [lookup.task([_to_search(files, number) for number in share]) for share in shares],
        size_bytes=sum(files[number].size for number in weights),
        description="look record keys up",
    )
    segments: dict[int, list[Segment]] = defaultdict(list)
    updates: Counter[BaseFile] = Counter()
    known: Counter[tuple[int, str]] = Counter()
    for result in results:
        for split, segment in result.segments:
            segments[split].append(segment)
        for number, rows in result.updates_of_file:
            updates[files[number]] += rows
        for key, rows in result.known_rows:
            known[key] += rows
    return Tagged(files, {split: tuple(found) for split, found in segments.items()}, updates, known)


def spread(weights: Mapping[int, int], parts: int) -> tuple[tuple[int, ...], ...]:
    """Divide numbered items into at most `parts` shares of about equal weight, the heaviest item first."""
    shares: list[tuple[int, int, list[int]]] = [(0, n, []) for n in range(max(1, min(parts, len(weights))))]
    for item, weight in sorted(weights.items(), key=lambda entry: (-entry[1], entry[0])):
        total, place, share = heapq.heappop(shares)
        share.append(item)
        heapq.heappush(shares, (total + weight + 1, place, share))
    return tuple(tuple(sorted(share)) for _, _, share in sorted(shares, key=lambda entry: entry[1]) if share)


def _candidates(engine: Engine, lookup: Lookup, files: tuple[BaseFile, ...]) -> dict[int, int]:
    """Files that may hold a key, with the number of keys that they may hold."""
    shares = spread(dict.fromkeys(range(len(files)), 1), engine.parallelism * TASKS_PER_CORE)
    results = engine.map(
        probe_files,
        [
            ProbeTask(lookup.task([_to_search(files, number) for number in share]), lookup.prune_by_ranges)
            for share in shares
        ],
        size_bytes=len(files) * 500_000,
        description="ask bloom filters",
    )
    return {found.number: found.keys for result in results for found in result if found.keys}


def _to_search(files: tuple[BaseFile, ...], number: int) -> FileToSearch:
    return FileToSearch(number, files[number].path, files[number].partition_path)
