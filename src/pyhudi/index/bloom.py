"""The bloom indexes: footers of base files say which files may hold incoming keys, and only those are searched.

A file is a candidate for a key that lies in its key range and that its bloom filter does not rule out. The ranges are
compared by binary search in the sorted incoming keys. JVM Hudi searches an interval tree over the files' ranges once
per key; the candidates are the same, with one search per file.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.exchange_files import ExchangeWriter, FilePart, Segment, TaskFiles, read_segment
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
from pyhudi.format.pieces import one_batch
from pyhudi.index.delivery import KEY_BYTES, SPLIT, in_portions, numbered_apart, search_shares, tag_task
from pyhudi.index.protocol import Lookup, SliceToSearch, Tagged
from pyhudi.index.search import joined, search, to_search
from pyhudi.index.stored_keys import check_stored_keys
from pyhudi.index.tagging import KEYS_AT_ONCE, KeysOfSlices, TagResult, TagTask, tag_files
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
        # The footer of a base file does not cover the records that logs add.
        probed = {file_slice.number for file_slice in searched if _is_base_file(file_slice)}
        shares = spread(dict.fromkeys(probed, 1), engine.parallelism * TASKS_PER_CORE)
        results = search_shares(
            engine,
            lookup,
            [[searched[number] for number in share] for share in shares],
            functools.partial(probe_files, ProbeSettings(self.prune_by_ranges, self.filters)),
            size_bytes=len(probed) * _FOOTER_BYTES,
            description="ask bloom filters",
        )
        damage = next((result.damage for result in results if result.damage is not None), None)
        if damage is not None:
            warn_of_index(open_spec(lookup.storage), BLOOM_FILTERS, f"{damage}; footers are read instead")
        found = [candidates for result in results for candidates in result.candidates]
        unfiltered = {number for result in results for number in result.unfiltered}
        whole = [number for number in range(len(slices)) if number not in probed or number in unfiltered]
        tagged = joined(slices, _search_candidates(engine, lookup, slices, searched, found))
        if not whole:
            return tagged
        apart = replace(lookup, folder=lookup.folder.within("whole"))
        return tagged.with_others(search(engine, apart, slices, searched, whole))


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """See `BloomIndex`."""

    prune_by_ranges: bool
    filters: FilterReader | None = None


@dataclass(frozen=True, slots=True)
class Candidates:
    """The staged keys that one slice may hold."""

    number: int
    keys: Segment


@dataclass(frozen=True, slots=True)
class Probed:
    """The candidates of a task. `damage`: why filters of the metadata table were not used, if they were to be.

    `unfiltered`: the numbers of slices whose footers have no filter. They may hold any key, or any of a range.
    """

    candidates: tuple[Candidates, ...]
    unfiltered: frozenset[int] = frozenset()
    damage: str | None = None


def probe_files(settings: ProbeSettings, context: TaskContext, task: TagTask, staged: KeysOfSlices) -> Probed:
    """The candidates of the task's slices, in an exchange file. Cost: one footer per base file; no rows are read."""
    storage = open_spec(task.storage)
    footers: dict[int, dict[str, str]] = {}
    damage: str | None = None
    try:
        footers = _known_filters(storage, task, settings.filters)
    except CorruptDataError as error:
        damage = str(error)
    batches: dict[int, list[int]] = defaultdict(list)
    rows: Counter[int] = Counter()
    unfiltered: set[int] = set()
    path = f"{task.folder.path}/candidates-{context.write_token}.arrow"
    with ExitStack() as files:
        writer: ExchangeWriter | None = None
        for number, candidates in _candidates_of_files(storage, task, staged, footers, settings):
            if BLOOM_FILTER_KEY not in footers[number]:
                unfiltered.add(number)
                continue
            if writer is None:
                writer = files.enter_context(ExchangeWriter(open_spec(task.folder.storage), path, candidates.schema))
            batches[number].append(writer.write(one_batch(candidates)))
            rows[number] += candidates.num_rows
    segments = (Candidates(number, Segment(path, tuple(parts), rows[number])) for number, parts in batches.items())
    return Probed(tuple(segments), frozenset(unfiltered), damage)


