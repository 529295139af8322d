"""Savepoints, restores and rollbacks of ours and of JVM Hudi on one table: each goes on from the other's."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop.compare import assert_same_rows
from tests.support.jvm_tables import every_kind, jvm_options, state
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle, OracleError

import pyhudi
from pyhudi.errors import InvalidRequestError, WriteConflictError
from pyhudi.format.timeline.instant import Action, InstantState
from pyhudi.storage.open import open_storage
from pyhudi.table.lister import list_data_files
from pyhudi.table.metadata_table import has_metadata_table

OracleOf = Callable[[str], Oracle]
CITIES = ("oslo", "rome", "lima")
OURS = {"hoodie.clean.automatic": "false", "hoodie.compact.inline": "false"}


def batch(number: int) -> pa.Table:
    """New versions of eight records in two partitions, and one new record."""
    ids = [*range(8), 100 + number]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "city": [CITIES[one % 2] if one < 8 else CITIES[2] for one in ids],
            "v": pa.array([number] * len(ids), pa.int64()),
            "ts": pa.array([number] * len(ids), pa.int64()),
        }
    )


EVERY_TABLE = every_kind(quick=(9, "MERGE_ON_READ"), thorough=(8, "COPY_ON_WRITE"))


def options(table_type: str, **others: str) -> dict[str, str]:
    return jvm_options(table_type, **{"hoodie.keep.min.commits": "50", "hoodie.keep.max.commits": "60", **others})


def ours(path: Path) -> pyhudi.HudiTable:
    return pyhudi.HudiTable.for_path(str(path), hudi_options=OURS)


def newest(path: Path) -> str:
    return state(path).timeline.completed_writes[-1].requested_time


def data_files(path: Path) -> set[str]:
    return {one.path for one in list_data_files(open_storage(str(path), {})) if not one.name.startswith(".hoodie")}


def let_time_pass(path: Path) -> None:
    """Make the timeline look as if nobody had touched it for an hour."""
    then = time.time() - 3600
    for file in (path / ".hoodie").rglob("*"):
        os.utime(file, (then, then))


def check_same(oracle: Oracle, path: Path, expected: pa.Table | None = None, **read: str) -> pa.Table:
    rows = ours(path).scan().to_arrow()
    assert_same_rows(oracle.read(path, read), rows, hint="ours and JVM Hudi's")
    if expected is not None:
        assert_same_rows(expected, rows, hint="as it was")
    return rows


def live_on(oracle: Oracle, path: Path, given: dict[str, str], first: int) -> None:
    """Whatever makes a restore hard: updates of both, an overwrite, a compaction, a plan and writes beside it."""
    oracle.write(path, batch(first), given)
    ours(path).upsert(batch(first + 1))
    if given["hoodie.datasource.write.table.type"] == "MERGE_ON_READ":
        ours(path).services.compact()
        oracle.write(path, batch(first + 2), given)
        assert ours(path).services.schedule() is not None
        ours(path).upsert(batch(first + 3))
        oracle.write(path, batch(first + 4), given)
    oracle.write(path, batch(first + 5), {**given, "hoodie.datasource.write.operation": "insert_overwrite"})
    ours(path).delete(batch(first + 5).slice(0, 3))


@pytest.mark.parametrize(("version", "table_type"), EVERY_TABLE)
def test_table_that_we_restored_goes_on_under_jvm_hudi_with_its_metadata_table_built_anew(
    version: int, table_type: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, given = oracle_of(RELEASE_OF_TABLE_VERSION[version]), options(table_type)
    path = tmp_path / "t"
    oracle.write(path, batch(0), given)
    oracle.write(path, batch(1), given)
    made = ours(path).savepoints.create(name="kept")
    shown = oracle.sql(f"CALL show_savepoints(path => '{path}')")
    assert [row["savepoint_time"] for row in shown] == [made.instant]
    expected, files = check_same(oracle, path), data_files(path)
    live_on(oracle, path, given, 2)

    done = ours(path).recovery.restore("kept")

    assert done.to == made.instant
    assert len(done.rolled_back) >= 4
    check_same(oracle, path, expected)
    if version > 6:
        assert data_files(path) == files
    with_metadata = {**given, "hoodie.metadata.enable": "true"}
    oracle.write(path, batch(20), with_metadata)
    assert has_metadata_table(state(path))
    check_same(oracle, path, **{"hoodie.metadata.enable": "true"})
    ours(path).upsert(batch(21))
    oracle.write(path, batch(22), with_metadata)
    check_same(oracle, path, **{"hoodie.metadata.enable": "true"})
    as_it_was = oracle.read(path, {"as.of.instant": made.instant})
    assert_same_rows(as_it_was, ours(path).scan(as_of="kept").to_arrow(), hint="the savepoint")
    oracle.sql(f"CALL delete_savepoint(path => '{path}', instant_time => '{made.instant}')")
    assert ours(path).savepoints.list().num_rows == 0


@pytest.mark.parametrize(("version", "table_type"), EVERY_TABLE)
def test_table_that_jvm_hudi_restored_goes_on_under_ours_and_its_half_dead_restore_is_finished(
    version: int, table_type: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, given = oracle_of(RELEASE_OF_TABLE_VERSION[version]), options(table_type)
    path = tmp_path / "t"
    oracle.write(path, batch(0), given)
    ours(path).upsert(batch(1))
    target = newest(path)
    oracle.sql(f"CALL create_savepoint(path => '{path}', commit_time => '{target}', user => 'u', comments => 'c')")
    (listed,) = ours(path).savepoints.list().to_pylist()
    assert (listed["instant"], listed["user"], listed["comment"], listed["name"]) == (target, "u", "c", None)
    expected = check_same(oracle, path)
    live_on(oracle, path, given, 2)

    try:
        oracle.sql(f"CALL rollback_to_savepoint(path => '{path}', instant_time => '{target}')")
    except OracleError:
        # Some releases fail when the table has no metadata table: everything is rolled back, the restore stays pending.
        with pytest.raises(WriteConflictError, match="restore"):
            ours(path).upsert(batch(20))
        with pytest.raises(WriteConflictError, match="restore"):
            ours(path).recovery.restore(target)
        let_time_pass(path)
        assert ours(path).recovery.restore(target).to == target
    restores = [one for one in state(path).timeline.instants if one.action is Action.RESTORE]
    assert [one.state for one in restores] == [InstantState.COMPLETED]
    check_same(oracle, path, expected)
    oracle.write(path, batch(20), given)
    ours(path).upsert(batch(21))
    check_same(oracle, path)
    ours(path).savepoints.delete(target)
    assert not oracle.sql(f"CALL show_savepoints(path => '{path}')")


def clustered(oracle: Oracle, path: Path, given: dict[str, str]) -> None:
    del given
    oracle.sql(f"CALL run_clustering(path => '{path}', op => 'scheduleAndExecute')")


def overwritten(oracle: Oracle, path: Path, given: dict[str, str]) -> None:
    oracle.write(path, batch(30), {**given, "hoodie.datasource.write.operation": "insert_overwrite"})


def updated(oracle: Oracle, path: Path, given: dict[str, str]) -> None:
    oracle.write(path, batch(31), given)


def deleted(oracle: Oracle, path: Path, given: dict[str, str]) -> None:
    oracle.write(path, batch(32).slice(0, 4), {**given, "hoodie.datasource.write.operation": "delete"})


def compacted(oracle: Oracle, path: Path, given: dict[str, str]) -> None:
    oracle.write(
        path, batch(33), {**given, "hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    )


@pytest.mark.parametrize(("version", "table_type"), EVERY_TABLE)
def test_newest_write_of_jvm_hudi_of_each_kind_is_rolled_back_and_an_older_one_by_neither(
    version: int, table_type: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, given = oracle_of(RELEASE_OF_TABLE_VERSION[version]), options(table_type)
    path = tmp_path / "t"
    oracle.write(path, batch(0), given)
    oracle.write(path, batch(1), given)
    for change in (updated, overwritten, deleted, clustered):
        before = check_same(oracle, path)
        change(oracle, path, given)
        done = ours(path).recovery.rollback(newest(path))
        assert done.files_deleted or done.slices_undone or change is deleted
        check_same(oracle, path, before)
    if table_type == "MERGE_ON_READ":
        compacted(oracle, path, given)
        before, compaction = check_same(oracle, path), newest(path)
        (kind,) = (one.action for one in state(path).timeline.completed_writes if one.requested_time == compaction)
        assert kind is Action.COMMIT
        ours(path).recovery.rollback(compaction)
        names = ["_hoodie_file_name"]  # of the compacted base files, or of the base files under the logs
        assert_same_rows(before.drop_columns(names), check_same(oracle, path).drop_columns(names), hint="compaction")
    oracle.write(path, batch(40), given)
    middle = state(path).timeline.completed_writes[-2].requested_time
    name = f"rolled_{version}_{table_type.lower()}"
    oracle.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    with pytest.raises(OracleError):
        oracle.sql(f"CALL rollback_to_instant(table => '{name}', instant_time => '{middle}')")
    let_time_pass(path)
    with pytest.raises(InvalidRequestError, match="a later write"):
        ours(path).recovery.rollback(middle)
    oracle.sql(f"DROP TABLE {name}")
    # JVM Hudi leaves the rollback that it refused on the timeline, and fails at each write from then on.
    let_time_pass(path)
    ours(path).upsert(batch(41))
    assert not state(path).timeline.pending_rollbacks
    oracle.write(path, batch(42), given)
    check_same(oracle, path)


@pytest.mark.parametrize(("version", "table_type"), EVERY_TABLE)
def test_rollback_that_jvm_hudi_refused_for_a_savepoint_is_removed_by_our_write(
    version: int, table_type: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, given = oracle_of(RELEASE_OF_TABLE_VERSION[version]), options(table_type)
    path, name = tmp_path / "t", f"kept_{version}_{table_type}"
    oracle.write(path, batch(0), given)
    oracle.write(path, batch(1), given)
    kept = newest(path)
    oracle.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    oracle.sql(f"CALL create_savepoint(path => '{path}', commit_time => '{kept}', user => 'u', comments => 'c')")
    for refused in (
        lambda: oracle.sql(f"CALL rollback_to_instant(table => '{name}', instant_time => '{kept}')"),
        lambda: oracle.write(path, batch(2), given),
    ):
        with pytest.raises(OracleError, match="savepointed commit"):
            refused()
    before = check_same(oracle, path)

    let_time_pass(path)
    ours(path).upsert(batch(3).slice(8))

    assert not state(path).timeline.pending_rollbacks
    assert check_same(oracle, path).num_rows == before.num_rows + 1
    oracle.write(path, batch(4), given)
    check_same(oracle, path)
