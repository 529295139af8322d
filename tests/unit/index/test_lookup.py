"""Which files are searched, by how many tasks, and which stored rows incoming keys meet: against brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tables import contents, new_table, open_table, rows

from pyhudi.engine.exchange_files import ExchangeFolder, read_segment
from pyhudi.engine.protocol import TaskContext, spread
from pyhudi.format.bloom import BLOOM_FILTER_KEY, MAX_RECORD_KEY_KEY, MIN_RECORD_KEY_KEY
from pyhudi.format.file_names import BaseFileName, LogFileName
from pyhudi.format.schema.meta_columns import with_meta_columns
from pyhudi.format.timeline.table_version import NEWEST
from pyhudi.index import bloom
from pyhudi.index.bloom import ProbeSettings, candidates_in, key_range, probe_files
from pyhudi.index.delivery import read_keys
from pyhudi.index.protocol import KeyScope, Lookup, SliceToSearch
from pyhudi.index.search import to_search
from pyhudi.index.tagging import TagTask, tag_files
from pyhudi.io.base_file import BaseFileFooter
from pyhudi.io.slices.files import SliceFiles
from pyhudi.io.slices.merged import MergeSettings
from pyhudi.merge.rules import MergeRules
from pyhudi.merge.table_rules import TableRules
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.file_slice import BaseFile, FileGroupId, FileSlice, LogFile, slice_files
from pyhudi.table.file_system_view import load_view
from pyhudi.table.timeline import timeline_of
from pyhudi.tasks.stage import ROW, StageTask, stage_split
from pyhudi.tasks.tagged_rows import FILE, POSITION
from pyhudi.testing.faults import FaultStorage

keys = st.text(
    st.characters(min_codepoint=33, max_codepoint=0x1F600, exclude_categories=["Cs"]), min_size=1, max_size=4
)


@settings(max_examples=60, deadline=None)
@given(st.lists(keys, unique=True), keys, keys)
def test_the_key_range_holds_just_the_keys_between_its_bounds(found: list[str], one: str, other: str) -> None:
    low, high = sorted([one, other], key=str.encode)
    ordered = sorted(found, key=str.encode)

    start, end = key_range(pa.array(ordered, pa.string()), low, high)

    assert ordered[start:end] == [key for key in ordered if low.encode() <= key.encode() <= high.encode()]


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.integers(0, 50), st.integers(0, 1000), max_size=30), st.integers(1, 8))
def test_spread_gives_each_item_once_and_no_share_much_more_than_its_part(weights: dict[int, int], parts: int) -> None:
    shares = spread(weights, parts)

    assert sorted(item for share in shares for item in share) == sorted(weights)
    assert len(shares) == min(parts, len(weights))
    loads = [sum(weights[item] + 1 for item in share) for share in shares]
    if loads:
        # Longest first: nobody has more than its part and the largest item.
        assert max(loads) <= sum(loads) / len(loads) + max(weights.values()) + 1


def test_spread_balances_equal_items_exactly() -> None:
    assert sorted(map(len, spread(dict.fromkeys(range(12), 7), 4))) == [3, 3, 3, 3]


FOOTER = {MIN_RECORD_KEY_KEY: "b", MAX_RECORD_KEY_KEY: "d"}


@pytest.mark.parametrize(
    ("footer", "prune", "candidates"),
    [
        pytest.param({}, True, 5, id="a footer that says nothing rules nothing out"),
        pytest.param(FOOTER, True, 3, id="the range rules out"),
        pytest.param(FOOTER, False, 5, id="unless it is not asked"),
    ],
)
def test_candidates_by_what_a_footer_says(footer: dict[str, str], prune: bool, candidates: int) -> None:
    ordered = pa.array(["a", "b", "c", "d", "e"])

    assert len(candidates_in(ordered, "f", footer, prune)) == candidates


def table_of_many_files(**options: str) -> MemoryStorage:
    """Sixteen file groups in two partitions; keys of one file lie together, so that ranges can rule files out."""
    storage = MemoryStorage()
    table = new_table(storage, **{"hoodie.parquet.small.file.limit": "0", **options})
    for city in ("oslo", "rome"):
        for n in range(8):
            table.insert(rows(*((100 + n * 10 + k, city, 1, "a") for k in range(10))))
    return storage


@pytest.mark.parametrize("table_wide", [False, True])
@pytest.mark.parametrize("prune_by_ranges", [False, True])
def test_bloom_candidates_are_those_of_brute_force(table_wide: bool, prune_by_ranges: bool) -> None:
    storage = table_of_many_files()
    table = open_table(storage)
    dice = np.random.default_rng(7)
    wanted = [(int(dice.integers(90, 200)), ["oslo", "rome", "bern"][int(dice.integers(3))]) for _ in range(40)]
    task, files = _staged(storage, [(k, c) for k, c in dict.fromkeys(wanted)], table_wide=table_wide)

    found = probed(task, ProbeSettings(prune_by_ranges))

    held: dict[int, int] = {}
    for number, path in enumerate(files):
        (city,) = {row["city"] for row in _stored(table, path)}
        ids = {row["id"] for row in _stored(table, path)}
        incoming = {k for k, c in dict.fromkeys(wanted) if table_wide or c == city}
        pairs = [(k, c) for k, c in dict.fromkeys(wanted) if k in ids and (table_wide or c == city)]
        held[number] = len(pairs) if incoming else 0
    # At 1e-9 a filter claims no key that is not there.
    assert found == {number: keys for number, keys in held.items() if keys}


@pytest.mark.parametrize("table_wide", [False, True])
@pytest.mark.parametrize("repeat", [False, True])
def test_tags_are_all_pairs_of_incoming_and_stored_rows_of_one_key(table_wide: bool, repeat: bool) -> None:
    storage = table_of_many_files()
    table = open_table(storage)
    wanted = [(105, "oslo"), (105, "rome"), (131, "rome"), (199, "oslo"), (7, "bern")]
    wanted = wanted if not table_wide else wanted[1:]
    wanted = wanted + wanted[:2] * repeat
    task, files = _staged(storage, wanted, table_wide=table_wide, repeat=repeat)

    result = tag_files(TaskContext(1, 0, 0), task, read_keys(task))

    tags = sorted(
        (row[ROW], row[FILE], row[POSITION])
        for _, segment in result.segments
        for batch in read_segment(storage, segment)
        for row in batch.to_pylist()
    )
    expected = sorted(
        (number, file, position)
        for number, (key, city) in enumerate(wanted)
        for file, path in enumerate(files)
        for position, row in enumerate(_stored(table, path))
        if row["id"] == key and (table_wide or row["city"] == city)
    )
    assert tags == expected
    assert sum(count for _, count in result.updates_of_slice) == len(expected)


def _staged(
    storage: MemoryStorage, wanted: list[tuple[int, str]], *, table_wide: bool, repeat: bool = False
) -> tuple[TagTask, list[str]]:
    from pyhudi.format.keys.generator import key_generator_from_table

    table = open_table(storage)
    folder = ExchangeFolder(storage.spec, "exchanged/test")
    task = StageTask(
        folder=folder,
        keys=key_generator_from_table(table.handle.state.config.values, table.handle.state.version, {}),
        schema=rows().schema,
        rules=MergeRules(ordering_fields=("ts",)),
        combine=False,
        table_wide_keys=table_wide,
    )
    batch = rows(*((key, city, 2, "b") for key, city in wanted))
    split = stage_split(task, TaskContext(0, 0, 0), iter(batch.to_batches()))
    files = table.inspect.files().column("path").to_pylist()
    searched = tuple(SliceToSearch(n, SliceFiles(path, ()), path.rpartition("/")[0]) for n, path in enumerate(files))
    tagging = TagTask(
        storage=storage.spec,
        folder=folder,
        slices=searched,
        splits=(split,),
        merging=MergeSettings(schema=with_meta_columns(rows().schema), rules=TableRules()),
        scope=_scope(table_wide),
        ordering_fields=("ts",) if table_wide else (),
        keys_repeat=repeat,
    )
    return tagging, files


def _scope(table_wide: bool) -> KeyScope:
    return KeyScope.TABLE_UPDATES_IN_PLACE if table_wide else KeyScope.PARTITION


def _stored(table: object, path: str) -> list[dict[str, object]]:
    import pyarrow.parquet as pq

    with table.handle.state.storage.open_input(path) as source:  # type: ignore[attr-defined]
        return list(pq.ParquetFile(source).read().to_pylist())


def test_keys_of_many_partitions_are_read_with_one_open_of_each_split() -> None:
    storage = table_of_many_files()
    task, _ = _staged(storage, [(105, "oslo"), (131, "rome"), (106, "oslo")], table_wide=False)
    watched = FaultStorage(storage)

    staged = read_keys(replace(task, folder=ExchangeFolder(watched.spec, task.folder.path)))

    assert sorted(sorted(keys.keys.to_pylist()) for keys, _ in staged) == [["105", "106"], ["131"]]
    assert [o.path for o in watched.operations if o.name == "open_input"] == [task.splits[0].keys_path]


def test_bloom_opens_only_the_key_columns_of_files_that_may_hold_a_key() -> None:
    storage = table_of_many_files()
    watched = FaultStorage(storage)

    open_table(watched, **{"hoodie.index.type": "BLOOM"}).upsert(rows((105, "oslo", 2, "b")))

    opened = [o.path for o in watched.operations if o.name == "open_input" and o.path.endswith(".parquet")]
    once = [path for path in set(opened) if opened.count(path) == 1]
    assert len(set(opened)) == 8
    assert len(once) == 7
    assert (105, "oslo", 2, "b") in contents(storage)


@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM"])
def test_all_indexes_find_the_same_records(index: str) -> None:
    storage = table_of_many_files(**{"hoodie.index.type": "SIMPLE"})
    batch = [(100 + 7 * n, "oslo" if n % 2 else "rome", 2, "b") for n in range(14)]
    moving = index.startswith("GLOBAL")
    if moving:
        open_table(storage).delete_partition("city=rome")
    before = {row[:2]: row for row in contents(storage)}

    result = open_table(storage, **{"hoodie.index.type": index}).upsert(rows(*batch))

    for row in batch:
        if moving:
            before.pop((row[0], "oslo"), None)
        before[row[:2]] = row
    assert contents(storage) == set(before.values())
    assert len(open_table(storage).scan().to_arrow()) == len(before)
    assert result.updated + result.inserted == len(batch)


BASE = BaseFile("p", BaseFileName("f-0", "0-0-0", "10"), "p/base", 1)
LOG = LogFile("p", LogFileName("f-0", "20", 1, "0-0-0"), "p/log", 1)
WHOLE = FileSlice(FileGroupId("p", "f-0"), "10", BASE, (LOG,))


@pytest.mark.parametrize(
    ("one", "table_wide", "inserts", "logs"),
    [
        pytest.param(WHOLE, False, False, (), id="logs of updates alone decide nothing"),
        pytest.param(WHOLE, False, True, ("p/log",), id="logs may hold records of their own"),
        pytest.param(WHOLE, True, False, ("p/log",), id="a newer version in a log keeps a record in its partition"),
        pytest.param(replace(WHOLE, base=None), False, False, ("p/log",), id="no base file"),
        pytest.param(replace(WHOLE, logs=()), True, True, (), id="no logs"),
    ],
)
def test_a_slice_is_searched_with_its_logs_where_they_decide_what_it_holds(
    one: FileSlice, table_wide: bool, inserts: bool, logs: tuple[str, ...]
) -> None:
    lookup = Lookup(
        storage=MemoryStorage().spec,
        folder=ExchangeFolder(MemoryStorage().spec, "x"),
        splits=(),
        merging=MergeSettings(schema=with_meta_columns(rows().schema), rules=TableRules()),
        instant_time="~",
        decided_by_logs=[one.group] if inserts else [],
        ordering_fields=(),
        scope=_scope(table_wide),
        view=load_view(MemoryStorage(), timeline_of(NEWEST, ())),
    )

    found = to_search(lookup, 4, one)

    assert found == SliceToSearch(4, slice_files(one.base, one.logs if logs else ()), "p")


def probed(task: TagTask, how: ProbeSettings) -> dict[int, int]:
    """By the number of the slice how many of the task's keys it may hold."""
    candidates = probe_files(how, TaskContext(0, 0, 0), task, read_keys(task)).candidates
    return {found.number: found.keys.rows for found in candidates}


def test_a_footer_without_a_filter_leaves_its_file_to_be_searched_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = table_of_many_files()
    footer = bloom.read_footer

    def without_filter(store: Storage, path: str) -> BaseFileFooter:
        found = footer(store, path)
        kept = {key: value for key, value in found.values.items() if key != BLOOM_FILTER_KEY}
        return replace(found, values=kept)

    monkeypatch.setattr(bloom, "read_footer", without_filter)

    result = open_table(storage, **{"hoodie.index.type": "BLOOM"}).upsert(
        rows((105, "oslo", 2, "b"), (7, "oslo", 1, "c"))
    )

    assert (result.updated, result.inserted) == (1, 1)
    assert (105, "oslo", 2, "b") in contents(storage)
