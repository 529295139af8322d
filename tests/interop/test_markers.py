"""Dead writers that kept their markers in `MARKERS<n>` files: JVM Hudi takes ours back by them, and we take its."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop.timeline_folder import undo_last_completion
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle
from tests.support.tables import rehandled

import pyhudi
from pyhudi.format.markers import MarkersType, is_markers_file
from pyhudi.format.timeline.instant import Action
from pyhudi.storage.local import LocalStorage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.state import TableState, load_table
from pyhudi.table.timeline import load_rollback_plan
from pyhudi.testing.faults import FaultStorage, SimulatedCrash, at_effect
from pyhudi.transaction.markers.reading import load_markers

OracleOf = Callable[[str], Oracle]
VERSIONS = [6, pytest.param(9, marks=pytest.mark.quick)]
SERVED = {"hoodie.write.markers.type": "TIMELINE_SERVER_BASED"}


def options_of(version: int) -> dict[str, str]:
    return {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.write.table.version": str(version),
        "hoodie.compact.inline": "false",
        **SERVED,
    }


def of_the_jvm(version: int, *, more: dict[str, str] | None = None) -> dict[str, str]:
    names = options_of(version)
    if version == 6:
        del names["hoodie.write.table.version"]
    return {**names, "hoodie.metadata.enable": "false", "hoodie.embed.timeline.server": "true", **(more or {})}


def rows(says: str, *ids: int, partitions: int = 2) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "part": [f"p{number % partitions}" for number in ids],
            "ts": pa.array([("first", "dead", "next").index(says)] * len(ids), pa.int64()),
            "says": [says] * len(ids),
        }
    )


def seen(table: pa.Table) -> dict[int, str]:
    return dict(zip(table.column("id").to_pylist(), table.column("says").to_pylist(), strict=True))


def loaded(path: Path) -> TableState:
    return load_table(LocalStorage(path))


def die_before_the_commit(path: Path, batch: pa.Table) -> str:
    """A write of ours whose files, markers and inflight instant are there; its instant."""
    is_commit = at_effect(
        1, SimulatedCrash(), only=lambda name, at: name == "put_if_absent" and at.endswith(".deltacommit")
    )
    table = pyhudi.HudiTable.for_path(str(path))
    dying = FaultStorage(LocalStorage(path), before=is_commit)
    with suppress(SimulatedCrash):
        rehandled(table, loaded=load_table(dying)).upsert(
            batch, hudi_options={**SERVED, "hoodie.compact.inline": "false"}
        )
    assert dying.is_dead
    (pending,) = loaded(path).timeline.pending_writes
    return pending.requested_time


@pytest.mark.parametrize("version", VERSIONS)
def test_jvm_hudi_takes_back_our_dead_write_by_the_markers_of_our_service(
    version: int, oracle_of: OracleOf, tmp_path: Path
) -> None:
    oracle, path = oracle_of(RELEASE_OF_TABLE_VERSION[version]), tmp_path / "t"
    pyhudi.save(rows("first", 1, 2, 3), str(path), hudi_options=options_of(version))
    dead = die_before_the_commit(path, rows("dead", 1, 2, 8, 9))
    storage = LocalStorage(path)
    markers = load_markers(storage, dead)
    assert len(markers) >= 2
    assert all(storage.info(marker) is not None for marker in markers)

    oracle.write(path, rows("next", 3), of_the_jvm(version))

    table = loaded(path)
    (rollback,) = [one for one in table.timeline.instants if one.action is Action.ROLLBACK]
    plan = load_rollback_plan(storage, rollback, table.version)
    assert plan.instant_time == dead
    # A plan from a listing names no file groups.
    assert all(request.file_id and request.latest_base_instant for request in plan.requests)
    assert not any(storage.info(marker) for marker in markers if dead in marker)
    assert storage.list_recursive(f".hoodie/.temp/{dead}") == ()
    expected = {1: "first", 2: "first", 3: "next"}
    assert seen(oracle.read(path)) == expected
    assert seen(pyhudi.HudiTable.for_path(str(path)).scan().to_arrow()) == expected


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_jvm_hudi_rolls_back_our_dead_write_that_has_announced_more_files_than_it_began(
    version: int, kind: str, oracle_of: OracleOf, tmp_path: Path
) -> None:
    """Without Spark the files of many file groups are announced ahead, with no option set."""
    oracle, path = oracle_of(RELEASE_OF_TABLE_VERSION[version]), tmp_path / "t"
    unset = {"hoodie.datasource.write.table.type": kind, "hoodie.write.markers.type": None}
    options = {name: value for name, value in {**options_of(version), **unset}.items() if value is not None}
    ids = range(1, 11)
    pyhudi.save(rows("first", *ids, partitions=10), str(path), hudi_options=options)
    storage = LocalStorage(path)
    # The third data file is the last one that is begun, and is left without its end.
    dies = at_effect(3, SimulatedCrash(), only=lambda name, at: name == "open_output" and not at.startswith("."))
    dying = FaultStorage(storage, before=dies)
    with suppress(SimulatedCrash):
        rehandled(pyhudi.HudiTable.for_path(str(path)), loaded=load_table(dying)).upsert(
            rows("dead", *ids, partitions=10), hudi_options={"hoodie.compact.inline": "false"}
        )
    assert dying.is_dead
    (pending,) = loaded(path).timeline.pending_writes
    markers = load_markers(storage, pending.requested_time)
    # JVM Hudi 0.15 writes a rollback block into each log of version 6 that was announced.
    assert (len(markers) == 10) is (version > 6 or kind == "COPY_ON_WRITE")

    jvm = {**of_the_jvm(version), "hoodie.datasource.write.table.type": kind}
    oracle.write(path, rows("next", 3, partitions=10), jvm)

    expected = {number: "next" if number == 3 else "first" for number in ids}
    assert seen(oracle.read(path)) == expected
    assert seen(pyhudi.HudiTable.for_path(str(path)).scan().to_arrow()) == expected
    pyhudi.HudiTable.for_path(str(path)).upsert(rows("next", 4, partitions=10))
    assert seen(oracle.read(path)) == {**expected, 4: "next"}


@contextmanager
def markers_copied(path: Path, to: Path) -> Iterator[None]:
    """Keep copies of the marker folders that exist while the block runs, for as far as they got."""
    ended = threading.Event()

    def copy() -> None:
        while not ended.wait(0.01):
            # Folders and files may go while they are looked at.
            with suppress(OSError):
                for file in (path / ".hoodie" / ".temp").glob("*/MARKERS*"):
                    data = file.read_bytes()
                    kept = to / file.parent.name / file.name
                    kept.parent.mkdir(parents=True, exist_ok=True)
                    if not kept.exists() or len(data) >= kept.stat().st_size:
                        kept.write_bytes(data)

    thread = threading.Thread(target=copy)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("version", VERSIONS)
def test_we_take_back_a_dead_write_of_jvm_hudi_by_the_markers_of_its_server(
    version: int, oracle_of: OracleOf, tmp_path: Path
) -> None:
    oracle, path = oracle_of(RELEASE_OF_TABLE_VERSION[version]), tmp_path / "t"
    oracle.write(path, rows("first", 1, 2, 3), of_the_jvm(version))
    with markers_copied(path, tmp_path / "kept"):
        oracle.write(path, rows("dead", 1, 2, 8, 9), of_the_jvm(version))
    table = loaded(path)
    dead = table.timeline.completed_writes[-1]
    written = load_commit_metadata(table.storage, dead, table.version).paths()
    undo_last_completion(path)
    shutil.copytree(tmp_path / "kept" / dead.requested_time, path / ".hoodie" / ".temp" / dead.requested_time)
    folder = path / ".hoodie" / ".temp" / dead.requested_time
    assert (folder / "MARKERS.type").read_text().strip() == MarkersType.TIMELINE_SERVER_BASED.value
    assert any(is_markers_file(file.name) for file in folder.iterdir())
    assert load_markers(table.storage, dead.requested_time) == written

    pyhudi.HudiTable.for_path(str(path)).recovery.roll_back_failed_writes(eager=True)

    storage = LocalStorage(path)
    assert not any(storage.info(one) for one in written if dead.requested_time in one)
    assert storage.list_recursive(f".hoodie/.temp/{dead.requested_time}") == ()
    expected = {1: "first", 2: "first", 3: "first"}
    assert seen(pyhudi.HudiTable.for_path(str(path)).scan().to_arrow()) == expected
    assert seen(oracle.read(path)) == expected
