"""What a write does for the sake of writers of JVM Hudi, of which nothing can be seen yet."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.table_builder import TableBuilder
from tests.support.tables import StepClock, environment, open_table, rows

from pyhudi.format.timeline.instant import parse_instant_time
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.instant_times import table_zone
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage

SETTLING_MS = 2000
BUILT_IN: dict[str, str] = {}
SHARED = {"hoodie.write.lock.provider": "FileSystemBasedLockProvider"}


def prepared(folder: Path, version: int) -> Storage:
    return TableBuilder(version).upsert((1, "oslo", 1, "a")).build(LocalStorage(folder))


def age_at_commit(storage: Storage, options: dict[str, str], *, work_ms: int = 0) -> int:
    """How many milliseconds after its instant time an upsert is completed that works so long at its data."""
    clock, ages = StepClock(1_790_000_100_000), []

    def watch(operation: str, path: str) -> None:
        if operation == "open_output" and path.endswith(".parquet"):
            clock.sleep(work_ms / 1000)
        if operation == "put_if_absent" and path.endswith(".commit"):
            taken = path.rpartition("/")[2].partition(".")[0].partition("_")[0]
            began_ms = parse_instant_time(taken, table_zone(load_table(storage).config))
            assert began_ms is not None
            ages.append(clock.ms - began_ms)

    open_table(FaultStorage(storage, before=watch), env=environment(clock), **options).upsert(rows((1, "oslo", 2, "b")))
    (age,) = ages
    return age


def test_version_6_write_under_a_lock_of_hudi_0_15_completes_after_earlier_writes_have_begun(
    tmp_path: Path,
) -> None:
    assert SETTLING_MS <= age_at_commit(prepared(tmp_path, 6), SHARED) < SETTLING_MS + 500


def test_a_write_that_took_longer_waits_no_longer(tmp_path: Path) -> None:
    assert 4000 <= age_at_commit(prepared(tmp_path, 6), SHARED, work_ms=4000) < 4500


@pytest.mark.parametrize(("version", "options"), [(6, BUILT_IN), (8, SHARED), (9, SHARED)])
def test_write_does_not_wait_where_jvm_hudi_takes_its_times_under_the_lock_or_is_absent(
    tmp_path: Path, version: int, options: dict[str, str]
) -> None:
    assert age_at_commit(prepared(tmp_path, version), options) < 500
