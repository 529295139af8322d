"""Switching the capture of changes on and off for tables that have rows already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.support.crashes import assert_nothing_left_over, crash_images, replayed
from tests.support.hooks import once
from tests.support.table_builder import COW_TABLES, MOR_TABLES, THREE_ROWS, Action, TableBuilder
from tests.support.tables import acting_at_staging, contents, newest_stats, open_table, rows

import pyhudi
from pyhudi.errors import (
    ConfigError,
    HistoryNotRetainedError,
    InvalidRequestError,
    UnsupportedFeatureError,
    WriteConflictError,
)
from pyhudi.format.log.cdc import LoggingMode
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage

MODES = [mode.value for mode in LoggingMode]
CAPTURE = {"hoodie.table.cdc.enabled": "true"}
KEY_ONLY = {"hoodie.table.cdc.supplemental.logging.mode": "OP_KEY_ONLY"}
every_kind = pytest.mark.parametrize("kind", [*COW_TABLES, *MOR_TABLES], ids=str)


def before_the_switch(kind: TableBuilder) -> Storage:
    """A table with an update, a delete and a late row, none of which was captured."""
    inserted = kind.insert(*THREE_ROWS, (4, "rome", 5, "d"))
    return inserted.upsert((1, "oslo", 2, "b"), (4, "rome", 1, "late")).delete((3, "rome", 9, "")).build()


def some_writes(storage: Storage) -> None:
    open_table(storage).upsert(rows((1, "oslo", 3, "c"), (5, "bern", 1, "n")))
    open_table(storage).delete(rows((2, "oslo", 0, "")))
    open_table(storage).insert_overwrite(rows((6, "rome", 1, "o")))


def operations(table: pyhudi.HudiTable, begin: str | None) -> list[str]:
    return table.changes(begin, format="cdc_typed").to_arrow().column("op").to_pylist()


def change_logs(storage: Storage) -> list[str]:
    return [info.path for info in storage.list_recursive("") if info.path.endswith(".cdc")]


@pytest.mark.parametrize("mode", MODES)
@every_kind
def test_changes_from_the_switch_on_are_captured(kind: TableBuilder, mode: str) -> None:
    storage = before_the_switch(kind)
    done = open_table(storage).alter.capture_changes(mode)
    assert (done.is_on, done.mode) == (True, mode)
    assert done.since == open_table(storage).inspect.position()

    open_table(storage).upsert(rows((1, "oslo", 3, "c"), (5, "bern", 1, "n")))
    open_table(storage).delete(rows((2, "oslo", 0, "")))

    assert sorted(operations(open_table(storage), done.since)) == ["d", "i", "u"]
    # Of a merge-on-read table the logs of records have the changes themselves.
    assert bool(change_logs(storage)) is not kind.is_merge_on_read


@every_kind
def test_changes_of_before_the_switch_are_found_in_the_files(kind: TableBuilder) -> None:
    storage = before_the_switch(kind)
    open_table(storage).alter.capture_changes()
    assert replayed(storage) == contents(storage)
    some_writes(storage)
    assert replayed(storage) == contents(storage)


@pytest.mark.parametrize("kind", COW_TABLES, ids=str)
def test_changes_whose_files_were_cleaned_are_refused_with_the_first_position_that_can_be_read(
    kind: TableBuilder,
) -> None:
    storage = before_the_switch(kind)
    since = open_table(storage).alter.capture_changes().since
    for ts in range(3, 6):
        open_table(storage).upsert(rows((1, "oslo", ts, "c")))
    open_table(storage).services.clean(hudi_options={"hoodie.clean.commits.retained": "2"})
    with pytest.raises(HistoryNotRetainedError) as caught:
        operations(open_table(storage), "earliest")
    earliest = caught.value.context["earliest"]
    assert earliest >= since
    assert operations(open_table(storage), earliest) == ["u"] * len(operations(open_table(storage), earliest))
    assert operations(open_table(storage), earliest)


@every_kind
def test_capture_is_switched_off_and_on_again(kind: TableBuilder) -> None:
    storage = before_the_switch(kind)
    open_table(storage).alter.capture_changes()
    some_writes(storage)
    off = open_table(storage).alter.stop_capturing_changes()
    assert not off.is_on
    logs = change_logs(storage)
    open_table(storage).upsert(rows((1, "oslo", 7, "not captured"), (9, "bern", 1, "n")))
    assert change_logs(storage) == logs
    with pytest.raises(InvalidRequestError, match=r"does not capture changes.*capture_changes"):
        open_table(storage).changes(format="cdc")

    open_table(storage).alter.capture_changes()
    open_table(storage).upsert(rows((1, "oslo", 8, "captured")))
    assert replayed(storage) == contents(storage)


def test_a_switch_to_what_the_table_has_changes_nothing() -> None:
    storage = COW_TABLES[2].insert(*THREE_ROWS).build()
    open_table(storage).alter.capture_changes()
    counted = FaultStorage(storage)
    assert open_table(counted).alter.capture_changes().is_on
    assert not [each for each in counted.effects if each.path.endswith("hoodie.properties")]
    assert not open_table(TableBuilder().build()).alter.stop_capturing_changes().is_on


def test_the_mode_changes_only_while_no_log_of_another_mode_is_there() -> None:
    storage = COW_TABLES[2].insert(*THREE_ROWS).build()
    open_table(storage).alter.capture_changes()
    assert open_table(storage).alter.capture_changes("OP_KEY_ONLY").mode == "OP_KEY_ONLY"
    open_table(storage).upsert(rows((1, "oslo", 3, "c")))
    assert open_table(storage).alter.capture_changes().mode == "OP_KEY_ONLY"  # without a mode: that of the table
    open_table(storage).alter.stop_capturing_changes()
    with pytest.raises(UnsupportedFeatureError, match="OP_KEY_ONLY"):
        open_table(storage).alter.capture_changes("DATA_BEFORE")
    assert not load_table(storage).config.cdc_enabled
    with pytest.raises(ConfigError, match="mode"):
        open_table(storage).alter.capture_changes("EVERYTHING")


# -- by the options of a write ------------------------------------------------------------------------------------


@every_kind
def test_a_write_whose_options_ask_for_it_switches_capture_on_first(kind: TableBuilder) -> None:
    storage = before_the_switch(kind)
    begin = open_table(storage).inspect.position()
    open_table(storage, env=None, **CAPTURE, **KEY_ONLY).upsert(rows((1, "oslo", 3, "c")))
    assert operations(open_table(storage), begin) == ["u"]
    assert load_table(storage).config.change_data_mode is LoggingMode.OP_KEY_ONLY
    open_table(storage).upsert(rows((1, "oslo", 4, "d")))
    assert operations(open_table(storage), begin) == ["u", "u"]


def test_a_write_whose_options_do_not_fit_switches_nothing_on() -> None:
    storage = COW_TABLES[2].insert(*THREE_ROWS).build()
    with pytest.raises(ConfigError, match=r"hoodie\.table\.name"):
        open_table(storage, env=None, **CAPTURE, **{"hoodie.table.name": "another"}).upsert(rows((1, "oslo", 3, "c")))
    assert not load_table(storage).config.cdc_enabled


def test_a_write_does_not_switch_capture_off() -> None:
    storage = replace(COW_TABLES[2], options=CAPTURE).insert(*THREE_ROWS).build()
    with pytest.raises(ConfigError, match=r"hoodie\.table\.cdc\.enabled"):
        open_table(storage, env=None, **{"hoodie.table.cdc.enabled": "false"}).upsert(rows((1, "oslo", 3, "c")))


# -- beside others ------------------------------------------------------------------------------------------------

SWITCHES: dict[str, Callable[[pyhudi.HudiTable], Any]] = {
    "on": lambda table: table.alter.capture_changes(),
    "off": lambda table: table.alter.stop_capturing_changes(),
}


def switched_once(storage: Storage, action: Action) -> Callable[[], None]:
    """What runs `action` on the table, the first time."""
    pending = [action]
    return lambda: pending.pop()(open_table(storage)) if pending else None


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("kind", [COW_TABLES[0], COW_TABLES[2], MOR_TABLES[2]], ids=str)
def test_a_write_that_loaded_the_table_before_the_switch_gives_way(kind: TableBuilder, switch: str) -> None:
    given = replace(kind, options=CAPTURE if switch == "off" else {}).insert(*THREE_ROWS).build()
    writer = acting_at_staging(open_table(given), switched_once(given, SWITCHES[switch]))
    with pytest.raises(WriteConflictError, match="capture"):
        writer.upsert(rows((1, "oslo", 3, "c")))
    assert contents(given) == set(THREE_ROWS)
    assert load_table(given).config.cdc_enabled is (switch == "on")


def test_a_write_that_may_try_again_logs_its_changes_then() -> None:
    storage = COW_TABLES[2].insert(*THREE_ROWS).build()
    retries = {"hoodie.write.num.retries.on.conflict.failures": "1"}
    acting_at_staging(open_table(storage, env=None, **retries), switched_once(storage, SWITCHES["on"])).upsert(
        rows((1, "oslo", 3, "c"))
    )
    assert [path for stat in newest_stats(storage) for path in stat.cdc_stats or {}]


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_switch_waits_for_writes_that_run(switch: str) -> None:
    given = replace(COW_TABLES[2], options=CAPTURE if switch == "off" else {}).insert(*THREE_ROWS).build()
    refused: list[WriteConflictError] = []

    def refuse() -> None:
        with pytest.raises(WriteConflictError, match="let it finish") as caught:
            SWITCHES[switch](open_table(given))
        refused.append(caught.value)

    begins = once(lambda name, path: name == "put_if_absent" and path.endswith(".inflight"), refuse)
    open_table(FaultStorage(given, before=begins)).upsert(rows((1, "oslo", 3, "c")))
    assert refused
    assert contents(given) == {(1, "oslo", 3, "c"), *THREE_ROWS[1:]}
    assert load_table(given).config.cdc_enabled is (switch == "off")


def test_a_dead_writer_is_rolled_back_and_a_plan_stays() -> None:
    storage = MOR_TABLES[2].insert(*THREE_ROWS).upsert((1, "oslo", 2, "b")).pending_compaction().dead_writer().build()
    open_table(storage).alter.capture_changes()
    assert not load_table(storage).timeline.pending_writes
    assert load_table(storage).timeline.pending_compactions
    assert replayed(storage) == contents(storage)


@pytest.mark.parametrize("kind", [*COW_TABLES, MOR_TABLES[2]], ids=str)
@pytest.mark.parametrize("switch", SWITCHES)
def test_a_switch_that_dies_anywhere_leaves_capture_on_or_off(kind: TableBuilder, switch: str) -> None:
    options = CAPTURE if switch == "off" else {}
    given = replace(kind, options=options).insert(*THREE_ROWS).upsert((1, "oslo", 2, "b")).build()
    seen = []
    for where, image in crash_images(given, SWITCHES[switch]):
        seen.append(load_table(image).config.cdc_enabled)
        assert contents(image) == contents(given), where
        SWITCHES["on"](open_table(image))
        open_table(image).upsert(rows((2, "oslo", 3, "c")))
        assert replayed(image) == contents(image), where
        assert_nothing_left_over(image)
    assert set(seen) == {True, False}
    assert seen == sorted(seen, reverse=switch == "off")
