"""Single writers of JVM Hudi, which keep no heartbeat: one is killed or stands still, and pyhudi writes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.interop.neighbours import (
    ALONE,
    EVERY_TABLE,
    OracleOf,
    SharedTable,
    assert_everybody_sees,
    assert_nothing_left_over,
    batch,
    in_flight,
    newest,
    wait_until,
    written_alone,
)
from tests.support.oracle import Oracle, OracleError

from pyhudi.transaction.heartbeat import HEARTBEAT_FOLDER

FIRST = [("k0", "p0", 1, "first"), ("k1", "p1", 1, "first"), ("k2", "p0", 1, "first"), ("k3", "p1", 1, "first")]
LOST = [("k0", "p0", 3, "lost"), ("k3", "p1", 3, "lost"), ("k9", "p2", 3, "lost")]
NEXT = [("k2", "p0", 4, "next"), ("k8", "p0", 4, "next")]
LATER = [("k3", "p1", 5, "later")]


@contextlib.contextmanager
def standing_still(table: SharedTable, oracle: Oracle) -> Iterator[Callable[[], BaseException | None]]:
    """A write of JVM Hudi that has begun and stands still; the call lets it go on, and gives the error it ends with."""
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(table.write_with_jvm, oracle, batch(LOST), **ALONE)
        wait_until(lambda: writing.done() or in_flight(table))
        oracle.suspend()
        try:
            assert len(in_flight(table)) == 1

            def end() -> BaseException | None:
                oracle.resume()
                return writing.exception()

            yield end
        finally:
            oracle.resume()


def kill_single_writer(table: SharedTable, oracle: Oracle) -> str:
    with standing_still(table, oracle) as end:
        (dead,) = in_flight(table)
        oracle.kill()
        assert isinstance(end(), OracleError | OSError)
    oracle.stop()
    return dead


def heartbeats(table: SharedTable) -> list[str]:
    folder = table.path / HEARTBEAT_FOLDER
    return [file.name for file in folder.iterdir() if not file.name.endswith(".crc")] if folder.exists() else []


@pytest.mark.parametrize(("version", "kind"), EVERY_TABLE)
def test_jvm_hudi_goes_on_after_its_writer_was_killed_and_we_wrote(
    version: int, kind: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    table = SharedTable(tmp_path / "t", version, kind)
    oracle = written_alone(table, oracle_of, FIRST)

    dead = kill_single_writer(table, oracle)
    table.write_with_us(batch(NEXT))

    assert in_flight(table) == [dead], "JVM Hudi might have been at work"
    table.write_with_jvm(oracle, batch(LATER), **ALONE)
    assert_everybody_sees(table, oracle, newest(FIRST, NEXT, LATER), "rolled back by JVM Hudi")
    assert_nothing_left_over(table)
    table.write_with_us(batch(NEXT))
    assert heartbeats(table) == []


@pytest.mark.parametrize(("version", "kind"), EVERY_TABLE)
def test_eager_recovery_lets_jvm_hudi_go_on_that_refused_to_roll_back(
    version: int, kind: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    table = SharedTable(tmp_path / "t", version, kind)
    oracle = written_alone(table, oracle_of, FIRST)
    dead = kill_single_writer(table, oracle)
    table.write_with_us(batch(NEXT))
    for name in heartbeats(table):
        (table.path / HEARTBEAT_FOLDER / name).unlink()  # as earlier releases of pyhudi left it
    for _ in range(2):
        with pytest.raises(OracleError, match="rollback greater commits first"):
            table.write_with_jvm(oracle, batch(LATER), **ALONE)

    (done,) = table.open().recovery.roll_back_failed_writes(eager=True)

    assert done.instant == dead
    assert_nothing_left_over(table)
    table.write_with_jvm(oracle, batch(LATER), **ALONE)
    assert_everybody_sees(table, oracle, newest(FIRST, NEXT, LATER), "written on")


@pytest.mark.parametrize(("version", "kind"), EVERY_TABLE)
def test_single_writer_of_jvm_hudi_that_we_rolled_back_fails_and_nothing_of_it_is_seen(
    version: int, kind: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    table = SharedTable(tmp_path / "t", version, kind)
    oracle = written_alone(table, oracle_of, FIRST)

    with standing_still(table, oracle) as end:
        table.open().recovery.roll_back_failed_writes(eager=True)
        table.write_with_us(batch(NEXT))
        error = end()

    assert isinstance(error, OracleError)
    assert_everybody_sees(table, oracle, newest(FIRST, NEXT), "after its failure")
    table.write_with_jvm(oracle, batch(LATER), **ALONE)
    assert_everybody_sees(table, oracle, newest(FIRST, NEXT, LATER), "written on")
