"""History of tables of JVM Hudi that was archived and cleaned: given whole, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.golden.archives import entries, unpack
from tests.interop.compare import assert_same_rows
from tests.interop.history_life import BEGIN, END, FALL_BACK, History, State, check_history, read_by_arrow, rows_of

import pyhudi
from pyhudi.errors import HistoryNotRetainedError
from pyhudi.table.archive.writes import load_archived_writes

HERE = Path(__file__).parent
LIVED = entries(HERE / "history")
ARCHIVED = [entry for entry in entries(HERE) if entry["name"].endswith("-archived")]


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of tables with an archive, unpacked, by name."""
    return unpack(HERE, ARCHIVED, tmp_path_factory.mktemp("golden-history"))


def archived(table: pyhudi.HudiTable) -> list[tuple[str, str]]:
    """The archived writes with their positions, oldest first."""
    return sorted(load_archived_writes(table.handle.state.storage, table.handle.state.version).completed.items())


@pytest.mark.parametrize("name", [entry["name"] for entry in ARCHIVED])
def test_changes_since_the_beginning_are_all_rows_though_most_writes_are_archived(
    name: str, unpacked: dict[str, Path]
) -> None:
    table = pyhudi.HudiTable.for_path(str(unpacked[name] / "table"))

    assert_same_rows(
        pq.read_table(unpacked[name] / "expected" / "snapshot.parquet"), table.changes().to_arrow(), hint=name
    )


@pytest.mark.parametrize("name", [entry["name"] for entry in ARCHIVED])
def test_changes_since_an_archived_write_are_the_rows_that_are_younger(name: str, unpacked: dict[str, Path]) -> None:
    table = pyhudi.HudiTable.for_path(str(unpacked[name] / "table"))
    third, position = archived(table)[2]
    rows = table.scan().to_arrow().to_pylist()

    changes = table.changes(position).to_arrow().column("_hoodie_record_key").to_pylist()

    younger = [row["_hoodie_record_key"] for row in rows if row["_hoodie_commit_time"] > third]
    assert sorted(changes) == sorted(younger)
    assert 0 < len(changes) < len(rows)


@pytest.mark.parametrize("name", [entry["name"] for entry in ARCHIVED])
def test_ranges_and_states_of_which_files_were_cleaned_are_refused(name: str, unpacked: dict[str, Path]) -> None:
    path = str(unpacked[name] / "table")
    table = pyhudi.HudiTable.for_path(path)
    writes = archived(table)

    for write, _ in writes[:4]:
        with pytest.raises(HistoryNotRetainedError) as refused:
            table.scan(as_of=write).to_arrow()
        assert not (unpacked[name] / "table" / refused.value.context["path"]).exists()
        earliest = refused.value.context["earliest"]
        assert table.scan(as_of=earliest).to_arrow().num_rows > 0
    with pytest.raises(HistoryNotRetainedError):
        table.changes(end=writes[0][1]).to_arrow()

    scanning = {"hoodie.datasource.read.incr.fallback.fulltablescan.enable": "true"}
    found = pyhudi.HudiTable.for_path(path, hudi_options=scanning).changes(end=writes[0][1]).to_arrow()
    unchanged = [row for row in table.scan().to_arrow().to_pylist() if row["_hoodie_commit_time"] == writes[0][0]]
    assert_same_rows(pq.read_table(unpacked[name] / "expected" / "snapshot.parquet").slice(0, 0), found.slice(0, 0))
    assert len(found) == len(unchanged) > 0


@pytest.fixture(scope="session")
def lived(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of tables with a history, unpacked, by name."""
    return unpack(HERE / "history", LIVED, tmp_path_factory.mktemp("golden-lives"))


@pytest.mark.parametrize("entry", LIVED, ids=lambda entry: entry["name"])
def test_every_state_and_range_of_a_life_is_given_whole_or_refused(
    entry: dict[str, Any], lived: dict[str, Path]
) -> None:
    history = History(tuple(State(**state) for state in entry["states"]))
    path = lived[entry["name"]] / "table"

    refused = check_history(path, history, read_by_arrow(path))

    assert len(refused) > 2


@pytest.mark.parametrize("name", ["v6-dropped", "v8-merged", "v9-clustered"])
def test_a_full_scan_gives_of_each_range_what_the_newest_state_has_of_it(name: str, lived: dict[str, Path]) -> None:
    (entry,) = [entry for entry in LIVED if entry["name"] == name]
    history = History(tuple(State(**state) for state in entry["states"]))
    path = lived[name] / "table"
    positions, newest = history.positions, history.states[-1].rows

    refused = [question for question in check_history(path, history, read_by_arrow(path)) if BEGIN in question]

    for question in refused:
        found = rows_of(read_by_arrow(path)({**question, FALL_BACK: "true"}))
        assert found == [row for row in newest if question[BEGIN] < positions[row[1]] <= question[END]]


def test_the_state_of_a_savepoint_is_read_though_states_around_it_are_gone(lived: dict[str, Path]) -> None:
    for entry in LIVED:
        if entry["name"].endswith("-savepointed"):
            savepointed, after = (next(iter(state["instants"])) for state in entry["states"][1:3])
            table = pyhudi.HudiTable.for_path(str(lived[entry["name"]] / "table"))

            assert rows_of(table.scan(as_of=savepointed).to_arrow()) == entry["states"][1]["rows"]
            with pytest.raises(HistoryNotRetainedError):
                table.scan(as_of=after).to_arrow()
