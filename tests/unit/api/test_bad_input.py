"""Requests that cannot be met: a typed error each time, and the table as it was."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.parquet_damage import with_damaged_page
from tests.support.table_builder import TableBuilder
from tests.support.tables import Row, contents, new_table, open_table, rows, values_of

import pyhudi
from pyhudi.api.writes import save
from pyhudi.config.option import OptionWarning
from pyhudi.errors import (
    ConfigError,
    CorruptDataError,
    HistoryNotRetainedError,
    HudiError,
    InvalidRequestError,
    LockNotAcquiredError,
    OutOfSpaceError,
    PermissionDeniedError,
    RecordKeyError,
    SchemaMismatchError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    UnsafePathError,
    UnsupportedFeatureError,
)
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.open import open_storage
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path
from pyhudi.testing.faults import FaultStorage

START: set[Row] = {(1, "oslo", 1, "a"), (2, "rome", 1, "a")}
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.index.bloom.num_entries": "100",
}
_numbers = itertools.count()


def fresh_path() -> str:
    return f"memory://bad-input-{next(_numbers)}/t"


def prepared(version: int = 9) -> Storage:
    return TableBuilder(version).insert(*START).build()


def paths_in(storage: Any) -> list[str]:
    return [info.path for info in storage.list_recursive("")]


def batch(**columns: Any) -> pa.Table:
    full = {"id": [1], "city": ["oslo"], "ts": [2], "note": ["x"]}
    return pa.table({name: values for name, values in {**full, **columns}.items() if values is not None})


# -- rows that cannot be stored ---------------------------------------------------------------------------------------

DUPLICATE = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])
BAD_ROWS: dict[str, tuple[pa.Table, type[HudiError], str]] = {
    "null key": (batch(id=pa.array([None], pa.int64())), RecordKeyError, "id"),
    "key missing": (batch(id=None), ConfigError, "'id'"),
    "partition column missing": (batch(city=None), ConfigError, "'city'"),
    "ordering column missing": (batch(ts=None), ConfigError, "ordering"),
    "narrowed type": (batch(ts=["text"]), SchemaMismatchError, "ts"),
    "truth for text": (batch(note=[True]), SchemaMismatchError, "note"),
    "column left out": (batch(note=None), SchemaMismatchError, "note"),
    "key would become a float": (batch(id=[1.5]), SchemaMismatchError, "id"),
    "new column without type": (batch(extra=pa.nulls(1)), SchemaMismatchError, "extra"),
    "duplicate columns": (
        pa.Table.from_arrays([*batch().columns, pa.array(["y"])], names=[*batch().column_names, "note"]),
        SchemaMismatchError,
        "note",
    ),
    "duplicate key columns": (
        pa.Table.from_arrays([*batch().columns, pa.array([5])], names=[*batch().column_names, "id"]),
        InvalidRequestError,
        "id",
    ),
    "step up in the path": (batch(city=["a/../../x"]), UnsafePathError, "city"),
    "control character": (batch(city=["a\nb"]), UnsafePathError, "city"),
    "500 characters": (batch(city=["x" * 500]), UnsafePathError, "255"),
    "reserved folder": (batch(city=["a/.hoodie/x"]), UnsafePathError, "reserved"),
}


@pytest.mark.parametrize("operation", ["upsert", "insert", "insert_overwrite", "insert_overwrite_table", "bulk_insert"])
@pytest.mark.parametrize("name", list(BAD_ROWS))
def test_rows_that_cannot_be_stored_are_refused_and_the_table_stays(name: str, operation: str) -> None:
    bad, kind, words = BAD_ROWS[name]
    storage = prepared()
    data_files = paths_in(storage)

    with pytest.raises(kind, match=words):
        getattr(open_table(storage), operation)(bad)

    assert contents(storage) == START
    left = [path for path in paths_in(storage) if path not in data_files]
    assert all("rollback" in path for path in left), left
    assert operation == "bulk_insert" or not left


FITS_ANY_NEW_TABLE = {"narrowed type", "truth for text", "column left out", "key would become a float"}


@pytest.mark.parametrize("operation", ["upsert", "bulk_insert"])
@pytest.mark.parametrize("name", [name for name in BAD_ROWS if name not in FITS_ANY_NEW_TABLE])
def test_a_first_write_that_is_refused_leaves_no_table_and_no_file(name: str, operation: str) -> None:
    bad, kind, _ = BAD_ROWS[name]
    path = fresh_path()

    with pytest.raises(kind):
        save(bad, path, hudi_options={**OPTIONS, "hoodie.datasource.write.operation": operation})

    assert paths_in(open_storage(path, {})) == []
    save(rows(*START), path, hudi_options=OPTIONS)
    assert len(pyhudi.HudiTable.for_path(path).scan().to_arrow()) == 2


def test_a_first_bulk_insert_that_fails_late_leaves_no_partition_behind() -> None:
    path = fresh_path()
    schema = rows().schema
    good, bad = rows((1, "oslo", 1, "a")), pa.table([[None], ["oslo"], [1], ["a"]], schema=schema)
    stream = pa.RecordBatchReader.from_batches(schema, [*good.to_batches(), *bad.to_batches()])

    with pytest.raises(RecordKeyError):
        save(stream, path, hudi_options={**OPTIONS, "hoodie.datasource.write.operation": "bulk_insert"})

    assert paths_in(open_storage(path, {})) == []


@pytest.mark.parametrize("key", ["", None])
def test_an_empty_or_null_text_key_is_refused_with_its_row(key: str | None) -> None:
    path = fresh_path()
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    save(pa.table({"id": ["a"]}), path, hudi_options=options)

    with pytest.raises(RecordKeyError) as caught:
        save(pa.table({"id": ["b", "c", key]}), path, hudi_options=options)

    assert caught.value.context["first_row"] == 2
    assert values_of(pyhudi.HudiTable.for_path(path).scan().to_arrow(), ["id"]) == [("a",)]


@pytest.mark.parametrize("option", ["recordkey.field", "partitionpath.field", "precombine.field"])
def test_an_unknown_column_is_refused_with_the_nearest_name(option: str) -> None:
    path = fresh_path()
    nearest = {"recordkey.field": "id", "partitionpath.field": "city", "precombine.field": "ts"}[option]
    misspelt = {"id": "idd", "city": "citty", "ts": "tss"}[nearest]

    with pytest.raises(ConfigError, match=f"did you mean '{nearest}'"):
        save(rows(*START), path, hudi_options={**OPTIONS, f"hoodie.datasource.write.{option}": misspelt})

    assert paths_in(open_storage(path, {})) == []


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        pytest.param(pa.table({"id": [1]}), ConfigError, id="no partition column"),
        pytest.param(pa.table({"city": ["oslo"]}), ConfigError, id="no key column"),
        pytest.param(pa.table({"id": ["1"], "city": ["oslo"]}), SchemaMismatchError, id="key of another type"),
        pytest.param(pa.table({"id": [1.0], "city": ["oslo"]}), SchemaMismatchError, id="key as a float"),
        pytest.param(pa.table({"id": pa.array([None], pa.int64()), "city": ["oslo"]}), RecordKeyError, id="null key"),
        pytest.param([1, 2], ConfigError, id="list for a partitioned table"),
        pytest.param(DUPLICATE, ConfigError, id="two key columns"),
        pytest.param("rows", UnsupportedFeatureError, id="no rows at all"),
    ],
)
def test_a_delete_that_cannot_name_its_records_is_refused(keys: Any, kind: type[HudiError]) -> None:
    storage = prepared()

    with pytest.raises(kind):
        open_table(storage).delete(keys)

    assert contents(storage) == START


# -- partition values -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["a/b", "æøå 漢字", "a=b&c,d", "%2F", "[x]{y}*?", "", None, "a.b", " x "])
@pytest.mark.parametrize("encoded", [True, False])
def test_unusual_partition_values_come_back_as_they_were(value: str | None, encoded: bool) -> None:
    path = fresh_path()
    options = {
        **OPTIONS,
        "hoodie.datasource.write.partitionpath.urlencode": encoded,
        "hoodie.datasource.write.hive_style_partitioning": True,
    }
    save(batch(city=pa.array([value], pa.string())), path, hudi_options=options)
    save(batch(id=[2], city=["plain"]), path, hudi_options=options)

    save(batch(city=pa.array([value], pa.string()), ts=[9]), path, hudi_options=options)

    table = pyhudi.HudiTable.for_path(path)
    assert sorted(values_of(table.scan().to_arrow(), ["id", "ts"])) == [(1, 9), (2, 2)]
    wanted = [("city", "==", value)] if value is not None else pa.compute.field("city").is_null()
    assert values_of(table.scan(where=wanted).to_arrow(), ["id", "city"]) == [(1, value)]
    assert len(table.scan(where=[("city", "!=", "plain")]).to_arrow()) == (0 if value is None else 1)


# -- tables that are other than asked for ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        {"hoodie.datasource.write.recordkey.field": "note"},
        {"hoodie.datasource.write.partitionpath.field": "note"},
        {"hoodie.datasource.write.precombine.field": "note"},
        {"hoodie.table.name": "other"},
        {"hoodie.write.table.version": 6},
        {"hoodie.datasource.write.hive_style_partitioning": True},
        {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_options_that_describe_another_table_are_refused(changed: dict[str, Any]) -> None:
    path = fresh_path()
    save(rows(*START), path, hudi_options=OPTIONS)
    before = paths_in(open_storage(path, {}))

    with pytest.raises(ConfigError, match="options conflict"):
        save(rows((9, "oslo", 1, "")), path, hudi_options={**OPTIONS, **changed})

    assert paths_in(open_storage(path, {})) == before


class LongestNoteStays:
    """A merger of the user's own: the longer note stays."""

    name = "longest-note"

    def merge(self, older: pa.Table, newer: pa.Table) -> pa.Table:
        stays = pc.greater(pc.utf8_length(older["note"]), pc.utf8_length(newer["note"]))
        columns = [pc.if_else(stays, old, new) for old, new in zip(older.columns, newer.columns, strict=True)]
        return pa.Table.from_arrays(columns, schema=newer.schema)


