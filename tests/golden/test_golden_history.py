"""History of tables of JVM Hudi that was archived and cleaned: given whole, or refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.golden.archives import entries, unpack
from tests.interop.compare import assert_same_rows

import pyhudi
from pyhudi.errors import HistoryNotRetainedError
from pyhudi.table.history import archived_writes
from pyhudi.table.timeline import position_of

HERE = Path(__file__).parent
ARCHIVED = [entry for entry in entries(HERE) if entry["name"].endswith("-archived")]


@pytest.fixture(scope="session")
def archived(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of tables with an archive, unpacked, by name."""
    return unpack(HERE, ARCHIVED, tmp_path_factory.mktemp("golden-history"))


@pytest.mark.parametrize("name", [entry["name"] for entry in ARCHIVED])
def test_changes_since_the_beginning_are_all_rows_though_most_writes_are_archived(
    name: str, archived: dict[str, Path]
) -> None:
    table = pyhudi.HudiTable.for_path(str(archived[name] / "table"))

    assert_same_rows(pq.read_table(archived[name] / "expected" / "snapshot.parquet"), table.changes(), hint=name)


@pytest.mark.parametrize("name", [entry["name"] for entry in ARCHIVED])
def test_changes_since_an_archived_write_are_the_rows_that_are_younger(name: str, archived: dict[str, Path]) -> None:
    table = pyhudi.HudiTable.for_path(str(archived[name] / "table"))
    third = archived_writes(table.state.storage, table.state.version)[2]
    rows = table.to_arrow().to_pylist()

    changes = table.changes(position_of(third)).column("_hoodie_record_key").to_pylist()

    younger = [row["_hoodie_record_key"] for row in rows if row["_hoodie_commit_time"] > third.requested_time]
    assert sorted(changes) == sorted(younger)
    assert 0 < len(changes) < len(rows)


@pytest.mark.parametrize("name", [entry["name"] for entry in ARCHIVED])
def test_ranges_and_states_of_which_files_were_cleaned_are_refused(name: str, archived: dict[str, Path]) -> None:
    path = str(archived[name] / "table")
    table = pyhudi.HudiTable.for_path(path)
    writes = archived_writes(table.state.storage, table.state.version)

    for write in writes[:4]:
        with pytest.raises(HistoryNotRetainedError) as refused:
            table.to_arrow(as_of=write.requested_time)
        assert not (archived[name] / "table" / refused.value.context["path"]).exists()
        earliest = refused.value.context["earliest"]
        assert table.to_arrow(as_of=earliest).num_rows > 0
    with pytest.raises(HistoryNotRetainedError):
        table.changes(end=position_of(writes[0]))

    scanning = {"hoodie.datasource.read.incr.fallback.fulltablescan.enable": "true"}
    found = pyhudi.HudiTable.for_path(path, hudi_options=scanning).changes(end=position_of(writes[0]))
    unchanged = [row for row in table.to_arrow().to_pylist() if row["_hoodie_commit_time"] == writes[0].requested_time]
    assert_same_rows(pq.read_table(archived[name] / "expected" / "snapshot.parquet").slice(0, 0), found.slice(0, 0))
    assert len(found) == len(unchanged) > 0
