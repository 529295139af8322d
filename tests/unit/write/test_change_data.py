"""Change data logs of writes that die, of tasks that outlive them, and after cleaning and restoring."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.crashes import (
    BEFORE,
    COW,
    MOR,
    assert_nothing_left_over,
    crash_images,
    opened,
    prepared,
    replayed,
    rows,
)
from tests.support.statistics_of_tables import statistics_known
from tests.support.table_builder import TableBuilder
from tests.support.table_files import meeting
from tests.support.tables import StepClock, contents, environment, newest_stats, open_table, rehandled
from tests.support.tables import rows as plain_rows

import pyhudi
from pyhudi.engine.local import LocalEngine
from pyhudi.engine.protocol import TaskContext
from pyhudi.errors import ConfigError
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table

CAPTURE = {"hoodie.table.cdc.enabled": "true"}
AFTER = {(1, "oslo", 3, "c"), (3, "rome", 1, "a"), (9, "rome", 2, "b")}


def captured(kind: TableBuilder) -> Storage:
    return prepared(replace(kind, options=CAPTURE))


def change_logs(storage: Storage) -> set[str]:
    return {info.path for info in storage.list_recursive("") if info.path.endswith(".cdc")}


def upsert(table: pyhudi.HudiTable) -> None:
    """Rewrite one base file by an update and a delete, and another one by an insert."""
    table.upsert(rows((1, "oslo", 3, "c"), (9, "rome", 2, "b"), gone=((2, "oslo", 9, ""),)))


@pytest.mark.parametrize(("kind", "every"), [(COW[2], 1), (COW[0], 3), (MOR[2], 3)], ids=str)
def test_a_write_that_dies_at_any_effect_leaves_no_change_behind(kind: TableBuilder, every: int) -> None:
    image = captured(kind)
    before = change_logs(image)
    for where, crashed in crash_images(image, upsert, every=every):
        found = contents(crashed)
        assert found in (BEFORE, AFTER), where
        assert replayed(crashed) == found, where
        opened(crashed, later=True).recovery.roll_back_failed_writes()
        assert_nothing_left_over(crashed, [".hoodie/.temp", ".hoodie/.heartbeat"])
        assert replayed(crashed) == found, where
        assert (change_logs(crashed) == before) == (found == BEFORE), where


def test_changes_of_lock_less_writers_come_in_the_order_in_which_these_completed() -> None:
    lock_less = {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL", "hoodie.compact.inline": "false"}
    buckets = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    clock = StepClock()
    storage = replace(MOR[2], has_delete_flag=False, options={**CAPTURE, **buckets}, clock=clock).build()

    def upsert(to: Storage, *row: Any) -> None:
        open_table(to, env=environment(clock), **lock_less).upsert(plain_rows(row))

    upsert(storage, 1, "oslo", 1, "start")
    other = meeting(
        storage, lambda inner: upsert(inner, 1, "oslo", 10, "between"), before=("put_if_absent", ".inflight")
    )
    upsert(other, 1, "oslo", 20, "began before, completed after")

    assert contents(storage) == {(1, "oslo", 20, "began before, completed after")}
    assert replayed(storage) == contents(storage)


def test_cleaning_takes_change_logs_with_their_files() -> None:
    storage = captured(COW[2])
    options = {"hoodie.cleaner.commits.retained": "1", "hoodie.clean.automatic": "false"}
    for number in range(4, 8):
        opened(storage, **options).upsert(rows((1, "oslo", number, "c")))
    opened(storage, **options).services.clean()
    bases = {info.name.split("_")[-1].split(".")[0] for info in storage.list_folder("city=oslo").files}
    logs = change_logs(storage)
    assert logs
    assert {path.rsplit("_", 2)[1].split(".")[0] for path in logs} <= bases


def test_a_restore_removes_the_changes_that_it_undoes() -> None:
    storage = captured(COW[2])
    table = load_table(storage)
    last = table.timeline.completed_writes[-1].requested_time
    opened(storage).savepoints.create(last, user="ann", comment="")
    before = change_logs(storage)
    upsert(opened(storage))
    assert change_logs(storage) > before
    opened(storage).recovery.restore(last)
    assert change_logs(storage) == before
    assert replayed(storage) == contents(storage) == BEFORE


def test_options_of_a_write_cannot_change_what_a_table_captures() -> None:
    storage = captured(COW[2])
    for key, value in (
        ("hoodie.table.cdc.enabled", "false"),
        ("hoodie.table.cdc.supplemental.logging.mode", "OP_KEY_ONLY"),
    ):
        with pytest.raises(ConfigError, match=key):
            opened(storage).upsert(rows((1, "oslo", 3, "c")), hudi_options={key: value})
    opened(storage).upsert(
        rows((1, "oslo", 3, "c")), hudi_options={"hoodie.table.cdc.supplemental.logging.mode": "data_before_after"}
    )


def test_files_of_a_lost_attempt_are_removed_with_their_change_logs() -> None:
    class EngineThatTriesTwice(LocalEngine):
        @property
        def repeats_tasks(self) -> bool:
            return True

        def map(self, function: Any, items: Any, **how: Any) -> list[Any]:
            def twice(context: TaskContext, item: Any) -> Any:
                function(context, item)
                return function(replace(context, attempt=context.attempt + 1), item)

            return super().map(twice, items, **how)

    storage = captured(COW[2])
    before = change_logs(storage)
    upsert(rehandled(opened(storage), engine=EngineThatTriesTwice(parallelism=1)))
    named = {path for stat in newest_stats(storage) for path in stat.cdc_stats or {}}
    assert len(named) == 2
    assert change_logs(storage) == before | named
    assert replayed(storage) == contents(storage)


@pytest.mark.parametrize("mode", ["DATA_BEFORE_AFTER", "OP_KEY_ONLY"])
def test_indexes_of_the_values_of_files_leave_change_logs_out(mode: str) -> None:
    indexes = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
    capture = {**CAPTURE, "hoodie.table.cdc.supplemental.logging.mode": mode}
    storage = replace(COW[2], options={**capture, **indexes}).insert((1, "oslo", 1, "a"), (2, "oslo", 1, "b")).build()
    opened(storage).indexes.create("by_lower", "expression", "note", expression={"expr": "lower"})

    opened(storage).upsert(rows((1, "oslo", 3, "c")))

    assert len(change_logs(storage)) == 1
    assert replayed(storage) == contents(storage) == {(1, "oslo", 3, "c"), (2, "oslo", 1, "b")}
    for indexed in ("column_stats", "expr_index_by_lower"):
        assert not [key for key, found in statistics_known(storage, indexed).items() if ".cdc" in str(found)], indexed
