"""What `HudiTable` and `save` do with arguments and options that they do not have."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.tables import SCHEMA, contents, new_table, rows

import pyhudi
from pyhudi.api.hudi_table import save
from pyhudi.config.option import OptionWarning
from pyhudi.errors import ConfigError, HudiError
from pyhudi.storage.memory import MemoryStorage

START = ((1, "oslo", 5, "a"), (2, "rome", 5, "a"))


@pytest.fixture
def table() -> pyhudi.HudiTable:
    table = new_table(MemoryStorage())
    table.insert(rows(*START))
    return table.refresh()


def test_delete_partition_with_a_dry_run_it_does_not_have_deletes_nothing(table: pyhudi.HudiTable) -> None:
    with pytest.raises(ConfigError, match="delete_partition has no argument 'dry_run'"):
        table.delete_partition("city=oslo", dry_run=True)

    assert contents(table.state.storage) == set(START)


CALLS: dict[str, Callable[[pyhudi.HudiTable, dict[str, Any]], object]] = {
    "upsert": lambda table, options: table.upsert(rows((3, "oslo", 5, "b")), **options),
    "insert": lambda table, options: table.insert(rows((3, "oslo", 5, "b")), **options),
    "bulk_insert": lambda table, options: table.bulk_insert(rows((3, "oslo", 5, "b")), **options),
    "delete": lambda table, options: table.delete(rows(START[0]), **options),
    "delete_partition": lambda table, options: table.delete_partition("city=oslo", **options),
    "insert_overwrite": lambda table, options: table.insert_overwrite(rows((3, "oslo", 5, "b")), **options),
    "insert_overwrite_table": lambda table, options: table.insert_overwrite_table(rows(START[0]), **options),
    "compact": lambda table, options: table.compact(**options),
    "compact_logs": lambda table, options: table.compact_logs(**options),
    "schedule_compaction": lambda table, options: table.schedule_compaction(**options),
}


@pytest.mark.parametrize("call", CALLS)
def test_call_with_an_unknown_argument_is_refused_and_changes_nothing(call: str, table: pyhudi.HudiTable) -> None:
    with pytest.raises(
        ConfigError, match=rf"{call} has no argument 'retries': did you mean hoodie\.write\.num\.retries"
    ):
        CALLS[call](table, {"retries": 5})

    assert contents(table.state.storage) == set(START)
    assert len(table.refresh().history()) == 1


@pytest.mark.parametrize("call", CALLS)
def test_call_with_an_option_of_the_store_is_refused(call: str, table: pyhudi.HudiTable) -> None:
    with pytest.raises(ConfigError, match=r"fs\.s3a\.access\.key says how to reach the store"):
        CALLS[call](table, {"fs.s3a.access.key": "other"})


def test_call_that_names_another_operation_is_refused(table: pyhudi.HudiTable) -> None:
    with pytest.raises(ConfigError, match="this call is an insert, not an upsert"):
        table.insert(rows(START[0]), **{"hoodie.datasource.write.operation": "upsert"})


def test_partitions_to_delete_named_twice_are_refused(table: pyhudi.HudiTable) -> None:
    with pytest.raises(ConfigError, match="is told the partitions already"):
        table.delete_partition("city=oslo", **{"hoodie.datasource.write.partitions.to.delete": "city=rome"})


def test_option_that_is_none_counts_as_not_given(table: pyhudi.HudiTable) -> None:
    table.upsert(rows((3, "oslo", 5, "b")), **{"hoodie.index.type": None})

    assert len(contents(table.state.storage)) == 3


def test_option_in_upper_case_counts(table: pyhudi.HudiTable) -> None:
    with pytest.raises(ConfigError, match=r"hoodie\.index\.type cannot be 'no such'"):
        table.upsert(rows(START[0]), **{"HOODIE.INDEX.TYPE": "no such"})


def test_names_that_begin_with_the_prefix_of_commit_metadata_are_taken(table: pyhudi.HudiTable) -> None:
    table.upsert(rows((3, "oslo", 5, "b")), _team="blue")
    table.upsert(rows((4, "oslo", 5, "b")), team="red", **{"hoodie.datasource.write.commitmeta.key.prefix": "te"})

    with pytest.raises(ConfigError, match="upsert has no argument 'team'"):
        table.upsert(rows((5, "oslo", 5, "b")), team="red")


@pytest.mark.parametrize("name", ["mode", "partitionBy"])
def test_save_with_an_argument_among_its_options_is_refused(name: str) -> None:
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id", name: "x"}
    with pytest.raises(ConfigError, match=f"save has no argument '{name}'"):
        save(rows(START[0]), "memory://arguments/save", options=options)

    with pytest.raises(pyhudi.errors.TableNotFoundError):
        pyhudi.HudiTable.for_path("memory://arguments/save")


def test_hudi_options_with_an_unknown_argument_are_refused() -> None:
    with pytest.raises(ConfigError, match="hudi_options has no argument 'merger'"):
        pyhudi.HudiTable.for_path("memory://arguments/t", hudi_options={"merger": "x"})


def test_options_of_reads_that_the_table_was_opened_with_hold() -> None:
    path = "memory://arguments/reads"
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    first = save(rows((1, "oslo", 5, "a")), path, options=options)
    assert first is not None
    save(rows((2, "rome", 5, "a")), path, options=options)

    then = pyhudi.HudiTable.for_path(path, hudi_options={"As.Of.Instant": first.instant})
    changed = {"hoodie.datasource.query.type": "incremental"}
    begin = {"hoodie.datasource.read.begin.instanttime": first.completion_time}
    since = pyhudi.HudiTable.for_path(path, hudi_options={**changed, **begin})

    assert then.to_arrow(["id"])["id"].to_pylist() == [1]
    assert since.to_arrow(["id"])["id"].to_pylist() == [2]
    assert since.changes(columns=["id"])["id"].to_pylist() == [2]
    assert sorted(since.to_arrow(["id"], query_type="snapshot")["id"].to_pylist()) == [1, 2]


def test_save_to_another_table_than_an_option_names_is_refused() -> None:
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    for name in ("path", "hoodie.base.path"):
        with pytest.raises(ConfigError, match="names more than one table"):
            save(rows(START[0]), "memory://arguments/one", options={**options, name: "memory://arguments/two"})


def test_number_of_splits_that_this_process_does_not_make_warns(table: pyhudi.HudiTable) -> None:
    with pytest.warns(OptionWarning, match="shuffle parallelism has no effect here"):
        table.upsert(rows((3, "oslo", 5, "b")), **{"hoodie.upsert.shuffle.parallelism": 4})
    table.upsert(rows((3, "oslo", 5, "b")), **{"hoodie.upsert.shuffle.parallelism": 1})


@pytest.mark.parametrize("time", ["", " ", 20240131, dt.datetime(2024, 1, 31)], ids=repr)
@pytest.mark.parametrize("argument", ["as_of", "begin", "end"])
def test_time_that_is_no_text_is_not_taken_for_none(argument: str, time: Any, table: pyhudi.HudiTable) -> None:
    read: Callable[..., Any] = table.to_arrow if argument == "as_of" else table.changes
    with pytest.raises(ConfigError, match=argument):
        read(**{argument: time})


CALLS_WITH_BAD_VALUES: dict[str, Callable[[pyhudi.HudiTable], Any]] = {
    "upsert of None": lambda table: table.upsert(None),
    "delete of None": lambda table: table.delete(None),
    "keys of two types": lambda table: table.delete([1, "2"]),
    "a column twice": lambda table: table.to_arrow(["id", "id"]),
    "a condition as a dictionary": lambda table: table.to_arrow(where={"id": 1}),
    "a query type that is no text": lambda table: table.to_arrow(query_type=5),  # type: ignore[arg-type]
    "a path of bytes": lambda _: pyhudi.HudiTable.for_path(b"/tmp"),  # type: ignore[arg-type]
    "a path with a null character": lambda _: pyhudi.HudiTable.for_path("/tmp/a\0b"),
}


@pytest.mark.parametrize("call", CALLS_WITH_BAD_VALUES.values(), ids=CALLS_WITH_BAD_VALUES)
def test_bad_value_of_an_argument_is_a_typed_error(call: Callable[[pyhudi.HudiTable], Any], tmp_path: Path) -> None:
    table = pyhudi.HudiTable.create(str(tmp_path), schema=SCHEMA, record_key="id")
    table.insert(rows((1, "oslo", 1, "a")))
    with pytest.raises(HudiError):
        call(table.refresh())


def test_path_may_be_one_of_pathlib(tmp_path: Path) -> None:
    table = pyhudi.HudiTable.create(tmp_path / "trips", schema=SCHEMA, record_key="id")
    pyhudi.save(rows((1, "oslo", 1, "a")), tmp_path / "trips", options={})

    opened = pyhudi.HudiTable.for_path(tmp_path / "trips")
    assert (opened.to_arrow().num_rows, table.detail()["name"]) == (1, "trips")
