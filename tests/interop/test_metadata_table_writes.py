"""Writes of ours and of JVM Hudi in turn on one metadata table: each goes on from the other's, and no file is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.interop.compare import assert_same_rows
from tests.support.metadata_tables import delta_commits, files_committed, files_known
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle
from tests.support.tables import rehandled

import pyhudi
from pyhudi.format.timeline.instant import Action
from pyhudi.metadata_table.folders import inner_version
from pyhudi.metadata_table.state import load_metadata_state
from pyhudi.storage.open import open_storage
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table
from pyhudi.table.timeline import load_timeline
from pyhudi.testing.faults import FaultStorage

OracleOf = Callable[[str], Oracle]
SMALL_LIFE = {
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
}
ONLY_FILES = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
}


def batch(ids: range, number: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "city": [("oslo", "rome")[one % 2] for one in ids],
            "v": pa.array([number] * len(ids), pa.int64()),
            "ts": pa.array([number] * len(ids), pa.int64()),
        }
    )


def options(version: int, table_type: str) -> dict[str, str]:
    return {
        "hoodie.table.name": "t",
        "hoodie.write.table.version": str(version),
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.compact.inline": "true" if table_type == "MERGE_ON_READ" else "false",
        "hoodie.compact.inline.max.delta.commits": "3",
        "hoodie.metadata.enable": "true",
        **SMALL_LIFE,
    }


def store(path: Path) -> Storage:
    return open_storage(str(path), {})


def check(oracle: Oracle, path: Path, hint: str) -> None:
    """Both sides show the same rows, JVM Hudi by the metadata table, and the metadata table knows what is there."""
    expected = pyhudi.HudiTable.for_path(str(path)).scan().to_arrow()
    assert_same_rows(oracle.read(path, {"hoodie.metadata.enable": "true"}), expected, hint=hint)
    assert files_known(store(path)) == files_committed(store(path)), hint


def differences(oracle: Oracle, path: Path) -> list[dict[str, str | None]]:
    """What JVM Hudi's validator says of the metadata table beside a listing."""
    oracle.sql(f"CREATE TABLE IF NOT EXISTS validated_{path.parent.name[:20]} USING hudi LOCATION '{path}'")
    return oracle.sql(f"CALL validate_metadata_table_files(table => 'validated_{path.parent.name[:20]}')")


def combinations() -> list[Any]:
    marks = {(9, "MERGE_ON_READ"): [pytest.mark.quick], (8, "MERGE_ON_READ"): [pytest.mark.thorough]}
    return [
        pytest.param(version, kind, id=f"v{version}-{kind}", marks=marks.get((version, kind), []))
        for version in (9, 8, 6)
        for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")
    ]


