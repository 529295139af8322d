"""The services of the metadata table: what its compactions merge, what goes, and what the table may archive then."""

from __future__ import annotations

import pytest
from tests.support.crashes import opened, rows
from tests.support.metadata_tables import FOLDER, delta_commits, files_committed, files_known, with_files
from tests.support.table_builder import THREE_ROWS, TableBuilder

from pyhudi.errors import UnavailableError
from pyhudi.format.timeline.instant import Action
from pyhudi.metadata_table.folders import inner_version
from pyhudi.metadata_table.state import load_metadata_state
from pyhudi.metadata_table.undo import is_merged, undo_delta_commit
from pyhudi.services.metadata_table.compaction import delta_commits_since_compaction
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table
from pyhudi.table.timeline import Timeline, load_timeline
from pyhudi.testing.faults import EFFECTS, FaultStorage

TABLES = [with_files(9, "cow"), with_files(8, "mor"), with_files(6, "mor")]
EVERY_TWO = {"hoodie.metadata.compact.max.delta.commits": "2"}
JOINING = {
    "hoodie.metadata.compact.max.delta.commits": "100",
    "hoodie.metadata.log.compaction.enable": "true",
    "hoodie.metadata.log.compaction.blocks.threshold": "2",
}


def inner(storage: Storage) -> Timeline:
    return load_timeline(storage, inner_version(load_table(storage).version))


def compactions(storage: Storage) -> list[str]:
    return [one.requested_time for one in inner(storage).completed_writes if one.action is Action.COMMIT]


def updated(storage: Storage, times: int, **options: str) -> None:
    for moment in range(times):
        opened(storage, **{**EVERY_TWO, **options}).upsert(rows((1, "oslo", moment + 2, "c")))


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_writes_merge_the_logs_of_the_metadata_table_and_delete_what_is_old(table: TableBuilder) -> None:
    storage = table.insert(*THREE_ROWS).build()

    updated(storage, 7)

    assert files_known(storage) == files_committed(storage)
    assert len(compactions(storage)) >= 3
    bases = [info.name for info in storage.list_folder(f"{FOLDER}/files").files if info.name.endswith(".hfile")]
    assert len(bases) == 2
    assert len(storage.list_folder(f"{FOLDER}/files").files) < 12


@pytest.mark.parametrize("table", [with_files(9, "cow"), with_files(6, "cow")], ids=str)
def test_long_life_archives_table_and_metadata_table_and_no_file_is_lost(table: TableBuilder) -> None:
    storage = table.insert(*THREE_ROWS).build()
    small = {"hoodie.keep.min.commits": "4", "hoodie.keep.max.commits": "6", "hoodie.clean.commits.retained": "2"}

    updated(storage, 18, **small)

    assert files_known(storage) == files_committed(storage)
    assert len(load_table(storage).timeline.completed_writes) < 15
    assert len(inner(storage).completed_writes) < 32
    assert storage.list_recursive(inner_version(load_table(storage).version).history_folder)


def test_table_whose_metadata_table_was_never_merged_is_not_archived() -> None:
    storage = with_files(9, "cow").insert(*THREE_ROWS).build()
    small = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}

    updated(storage, 8, **small, **{"hoodie.metadata.compact.max.delta.commits": "100"})

    assert len(load_table(storage).timeline.completed_writes) == 9
    assert len(delta_commits(storage)) > 9


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_rollback_of_a_write_whose_delta_commit_was_merged_takes_its_files_out(table: TableBuilder) -> None:
    storage = table.insert(*THREE_ROWS).build()
    updated(storage, 2, **{"hoodie.clean.automatic": "false"})
    opened(storage, **{"hoodie.metadata.compact.max.delta.commits": "1"}).services.run(only="metadata_table")
    newest = load_table(storage).timeline.completed_writes[-1].requested_time

    assert is_merged(load_table(storage), newest)

    opened(storage).recovery.rollback(newest)

    assert newest not in delta_commits(storage)
    assert files_known(storage) == files_committed(storage)


