"""A rollback in which JVM Hudi was killed: what we read and write then, and that JVM Hudi goes on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.interop.neighbours import (
    ALONE,
    EVERY_TABLE,
    OracleOf,
    Row,
    SharedTable,
    assert_everybody_sees,
    assert_nothing_left_over,
    batch,
    newest,
    sorted_rows,
    wait_until,
    written_alone,
)
from tests.support.oracle import Oracle, OracleError

from pyhudi.format.timeline.instant import InstantState
from pyhudi.storage.local import LocalStorage
from pyhudi.table.state import load_table

FIRST = [("k0", "p0", 1, "first"), ("k1", "p1", 1, "first"), ("k2", "p0", 1, "first"), ("k3", "p1", 1, "first")]
UNDONE = [("k0", "p0", 2, "undone"), ("k3", "p1", 2, "undone"), ("k9", "p2", 2, "undone")]
NEXT = [("k2", "p0", 3, "next"), ("k8", "p0", 3, "next")]
LATER = [("k3", "p1", 4, "later")]
INDEXED = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
}


def kill_rollback(table: SharedTable, oracle: Oracle, name: str) -> str:
    """Kill JVM Hudi when it has taken the completed instant of the newest write away; the instant of that write."""
    undone = str(load_table(LocalStorage(table.path)).timeline.completed_writes[-1].requested_time)

    def is_taken_away() -> bool:
        return not load_table(LocalStorage(table.path)).timeline.is_committed(undone)

    oracle.sql(f"CREATE TABLE {name} USING hudi LOCATION '{table.path}'")
    with ThreadPoolExecutor(1) as pool:
        call = f"CALL rollback_to_instant(table => '{name}', instant_time => '{undone}')"
        rolling = pool.submit(oracle.sql, call)
        wait_until(lambda: rolling.done() or is_taken_away())
        oracle.kill()
        assert isinstance(rolling.exception(), OracleError | OSError)
    oracle.stop()
    return undone


def assert_filters_find(table: SharedTable, expected: list[Row]) -> None:
    for key, _, ts, says in expected:
        for condition in (("id", "==", key), ("says", "==", says), ("ts", "==", ts)):
            column = ("id", "part", "ts", "says").index(condition[0])
            wanted = sorted(row for row in expected if row[column] == condition[2])
            assert sorted_rows(table.open().scan(where=[condition]).to_arrow()) == wanted, condition


@pytest.mark.filterwarnings("ignore::pyhudi.errors.MetadataTableWarning")
@pytest.mark.parametrize(("version", "kind"), EVERY_TABLE)
def test_both_go_on_after_jvm_hudi_was_killed_in_a_rollback(
    version: int, kind: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    table = SharedTable(tmp_path / "t", version, kind, INDEXED)
    oracle = written_alone(table, oracle_of, FIRST, UNDONE)

    undone = kill_rollback(table, oracle, f"undone_{version}_{kind}")

    pending = load_table(LocalStorage(table.path)).timeline.pending_writes
    assert [(i.requested_time, i.state) for i in pending] == [(undone, InstantState.INFLIGHT)]
    assert table.rows_of_ours() == FIRST
    assert_filters_find(table, FIRST)
    table.write_with_us(batch(NEXT))
    assert_filters_find(table, newest(FIRST, NEXT))
    table.write_with_jvm(oracle, batch(LATER), **ALONE)
    assert_everybody_sees(table, oracle, newest(FIRST, NEXT, LATER), "gone on")
    assert_filters_find(table, newest(FIRST, NEXT, LATER))
    assert_nothing_left_over(table)


@pytest.mark.parametrize(("version", "kind"), EVERY_TABLE)
def test_jvm_hudi_ends_a_rollback_in_which_it_died_last_after_we_wrote(
    version: int, kind: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    table = SharedTable(tmp_path / "t", version, kind, INDEXED)
    oracle = written_alone(table, oracle_of, FIRST, UNDONE)
    name = f"ended_{version}_{kind}"
    oracle.sql(f"CREATE TABLE {name} USING hudi LOCATION '{table.path}'")
    undone = load_table(LocalStorage(table.path)).timeline.completed_writes[-1].requested_time
    oracle.sql(f"CALL rollback_to_instant(table => '{name}', instant_time => '{undone}')")
    (completed,) = (file for file in (table.path / ".hoodie").rglob("*.rollback") if "metadata" not in file.parts)
    completed.unlink()  # as if it had been killed before this last step

    table.write_with_us(batch(NEXT))

    table.write_with_jvm(oracle, batch(LATER), **ALONE)
    assert_everybody_sees(table, oracle, newest(FIRST, NEXT, LATER), "gone on")
    assert_nothing_left_over(table)
