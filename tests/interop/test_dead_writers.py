"""Writers that are killed while they write: we take back what a JVM left, and real Hudi what we left.

The killed are real processes, and what they leave is what `kill -9` leaves: markers of either kind, data files that
are there in part or whole, an inflight instant, a heartbeat. The test holds the table lock meanwhile, so that the write
cannot be completed before the blow.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.interop.neighbours import (
    SHORT_LIVED,
    Row,
    SharedTable,
    batch,
    check_everybody_sees,
    check_nothing_left_over,
    file_lock,
)
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle, OracleError

from pyhudi.storage.local import LocalStorage
from pyhudi.table.environment import SYSTEM
from pyhudi.table.lock_providers.filesystem import FileSystemLocks
from pyhudi.table.state import load_table

OracleOf = Callable[[str], Oracle]
SPAWN = multiprocessing.get_context("spawn")
WAIT_SECONDS = 120
POLL_SECONDS = 0.002

FIRST = [("k0", "p0", 1, "first"), ("k1", "p1", 1, "first"), ("k2", "p0", 1, "first"), ("k3", "p1", 1, "first")]
SECOND = [("k0", "p0", 2, "second"), ("k1", "p1", 2, "second")]
LOST = [("k0", "p0", 3, "lost"), ("k3", "p1", 3, "lost"), ("k8", "p0", 3, "lost"), ("k9", "p2", 3, "lost")]
NEXT = [("k2", "p0", 4, "next"), ("k8", "p0", 4, "next")]
AT_ITS_MARKERS = "at its first marker"
AT_ITS_COMMIT = "before its commit"

DYING = [
    pytest.param(version, kind, markers, moment, id=f"v{version}-{kind[:5].lower()}-{markers[:6].lower()}-{moment[:3]}")
    for version in RELEASE_OF_TABLE_VERSION
    for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")
    for markers, moment in (("DIRECT", AT_ITS_COMMIT), ("TIMELINE_SERVER_BASED", AT_ITS_MARKERS))
]


def newest(*batches: list[Row]) -> list[Row]:
    return list({row[0]: row for rows in batches for row in rows}.values())


@contextmanager
def held_lock_once_inflight(path: Path, pending_before: set[str]) -> Iterator[str]:
    """The instant that a writer has in flight; the block runs under the table lock, so that it stays so."""
    storage = LocalStorage(path)
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        pending = {str(one.requested_time) for one in load_table(storage).timeline.pending_writes} - pending_before
        if pending and (path / ".hoodie" / ".temp" / min(pending)).exists():
            lock = FileSystemLocks().acquire(storage, SYSTEM, wait_ms=WAIT_SECONDS * 1000)
            try:
                yield min(pending)
            finally:
                lock.release()
            return
        time.sleep(POLL_SECONDS)
    raise AssertionError("the writer does not begin")


def wait_for(moment: str, path: Path, instant: str) -> None:
    """Until the write has made its first marker, or until nothing has changed for as long as a write of files takes."""
    folder = path / ".hoodie" / ".temp" / instant
    deadline = time.monotonic() + WAIT_SECONDS
    while not any(file.is_file() for file in folder.rglob("*")):
        assert time.monotonic() < deadline
        time.sleep(POLL_SECONDS)
    if moment == AT_ITS_COMMIT:
        before: list[tuple[Path, int]] = []
        while (now := files_of(path)) != before:
            before = now
            time.sleep(1.5)


def files_of(path: Path) -> list[tuple[Path, int]]:
    """Every file of a table and its size, but for heartbeats."""
    return [(file, file.stat().st_size) for file in sorted(path.rglob("*")) if file.is_file()]


def kill_jvm_while_it_writes(table: SharedTable, oracle: Oracle, moment: str) -> str:
    """Let real Hudi write the rows that are to be lost, and kill it; the instant that it leaves."""
    with ThreadPoolExecutor(1) as pool:
        dying = pool.submit(table.write_with_jvm, oracle, batch(LOST))
        with held_lock_once_inflight(table.path, set()) as instant:
            wait_for(moment, table.path, instant)
            oracle.kill()
            with suppress(OracleError):
                dying.result()
    oracle.stop()
    return instant


def kill_us_while_we_write(table: SharedTable, moment: str) -> str:
    """The same with a process of ours."""
    process = SPAWN.Process(target=write_lost_rows, args=(table,), daemon=True)
    process.start()
    try:
        with held_lock_once_inflight(table.path, set()) as instant:
            wait_for(moment, table.path, instant)
            process.kill()
            process.join()
    finally:
        process.kill()
        process.join()
    return instant


def write_lost_rows(table: SharedTable) -> None:
    table.write_with_us(batch(LOST))


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
    assert [str(one.requested_time) for one in load_table(LocalStorage(table.path)).timeline.pending_writes] == [dead]
    time.sleep(2.1)
    table.write_with_us(batch(NEXT), **SHORT_LIVED)
    check_nothing_left_over(table)
    check_everybody_sees(table, oracle, newest(FIRST, SECOND, NEXT), "taken back")
    table.write_with_jvm(oracle, batch([("k3", "p1", 5, "later")]))
    check_everybody_sees(table, oracle, newest(FIRST, SECOND, NEXT, [("k3", "p1", 5, "later")]), "written on")


@pytest.mark.filterwarnings("ignore::pyhudi.config.option.OptionWarning")
@pytest.mark.parametrize(("version", "kind", "markers", "moment"), DYING)
def test_real_hudi_takes_back_what_a_killed_process_of_ours_left(
    version: int, kind: str, markers: str, moment: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle = oracle_of(RELEASE_OF_TABLE_VERSION[version])
    table = SharedTable(tmp_path / "t", version, kind, {**file_lock(), "hoodie.write.markers.type": markers})
    table.write_with_us(batch(FIRST))
    table.write_with_us(batch(SECOND))

    kill_us_while_we_write(table, moment)

    time.sleep(2.1)
    table.write_with_jvm(oracle, batch(NEXT), **SHORT_LIVED)
    check_nothing_left_over(table)
    check_everybody_sees(table, oracle, newest(FIRST, SECOND, NEXT), "taken back")
    table.write_with_us(batch([("k3", "p1", 5, "later")]))
    check_everybody_sees(table, oracle, newest(FIRST, SECOND, NEXT, [("k3", "p1", 5, "later")]), "written on")