@pytest.mark.parametrize("joins", [False, True], ids=["compaction", "log compaction"])
@pytest.mark.parametrize("table", TABLES, ids=str)
def test_newest_write_is_never_merged_so_that_jvm_hudi_can_roll_it_back(table: TableBuilder, joins: bool) -> None:
    """JVM Hudi 1.0.2 refuses where a compaction has a later time than the write began."""
    storage = table.insert(*THREE_ROWS).build()
    options = JOINING if joins else {}

    for _ in range(7):
        updated(storage, 1, **options)
        state = load_metadata_state(load_table(storage))
        newest = state.table.timeline.completed_writes[-1].requested_time
        merging = state.compactions | (state.log_compactions & state.timeline.completed_times)
        assert newest > max(merging, default="")
        assert not is_merged(state.table, newest)

    assert len(merging) >= 2


@pytest.mark.parametrize("table", [with_files(9, "cow"), with_files(6, "mor")], ids=str)
def test_no_write_leaves_as_many_delta_commits_as_a_rollback_of_jvm_hudi_compacts(table: TableBuilder) -> None:
    """With a compaction and a clean after each of them; JVM Hudi counts those that built the metadata table, too."""
    storage = table.insert(*THREE_ROWS).build()
    services = {
        "hoodie.compact.inline": "true",
        "hoodie.compact.inline.max.delta.commits": "1",
        "hoodie.clean.commits.retained": "1",
    }
    since = []

    for moment in range(12):
        written = rows((1, "oslo", moment + 2, "c"))
        opened(storage, **services).upsert(written)
        since.append(delta_commits_since_compaction(inner(storage)))

    assert max(since) < 10
    assert compactions(storage)


def test_write_goes_on_when_the_compaction_before_it_fails(caplog: pytest.LogCaptureFixture) -> None:
    storage = TABLES[0].insert(*THREE_ROWS).build()
    updated(storage, 1)
    before = compactions(storage)

    def refuse(operation: str, path: str) -> None:
        if operation in EFFECTS and path.endswith(".hfile"):
            raise UnavailableError("the store is gone", path=path)

    updated(FaultStorage(storage, before=refuse), 1)

    assert "the metadata table was not compacted, and the write goes on: the store is gone" in caplog.text
    assert compactions(storage) == before
    updated(storage, 1)
    assert len(compactions(storage)) == len(before) + 1
    assert files_known(storage) == files_committed(storage)


@pytest.mark.parametrize("option", ["hoodie.table.services.enabled", "hoodie.metadata.enable"])
def test_write_does_not_compact_where_services_are_off_or_it_drops_the_metadata_table(option: str) -> None:
    storage = TABLES[0].insert(*THREE_ROWS).build()
    updated(storage, 1)
    seen = FaultStorage(storage)

    updated(seen, 1, **{option: "false"})

    assert not [effect for effect in seen.effects if "compaction" in effect.path]


def test_metadata_table_that_lacks_a_write_is_left_to_the_write_that_drops_it() -> None:
    """Its archiving could take what shows that the write is missing."""
    storage = TABLES[0].insert(*THREE_ROWS).build()
    updated(storage, 3, **{"hoodie.table.services.enabled": "false"})
    undo_delta_commit(load_table(storage), load_table(storage).timeline.completed_writes[-2].requested_time, "9")

    opened(storage, **EVERY_TWO).services.run(only="metadata_table")
    assert compactions(storage) == []

    updated(storage, 1)
    assert load_table(storage).config.metadata_partitions == ()


@pytest.mark.parametrize("version", [9, 8])
def test_compaction_lies_between_the_completions_before_and_after_it(version: int) -> None:
    """A write that began before it and ends after it counts in the new slice, by times of as many digits."""
    storage = with_files(version, "cow").insert(*THREE_ROWS).build()
    others: list[str] = []

    def meanwhile(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith(".inflight") and not others:
            others.append(path)
            updated(storage, 2)

    written = opened(FaultStorage(storage, before=meanwhile)).insert(rows((7, "bern", 9, "late"))).instant

    time = max(compactions(storage))
    known = {one.requested_time: one.completion_time or "" for one in inner(storage).completed_writes}
    assert written is not None
    assert len(time) == len(written)
    assert written < time < known[written]
    assert time not in {one.requested_time for one in load_table(storage).timeline.instants}
    assert files_known(storage) == files_committed(storage)


def test_write_that_has_the_time_of_a_compaction_is_taken_back_without_it() -> None:
    storage = with_files(9, "cow").insert(*THREE_ROWS).build()
    updated(storage, 2)
    merged = compactions(storage)

    undo_delta_commit(load_table(storage), merged[-1], merged[-1])

    assert compactions(storage) == merged
    assert files_known(storage) == files_committed(storage)