def merged_by_the_user(table_type: str) -> str:
    path = fresh_path()
    table = pyhudi.HudiTable.create(
        path,
        schema=rows().schema,
        record_key="id",
        partition_by="city",
        table_type=table_type,
        merger=LongestNoteStays(),
    )
    table.upsert(rows(*START))
    return path


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_table_without_its_merger_is_read_where_it_has_no_logs_and_not_written(table_type: str) -> None:
    path = merged_by_the_user(table_type)
    before = paths_in(open_storage(path, {}))

    table = pyhudi.HudiTable.for_path(path)
    assert values_of(table.scan().to_arrow(), rows().column_names) == sorted(START)
    with pytest.raises(UnsupportedFeatureError, match="longest-note"):
        table.upsert(rows((1, "oslo", 9, "z")))

    assert paths_in(open_storage(path, {})) == before


def test_logs_without_the_merger_of_the_table_are_not_read() -> None:
    path = merged_by_the_user("mor")
    pyhudi.HudiTable.for_path(path, merger=LongestNoteStays()).upsert(rows((1, "oslo", 9, "longer")))
    pyhudi.HudiTable.for_path(path, merger=LongestNoteStays()).upsert(rows((1, "oslo", 9, "z")))

    table = pyhudi.HudiTable.for_path(path)
    with pytest.raises(UnsupportedFeatureError, match="longest-note"):
        table.scan().to_arrow()
    assert len(table.scan(query_type="read_optimized").to_arrow()) == len(START)
    mine = pyhudi.HudiTable.for_path(path, merger=LongestNoteStays())
    assert values_of(mine.scan().to_arrow(), ["id", "note"]) == [(1, "longer"), (2, "a")]


