"""A table of many commits stays small, quick to open and readable, with no option set."""

from __future__ import annotations

from collections import Counter
from statistics import median

import pytest
from tests.support.tables import MOR, SCHEMA, contents, environment, new_table, open_table, rows
from tests.support.tables import StepClock as Clock

import pyhudi
from pyhudi.format.timeline.instant import InstantTime
from pyhudi.format.timeline.lsm_history import (
    VERSION_FILE,
    HistoryFile,
    HistoryRow,
    encode_history_file,
    encode_manifest,
    encode_version_file,
    history_file_name,
    manifest_name,
)
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage

COMMITS = 130
KINDS = {"cow": {}, "mor": {name: value for name, value in MOR.items() if name != "hoodie.compact.inline"}}


def as_of(table: pyhudi.HudiTable, instant: str) -> set[tuple[object, ...]]:
    found = table.scan(as_of=instant).to_arrow().select(SCHEMA.names)
    return {tuple(row.values()) for row in found.to_pylist()}


@pytest.mark.parametrize("kind", KINDS)
def test_many_commits_with_defaults_leave_a_small_table_and_exact_past_states(kind: str) -> None:
    storage, clock = MemoryStorage(), Clock()
    new_table(storage, **KINDS[kind])
    states: list[tuple[str, set[tuple[object, ...]]]] = []
    requests, active, files = [], [], []
    for turn in range(COMMITS):
        store = FaultStorage(storage)
        values = rows((turn % 3, "oslo", turn, f"u{turn}"), (7, "rome", turn, f"v{turn}"))
        done = open_table(store, env=environment(clock)).upsert(values)
        requests.append(len(store.operations))
        states.append((done.instant, set(contents(storage)) if turn >= COMMITS - 9 else set()))
        active.append(len(load_table(storage).timeline.instants))
        files.append(len(list_data_files(storage)))

    assert max(active) <= 95
    assert max(files[-30:]) <= max(files[30:80]) <= 80
    assert sum(1 for _ in storage.list_recursive(".hoodie")) <= 400
    # The archive merges its files by ten, and a commit in which that happens is dearer; most are not.
    assert median(requests[-40:]) <= 1.2 * median(requests[40:80])
    table = open_table(storage)
    for instant, state in states[-9:]:
        assert as_of(table, instant) == state
    known = {row["instant"] for row in table.inspect.history().to_pylist()}
    assert {instant for instant, _ in states} <= known


def test_table_that_each_write_replaces_is_read_in_few_requests() -> None:
    storage, clock, requests = MemoryStorage(), Clock(), []
    new_table(storage)
    for turn in range(80):
        open_table(storage, env=environment(clock)).insert_overwrite_table(rows((1, "oslo", turn, f"u{turn}")))
        store = FaultStorage(storage)
        assert open_table(store).scan(["note"]).to_arrow().to_pylist() == [{"note": f"u{turn}"}]
        requests.append(len(store.operations))

    assert max(requests[-30:]) <= max(requests[:50]) <= 60


def archive_of(storage: Storage, instants: int, *, per_file: int) -> None:
    """So many commits in the archived timeline, as many mergings would have left them."""
    version = load_table(storage).version
    files = []
    for start in range(0, instants, per_file):
        times = [f"2020{number:013d}" for number in range(start, start + per_file)]
        data = encode_history_file([HistoryRow(time, time, "commit", b"{}", None) for time in times])
        name = history_file_name(times, 3)
        storage.put(f"{version.history_folder}/{name}", data)
        files.append(HistoryFile(name, len(data), InstantTime(times[0]), InstantTime(times[-1]), 3))
    storage.put(f"{version.history_folder}/{manifest_name(1)}", encode_manifest(files))
    storage.put(f"{version.history_folder}/{VERSION_FILE}", encode_version_file(1))


def test_archive_of_a_hundred_thousand_commits_costs_no_more_requests() -> None:
    counts = []
    for archived in (10, 100_000):
        storage = MemoryStorage()
        table = new_table(storage, **{"hoodie.clean.automatic": "false"})
        for turn in range(30):
            table.upsert(rows((1, "oslo", turn, f"u{turn}")))
        archive_of(storage, archived, per_file=min(archived, 10_000))
        store = FaultStorage(storage)
        opened = open_table(store)
        opened.scan().to_arrow()
        opened.upsert(rows((1, "oslo", 99, "last")), hudi_options={"hoodie.archive.automatic": "false"})
        counts.append(Counter((one.name, one.path.split("/")[0]) for one in store.operations))

    assert counts[0] == counts[1]
