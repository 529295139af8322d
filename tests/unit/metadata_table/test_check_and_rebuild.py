"""The check of the metadata table against the store, and building it again on request."""

from __future__ import annotations

import random
import warnings

import pytest
from tests.support.crashes import copied, crash_images, opened, rows
from tests.support.metadata_tables import FOLDER, files_committed, files_known, with_files
from tests.support.table_builder import THREE_ROWS, TableBuilder

from pyhudi.errors import InvalidRequestError, MetadataTableWarning, WriteConflictError
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table


def written(storage: Storage, times: range, **options: str) -> None:
    for moment in times:
        opened(storage, **options).upsert(rows((1, "oslo", moment, "c"), (moment, "rome", moment, "c")))


def check(storage: Storage, where: str = "") -> None:
    if load_table(storage).config.metadata_partitions:
        assert files_known(storage) == files_committed(storage), where
    assert opened(storage).inspect.metadata_check().num_rows == 0, where
    with warnings.catch_warnings():
        warnings.simplefilter("error", MetadataTableWarning)
        told, untold = (
            opened(storage, **{"hoodie.metadata.enable": given}).scan().to_arrow().sort_by("id")
            for given in ("true", "false")
        )
    assert told.equals(untold), where


def test_damaged_metadata_table_is_rebuilt_on_request() -> None:
    storage = copied(with_files(9, "mor").insert(*THREE_ROWS).upsert((1, "oslo", 2, "b")).build())
    for info in storage.list_folder(f"{FOLDER}/files").files:
        if info.name.endswith(".hfile"):
            storage.put(info.path, storage.read(info.path)[:100])
    found = opened(storage).inspect.metadata_check().to_pylist()
    assert [row["problem"] for row in found] == ["unreadable"]
    assert opened(storage).recovery.rebuild_metadata_table() == ("files",)
    check(storage)
    written(storage, range(5, 7))
    check(storage)


def test_rebuild_that_dies_anywhere_leaves_a_readable_table() -> None:
    storage = with_files(9, "cow").insert(*THREE_ROWS).upsert((1, "oslo", 2, "b")).build()
    for where, image in crash_images(storage, lambda table: table.recovery.rebuild_metadata_table(), every=3):
        assert opened(image).scan().count() == 3, where
        written(image, range(5, 6), **{"hoodie.metadata.enable": "true"})
        check(image, where)


def test_rebuild_is_refused_while_a_write_runs_and_where_there_is_nothing() -> None:
    storage = with_files(9, "cow").insert(*THREE_ROWS).build()
    storage.put(".hoodie/timeline/29990101000000000.commit.requested", b"")
    with pytest.raises(WriteConflictError, match="is running"):
        opened(storage).recovery.rebuild_metadata_table()
    without = TableBuilder(9, "cow").insert(*THREE_ROWS).build()
    with pytest.raises(InvalidRequestError, match="no metadata table"):
        opened(without).recovery.rebuild_metadata_table()


def test_pending_action_that_blocks_the_compaction_is_named() -> None:
    storage = copied(with_files(6, "cow").insert(*THREE_ROWS).build())
    written(storage, range(2, 13), **{"hoodie.table.services.enabled": "false"})
    first = load_table(storage).timeline.completed_writes[0].requested_time
    path = f".hoodie/{first[:-1]}0.commit.requested"
    storage.put(path, b"")
    due = {row["service"]: row for row in opened(storage).services.due().to_pylist()}["metadata_table"]
    assert not due["due"]
    assert f"waits for the pending action {first[:-1]}0" in due["reason"]
    storage.delete(path)
    assert {row["service"]: row["due"] for row in opened(storage).services.due().to_pylist()}["metadata_table"]


@pytest.mark.parametrize("version", [9, 6])
def test_metadata_table_that_is_switched_on_and_off_at_random_lists_what_the_store_has(version: int) -> None:
    rng = random.Random(version)
    storage = with_files(version, "cow").insert(*THREE_ROWS).build()
    for moment in range(2, 26):
        enabled = rng.choice(("true", "false", ""))
        options = {"hoodie.metadata.enable": enabled} if enabled else {}
        table = opened(storage, **options, **{"hoodie.keep.min.commits": "5", "hoodie.keep.max.commits": "6"})
        match rng.randrange(4):
            case 0:
                table.delete(rows((rng.randrange(2, 9), "rome", 1, "c")))
            case 1:
                table.insert_overwrite(rows((moment, "bern", 1, "n")))
            case _:
                table.upsert(rows((1, "oslo", moment, "c"), (rng.randrange(2, 9), "rome", moment, "c")))
        if rng.random() < 0.15:
            opened(storage).recovery.rollback(load_table(storage).timeline.completed_writes[-1].requested_time)
        check(storage, f"{moment} {enabled}")


@pytest.mark.parametrize("version", [9, 6])
def test_statistics_are_compared_with_footers(version: int) -> None:
    options = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
    builder = TableBuilder(version, "cow", has_delete_flag=True, options=options)
    storage = copied(builder.insert(*THREE_ROWS).upsert((1, "oslo", 2, "b")).build())
    assert "column_stats" in load_table(storage).config.metadata_partitions
    check(storage)
    paths = [info.path for info in storage.list_recursive("") if info.path.endswith(".parquet")]
    oslo, rome = (next(path for path in paths if city in path) for city in ("oslo", "rome"))
    storage.put(oslo, storage.read(rome))
    found = opened(storage).inspect.metadata_check().to_pylist()
    assert {row["path"] for row in found} == {oslo}
    assert {row["detail"] for row in found if row["problem"] == "other statistics"} >= {"column id", "column note"}


def test_check_names_what_differs() -> None:
    storage = copied(with_files(9, "cow").insert(*THREE_ROWS).upsert((1, "oslo", 2, "b")).build())
    check(storage)
    files = sorted(path for path in (info.path for info in storage.list_recursive("")) if path.endswith(".parquet"))
    data = storage.read(files[0])
    storage.delete(files[0])
    storage.put(files[1], storage.read(files[1]) + b"x")
    storage.put(files[2].replace("-0_", "-1_", 1), data)  # of a task attempt that did not count: no write names it
    found = {(row["problem"], row["path"]) for row in opened(storage).inspect.metadata_check().to_pylist()}
    assert found == {("gone from the store", files[0]), ("another size", files[1])}


def test_check_names_the_file_of_a_write_that_the_list_lost() -> None:
    storage = copied(with_files(9, "cow").insert(*THREE_ROWS).upsert((1, "oslo", 2, "b")).build())
    before = {info.path for info in storage.list_recursive("")}
    opened(storage).upsert(rows((1, "oslo", 3, "c")))
    new = [info.path for info in storage.list_recursive("") if info.path not in before]
    (written,) = (path for path in new if path.endswith(".parquet"))
    for path in new:
        if path.startswith(".hoodie/metadata/files"):
            storage.delete(path)
    found = {(row["problem"], row["path"]) for row in opened(storage).inspect.metadata_check().to_pylist()}
    assert ("not listed", written) in found


@pytest.mark.parametrize("version", [9, 6])
def test_rebuild_leaves_out_the_base_file_of_a_lost_task_attempt(version: int) -> None:
    storage = copied(with_files(version, "cow").insert(*THREE_ROWS).build())
    path = next(info.path for info in storage.list_recursive("") if info.path.endswith(".parquet"))
    group, _, instant_time = path.split("_")
    storage.put(f"{group}_77-7-7_{instant_time}", storage.read(path))
    known = files_known(storage)
    opened(storage).recovery.rebuild_metadata_table()
    assert files_known(storage) == known