def test_a_table_that_must_not_be_written_is_not_rolled_back_either() -> None:
    storage = prepared()
    properties = storage.read(".hoodie/hoodie.properties")
    storage.put(".hoodie/hoodie.properties", properties + b"hoodie.datasource.write.drop.partition.columns=true\n")
    before = paths_in(storage)

    for write in (
        lambda: open_table(storage).upsert(rows(*START)),
        lambda: open_table(storage).recovery.roll_back_failed_writes(eager=True),
    ):
        with pytest.raises(UnsupportedFeatureError, match="without the partition columns"):
            write()

    assert paths_in(storage) == before


def test_save_mode_errorifexists_refuses_a_table_that_exists() -> None:
    path = fresh_path()
    save(rows(*START), path, hudi_options=OPTIONS, mode="error")
    with pytest.raises(TableExistsError):
        save(rows(*START), path, hudi_options=OPTIONS, mode="errorifexists")
    with pytest.raises(ConfigError, match="save mode"):
        save(rows(*START), path, hudi_options=OPTIONS, mode="merge")


def test_creating_a_table_twice_is_refused(tmp_path: Path) -> None:
    pyhudi.HudiTable.create(str(tmp_path / "t"), schema=rows().schema, record_key="id")
    with pytest.raises(TableExistsError):
        pyhudi.HudiTable.create(str(tmp_path / "t"), schema=rows().schema, record_key="id")


