"""Writers that are killed while they write: we take back what a JVM left, and JVM Hudi what we left.

The killed are real processes, and what they leave is what `kill -9` leaves: markers of either kind, data files that
are there in part or whole, an inflight instant, a heartbeat.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from tests.interop.neighbours import (
    WAIT_SECONDS,
    SharedTable,
    assert_everybody_sees,
    assert_nothing_left_over,
    batch,
    file_lock,
    in_flight,
    let_heartbeats_expire,
    newest,
    wait_until,
)
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle, OracleError
from tests.support.tables import rehandled

from pyhudi.environment import SYSTEM
from pyhudi.errors import LockLostError
from pyhudi.format.timeline.instant import InstantState
from pyhudi.storage.local import LocalStorage
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage
from pyhudi.transaction.locks.filesystem import FileSystemLocks

OracleOf = Callable[[str], Oracle]
SPAWN = multiprocessing.get_context("spawn")

FIRST = [("k0", "p0", 1, "first"), ("k1", "p1", 1, "first"), ("k2", "p0", 1, "first"), ("k3", "p1", 1, "first")]
SECOND = [("k0", "p0", 2, "second"), ("k1", "p1", 2, "second")]
LOST = [("k0", "p0", 3, "lost"), ("k3", "p1", 3, "lost"), ("k8", "p0", 3, "lost"), ("k9", "p2", 3, "lost")]
NEXT = [("k2", "p0", 4, "next"), ("k8", "p0", 4, "next")]
LATER = [("k3", "p1", 5, "later")]
AT_ITS_MARKERS = "at its first marker"
AT_ITS_COMMIT = "before its commit"

DYING = [
    pytest.param(
        *(version, kind, markers, moment),
        id=f"v{version}-{kind}-{markers}".lower(),
        marks=pytest.mark.thorough if version == 8 else (),
    )
    for version in RELEASE_OF_TABLE_VERSION
    for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")
    for markers, moment in (("DIRECT", AT_ITS_COMMIT), ("TIMELINE_SERVER_BASED", AT_ITS_MARKERS))
]


def kill_jvm_while_it_writes(table: SharedTable, oracle: Oracle, moment: str) -> str:
    """Let JVM Hudi write the rows that are to be lost, and kill it; the instant that it leaves."""

    def until(instant: str) -> None:
        wait_until(lambda: files_below(table.path / ".hoodie" / ".temp" / instant))
        if moment == AT_ITS_COMMIT:
            wait_until_nothing_changes(table.path)

    return kill_jvm(table, oracle, lambda: table.write_with_jvm(oracle, batch(LOST)), in_flight, until)


def kill_jvm_while_it_compacts(table: SharedTable, oracle: Oracle) -> str:
    """Let JVM Hudi write the second rows and compact what is there, and kill it; the plan that it leaves."""
    compacts = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}

    def until(_plan: str) -> None:
        wait_until_nothing_changes(table.path)

    return kill_jvm(
        table, oracle, lambda: table.write_with_jvm(oracle, batch(SECOND), **compacts), being_compacted, until
    )


def kill_jvm(
    table: SharedTable,
    oracle: Oracle,
    act: Callable[[], None],
    begun: Callable[[SharedTable], list[str]],
    until: Callable[[str], None],
) -> str:
    """Kill JVM Hudi while it acts, some time after it has begun an instant; that instant.

    We hold the table lock from the moment at which it has begun, so that it cannot be completed. (Before that moment
    JVM Hudi needs the lock itself.)
    """
    with ThreadPoolExecutor(1) as pool:
        dying = pool.submit(act)
        wait_until(lambda: dying.done() or begun(table))
        lock = FileSystemLocks().acquire(LocalStorage(table.path), SYSTEM, wait_ms=WAIT_SECONDS * 1000)
        try:
            (instant,) = begun(table)
            until(instant)
        finally:
            oracle.kill()
            lock.release()
            error = dying.exception()
            oracle.stop()
    assert isinstance(error, OracleError)
    return instant


def kill_us_while_we_write(table: SharedTable, moment: str) -> None:
    """The same with a process of ours."""
    reached = table.path.with_name("reached")
    process = SPAWN.Process(target=write_until, args=(table, moment, reached), daemon=True)
    process.start()
    try:
        wait_until(reached.exists)
    finally:
        process.kill()
        process.join()


def write_until(table: SharedTable, moment: str, reached: Path) -> None:
    """Write the rows that are to be lost, and stand still: with half a data file, or before the lock of the commit."""

    def stand_still(operation: str, path: str) -> None:
        closes_data = operation == "close_output" and not path.startswith(".hoodie")
        locks = operation == "put_if_absent" and path.endswith("/lock") and bool(in_flight(table))
        if closes_data if moment == AT_ITS_MARKERS else locks:
            reached.touch()
            threading.Event().wait()

    opened = table.open()
    store = FaultStorage(LocalStorage(table.path), before=stand_still)
    rehandled(opened, loaded=load_table(store)).upsert(batch(LOST))


def being_compacted(table: SharedTable) -> list[str]:
    """The instants of the compactions that are being run, or were when their process died."""
    pending = load_table(LocalStorage(table.path)).timeline.pending_compactions
    return [str(instant.requested_time) for instant in pending if instant.state is InstantState.INFLIGHT]


def files_below(folder: Path) -> list[tuple[Path, int]]:
    """Every file and its size."""
    with suppress(FileNotFoundError):
        return [(file, file.stat().st_size) for file in sorted(folder.rglob("*")) if file.is_file()]
    return []


def wait_until_nothing_changes(path: Path) -> None:
    """For as long as a write of small files takes."""
    before: list[tuple[Path, int]] = []
    while (now := files_below(path)) != before:
        before = now
        time.sleep(1.5)


@pytest.mark.filterwarnings("ignore::pyhudi.config.option.OptionWarning")
@pytest.mark.parametrize(("version", "kind", "markers", "moment"), DYING)
def test_we_take_back_what_a_killed_jvm_left(
    version: int, kind: str, markers: str, moment: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle = oracle_of(RELEASE_OF_TABLE_VERSION[version])
    table = SharedTable(tmp_path / "t", version, kind, {**file_lock(), "hoodie.write.markers.type": markers})
    table.write_with_jvm(oracle, batch(FIRST))
    table.write_with_jvm(oracle, batch(SECOND))

    dead = kill_jvm_while_it_writes(table, oracle, moment)

    table.write_with_us(batch(NEXT[:1]))  # its heartbeat is fresh: it may be alive
    assert in_flight(table) == [dead]
    let_heartbeats_expire(table.path)
    table.write_with_us(batch(NEXT))
    assert_nothing_left_over(table)
    assert_everybody_sees(table, oracle, newest(FIRST, SECOND, NEXT), "taken back")
    table.write_with_jvm(oracle, batch(LATER))
    assert_everybody_sees(table, oracle, newest(FIRST, SECOND, NEXT, LATER), "written on")


@pytest.mark.filterwarnings("ignore::pyhudi.config.option.OptionWarning")
@pytest.mark.parametrize(("version", "kind", "markers", "moment"), DYING)
def test_jvm_hudi_takes_back_what_a_killed_process_of_ours_left(
    version: int, kind: str, markers: str, moment: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle = oracle_of(RELEASE_OF_TABLE_VERSION[version])
    table = SharedTable(tmp_path / "t", version, kind, {**file_lock(), "hoodie.write.markers.type": markers})
    table.write_with_us(batch(FIRST))
    table.write_with_us(batch(SECOND))

    kill_us_while_we_write(table, moment)

    assert len(in_flight(table)) == 1
    let_heartbeats_expire(table.path)
    table.write_with_jvm(oracle, batch(NEXT))
    assert_nothing_left_over(table)
    assert_everybody_sees(table, oracle, newest(FIRST, SECOND, NEXT), "taken back")
    table.write_with_us(batch(LATER))
    assert_everybody_sees(table, oracle, newest(FIRST, SECOND, NEXT, LATER), "written on")


@pytest.mark.filterwarnings("ignore::pyhudi.config.option.OptionWarning")
@pytest.mark.parametrize("version", [6, pytest.param(8, marks=pytest.mark.thorough), 9])
def test_a_compaction_of_a_killed_jvm_is_left_to_it_for_a_while_and_then_run_by_us(
    version: int, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle = oracle_of(RELEASE_OF_TABLE_VERSION[version])
    table = SharedTable(tmp_path / "t", version, "MERGE_ON_READ", file_lock())
    table.write_with_jvm(oracle, batch(FIRST))

    plan = kill_jvm_while_it_compacts(table, oracle)

    made = [file for file in files_below(table.path) if plan in file[0].name]
    assert table.open().services.run(plan)["outcome"].to_pylist() == ["left to another process"]  # it may be at it
    assert [file for file in files_below(table.path) if plan in file[0].name] == made
    let_heartbeats_expire(table.path)
    assert table.open().services.run(plan)["outcome"].to_pylist() == ["done"]
    assert_nothing_left_over(table)
    assert_everybody_sees(table, oracle, newest(FIRST, SECOND), "compacted")
    table.write_with_jvm(oracle, batch(LATER))
    assert_everybody_sees(table, oracle, newest(FIRST, SECOND, LATER), "written on")


@pytest.mark.filterwarnings("ignore::pyhudi.config.option.OptionWarning")
@pytest.mark.parametrize("version", [6, pytest.param(8, marks=pytest.mark.thorough), 9])
def test_a_compaction_of_ours_that_jvm_hudi_begins_anew_fails_and_breaks_nothing(
    version: int, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle = oracle_of(RELEASE_OF_TABLE_VERSION[version])
    table = SharedTable(tmp_path / "t", version, "MERGE_ON_READ", file_lock())
    table.write_with_us(batch(FIRST))
    table.write_with_us(batch(SECOND))
    opened = table.open()
    plan = opened.services.schedule()
    done = []

    def begin_anew(operation: str, path: str) -> None:
        if operation == "close_output" and f"_{plan}." in path and not done:
            done.append(path)
            options = "hoodie.metadata.enable=false,hoodie.datasource.write.precombine.field=ts"
            arguments = f"path => '{table.path}', options => '{options}', op => 'run', timestamp => {plan}"
            oracle.sql(f"CALL run_compaction({arguments})")

    store = FaultStorage(LocalStorage(table.path), before=begin_anew)
    ours = rehandled(opened, loaded=load_table(store))
    with pytest.raises(LockLostError):
        ours.services.run(plan)

    assert done
    table.write_with_us(batch(NEXT))
    assert_nothing_left_over(table)
    assert_everybody_sees(table, oracle, newest(FIRST, SECOND, NEXT), "compacted by JVM Hudi")
