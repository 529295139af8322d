"""Log compaction of the metadata table: the logs of a slice become one, and every answer stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.support.crashes import crash_images, opened, rows
from tests.support.metadata_tables import FOLDER, files_committed, files_known
from tests.support.table_builder import THREE_ROWS, TableBuilder

import pyhudi
from pyhudi.format.metadata.compaction import LOG_COMPACTOR
from pyhudi.format.timeline.instant import Action, InstantState
from pyhudi.io.log.scan import scan_blocks
from pyhudi.metadata_table.folders import inner_version
from pyhudi.metadata_table.lookup import counting_logs, counting_writes
from pyhudi.metadata_table.state import load_metadata_state
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table
from pyhudi.table.timeline import load_compaction_plan, load_timeline
from pyhudi.testing.faults import FaultStorage, SimulatedCrash

INDEXED = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "1",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.clean.automatic": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.metadata.compact.max.delta.commits": "100",
}
JOINING = {
    **INDEXED,
    "hoodie.metadata.log.compaction.enable": "true",
    "hoodie.metadata.log.compaction.blocks.threshold": "3",
}
NOT_YET = {"hoodie.metadata.log.compaction.enable": "false"}
TABLES = [
    TableBuilder(version, kind, has_delete_flag=True, options=INDEXED)
    for version, kind in ((9, "cow"), (8, "mor"), (6, "mor"))
]


def joined_times(storage: Storage) -> list[str]:
    state = load_metadata_state(load_table(storage))
    return sorted(state.log_compactions & state.timeline.completed_times)


def pending(storage: Storage) -> list[str]:
    inner = load_timeline(storage, inner_version(load_table(storage).version))
    return [one.requested_time for one in inner.pending_compactions]


def write(storage: Storage, moment: int, **options: str) -> str:
    """One key changes, one comes, and one that came before goes."""
    gone = ((20 + moment - 2, "rome", moment, ""),) if moment > 3 else ()
    table = opened(storage, **{**JOINING, **options})
    written = table.upsert(rows((1, "oslo", moment, f"c{moment}"), (20 + moment, "rome", moment, "n"), gone=gone))
    assert written.instant is not None
    return written.instant


def check(storage: Storage, hint: str = "") -> None:
    """The metadata table says what the table has, by each of its partitions."""
    assert_found(storage, hint)
    assert opened(storage).inspect.metadata_check().to_pylist() == [], hint


def assert_found(storage: Storage, hint: str) -> None:
    table = opened(storage, **INDEXED)
    ids = sorted(opened(storage, **{"hoodie.metadata.enable": "false"}).scan(["id"]).to_arrow()["id"].to_pylist())
    assert sorted(table.lookup(list(range(60)), ["id"])["id"].to_pylist()) == ids, hint
    assert files_known(storage) == files_committed(storage), hint


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_writes_join_the_logs_and_every_answer_stays(table: TableBuilder) -> None:
    storage = table.insert(*THREE_ROWS).build()

    for moment in range(3, 11):
        write(storage, moment)
        if moment in (6, 9):
            check(storage, f"after {moment}")

    state = load_metadata_state(load_table(storage))
    times = joined_times(storage)
    assert len(times) == 4  # a joined log counts as one, and the empty one that made the group, too
    (group,) = state.slices("record_index")
    assert len(group.logs) > 8
    assert counting_writes(storage, group) == 2  # the joined one, and that of the newest write
    assert len(counting_logs(storage, group)) == (2 if table.version >= 8 else len(group.logs))
    assert not any(one.action is Action.COMMIT for one in state.timeline.completed_writes)

    write(storage, 11, **{"hoodie.metadata.compact.max.delta.commits": "2"})
    check(storage, "after compactions")
    state = load_metadata_state(load_table(storage))
    assert any(one.action is Action.COMMIT for one in state.timeline.completed_writes)
    (group,) = state.slices("record_index")
    assert len(group.logs) < 4


def test_joined_log_names_all_writes_that_it_stands_for_and_its_plan_their_files() -> None:
    storage = TABLES[0].insert(*THREE_ROWS).build()
    written = [write(storage, moment) for moment in range(3, 9)]

    state = load_metadata_state(load_table(storage))
    time = joined_times(storage)[-1]
    (group,) = state.slices("files")
    (path,) = (path for path in group.logs if time in path)
    named = {instant for block in scan_blocks(storage, path) for instant in block.compacted_instants}
    assert named >= {*written[:-2], joined_times(storage)[0]}
    assert written[-1] not in named
    done = next(one for one in state.timeline.instants if one.requested_time == time)
    assert done.action is Action.DELTA_COMMIT
    assert (done.completion_time or "") > time
    requested = next(one for one in _requested(storage) if one.startswith(time))
    assert requested == f"{time}.logcompaction.requested"
    plan = load_compaction_plan(
        storage, replace(done, action=Action.LOG_COMPACTION, state=InstantState.REQUESTED), state.timeline.version
    )
    assert plan.compactor_class == LOG_COMPACTOR
    assert {one.partition_path for one in plan.operations} == {"files", "record_index", "column_stats"}


def _requested(storage: Storage) -> list[str]:
    version = inner_version(load_table(storage).version)
    return [name for name in storage.list_names(version.timeline_folder) if name.endswith("logcompaction.requested")]


def test_logs_are_not_joined_unless_the_options_ask() -> None:
    storage = TABLES[0].insert(*THREE_ROWS).build()
    for moment in range(3, 9):
        write(storage, moment, **NOT_YET)
    assert joined_times(storage) == []


@pytest.mark.parametrize("table", [TABLES[0], TABLES[-1]], ids=str)
def test_death_in_a_log_compaction_changes_no_answer_and_the_next_write_goes_on(table: TableBuilder) -> None:
    given = table.insert(*THREE_ROWS).build()
    for number in (3, 4):
        write(given, number, **NOT_YET)

    def action(opened_table: pyhudi.HudiTable) -> object:
        return opened_table.upsert(rows((1, "oslo", 5, "c"), (30, "rome", 5, "n")), hudi_options=JOINING)

    seen = 0
    for moment, image in crash_images(given, action):
        if not pending(image) and (not joined_times(image) or load_table(image).timeline.pending_writes):
            continue  # a death in the write itself
        seen += bool(pending(image))
        assert_found(image, moment)
        opened(image, later=True, **JOINING).upsert(rows((2, "oslo", 9, "z")))
        check(image, moment)
        assert pending(image) == [], moment
        assert joined_times(image), moment
    assert seen >= 5  # inflight, a log of each of three partitions, the completed instant


@pytest.mark.parametrize("table", [TABLES[0], TABLES[-1]], ids=str)
def test_rollback_of_a_write_whose_log_was_joined_takes_its_files_out(table: TableBuilder) -> None:
    storage = table.insert(*THREE_ROWS).build()
    written = [write(storage, moment) for moment in (3, 4, 5)][-1]
    opened(storage, **JOINING).services.run(only="metadata_table")
    assert joined_times(storage)[-1] > load_table(storage).timeline.completed_writes[-1].requested_time

    opened(storage, **JOINING).recovery.rollback(written)
    check(storage, "after the rollback")
    write(storage, 6)
    check(storage, "after the next write")


@pytest.mark.parametrize("table", [TABLES[0], TABLES[-1]], ids=str)
def test_rollback_withdraws_a_log_compaction_that_died_with_the_log_in_its_plan(table: TableBuilder) -> None:
    storage = table.insert(*THREE_ROWS).build()
    write(storage, 3, **NOT_YET)
    with pytest.raises(SimulatedCrash):
        write(FaultStorage(storage, before=_dies_at("deltacommit", when=lambda path: _is_joining(storage, path))), 4)
    assert pending(storage)
    newest = load_table(storage).timeline.completed_writes[-1].requested_time

    opened(storage, later=True).recovery.rollback(newest)

    assert pending(storage) == []
    check(storage)


def _dies_at(suffix: str, *, when: Callable[[str], bool]) -> Callable[[str, str], None]:
    def before(_: str, path: str) -> None:
        if path.endswith(suffix) and when(path):
            raise SimulatedCrash

    return before


def _is_joining(storage: Storage, path: str) -> bool:
    return path.startswith(FOLDER) and bool(pending(storage))
