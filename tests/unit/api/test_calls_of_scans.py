"""`Scan.calls`: what planning a scan and reading it has asked of the table's store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.support.tables import MOR, new_table, open_table, rows

import pyhudi
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.metered import Meter, MeteredStorage
from pyhudi.testing.faults import FaultStorage

PLANNED = {"data": {"LIST": 3}, "timeline": {"GET": 3, "LIST": 1}}
"""A listing of the root and of each partition, the folder of hashing metadata, the commits, the index definitions."""
PLANNED_BY_METADATA = {"metadata_table": {"GET": 5, "LIST": 2}, "timeline": {"GET": 3, "LIST": 1}}
KINDS = {
    "copy-on-write": ({}, "false", PLANNED, 2),
    "merge-on-read": (MOR, "false", PLANNED, 4),
    "copy-on-write, metadata table": ({}, "true", PLANNED_BY_METADATA, 2),
    "merge-on-read, metadata table": (MOR, "true", PLANNED_BY_METADATA, 4),
}
"""Options, metadata table, the calls of planning, and how many data files the newest state has."""


def opened(metadata_table: str = "false", **kind: str) -> tuple[pyhudi.HudiTable, FaultStorage]:
    """A table of two partitions, of which each was inserted into and updated, and its store, not asked since."""
    storage, options = MemoryStorage(), {"hoodie.metadata.enable": metadata_table}
    table = new_table(storage, **kind, **options)
    table.insert(rows((1, "oslo", 1, "a"), (2, "oslo", 1, "b"), (3, "rome", 1, "c")), hudi_options=options)
    table.upsert(rows((1, "oslo", 2, "x"), (3, "rome", 2, "y")), hudi_options=options)
    store = FaultStorage(storage)
    table = open_table(store)
    store.operations.clear()
    return table, store


def total(calls: Mapping[str, Mapping[str, int]]) -> int:
    return sum(count for of_purpose in calls.values() for count in of_purpose.values())


@pytest.mark.parametrize(("kind", "metadata_table", "planned", "files"), KINDS.values(), ids=KINDS)
def test_scan_counts_planning_and_each_read_once(
    kind: dict[str, str], metadata_table: str, planned: dict[str, Any], files: int
) -> None:
    table, store = opened(metadata_table, **kind)

    scan = table.scan()
    assert scan.calls == planned
    for turn in (1, 2):
        assert scan.to_arrow().num_rows == 3
        data = {**planned.get("data", {}), "GET": turn * files}
        assert scan.calls == {**planned, "data": data}
    assert total(scan.calls) == len(store.operations), Counter(done.name for done in store.operations)


def test_calls_are_a_value_that_later_reads_do_not_change() -> None:
    scan = opened()[0].scan()
    before = scan.calls

    scan.to_arrow()

    assert before == PLANNED
    assert scan.calls != before


@pytest.mark.parametrize("kind", [{}, MOR], ids=["copy-on-write", "merge-on-read"])
def test_batches_count_when_they_are_read(kind: dict[str, str]) -> None:
    table, store = opened(**kind)
    scan = table.scan()

    batches = scan.to_batches()
    assert scan.calls == PLANNED
    assert sum(batch.num_rows for batch in batches) == 3
    assert total(scan.calls) == len(store.operations) > total(PLANNED)


@pytest.mark.parametrize("kind", [{}, MOR], ids=["copy-on-write", "merge-on-read"])
def test_two_scans_that_are_read_at_once_count_their_own_calls(kind: dict[str, str]) -> None:
    table, store = opened(**kind)
    everything, oslo = table.scan(), table.scan(where=[("city", "==", "oslo")])
    before = [total(scan.calls) for scan in (everything, oslo)]
    turns = 20

    with ThreadPoolExecutor(8) as pool:
        read = [pool.submit(scan.to_arrow) for _ in range(turns) for scan in (everything, oslo)]
        found = [done.result().num_rows for done in read]

    files = 4 if kind else 2
    assert found == [3, 2] * turns
    assert [total(scan.calls) - was for scan, was in zip((everything, oslo), before, strict=True)] == [
        turns * files,
        turns * files // 2,
    ]
    assert total(everything.calls) + total(oslo.calls) == len(store.operations)


def test_second_scan_of_a_table_asks_only_for_what_the_first_has_not_loaded() -> None:
    table, _ = opened()
    table.scan()

    assert table.scan().calls == {"data": {"LIST": 3}, "timeline": {"LIST": 1}}


def test_scan_of_a_named_savepoint_counts_the_search_for_it() -> None:
    table, store = opened()
    table.savepoints.create(name="before")
    table.refresh()
    store.operations.clear()

    scan = table.scan(as_of="before")

    assert total(scan.calls) == len(store.operations)


@pytest.mark.parametrize("form", ["latest_state", "cdc"])
def test_changes_count_planning_and_reading(form: Any) -> None:
    table, store = opened(**{"hoodie.table.cdc.enabled": "true"})

    scan = table.changes(format=form)
    scan.to_arrow()

    assert total(scan.calls) == len(store.operations) > 0


def test_count_and_explain_are_reads() -> None:
    table, store = opened()
    scan = table.scan(where=[("note", "==", "x")])

    assert scan.count() == 1
    scan.explain()

    assert total(scan.calls) == len(store.operations)


def test_plan_opens_the_store_as_the_table_does() -> None:
    table, _ = opened()

    assert table.scan()._plan.storage == table.handle.storage.spec


def test_scan_within_a_write_counts_for_the_write_too() -> None:
    table, _ = opened()
    written = MeteredStorage(table.handle.storage, Meter())
    table.handle.loaded = table.handle.loaded.through(written)

    scan = table.scan()
    scan.to_arrow()

    assert written.meter.calls() == scan.calls
    assert scan._plan.storage == written.spec