def _candidates_of_files(
    storage: Storage, task: TagTask, staged: KeysOfSlices, footers: dict[int, dict[str, str]], settings: ProbeSettings
) -> Iterator[tuple[int, pa.Table]]:
    """By the number of the slice the staged keys that its base file may hold. Footers that are read are added."""
    for keys, slices in staged:
        numbered = keys.rows.append_column(SPLIT, pa.array(keys.split)).combine_chunks()
        order = pc.sort_indices(keys.keys)
        ordered = keys.keys.take(order)
        for searched in slices:
            base = searched.files.base
            assert base is not None
            if searched.number not in footers:
                footers[searched.number] = read_footer(storage, base).values
                _check_ends(footers[searched.number], task.key_patterns)
            may_be_there = candidates_in(ordered, base, footers[searched.number], settings.prune_by_ranges)
            if len(may_be_there):
                yield searched.number, numbered.take(order.take(pa.array(may_be_there)))


@dataclass(frozen=True, slots=True)
class SearchCandidatesTask:
    """Search slices for their candidates: `keys`, by the number of the slice."""

    tagging: TagTask
    keys: Mapping[int, Segment]

    def reads(self) -> Iterator[FilePart]:
        """The parts of exchange files that it reads."""
        return (segment.part for segment in self.keys.values())


def search_candidates(context: TaskContext, task: SearchCandidatesTask) -> TagResult:
    """Tag the candidates that the slices hold. Memory: the candidates of a slice, up to `KEYS_AT_ONCE` of them."""
    storage = open_spec(task.tagging.folder.storage)
    staged = (
        (keys, (searched,))
        for searched in task.tagging.slices
        for keys in in_portions(map(numbered_apart, read_segment(storage, task.keys[searched.number])), KEYS_AT_ONCE)
    )
    return tag_files(context, task.tagging, staged)


def _search_candidates(
    engine: Engine,
    lookup: Lookup,
    slices: Sequence[FileSlice],
    searched: Sequence[SliceToSearch],
    found: Sequence[Candidates],
) -> list[TagResult]:
    keys = {candidates.number: candidates.keys for candidates in found}
    # By size and keys: reading a key column and searching in it.
    weights = {number: slices[number].size + KEY_BYTES * segment.rows for number, segment in keys.items()}
    tasks = [
        SearchCandidatesTask(tag_task(lookup, [searched[n] for n in share]), {n: keys[n] for n in share})
        for share in spread(weights, engine.parallelism * TASKS_PER_CORE)
    ]
    size = sum(weights.values())
    files = TaskFiles(lookup.folder, SearchCandidatesTask.reads)
    return engine.map(search_candidates, tasks, size_bytes=size, description="look record keys up", files=files)


def _is_base_file(searched: SliceToSearch) -> bool:
    return searched.files.base is not None and not searched.files.logs


def _known_filters(storage: Storage, task: TagTask, filters: FilterReader | None) -> dict[int, dict[str, str]]:
    """By the number of the slice what its footer says of the filter, as far as the metadata table knows it."""
    if filters is None or task.key_patterns:
        return {}
    bases = {searched.number: searched.files.base for searched in task.slices if searched.files.base is not None}
    found = filters.find(storage, list(bases.values()))
    return {number: found[base] for number, base in bases.items() if base in found}


def _check_ends(footer: dict[str, str], patterns: tuple[str, ...]) -> None:
    """Check the form of a file's keys by the ends of their range, as only candidates are searched."""
    ends = [footer[key] for key in (MIN_RECORD_KEY_KEY, MAX_RECORD_KEY_KEY) if key in footer]
    check_stored_keys(pa.array(ends, pa.string()), patterns)


def candidates_in(
    ordered_keys: pa.Array, path: str, footer: dict[str, str], prune_by_ranges: bool
) -> npt.NDArray[np.int64]:
    """Which of the keys (sorted by bytes) a file may hold by its footer; all if it has no filter and no range.

    A range is compared by bytes only where JVM Hudi's order of strings is that of their bytes (`orders_like_bytes`).
    """
    start, end = 0, len(ordered_keys)
    low, high = footer.get(MIN_RECORD_KEY_KEY), footer.get(MAX_RECORD_KEY_KEY)
    if prune_by_ranges and low is not None and high is not None and orders_like_bytes(low + high):
        start, end = key_range(ordered_keys, low, high)
    text = footer.get(BLOOM_FILTER_KEY)
    if text is None or start == end:
        return np.arange(start, end)
    kind = BloomFilterType.from_footer(footer.get(BLOOM_FILTER_KIND_KEY), path=path)
    filter_of_file = parse_bloom_filter(text, kind, path=path)
    return start + np.flatnonzero(filter_of_file.might_contain(ordered_keys.slice(start, end - start)))


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
