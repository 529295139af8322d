"""What a commit costs in requests: as much on a long timeline as on a short one, and little more beside others."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.support.table_builder import TableBuilder
from tests.support.tables import MOR, StepClock, environment, new_table, open_table, rows

from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table
from pyhudi.table.written_files import load_written_files
from pyhudi.testing.faults import FaultStorage

CLOCK = StepClock()
KINDS = {"cow6": ({}, 6), "cow9": ({}, 9), "mor6": (MOR, 6), "mor9": (MOR, 9)}
FLAT = ("cow6", "mor9")
"""Not `mor6`, where an upsert reads the commits since the last compaction: names of logs do not tell whose they are."""
STATISTICS = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
}
WARM_UP = 6
"""Commits before the first count: a write looks at the five newest for the size of a record."""


def requests_of(storage: MemoryStorage, turn: int, *, others: int = 0) -> Counter[str]:
    """The requests of an upsert of one known key, while so many others commit to partitions of their own."""
    done = False

    def commit_others(operation: str, path: str) -> None:
        nonlocal done
        if not done and operation == "put_if_absent" and path.endswith("inflight"):
            done = True
            for number in range(others):
                opened(storage).upsert(rows((100 + number, f"w{number}", turn, "other")), hudi_options=OPTIONS)

    store = FaultStorage(storage, before=commit_others)
    table = load_table(store)
    load_written_files(store, table.version, table.timeline.completed_writes)  # as in a process that has written before
    known = len(store.operations)
    opened(store).upsert(rows((1, "mine", turn, "mine")), hudi_options=OPTIONS)
    return Counter(one.name for one in store.operations[known:])


OPTIONS = {
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
"""A commit alone, without table services."""


def opened(storage: MemoryStorage | FaultStorage):
    return open_table(storage, env=environment(CLOCK))


def prepared(kind: dict[str, str], version: int, *, commits: int = WARM_UP) -> Storage:
    table = TableBuilder(version, "mor" if kind else "cow", clock=CLOCK)
    for number in range(8):
        table = table.insert((100 + number, f"w{number}", 0, "other"))
    for turn in range(commits):
        table = table.upsert((1, "mine", turn, "mine"))
    return table.build()


@pytest.mark.parametrize(("kind", "version"), [KINDS[name] for name in FLAT], ids=FLAT)
def test_a_commit_costs_as_many_requests_after_thirty_commits_as_after_a_few(
    kind: dict[str, str], version: int
) -> None:
    storage = prepared(kind, version)
    first = requests_of(storage, WARM_UP)
    for turn in range(WARM_UP + 1, 30):
        opened(storage).upsert(rows((101, "w1", turn, "other")), hudi_options=OPTIONS)

    last = requests_of(storage, 30)

    # The log that the first count made is there for the last one.
    assert last - first <= Counter({"read": 1} if kind else {})
    assert len(load_table(storage).timeline.completed_writes) > 30


@pytest.mark.parametrize(("kind", "version"), KINDS.values(), ids=KINDS)
def test_the_first_read_of_a_process_costs_one_read_for_each_commit_and_the_second_none(
    kind: dict[str, str], version: int
) -> None:
    store = FaultStorage(prepared(kind, version))
    opened(store).inspect.files()
    first = Counter(one.name for one in store.operations)
    opened(store).inspect.files()
    second = Counter(one.name for one in store.operations) - first

    commits = len(load_table(store).timeline.completed_writes)
    assert first - second == Counter({"read": commits})


@pytest.mark.parametrize(("kind", "version"), KINDS.values(), ids=KINDS)
def test_each_writer_beside_ours_costs_one_read_and_the_newest_another(kind: dict[str, str], version: int) -> None:
    counts = {others: requests_of(prepared(kind, version), WARM_UP, others=others) for others in (0, 1, 7)}

    # The newest write of the table is known where nobody else has written meanwhile.
    assert counts[1] - counts[0] == Counter({"read": 2})
    assert counts[7] - counts[0] == Counter({"read": 8})
    assert counts[0] - counts[7] == Counter()


def test_clean_after_a_commit_costs_as_many_requests_after_sixty_commits_as_after_twenty() -> None:
    storage, counts = prepared({}, 9), []
    for turn in range(WARM_UP, 60):
        store = FaultStorage(storage)
        table = load_table(store)
        load_written_files(store, table.version, table.timeline.completed_writes)
        known = len(store.operations)
        opened(store).upsert(rows((1, "mine", turn, "mine")), hudi_options={"hoodie.compact.inline": "false"})
        counts.append(len(store.operations) - known)

    assert counts[-1] == counts[20]
    assert counts[-1] < 2 * counts[0]


def test_commit_with_all_services_costs_as_many_requests_after_a_hundred_commits() -> None:
    storage, counts = prepared(*KINDS["mor9"]), []
    services = {"hoodie.compact.inline": "true", "hoodie.log.compaction.enable": "true"}
    for turn in range(WARM_UP, 110):
        store = FaultStorage(storage)
        table = load_table(store)
        load_written_files(store, table.version, table.timeline.completed_writes)  # as in a warm process
        known = len(store.operations)
        opened(store).upsert(rows((1, "mine", turn, "mine")), hudi_options=services)
        counts.append(len(store.operations) - known)

    # Compaction and archiving come every few commits; forty of these have several rounds of each.
    assert sum(counts[-40:]) <= 1.1 * sum(counts[20:60])


def test_commit_of_a_table_with_statistics_looks_anew_only_where_safety_needs_it() -> None:
    """Properties and timeline: at the begin, with the lock before the first put and before the last, and after the
    commit for its services. Definitions of indexes: for the tasks, and with the lock."""
    storage = prepared({}, 9)
    options = {"hoodie.compact.inline": "false"}
    for turn in range(2):
        opened(storage).upsert(rows((1, "mine", WARM_UP + turn, "mine")), hudi_options=options | STATISTICS)
    table = opened(FaultStorage(storage))
    store = table.handle.state.storage
    store.operations.clear()

    table.upsert(rows((1, "mine", WARM_UP + 2, "mine")), hudi_options=options)

    calls = Counter((one.name, one.path) for one in store.operations)
    folder = table.handle.state.version.timeline_folder
    assert calls["read", ".hoodie/hoodie.properties"] == 4
    assert calls["list_names", folder] == 4
    assert calls["read", ".hoodie/.index_defs/index.json"] == 2
    assert calls["list_names", f".hoodie/metadata/{folder}"] == 3


CALLS = {
    "no metadata table": ({"hoodie.metadata.enable": "false"}, 38),
    "files": ({"hoodie.metadata.enable": "true"}, 45),
    "files and statistics": ({"hoodie.metadata.enable": "true", **STATISTICS}, 52),
}


@pytest.mark.parametrize(("options", "most"), CALLS.values(), ids=CALLS)
def test_commit_of_a_hundred_rows_into_four_partitions_makes_few_calls(options: dict[str, str], most: int) -> None:
    """Each opened file counts once, whether it is read or written. Without table services, which are not due."""
    cities = ("bern", "lima", "oslo", "rome")
    store = FaultStorage(MemoryStorage())
    table = new_table(store, **options)
    for turn in range(5):
        table.upsert(rows(*[(number, cities[number % 4], turn, "") for number in range(100)]), hudi_options=options)
    store.operations.clear()

    result = table.upsert(rows(*[(number, cities[number % 4], 5, "") for number in range(100)]), hudi_options=options)

    calls = Counter(one.name for one in store.operations if one.name != "close_output")
    assert calls.total() <= most, calls
    told = Counter[str]()
    for of_purpose in result.calls.values():
        told.update(of_purpose)
    assert told == Counter(
        GET=calls["read"] + calls["open_input"] + calls["read_with_etag"],
        PUT=calls["put"] + calls["put_if_absent"] + calls["open_output"],
        HEAD=calls["info"],
        LIST=calls["list_names"] + calls["list_folder"] + calls["list_recursive"],
        DELETE=calls["delete"] + calls["delete_folder"],
    )
