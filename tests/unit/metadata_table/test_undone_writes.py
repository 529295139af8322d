"""Indexes after the rollback of a write that the metadata table has for good: merged, or there when it was built."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.crashes import copied, crash_images, opened, rows
from tests.support.table_builder import THREE_ROWS, TableBuilder
from tests.support.tables import StepClock, environment, open_table

import pyhudi
from pyhudi.format.metadata.rollback import encode_rollback_plan
from pyhudi.format.timeline.instant import Action, InstantState
from pyhudi.metadata_table.folders import inner_version
from pyhudi.metadata_table.write_checks import is_of_build
from pyhudi.services.rollback import execute
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path, load_rollback_plan

INDEXED = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
}
WITHOUT = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
}
KINDS = [TableBuilder(9, "mor"), TableBuilder(8, "cow"), TableBuilder(6, "mor")]
BEFORE = {1: "a", 2: "a", 3: "a"}


def changed(storage: Storage) -> str:
    """A row changes its value, one leaves the table, one comes."""
    written = opened(storage, **INDEXED).upsert(rows((1, "oslo", 9, "c"), (7, "bern", 9, "c")))
    assert written.instant is not None
    return written.instant


def with_secondary_index(storage: Storage) -> None:
    table = opened(storage, **INDEXED)
    if table.handle.state.version.has_secondary_indexes:
        table.indexes.create("by_note", "secondary", "note")


def assert_true(storage: Storage, where: str = "") -> None:
    table = opened(storage, **INDEXED)
    differences = table.inspect.metadata_check().to_pylist()
    if table.handle.state.timeline.pending_rollbacks:
        # The list of files names them until the end; readers go by the timeline.
        differences = [one for one in differences if one["problem"] != "gone from the store"]
    assert differences == [], where
    found = table.scan(["id", "note"]).to_arrow().to_pylist()
    for row in found:
        assert table.scan(["id"], where=[("note", "==", row["note"]), ("id", "==", row["id"])]).count() == 1, where
    assert table.lookup([1, 2, 3, 7, 8]).num_rows == len(found), where


def taken_back(storage: Storage, instant: str) -> None:
    before = opened(storage).refresh().handle.state.config.metadata_partitions
    opened(storage, **INDEXED).recovery.rollback(instant)
    assert opened(storage).handle.state.config.metadata_partitions == before
    assert_true(storage)
    found = opened(storage).scan(["id", "note"]).to_arrow().to_pylist()
    assert {row["id"]: row["note"] for row in found} == BEFORE


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_write_that_was_merged_is_rolled_back_and_indexes_stay_true(kind: TableBuilder) -> None:
    storage = copied(
        TableBuilder(kind.version, kind.kind, has_delete_flag=True, options=INDEXED).insert(*THREE_ROWS).build()
    )
    with_secondary_index(storage)
    written = changed(storage)
    opened(storage, **INDEXED, **{"hoodie.metadata.compact.max.delta.commits": "1"}).services.run(only="metadata_table")
    taken_back(storage, written)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_write_on_which_indexes_were_built_is_rolled_back_and_they_stay_true(kind: TableBuilder) -> None:
    storage = copied(TableBuilder(kind.version, kind.kind, has_delete_flag=True).insert(*THREE_ROWS).build())
    written = opened(storage).upsert(rows((1, "oslo", 9, "c"), (7, "bern", 9, "c"))).instant
    table = opened(storage, **INDEXED)
    table.indexes.create("record_index")
    table.indexes.create("column_stats")
    if kind.version > 6:
        table.refresh().indexes.create("partition_stats")
    with_secondary_index(storage)
    assert written is not None
    taken_back(storage, written)


def test_rollback_that_dies_at_any_effect_leaves_indexes_that_are_true() -> None:
    storage = copied(TableBuilder(9, "mor", has_delete_flag=True).insert(*THREE_ROWS).build())
    written = opened(storage).upsert(rows((1, "oslo", 9, "c"), (7, "bern", 9, "c"))).instant
    opened(storage, **INDEXED).indexes.create("record_index")
    with_secondary_index(storage)
    assert written is not None

    def undo(table: pyhudi.HudiTable) -> None:
        table.recovery.rollback(written)

    for where, image in crash_images(storage, undo, every=12):
        assert_true(image, where)
        opened(image, later=True).upsert(rows((8, "rome", 9, "d")))
        assert_true(image, where)


def test_files_that_are_the_newest_again_after_a_restore_have_filters_again() -> None:
    storage = copied(TableBuilder(9, "cow").insert(*THREE_ROWS).build())
    filtered = {**INDEXED, "hoodie.metadata.index.bloom.filter.enable": "true", "hoodie.clean.automatic": "false"}
    target = opened(storage, **filtered).upsert(rows((1, "oslo", 8, "a"))).instant
    assert target is not None
    opened(storage, **filtered).upsert(rows((1, "oslo", 9, "c")))
    opened(storage, **filtered).insert_overwrite(rows((7, "bern", 9, "c")))
    opened(storage).recovery.rebuild_metadata_table()
    opened(storage, **filtered).recovery.restore(target)
    assert "bloom_filters" in opened(storage).handle.state.config.metadata_partitions
    assert_true(storage)


TOWNS = [(number, f"town{number}", number, "a") for number in range(9)]
BY_TS = [("ts", "==", 3)]


def rolled_back_as_by_jvm_hudi(storage: Storage, write: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Roll a write back and keep all indexes. The plan is nobody's, and the metadata table has the rollback's time."""
    with monkeypatch.context() as patched:
        patched.setattr(execute, "drop_what_stays", lambda table, *_: table)
        opened(storage).recovery.rollback(write)
    table = load_table(storage)
    done = max(one for one in table.timeline.instants if one.action is Action.ROLLBACK)
    plan = load_rollback_plan(storage, done, table.version)
    requested = replace(done, state=InstantState.REQUESTED, completion_time=None)
    storage.delete(instant_path(requested, table.version))
    storage.put(instant_path(requested, table.version), encode_rollback_plan(replace(plan, is_ours=False)))
    storage.put(instant_path(done, inner_version(table.version)), b"")


