"""Defects of JVM Hudi around archiving that were reported from the field, and what happens here."""

from __future__ import annotations

import tracemalloc

import pytest
from tests.support.archiving import AUTOMATIC, commits, updated
from tests.support.cleaning import save
from tests.support.crashes import crashed, effects_of, opened, prepared, rows
from tests.support.table_builder import TableBuilder
from tests.support.tables import contents

import pyhudi
from pyhudi.format.metadata.commit import CommitMetadata, WriteStat, encode_commit_metadata
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.metadata.written_files import decode_written_files
from pyhudi.format.timeline.instant import Action
from pyhudi.format.timeline.table_version import table_version
from pyhudi.services.clustering.schedule import schedule_clustering
from pyhudi.table.lister import list_data_files
from pyhudi.table.savepoints import load_savepoints
from pyhudi.table.state import load_table

EVERY_VERSION = pytest.mark.parametrize("version", [6, 8, 9])


@EVERY_VERSION
def test_orphan_of_a_write_whose_rollback_was_archived_stays_invisible(version: int) -> None:
    given = prepared(TableBuilder(version, "cow"))

    def update(table: pyhudi.HudiTable) -> None:
        table.upsert(rows((1, "oslo", 99, "orphan")))

    is_data = [one.name == "close_output" and one.path.startswith("city=") for one in effects_of(given, update)]
    storage = crashed(given, update, 2 + max(n for n, found in enumerate(is_data) if found))
    assert storage is not None
    (dead,) = {one.path for one in list_data_files(storage)} - {one.path for one in list_data_files(given)}
    content = storage.read(dead)
    opened(storage, later=True).recovery.roll_back_failed_writes()
    storage.put(dead, content)
    for ts in range(14):
        opened(storage, later=True, **AUTOMATIC).upsert(rows((3, "rome", 10 + ts, "r")))

    assert not any(one.action is Action.ROLLBACK for one in load_table(storage).timeline.instants)
    assert dead in {one.path for one in list_data_files(storage)}
    assert (1, "oslo", 2, "b") in contents(storage)
    opened(storage, later=True).upsert(rows((2, "oslo", 99, "after")))
    assert {row[3] for row in contents(storage)} == {"b", "after", "r"}


@EVERY_VERSION
def test_table_that_archives_beyond_a_savepoint_keeps_its_files_and_the_retained_ones_alone(version: int) -> None:
    storage = prepared(TableBuilder(version, "cow"))
    kept = commits(storage)[-1]
    save(storage, kept)
    before = {one.path for one in list_data_files(storage) if one.path.endswith(".parquet")}
    updated(storage, 20, **AUTOMATIC, **{"hoodie.archive.beyond.savepoint": "true"})

    saved = load_savepoints(storage, load_table(storage).timeline)[kept].paths
    left = {one.path for one in list_data_files(storage) if one.path.endswith(".parquet")}
    assert saved <= left
    assert before & left == set(saved)
    # Three retained states, the one before them, and what the last write made.
    assert len(left - saved) <= 5
    assert len(commits(storage)) <= 9
    assert kept in commits(storage)


@pytest.mark.parametrize("version", [8, 9])
def test_planned_clustering_that_is_never_run_is_named_and_ends_with_the_next_run_of_services(version: int) -> None:
    storage = prepared(TableBuilder(version, "cow"))
    opened(storage).insert(rows((4, "rome", 1, "c")), hudi_options={"hoodie.parquet.small.file.limit": "0"})
    call = opened(storage).handle.service_call(
        {"hoodie.clustering.plan.strategy.partition.selected": "city=rome"}, call="cluster"
    )
    plan = schedule_clustering(call)
    assert plan is not None
    updated(storage, 25, **AUTOMATIC)

    named = opened(storage).services.pending().to_pylist()
    assert [(one["instant"], one["kind"]) for one in named] == [(plan, "clustering")]
    expected = contents(storage)
    opened(storage, **AUTOMATIC).services.run(hudi_options=AUTOMATIC)
    updated(storage, 1, **AUTOMATIC)
    assert opened(storage).services.pending().num_rows == 0
    assert {row for row in contents(storage) if row[1] == "rome"} == {row for row in expected if row[1] == "rome"}
    updated(storage, 4, **AUTOMATIC)
    assert len(commits(storage)) <= 8


@EVERY_VERSION
def test_metadata_of_a_commit_of_many_files_are_written_and_read_in_bounded_memory(version: int) -> None:
    files = 10_000
    stats = tuple(
        WriteStat(file_id=f"{number:032d}-0", path=f"p={number % 10}/{number:032d}-0_0-1-1_20260101000000000.parquet")
        for number in range(files)
    )
    metadata = CommitMetadata(operation=WriteOperation.UPSERT, stats_by_partition={"": stats})
    tracemalloc.start()
    try:
        data = encode_commit_metadata(metadata, table_version(version))
        decode_written_files(data, path="x")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A hundred thousand files take ten times as much: less than 600 MB.
    assert peak < 60 * 2**20


@EVERY_VERSION
@pytest.mark.parametrize("operation", ["insert_overwrite", "insert_overwrite_table"])
def test_replacement_of_nothing_as_the_first_write_does_not_stop_archiving(operation: str, version: int) -> None:
    storage = TableBuilder(version, "cow").build()
    first = getattr(opened(storage), operation)(rows((1, "oslo", 1, "a")))
    assert first.replaced_files == 0
    updated(storage, 8, **AUTOMATIC)

    assert first.instant not in load_table(storage).timeline.completed_times
    assert first.instant in opened(storage).inspect.history()["instant"].to_pylist()
    assert contents(storage) == {(1, "oslo", 17, "u7")}