@pytest.mark.parametrize("wrong", [{"record_key": "idd"}, {"partition_by": "citty"}, {"ordering_fields": "tss"}])
def test_creating_a_table_with_an_unknown_column_makes_none(wrong: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        pyhudi.HudiTable.create(str(tmp_path / "t"), schema=rows().schema, **{"record_key": "id", **wrong})
    assert not (tmp_path / "t").exists() or not list((tmp_path / "t").rglob("*.properties"))


def test_a_folder_that_is_no_table_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(TableNotFoundError) as caught:
            pyhudi.HudiTable.for_path(str(path))
        assert str(path) in str(caught.value)
    for operation in ("delete", "delete_partition"):
        with pytest.raises(TableNotFoundError):
            save(rows(*START), str(tmp_path), hudi_options={**OPTIONS, "hoodie.datasource.write.operation": operation})
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_misspelt_option_warns_with_the_nearest_name() -> None:
    with pytest.warns(OptionWarning, match=r"did you mean hoodie\.parquet\.max\.file\.size"):
        save(rows(*START), fresh_path(), hudi_options={**OPTIONS, "hoodie.parquet.max.filesize": "1"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save(rows(*START), fresh_path(), hudi_options=OPTIONS)


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda t: t.scan(["nope"]).to_arrow(), id="unknown column"),
        pytest.param(lambda t: t.scan(as_of="yesterday").to_arrow(), id="no time"),
        pytest.param(lambda t: t.scan(where=[("nope", "==", 1)]).to_arrow(), id="condition on an unknown column"),
        pytest.param(lambda t: t.scan(where=[("city", "==", 1)]).to_arrow(), id="text compared with a number"),
        pytest.param(lambda t: t.scan(where=[("id", "~", 1)]).to_arrow(), id="unknown operator"),
        pytest.param(lambda t: t.scan(where=pa.compute.field("id")).to_arrow(), id="no condition"),
    ],
)
def test_a_read_that_asks_for_nonsense_is_refused(read: Callable[[pyhudi.HudiTable], object]) -> None:
    with pytest.raises(ConfigError):
        read(open_table(prepared()))


def test_a_range_of_changes_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(ConfigError, match="ends before"):
        open_table(prepared()).changes("20250101000000000", "20240101000000000").to_arrow()