def with_indexes_of_a_write_that_jvm_hudi_rolled_back(
    kind: TableBuilder, monkeypatch: pytest.MonkeyPatch
) -> tuple[Storage, str]:
    """One row gets another value, one gives way to another, indexes are built, and then that is taken back."""
    storage = copied(
        TableBuilder(kind.version, kind.kind, has_delete_flag=True, options=WITHOUT).insert(*TOWNS).build()
    )
    changes = rows((3, "town3", 100, "c"), (40, "town4", 9, "c"))
    written = opened(storage, **WITHOUT).insert_overwrite(changes).instant
    table = opened(storage)
    for index in ("record_index", "column_stats", *(("partition_stats",) if kind.version > 6 else ())):
        table.refresh().indexes.create(index)
    assert written is not None
    rolled_back_as_by_jvm_hudi(storage, written, monkeypatch)
    return storage, written


@pytest.mark.parametrize("kind", KINDS[:2], ids=str)
@pytest.mark.filterwarnings("ignore:the index .* is not used:pyhudi.errors.MetadataTableWarning")
def test_indexes_built_before_a_rollback_of_jvm_hudi_are_not_believed(
    kind: TableBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, _ = with_indexes_of_a_write_that_jvm_hudi_rolled_back(kind, monkeypatch)

    table = opened(storage)
    assert table.scan(["id"], where=BY_TS).to_arrow()["id"].to_pylist() == [3]
    assert table.lookup([3, 4]).num_rows == 2
    notes = {use.index: use.note for use in table.scan(where=BY_TS).explain().indexes}
    assert notes["partition_stats"] == "it was built with a write that was rolled back since"


@pytest.mark.parametrize("kind", KINDS[:2], ids=str)
@pytest.mark.filterwarnings("ignore:the index .* is not used:pyhudi.errors.MetadataTableWarning")
def test_indexes_are_not_believed_while_and_after_a_rollback_in_which_jvm_hudi_died(
    kind: TableBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, _ = with_indexes_of_a_write_that_jvm_hudi_rolled_back(kind, monkeypatch)
    table = load_table(storage)
    done = max(one for one in table.timeline.instants if one.action is Action.ROLLBACK)
    for version in (table.version, inner_version(table.version)):
        storage.delete(instant_path(done, version))

    assert opened(storage).scan(["id"], where=BY_TS).to_arrow()["id"].to_pylist() == [3]
    assert opened(storage).lookup([3, 4]).num_rows == 2

    opened(storage, later=True, **INDEXED).upsert(rows((5, "town5", 10, "d")))  # it ends the rollback
    table_after = opened(storage)
    assert not table_after.handle.state.timeline.pending_rollbacks
    assert table_after.scan(where=BY_TS).count() == 1
    assert table_after.lookup([3, 4]).num_rows == 2
    assert table_after.inspect.metadata_check().num_rows == 0


@pytest.mark.parametrize("kind", KINDS[:2], ids=str)
def test_write_after_a_rollback_of_jvm_hudi_builds_indexes_again(
    kind: TableBuilder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    storage, _ = with_indexes_of_a_write_that_jvm_hudi_rolled_back(kind, monkeypatch)

    opened(storage, **INDEXED).upsert(rows((4, "town4", 10, "d")))

    assert "partition_stats, record_index went on to say what a write said that was rolled back" in caplog.text
    table = opened(storage)
    assert {"partition_stats", "record_index"} <= {*table.handle.state.config.metadata_partitions}
    assert table.scan(where=BY_TS).count() == 1
    assert table.scan().count() == len(TOWNS), "no row is there twice"
    assert table.inspect.metadata_check().num_rows == 0
    caplog.clear()
    opened(storage, **INDEXED).upsert(rows((4, "town4", 11, "d")))
    assert "went on to say" not in caplog.text


def test_indexes_built_after_a_rollback_of_jvm_hudi_are_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, _ = with_indexes_of_a_write_that_jvm_hudi_rolled_back(KINDS[0], monkeypatch)
    opened(storage).indexes.refresh("partition_stats")

    uses = opened(storage).scan(where=BY_TS).explain().indexes
    assert next(use.file_slices for use in uses if use.index == "partition_stats") == len(TOWNS) - 1


@pytest.mark.filterwarnings("ignore:the index .* is not used:pyhudi.errors.MetadataTableWarning")
def test_record_index_of_version_6_is_believed_again_once_a_write_has_built_it_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    storage, _ = with_indexes_of_a_write_that_jvm_hudi_rolled_back(KINDS[2], monkeypatch)

    for key in (3, 4):
        assert opened(storage).scan(where=[("id", "==", key)]).count() == 1
    assert opened(storage).lookup([3, 4]).num_rows == 2
    opened(storage, **INDEXED).upsert(rows((4, "town4", 10, "d")))

    assert "record_index went on to say what a write said that was rolled back" in caplog.text
    table = opened(storage)
    assert table.scan().count() == len(TOWNS), "no row is there twice"
    assert table.inspect.metadata_check().num_rows == 0
    caplog.clear()
    opened(storage, **INDEXED).upsert(rows((4, "town4", 11, "d")))
    assert "went on to say" not in caplog.text
    notes = {use.index: use.note for use in opened(storage).scan(where=[("id", "==", 4)]).explain().indexes}
    assert notes["record_index"] is None


@pytest.mark.parametrize("told", [True, False], ids=["a day before", "beside a write that failed"])
def test_record_index_of_version_6_that_cannot_say_what_was_rolled_back_is_believed(
    told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = copied(TableBuilder(6, "cow", options=INDEXED).insert(*TOWNS).build())
    now_ms = max(info.modified_ms for info in built.list_recursive(".hoodie"))
    if told:
        now_ms += 2 * 86_400_000
    env = environment(StepClock(now_ms))
    written = open_table(built, env=env).upsert(rows((3, "town3", 100, "c"))).instant
    assert written is not None
    rolled_back_as_by_jvm_hudi(built, written, monkeypatch)
    if not told:
        done = max(one for one in load_table(built).timeline.instants if one.action is Action.ROLLBACK)
        built.delete(instant_path(done, inner_version(load_table(built).version)))

    notes = {use.index: use.note for use in opened(built).scan(where=[("id", "==", 4)]).explain().indexes}
    assert notes["record_index"] is None


@pytest.mark.parametrize(
    ("instant_time", "is_build"),
    [
        ("00000000000000011", True),
        ("20261127211141152010", True),
        ("20261127211141152011", True),
        ("20261127211141152001", False),
        ("20261127211141152006", False),
        ("20261127211141152", False),
    ],
)
def test_instants_of_builds_are_told_from_those_of_other_actions(instant_time: str, is_build: bool) -> None:
    assert is_of_build(instant_time) is is_build
