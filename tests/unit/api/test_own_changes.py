"""A `HudiTable` follows what is done through it, and `refresh()` brings what others did; a scan is one moment."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.errors import HudiError, StorageError

_numbers = itertools.count()
SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("fare", pa.float64())])


def rides(*rows: tuple[int, str, float]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


@pytest.fixture
def table() -> pyhudi.HudiTable:
    table = pyhudi.HudiTable.create(
        f"memory://own-changes-{next(_numbers)}", schema=SCHEMA, record_key="id", partition_by="city", table_type="mor"
    )
    table.upsert(rides((1, "oslo", 1.0), (2, "rome", 2.0)))
    return table


def fares(table: pyhudi.HudiTable) -> list[float]:
    return sorted(table.scan(["fare"]).to_arrow().column("fare").to_pylist())


CHANGES: dict[str, tuple[Callable[[pyhudi.HudiTable], Any], list[float]]] = {
    "upsert": (lambda table: table.upsert(rides((1, "oslo", 9.0))), [2.0, 9.0]),
    "insert": (lambda table: table.insert(rides((3, "oslo", 3.0))), [1.0, 2.0, 3.0]),
    "bulk_insert": (lambda table: table.bulk_insert(rides((3, "oslo", 3.0))), [1.0, 2.0, 3.0]),
    "delete": (lambda table: table.delete(pa.table({"id": [1], "city": ["oslo"]})), [2.0]),
    "delete_partition": (lambda table: table.delete_partition("rome"), [1.0]),
    "truncate": (lambda table: table.truncate(), []),
    "insert_overwrite": (lambda table: table.insert_overwrite(rides((3, "oslo", 3.0))), [2.0, 3.0]),
    "insert_overwrite_table": (lambda table: table.insert_overwrite_table(rides((3, "oslo", 3.0))), [3.0]),
    "merge": (
        lambda table: table.merge(rides((1, "oslo", 7.0)), on="id").when_matched_update_all().execute(),
        [2.0, 7.0],
    ),
    "update": (lambda table: table.update({"fare": 0.0}, [("city", "==", "oslo")]), [0.0, 2.0]),
    "delete_where": (lambda table: table.delete_where([("fare", ">", 1)]), [1.0]),
    "rollback": (lambda table: table.recovery.rollback(table.inspect.last_write().instant), []),
}


@pytest.mark.parametrize("change", CHANGES)
def test_change_through_a_table_is_seen_by_its_next_scan_and_not_by_the_one_before(
    table: pyhudi.HudiTable, change: str
) -> None:
    act, expected = CHANGES[change]
    before = table.scan(["fare"])

    act(table)

    assert fares(table) == expected
    if change != "rollback":  # which deletes the files of the scan
        assert sorted(before.to_arrow().column("fare").to_pylist()) == [1.0, 2.0]


def test_change_by_a_noun_that_was_taken_before_is_seen_by_the_table_and_by_other_nouns(
    table: pyhudi.HudiTable,
) -> None:
    services, alter, inspect = table.services, table.alter, table.inspect
    table.upsert(rides((1, "oslo", 9.0)))

    assert services.compact().num_rows == 1
    assert pc.max(inspect.files().column("size")).as_py() > 0
    assert [action for action in inspect.timeline().column("action").to_pylist() if action == "commit"] == ["commit"]

    alter.add_column("tip", pa.float64())
    assert table.schema.names[-1] == "tip"

    table.savepoints.create(name="now")
    assert table.scan(as_of="now").count() == 2


def test_commit_of_another_is_not_seen_before_a_refresh_which_works_in_place(table: pyhudi.HudiTable) -> None:
    fares(table)
    pyhudi.HudiTable.for_path(table.inspect.detail().uri).upsert(rides((3, "bonn", 3.0)))
    assert fares(table) == [1.0, 2.0]

    same = table.refresh()

    assert same is table
    assert fares(table) == [1.0, 2.0, 3.0]


def test_commit_of_another_is_seen_after_a_change_of_ones_own(table: pyhudi.HudiTable) -> None:
    pyhudi.HudiTable.for_path(table.inspect.detail().uri).upsert(rides((3, "bonn", 3.0)))
    table.upsert(rides((4, "bonn", 4.0)))
    assert fares(table) == [1.0, 2.0, 3.0, 4.0]


def test_change_that_fails_leaves_a_table_that_shows_what_is_stored(table: pyhudi.HudiTable) -> None:
    with pytest.raises(HudiError):
        table.upsert(pa.table({"id": [1]}))
    assert fares(table) == [1.0, 2.0]


def test_writes_that_no_read_follows_do_not_load_the_table_again(
    table: pyhudi.HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[None] = []
    refresh = type(table.handle).refresh
    monkeypatch.setattr(type(table.handle), "refresh", lambda handle: loads.append(None) or refresh(handle))
    for number in range(3):
        table.upsert(rides((5, "bonn", float(number))))
    assert loads == []
    assert fares(table) == fares(table) == [1.0, 2.0, 2.0]
    assert loads == [None]


def test_store_that_fails_at_the_read_after_a_write_is_asked_again_by_the_next_read(
    table: pyhudi.HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.upsert(rides((3, "bonn", 3.0)))
    with monkeypatch.context() as failing:
        failing.setattr(type(table.handle.loaded), "reload", _fail)
        with pytest.raises(StorageError):
            table.scan()
    assert fares(table) == [1.0, 2.0, 3.0]


def _fail(*_: Any) -> None:
    raise StorageError("the store does not answer")


def test_pickle_of_a_table_has_what_was_written_through_it(tmp_path: Path) -> None:
    table = pyhudi.HudiTable.create(tmp_path / "rides", schema=SCHEMA, record_key="id")
    table.upsert(rides((1, "oslo", 1.0)))
    assert fares(pickle.loads(pickle.dumps(table))) == [1.0]


def test_table_created_with_options_is_written_on_after_alter_has_changed_what_they_said() -> None:
    options = {"hoodie.write.table.version": "6", "hoodie.table.cdc.enabled": "true"}
    created = pyhudi.HudiTable.create(
        f"memory://own-changes-{next(_numbers)}", schema=SCHEMA, record_key="id", hudi_options=options
    )
    created.upsert(rides((1, "oslo", 1.0)))
    created.alter.upgrade(to=9)
    created.alter.stop_capturing_changes()

    created.upsert(rides((2, "rome", 2.0)))

    config = created.refresh().handle.state.config
    assert (config.version.number, config.cdc_enabled, fares(created)) == (9, False, [1.0, 2.0])
