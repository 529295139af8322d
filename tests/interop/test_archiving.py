"""Archives of ours and of JVM Hudi in turn on one table: each reads what the other one archived, and archives on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop.compare import assert_same_rows
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle

import pyhudi
from pyhudi.format.timeline.archived_log_writing import (
    MERGE_PLAN_FILE,
    ArchiveMergePlan,
    archive_file_name,
    archive_number,
    encode_merge_plan,
)
from pyhudi.storage.open import open_storage
from pyhudi.table.archive.history import history_files
from pyhudi.table.state import TableState, load_table

OracleOf = Callable[[str], Oracle]
KEEP = {
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
    "hoodie.archive.automatic": "true",
}

MERGES = {"hoodie.archive.merge.enable": "true", "hoodie.archive.merge.files.batch.size": "2"}
"""JVM Hudi 0.15 merges the files of the archive where it is told so."""

SINCE_EVER = "start_ts => '20000101000000000', end_ts => '21000101000000000'"
"""Without these JVM Hudi shows what was archived between ten days and one day ago."""


def batch(number: int) -> pa.Table:
    ids = list(range(6))
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "city": ["oslo" if one % 2 else "rome" for one in ids],
            "v": pa.array([number] * 6, pa.int64()),
            "ts": pa.array([number] * 6, pa.int64()),
        }
    )


def state(path: Path) -> TableState:
    return load_table(open_storage(str(path), {}))


def archived_files(path: Path) -> int:
    table = state(path)
    if table.version.has_completion_times:
        return len(history_files(table.storage, table.version))
    return len(table.storage.list_folder(table.version.history_folder).files)


def archived_writes(oracle: Oracle, path: Path, name: str) -> set[str | None]:
    """The archived writes that JVM Hudi reads with their metadata."""
    oracle.sql(f"create table {name} using hudi location '{path}'")
    try:
        rows = oracle.sql(f"call show_archived_commits_metadata(table => '{name}', limit => 1000, {SINCE_EVER})")
    finally:
        oracle.sql(f"drop table {name}")
    return {row["commit_time"] for row in rows}


@pytest.mark.parametrize(
    ("version", "table_type"),
    [
        pytest.param(9, "COPY_ON_WRITE", marks=pytest.mark.quick),
        (9, "MERGE_ON_READ"),
        pytest.param(8, "COPY_ON_WRITE", marks=pytest.mark.thorough),
        (6, "COPY_ON_WRITE"),
        pytest.param(6, "MERGE_ON_READ", marks=pytest.mark.thorough),
    ],
)
def test_archives_in_turn_leave_the_whole_history_to_both_sides(
    version: int, table_type: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, path = oracle_of(RELEASE_OF_TABLE_VERSION[version]), tmp_path / "t"
    given = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline": "true" if table_type == "MERGE_ON_READ" else "false",
        "hoodie.compact.inline.max.delta.commits": "2",
        **KEEP,
        **(MERGES if version == 6 else {}),
    }
    oracle.write(path, batch(0), given)
    written = set()
    for number in range(1, 12):
        written.add(pyhudi.HudiTable.for_path(str(path), hudi_options=given).upsert(batch(number)).instant)
    assert archived_files(path)
    if version == 6:
        assert archived_files(path) <= 2
        active = {one.requested_time for one in state(path).timeline.completed_writes}
        for release in ("0.15.0", "1.2.0"):
            assert written - active <= archived_writes(oracle_of(release), path, f"old_{table_type}".lower())
    assert_same_rows(oracle.read(path), pyhudi.HudiTable.for_path(str(path)).scan().to_arrow(), hint="ours")

    for number in range(12, 20):
        oracle.write(path, batch(number), given)
    table = pyhudi.HudiTable.for_path(str(path), hudi_options=given)
    assert_same_rows(oracle.read(path), table.scan().to_arrow(), hint="JVM Hudi's")
    if version == 6:
        assert archived_files(path) <= 3
    assert written <= set(table.inspect.history()["instant"].to_pylist())

    for number in range(20, 30):
        pyhudi.HudiTable.for_path(str(path), hudi_options=given).upsert(batch(number))
    table = pyhudi.HudiTable.for_path(str(path))
    assert_same_rows(oracle.read(path), table.scan().to_arrow(), hint="ours again")
    for instant in [one.requested_time for one in state(path).timeline.completed_writes][-2:]:
        expected = oracle.read(path, {"as.of.instant": instant})
        assert_same_rows(expected, table.scan(as_of=instant).to_arrow(), hint=f"as of {instant}")
    assert len(state(path).timeline.completed_writes) <= 9


def test_merging_of_archive_files_is_finished_by_jvm_hudi_and_its_own_by_us(
    tmp_path: Path, oracle_of: OracleOf
) -> None:
    """Both die after the merged file is there, and before the others are gone."""
    oracle, path = oracle_of("0.15.0"), tmp_path / "t"
    given = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.metadata.enable": "false",
        **KEEP,
        **MERGES,
        "hoodie.archive.merge.files.batch.size": "100",
    }
    oracle.write(path, batch(0), given)
    written = {pyhudi.HudiTable.for_path(str(path), hudi_options=given).upsert(batch(n)).instant for n in range(1, 16)}
    storage, folder = open_storage(str(path), {}), ".hoodie/archived"
    for finish in (
        lambda n: oracle.write(path, batch(n), given),
        lambda n: pyhudi.HudiTable.for_path(str(path), hudi_options=given).upsert(batch(n)),
    ):
        numbers = {number: name for name in storage.list_names(folder) if (number := archive_number(name)) is not None}
        assert len(numbers) >= 2
        plan = ArchiveMergePlan(
            tuple(numbers[number] for number in sorted(numbers)), archive_file_name(max(numbers) + 1)
        )
        merged = b"".join(storage.read(f"{folder}/{name}") for name in plan.files)
        storage.put(f"{folder}/{MERGE_PLAN_FILE}", encode_merge_plan(plan, folder_uri=f"{storage.uri}/{folder}"))
        storage.put(f"{folder}/{plan.merged}", merged)
        storage.delete(f"{folder}/{plan.files[0]}")
        for number in range(20, 26):
            finish(number)
        left = set(storage.list_names(folder))
        assert plan.merged in left
        assert not left & {*plan.files, MERGE_PLAN_FILE}
        pyhudi.HudiTable.for_path(str(path), hudi_options=given).services.archive()
    known = set(pyhudi.HudiTable.for_path(str(path)).inspect.history()["instant"].to_pylist())
    assert written <= known
    active = {one.requested_time for one in state(path).timeline.completed_writes}
    assert written - active <= archived_writes(oracle, path, "merged_archive")
