"""A compaction that died behind its delta commit, run again while another process remembers the first run."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.compactions import AFTER, let_the_runner_die, opened, prepared

import pyhudi
from pyhudi.storage.protocol import Storage
from pyhudi.testing.faults import FaultStorage, SimulatedCrash

COLUMNS = ["id", "city", "ts", "note"]
METADATA = {"hoodie.metadata.enable": "true", "hoodie.clean.automatic": "false"}


def table_in(storage: Storage) -> pyhudi.HudiTable:
    return opened(storage, **METADATA)


def answers(storage: Storage) -> tuple[set[Any], list[Any]]:
    """The rows, by the files that the metadata table has, and what is wrong with it."""
    table = table_in(storage)
    rows = table.scan(columns=COLUMNS).to_arrow().to_pylist()
    return {tuple(row.values()) for row in rows}, table.inspect.metadata_check().to_pylist()


def die_at_completion(storage: Storage, planned: str) -> None:
    """Run a compaction that dies when it is in the metadata table, and not yet on the timeline of the table."""

    def before(_: str, path: str) -> None:
        folder, _, name = path.rpartition("/")
        if folder in (".hoodie", ".hoodie/timeline") and name.startswith(planned) and name.endswith(".commit"):
            raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        table_in(FaultStorage(storage, before=before)).services.run(planned)
    let_the_runner_die(storage, planned)


def delta_commits(storage: Storage, planned: str) -> list[str]:
    return [
        info.path
        for info in storage.list_recursive(".hoodie/metadata/.hoodie")
        if planned in info.path and info.path.endswith(".deltacommit")
    ]


@pytest.mark.parametrize("version", [6, 8, 9])
def test_reader_that_knew_the_first_run_of_a_compaction_is_right_after_the_second(version: int) -> None:
    storage = prepared(version)
    table_in(storage).upsert(table_in(storage).scan(columns=COLUMNS).to_arrow())
    another_process = FaultStorage(storage)
    planned = table_in(storage).services.schedule()
    assert planned is not None
    die_at_completion(storage, planned)
    first = delta_commits(storage, planned)
    assert len(first) == 1
    assert answers(another_process) == (AFTER, [])

    assert table_in(storage).services.run(planned)["outcome"].to_pylist() == ["done"]

    # In version 6 the second delta commit has the path of the first.
    assert (delta_commits(storage, planned) == first) is (version == 6)
    assert answers(another_process) == (AFTER, [])
    assert table_in(another_process).upsert(table_in(storage).scan(columns=COLUMNS).to_arrow()).updated == 3
    assert answers(FaultStorage(storage)) == answers(another_process) == (AFTER, [])
