"""What `HudiTable` and `save` do with arguments and options that they do not have."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.tables import SCHEMA, contents, new_table, rows

import pyhudi
from pyhudi.api.writes import save
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
    with pytest.raises(TypeError, match="dry_run"):
        table.delete_partition("city=oslo", dry_run=True)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="delete_partition has no option 'dry_run'"):
        table.delete_partition("city=oslo", hudi_options={"dry_run": True})

    assert contents(table.handle.state.storage) == set(START)


def test_new_table_keeps_options_of_how_it_is_stored_and_the_object_has_the_others(tmp_path: Path) -> None:
    stored = {"hoodie.table.timeline.timezone": "UTC", "hoodie.table.cdc.enabled": "true"}
    bucket = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"}
    of_writes = {"hoodie.clean.commits.retained": "3", "hoodie.write.num.retries.on.conflict.failures": "5"}
    made = pyhudi.HudiTable.create(
        tmp_path / "t", schema=SCHEMA, record_key="id", ordering_fields="ts", hudi_options=stored | bucket | of_writes
    )

    later = pyhudi.HudiTable.for_path(tmp_path / "t")
    properties = later.handle.state.config.values
    assert stored.items() | {("hoodie.bucket.index.num.buckets", "3")} <= properties.items()
    assert not of_writes.keys() & properties.keys()
    assert of_writes.items() <= made.handle.options.items()
    assert later.handle.options == {}


CALLS: dict[str, Callable[[pyhudi.HudiTable, dict[str, Any]], object]] = {
    "upsert": lambda table, options: table.upsert(rows((3, "oslo", 5, "b")), hudi_options=options),
    "insert": lambda table, options: table.insert(rows((3, "oslo", 5, "b")), hudi_options=options),
    "bulk_insert": lambda table, options: table.bulk_insert(rows((3, "oslo", 5, "b")), hudi_options=options),
    "delete": lambda table, options: table.delete(rows(START[0]), hudi_options=options),
    "delete_partition": lambda table, options: table.delete_partition("city=oslo", hudi_options=options),
    "insert_overwrite": lambda table, options: table.insert_overwrite(rows((3, "oslo", 5, "b")), hudi_options=options),
    "insert_overwrite_table": lambda table, options: table.insert_overwrite_table(rows(START[0]), hudi_options=options),
    "compact": lambda table, options: table.services.compact(hudi_options=options),
    "compact_logs": lambda table, options: table.services.compact_logs(hudi_options=options),
    "schedule": lambda table, options: table.services.schedule(hudi_options=options),
}


@pytest.mark.parametrize("call", CALLS)
def test_call_with_an_unknown_argument_is_refused_and_changes_nothing(call: str, table: pyhudi.HudiTable) -> None:
    with pytest.raises(ConfigError, match=rf"{call} has no option 'retries': did you mean hoodie\.write\.num\.retries"):
        CALLS[call](table, {"retries": 5})

    assert contents(table.handle.state.storage) == set(START)
    assert len(table.refresh().inspect.history()) == 1


@pytest.mark.parametrize("call", CALLS)
def test_call_with_an_option_of_the_store_is_refused(call: str, table: pyhudi.HudiTable) -> None:
    with pytest.raises(ConfigError, match=r"fs\.s3a\.access\.key says how to reach the store"):
        CALLS[call](table, {"fs.s3a.access.key": "other"})


def test_call_that_names_another_operation_is_refused(table: pyhudi.HudiTable) -> None:
    with pytest.raises(ConfigError, match="this call is an insert, not an upsert"):
        table.insert(rows(START[0]), hudi_options={"hoodie.datasource.write.operation": "upsert"})


def test_partitions_to_delete_named_twice_are_refused(table: pyhudi.HudiTable) -> None:
    with pytest.raises(ConfigError, match="is told the partitions already"):
        table.delete_partition("city=oslo", hudi_options={"hoodie.datasource.write.partitions.to.delete": "city=rome"})


def test_option_that_is_none_counts_as_not_given(table: pyhudi.HudiTable) -> None:
    table.upsert(rows((3, "oslo", 5, "b")), hudi_options={"hoodie.index.type": None})

    assert len(contents(table.handle.state.storage)) == 3


def test_option_in_upper_case_counts(table: pyhudi.HudiTable) -> None:
    with pytest.raises(ConfigError, match=r"hoodie\.index\.type cannot be 'no such'"):
        table.upsert(rows(START[0]), hudi_options={"HOODIE.INDEX.TYPE": "no such"})


def test_names_that_begin_with_the_prefix_of_commit_metadata_are_taken(table: pyhudi.HudiTable) -> None:
    table.upsert(rows((3, "oslo", 5, "b")), hudi_options={"_team": "blue"})
    table.upsert(
        rows((4, "oslo", 5, "b")), hudi_options={"team": "red", "hoodie.datasource.write.commitmeta.key.prefix": "te"}
    )

    with pytest.raises(ConfigError, match="upsert has no option 'team'"):
        table.upsert(rows((5, "oslo", 5, "b")), hudi_options={"team": "red"})


@pytest.mark.parametrize("name", ["mode", "partitionBy"])
def test_save_with_an_argument_among_its_options_is_refused(name: str) -> None:
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id", name: "x"}
    with pytest.raises(ConfigError, match=f"save has no option '{name}'"):
        save(rows(START[0]), "memory://arguments/save", hudi_options=options)

    with pytest.raises(pyhudi.errors.TableNotFoundError):
        pyhudi.HudiTable.for_path("memory://arguments/save")


def test_hudi_options_with_an_unknown_argument_are_refused() -> None:
    with pytest.raises(ConfigError, match="for_path has no option 'merger'"):
        pyhudi.HudiTable.for_path("memory://arguments/t", hudi_options={"merger": "x"})


def test_options_of_reads_that_the_table_was_opened_with_hold() -> None:
    path = "memory://arguments/reads"
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    first = save(rows((1, "oslo", 5, "a")), path, hudi_options=options)
    assert first is not None
    save(rows((2, "rome", 5, "a")), path, hudi_options=options)

    then = pyhudi.HudiTable.for_path(path, hudi_options={"As.Of.Instant": first.instant})
    changed = {"hoodie.datasource.query.type": "incremental"}
    begin = {"hoodie.datasource.read.begin.instanttime": first.completion_time}
    since = pyhudi.HudiTable.for_path(path, hudi_options={**changed, **begin})

    assert then.scan(["id"]).to_arrow()["id"].to_pylist() == [1]
    assert since.scan(["id"]).to_arrow()["id"].to_pylist() == [2]
    assert since.changes(columns=["id"]).to_arrow()["id"].to_pylist() == [2]
    assert sorted(since.scan(["id"], query_type="snapshot").to_arrow()["id"].to_pylist()) == [1, 2]


def test_save_to_another_table_than_an_option_names_is_refused() -> None:
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    for name in ("path", "hoodie.base.path"):
        with pytest.raises(ConfigError, match="names more than one table"):
            save(rows(START[0]), "memory://arguments/one", hudi_options={**options, name: "memory://arguments/two"})


def test_number_of_splits_that_this_process_does_not_make_warns(table: pyhudi.HudiTable) -> None:
    with pytest.warns(OptionWarning, match="shuffle parallelism has no effect here"):
        table.upsert(rows((3, "oslo", 5, "b")), hudi_options={"hoodie.upsert.shuffle.parallelism": 4})
    table.upsert(rows((3, "oslo", 5, "b")), hudi_options={"hoodie.upsert.shuffle.parallelism": 1})


@pytest.mark.parametrize("time", ["", " ", 20240131, dt.datetime(2024, 1, 31)], ids=repr)
@pytest.mark.parametrize("argument", ["as_of", "begin", "end"])
def test_time_that_is_no_text_is_not_taken_for_none(argument: str, time: Any, table: pyhudi.HudiTable) -> None:
    read: Callable[..., Any] = table.scan if argument == "as_of" else table.changes
    with pytest.raises(ConfigError, match=argument):
        read(**{argument: time})


CALLS_WITH_BAD_VALUES: dict[str, Callable[[pyhudi.HudiTable], Any]] = {
    "upsert of None": lambda table: table.upsert(None),
    "delete of None": lambda table: table.delete(None),
    "keys of two types": lambda table: table.delete([1, "2"]),
    "a column twice": lambda table: table.scan(["id", "id"]).to_arrow(),
    "a condition as a dictionary": lambda table: table.scan(where={"id": 1}).to_arrow(),
    "a query type that is no text": lambda table: table.scan(query_type=5).to_arrow(),  # type: ignore[arg-type]
    "a column that is no text": lambda table: table.scan([1]),  # type: ignore[list-item]
    "a number for columns": lambda table: table.scan(1),  # type: ignore[arg-type]
    "a number without end": lambda table: table.scan(where=[("id", "==", 10**30)]).to_arrow(),
    "a limit below 0": lambda table: table.inspect.history(-1),
    "a limit that is a text": lambda table: table.inspect.history("9"),  # type: ignore[arg-type]
    "no partition": lambda table: table.delete_partition(None),  # type: ignore[arg-type]
    "an option that is no text": lambda table: table.delete([1], hudi_options={1: "x"}),  # type: ignore[dict-item]
    "options as a list": lambda table: table.delete_partition("x", hudi_options=["x"]),  # type: ignore[arg-type]
    "several instants": lambda table: table.recovery.rollback(["x"]),  # type: ignore[arg-type]
    "several plans": lambda table: table.services.run(["x"]),  # type: ignore[arg-type]
    "no mode": lambda table: save(rows(*START), table.handle.state.storage.uri, hudi_options={}, mode=None),  # type: ignore[arg-type]
    "no rows": lambda table: save(None, table.handle.state.storage.uri, hudi_options={}),  # type: ignore[arg-type]
    "a schema as a list": lambda _: pyhudi.HudiTable.create("/tmp/none", schema=["id"]),  # type: ignore[arg-type]
    "a key that is no text": lambda _: pyhudi.HudiTable.create("/tmp/none", schema=SCHEMA, record_key=[1]),  # type: ignore[list-item]
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
    pyhudi.save(rows((1, "oslo", 1, "a")), tmp_path / "trips", hudi_options={})

    opened = pyhudi.HudiTable.for_path(tmp_path / "trips")
    assert (opened.scan().to_arrow().num_rows, table.inspect.detail().name) == (1, "trips")