# -- damaged files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", [b"", b"half", b"\x00" * 300], ids=["empty", "truncated", "zeros"])
@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("victim", ["instant", "parquet"])
def test_a_damaged_file_is_named_and_nothing_is_guessed(victim: str, version: int, damage: bytes) -> None:
    storage = prepared(version)
    timeline = load_table(storage).timeline
    if victim == "instant":
        path = instant_path(timeline.completed_writes[0], timeline.version)
    else:
        path = next(p for p in paths_in(storage) if p.startswith("city=oslo") and p.endswith(".parquet"))
    content = storage.read(path)
    storage.put(path, content[: len(content) // 2] if damage == b"half" else damage)

    attempts: list[Callable[[], object]] = [
        lambda: open_table(storage).scan().to_arrow(),
        lambda: open_table(storage).upsert(rows((1, "oslo", 9, "x"))),
    ]
    for attempt in attempts:
        with pytest.raises(CorruptDataError) as caught:
            attempt()
        assert path.rpartition("/")[2] in str(caught.value)

    storage.put(path, content)
    assert contents(storage) == START


def test_a_flipped_byte_in_a_base_file_is_found_by_its_checksum() -> None:
    storage = prepared()
    path = next(p for p in paths_in(storage) if p.startswith("city=oslo") and p.endswith(".parquet"))
    storage.put(path, with_damaged_page(storage.read(path), "_hoodie_record_key"))

    for attempt in (
        lambda: open_table(storage).scan().to_arrow(),
        lambda: open_table(storage).upsert(rows((1, "oslo", 9, "x"))),
    ):
        with pytest.raises(CorruptDataError) as caught:
            attempt()
        assert path.rpartition("/")[2] in str(caught.value)


@pytest.mark.parametrize("damage", [b"", b"hoodie.table.name=t\n", b"\xff\xfe"])
def test_damaged_properties_are_named(damage: bytes) -> None:
    storage = prepared()
    storage.put(".hoodie/hoodie.properties", damage)

    with pytest.raises(CorruptDataError, match=r"hoodie\.properties"):
        open_table(storage)


def test_a_base_file_that_went_away_since_the_table_was_opened_is_named() -> None:
    storage = prepared()
    table = open_table(storage)
    path = table.inspect.files().column("path").to_pylist()[0]
    batches = table.scan().to_batches()  # planned now, read later

    storage.delete(path)

    with pytest.raises(HistoryNotRetainedError, match=r"refresh\(\)") as caught:
        list(batches)
    assert path in str(caught.value)


# -- the store says no ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [OutOfSpaceError("full", path="x"), PermissionDeniedError("denied", path="x")])
@pytest.mark.parametrize("operation", ["upsert", "bulk_insert"])
def test_a_store_that_gives_out_while_a_base_file_is_written_leaves_the_table(
    operation: str, error: StorageError
) -> None:
    storage = prepared()

    def deny(name: str, path: str) -> None:
        if name == "close_output" and path.startswith("city="):
            raise error

    with pytest.raises(type(error)):
        getattr(open_table(FaultStorage(storage, before=deny)), operation)(rows((1, "oslo", 9, "x")))

    assert contents(storage) == START
    open_table(storage).upsert(rows((1, "oslo", 9, "x")))
    assert (1, "oslo", 9, "x") in contents(storage)


def test_a_store_that_fails_after_the_commit_does_not_make_the_write_fail() -> None:
    storage = prepared()
    is_committed = False

    def deny_tidying(name: str, path: str) -> None:
        nonlocal is_committed
        is_committed |= name == "put_if_absent" and path.endswith(".commit")
        if is_committed and name.startswith("delete"):
            raise PermissionDeniedError("denied", path=path)

    result = open_table(FaultStorage(storage, before=deny_tidying)).upsert(rows((1, "oslo", 9, "x")))

    assert result.updated == 1
    assert (1, "oslo", 9, "x") in contents(storage)


def test_a_lock_folder_that_cannot_be_used_is_a_typed_error(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    new_table(storage)
    (tmp_path / ".hoodie" / ".locks").write_text("in the way")

    with pytest.raises(StorageError, match="lock"):
        open_table(storage).upsert(rows(*START))

    assert contents(storage) == set()


def test_a_lock_that_stays_taken_is_a_typed_error(tmp_path: Path) -> None:
    from tests.support.tables import environment

    from pyhudi.transaction.locks.table_lock import table_lock

    storage = LocalStorage(tmp_path)
    new_table(storage)

    with (
        table_lock(storage, environment(), wait_ms=1000),
        pytest.raises(LockNotAcquiredError, match="wait_time_ms"),
    ):
        open_table(storage).upsert(rows(*START), hudi_options={"hoodie.write.lock.wait_time_ms": 50})

    open_table(storage).upsert(rows(*START))
    assert contents(storage) == START