@pytest.mark.parametrize("we_begin", [True, False], ids=["we begin", "jvm begins"])
@pytest.mark.parametrize(("version", "table_type"), combinations())
def test_writes_in_turn_keep_one_metadata_table(
    version: int, table_type: str, we_begin: bool, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, given = oracle_of(RELEASE_OF_TABLE_VERSION[version]), options(version, table_type)
    theirs = {key: value for key, value in {**given, **ONLY_FILES}.items() if key != "hoodie.write.table.version"}
    path = tmp_path / "t"
    if we_begin:
        pyhudi.save(batch(range(6), 0), str(path), hudi_options=given)
    else:
        oracle.write(path, batch(range(6), 0), theirs)
    for number in range(1, 9):
        if number % 2:
            pyhudi.HudiTable.for_path(str(path), hudi_options=given).upsert(batch(range(number, number + 4), number))
        else:
            oracle.write(path, batch(range(number, number + 5), number), theirs)
        check(oracle, path, f"after write {number}")
    table = load_table(store(path))
    inner = load_timeline(store(path), inner_version(table.version))
    assert sum(one.action is Action.COMMIT for one in inner.completed_writes) >= 2
    assert table.timeline.completed_times <= {*delta_commits(store(path))}
    assert differences(oracle, path) == []

    ours = pyhudi.HudiTable.for_path(str(path), hudi_options={**given, "hoodie.clean.automatic": "false"})
    ours.insert_overwrite(batch(range(0, 4, 2), 20))
    check(oracle, path, "after an overwrite")
    newest = load_table(store(path)).timeline.completed_writes[-1].requested_time
    ours.refresh().recovery.rollback(newest)
    check(oracle, path, "after its rollback")
    oracle.write(path, batch(range(2, 6), 21), theirs)
    check(oracle, path, "after the last write of JVM Hudi")
    assert differences(oracle, path) == []


@pytest.mark.parametrize("version", [9, 6])
def test_delta_commit_whose_writer_died_is_not_counted_by_jvm_hudi_and_undone_by_it(
    version: int, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, given = oracle_of(RELEASE_OF_TABLE_VERSION[version]), options(version, "COPY_ON_WRITE")
    theirs = {key: value for key, value in {**given, **ONLY_FILES}.items() if key != "hoodie.write.table.version"}
    path = tmp_path / "t"
    pyhudi.save(batch(range(6), 0), str(path), hudi_options=given)
    pyhudi.HudiTable.for_path(str(path), hudi_options=given).upsert(batch(range(6), 1))
    storage = store(path)
    table = load_table(storage)
    died = table.timeline.completed_writes[-1]
    # What a death right before the last put leaves: everything but the completed instant.
    completed = next(name for name in storage.list_names(table.version.timeline_folder) if _is_completed(name, died))
    storage.delete(f"{table.version.timeline_folder}/{completed}")

    assert set(oracle.read(path, {"hoodie.metadata.enable": "true"})["v"].to_pylist()) == {0}
    oracle.write(path, batch(range(3), 2), theirs)

    check(oracle, path, "after JVM Hudi rolled the dead write back")
    assert died.requested_time not in delta_commits(storage)


@pytest.mark.parametrize("version", [9, 8])
def test_write_around_a_compaction_of_the_metadata_table_is_in_it_for_jvm_hudi(
    version: int, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, given = oracle_of(RELEASE_OF_TABLE_VERSION[version]), options(version, "COPY_ON_WRITE")
    path, others = tmp_path / "t", []
    pyhudi.save(batch(range(6), 0), str(path), hudi_options=given)

    def meanwhile(operation: str, where: str) -> None:
        if operation == "put_if_absent" and where.endswith(".inflight") and not others:
            others.append(where)
            for number in range(3):
                pyhudi.HudiTable.for_path(str(path), hudi_options=given).upsert(batch(range(1, 6, 2), number + 1))

    opened = pyhudi.HudiTable.for_path(
        str(path), hudi_options={**given, "hoodie.metadata.compact.max.delta.commits": "100"}
    )
    around = rehandled(opened, loaded=load_table(FaultStorage(store(path), before=meanwhile)))
    around.upsert(batch(range(0, 12, 2), 9))

    inner = load_timeline(store(path), inner_version(load_table(store(path)).version))
    assert any(one.action is Action.COMMIT for one in inner.completed_writes)
    check(oracle, path, "after a write that began before the compaction and ended after it")
    assert differences(oracle, path) == []


def _is_completed(name: str, instant: Any) -> bool:
    return name.startswith(instant.requested_time) and name.endswith(".commit")


JOINING = {
    "hoodie.metadata.log.compaction.enable": "true",
    "hoodie.metadata.log.compaction.blocks.threshold": "3",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "1",
    "hoodie.metadata.record.index.max.filegroup.count": "1",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "12",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}


def joined(path: Path) -> list[str]:
    state = load_metadata_state(load_table(store(path)))
    return sorted(state.log_compactions & state.timeline.completed_times)


@pytest.mark.parametrize(
    ("version", "release"),
    [
        pytest.param(9, "1.2.0", marks=pytest.mark.quick),
        pytest.param(8, "1.2.0", marks=pytest.mark.thorough),
        (6, "1.2.0"),  # compactions of 0.15.0 count rows of joined logs again
    ],
)
def test_log_compactions_in_turn_keep_one_metadata_table(
    version: int, release: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, path = oracle_of(release), tmp_path / "t"
    given = {**options(version, "COPY_ON_WRITE"), **JOINING, "hoodie.write.auto.upgrade": "false"}
    ours: set[str] = set()
    theirs: set[str] = set()
    pyhudi.save(batch(range(6), 0), str(path), hudi_options=given)
    for number in range(1, 13):
        before = {*joined(path)}
        if number % 4 in (1, 2):
            table = pyhudi.HudiTable.for_path(str(path), hudi_options=given)
            table.upsert(batch(range(number, number + 4), number))
            if number == 6:
                table.refresh().delete(batch(range(2, 3), number))
            ours |= {*joined(path)} - before
        else:
            oracle.write(path, batch(range(number, number + 5), number), given)
            theirs |= {*joined(path)} - before
        check(oracle, path, f"after write {number}")
        table = pyhudi.HudiTable.for_path(str(path))
        assert table.inspect.metadata_check().to_pylist() == [], number
        ids = sorted(table.scan(["id"]).to_arrow()["id"].to_pylist())
        assert sorted(table.lookup(list(range(30)), ["id"])["id"].to_pylist()) == ids, number
    assert ours
    assert theirs
    assert differences(oracle, path) == []
    keyed = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
    assert sorted(oracle.read(path, keyed)["id"].to_pylist()) == ids

    merging = {**given, "hoodie.metadata.compact.max.delta.commits": "1"}
    oracle.write(path, batch(range(3, 9), 20), merging)
    check(oracle, path, "after a compaction of JVM Hudi")
    pyhudi.HudiTable.for_path(str(path), hudi_options=merging).upsert(batch(range(4, 6), 21))
    check(oracle, path, "after a compaction of ours")
    state = load_metadata_state(load_table(store(path)))
    assert any(one.action is Action.COMMIT for one in state.timeline.completed_writes)
    assert pyhudi.HudiTable.for_path(str(path)).inspect.metadata_check().to_pylist() == []


COMPACTING = {
    **JOINING,
    "hoodie.metadata.log.compaction.enable": "false",
    "hoodie.metadata.compact.max.delta.commits": "3",
}
#: A rollback of JVM Hudi compacts a metadata table with ten delta commits, and then refuses.
ALSO_JOINING = {**JOINING, "hoodie.metadata.compact.max.delta.commits": "10"}


def compactions(path: Path) -> list[str]:
    return sorted(load_metadata_state(load_table(store(path))).compactions)


@pytest.mark.parametrize(
    ("version", "how"),
    [
        pytest.param(9, "compacted", marks=pytest.mark.quick),
        (8, "compacted"),
        (6, "compacted"),
        pytest.param(9, "joined", marks=pytest.mark.thorough),
    ],
)
def test_jvm_hudi_rolls_the_newest_write_back_after_we_compacted_the_metadata_table(
    version: int, how: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, path, name = oracle_of(RELEASE_OF_TABLE_VERSION[version]), tmp_path / "t", f"newest_{version}_{how}"
    merged, merging = (compactions, COMPACTING) if how == "compacted" else (joined, ALSO_JOINING)
    # JVM Hudi 1.2.0 builds bounds of partitions in its rollback if there are none, and with the rows that go.
    bounds = {"hoodie.metadata.index.partition.stats.enable": "true" if version == 9 else "false"}
    given = {**options(version, "COPY_ON_WRITE"), **merging, **bounds}
    theirs = {key: value for key, value in given.items() if key != "hoodie.write.table.version"}

    def upserted_until_merged(first: int) -> pa.Table:
        """Write until the metadata table has just been compacted; the rows before the last write."""
        before, number = merged(path), first
        while merged(path) == before:
            assert number < first + 10
            table = pyhudi.HudiTable.for_path(str(path), hudi_options=given)
            rows = table.scan().to_arrow()
            table.upsert(batch(range(number, number + 4), number))
            number += 1
        return rows

    def roll_back(rows: pa.Table) -> None:
        newest = load_table(store(path)).timeline.completed_writes[-1].requested_time
        oracle.sql(f"CALL rollback_to_instant(table => '{name}', instant_time => '{newest}')")
        assert_same_rows(rows, pyhudi.HudiTable.for_path(str(path)).scan().to_arrow(), hint=f"without {newest}")
        live(newest)

    def live(hint: object) -> None:
        check(oracle, path, f"after {hint}")
        table = pyhudi.HudiTable.for_path(str(path), hudi_options=given)
        assert table.inspect.metadata_check().to_pylist() == [], hint
        ids = sorted(table.scan(["id"]).to_arrow()["id"].to_pylist())
        assert sorted(table.lookup(list(range(60)), ["id"])["id"].to_pylist()) == ids, hint

    pyhudi.save(batch(range(6), 0), str(path), hudi_options=given)
    oracle.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    roll_back(upserted_until_merged(1))

    upserted_until_merged(11)
    rows = pyhudi.HudiTable.for_path(str(path)).scan().to_arrow()
    oracle.write(path, batch(range(20, 25), 20), theirs)
    roll_back(rows)

    pyhudi.HudiTable.for_path(str(path), hudi_options=given).upsert(batch(range(3, 30), 30))
    live("a write of ours")
    oracle.write(path, batch(range(5, 35), 31), theirs)
    live("a write of JVM Hudi")
    upserted_until_merged(40)
    live("a compaction of ours")
    assert differences(oracle, path) == []
