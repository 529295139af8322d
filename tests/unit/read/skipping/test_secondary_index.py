"""Reads by the value of a column through a secondary index: the rows of a full scan, from few files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.tables import MOR, new_table, open_table, rows

import pyhudi
from pyhudi.errors import ConfigError, InvalidRequestError, MetadataTableWarning, UnsupportedFeatureError
from pyhudi.format.metadata.commit import encode_commit_metadata
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.metadata_table import complete_indexes
from pyhudi.metadata_table.complete_indexes import COMPLETE_UPTO_KEY
from pyhudi.storage.protocol import Storage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.index_definitions import load_index_definitions
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path

OPTIONS = {
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.record.index.update.partition.path": "true",
}
CITIES = ("oslo", "rome", "bern")


def _table(version: int = 9, **options: str) -> pyhudi.HudiTable:
    table = new_table(version=version, **OPTIONS, **options)
    storage = table.handle.state.storage
    for first in range(0, 30, 10):
        _open(storage, **options).upsert(rows(*((n, CITIES[n % 3], 1, f"note {n}") for n in range(first, first + 10))))
    _open(storage, **options).indexes.create("by_note", "secondary", "note")
    _open(storage, **options).upsert(
        rows((4, "rome", 2, "a$b"), (5, "bern", 2, ""), (31, "bern", 2, "note 7"), (32, "oslo", 2, None))
    )
    return _open(storage, **options)


def _open(storage: Storage, **options: str) -> pyhudi.HudiTable:
    return open_table(storage, **OPTIONS, **options)


@pytest.mark.parametrize(
    ("where", "ids", "is_used"),
    [
        ([("note", "==", "note 7")], {7, 31}, True),
        ([("note", "in", ["note 1", "a$b", "", "none"])], {1, 4, 5}, True),
        ([("note", "==", "note 4")], set(), True),
        ([("note", "==", "note 7"), ("ts", ">", 1)], {31}, True),
        ([[("note", "==", "note 9")], [("note", "==", "a$b"), ("city", "==", "rome")]], {9, 4}, True),
        ([[("note", "==", "note 9")], [("ts", "==", 2)]], {9, 4, 5, 31, 32}, False),
        ([("note", "!=", "note 7"), ("id", "in", [7, 8])], {8}, False),
        (pc.field("note").is_null(), {32}, False),
    ],
)
@pytest.mark.parametrize(("version", "options"), [(9, {}), (9, MOR), (8, MOR)], ids=["cow", "mor", "version 8"])
def test_condition_on_the_column_gives_the_rows_of_a_scan(
    version: int, options: dict[str, str], where: Any, ids: set[int], is_used: bool
) -> None:
    scan = _shared(version, options).scan(["id"], where=where)
    assert set(scan.to_arrow().column("id").to_pylist()) == ids
    uses = [use for use in scan.explain().indexes if use.index == "secondary_index_by_note"]
    assert bool(uses) is is_used
    if is_used:
        assert uses[0].file_slices > 5
        assert uses[0].columns == ("note",)


_tables: dict[tuple[int, bool], pyhudi.HudiTable] = {}


def _shared(version: int, options: dict[str, str]) -> pyhudi.HudiTable:
    """A table that no test changes."""
    key = version, bool(options)
    if key not in _tables:
        _tables[key] = _table(version, **options)
    return _tables[key]


def test_scan_of_a_previous_moment_does_not_ask_what_a_later_write_has_moved() -> None:
    table = _table()
    by_value, by_key = table.scan(["id"], where=[("note", "==", "note 7")]), table.scan(["id"], where=[("id", "==", 7)])
    _open(table.handle.state.storage).upsert(rows((7, "oslo", 9, "moved")))
    assert by_key.to_arrow().num_rows == 1
    assert set(by_value.to_arrow().column("id").to_pylist()) == {7, 31}
    assert "after the table was opened" in str(by_value.explain())


def test_rows_of_base_files_alone_are_not_asked_of_an_index_that_knows_the_logs() -> None:
    table = _table(**MOR)
    table.upsert(rows((8, "bern", 9, "in a log")))
    old = _open(table.handle.state.storage).scan(["id"], where=[("note", "==", "note 8")], query_type="read_optimized")
    assert old.to_arrow().num_rows == 1


def test_write_of_jvm_hudi_that_makes_no_entries_ends_the_use_until_a_refresh() -> None:
    table = _table()
    storage = table.handle.state.storage
    table.bulk_insert(rows((40, "oslo", 1, "note 7")))
    where = [("note", "==", "note 7")]
    assert _note_of(storage, where) is None
    assert _open(storage).scan(where=where).count() == 3
    _as_of_jvm_hudi(storage)
    with pytest.warns(MetadataTableWarning, match=r"made no entries.*indexes\.refresh\('secondary_index_by_note'\)"):
        assert "made no entries" in str(_note_of(storage, where))
    assert _open(storage).scan(where=where).count() == 3
    _open(storage).indexes.refresh("by_note")
    assert _note_of(storage, where) is None


def test_index_stays_complete_when_writes_are_archived() -> None:
    table = _table()
    storage = table.handle.state.storage
    built = load_index_definitions(load_table(storage))["secondary_index_by_note"].options[COMPLETE_UPTO_KEY]
    for number in range(6):
        _open(storage).upsert(rows((50 + number, "oslo", 1, "late")))
    options = {
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.clean.commits.retained": "1",
        "hoodie.metadata.compact.max.delta.commits": "1",
    }
    _open(storage).upsert(rows((60, "oslo", 1, "late")), hudi_options=options)
    _open(storage).services.clean(hudi_options=options)
    _open(storage).services.archive(hudi_options=options)
    assert min(load_table(storage).timeline.completed_times) > built
    scan = _open(storage).scan(where=[("note", "==", "late")])
    assert scan.count() == 7
    assert _note_of(storage, [("note", "==", "late")]) is None


def test_index_that_cannot_be_is_refused_by_name() -> None:
    table = new_table(**{**OPTIONS, "hoodie.metadata.record.index.enable": "false"})
    storage = table.handle.state.storage
    table.upsert(rows((1, "oslo", 1, "a")))
    with pytest.raises(InvalidRequestError, match="create record_index first"):
        table.indexes.create("by_note", "secondary", "note")
    _open(storage).indexes.create("record_index")
    table = _open(storage)
    with pytest.raises(ConfigError, match="over one column"):
        table.indexes.create("by_note", "secondary", ["note", "ts"])
    with pytest.raises(ConfigError, match="over one column"):
        table.indexes.create("by_note", "secondary")
    with pytest.raises(ConfigError, match="no such column"):
        table.indexes.create("by_note", "secondary", "nothing")
    assert table.indexes.list().column("name").to_pylist() == ["record_index"]
    table.indexes.create("by_note", "secondary", "note")
    _open(storage).indexes.drop("record_index")
    assert _open(storage).indexes.list().column("state").to_pylist() == ["defined"]
    _open(storage).indexes.drop("by_note")
    assert "secondary_index_by_note" not in load_index_definitions(load_table(storage))


def test_floats_and_tables_of_version_6_have_no_secondary_index() -> None:
    old = new_table(version=6, **OPTIONS)
    old.upsert(rows((1, "oslo", 1, "a")))
    with pytest.raises(InvalidRequestError, match="version 6"):
        old.refresh().indexes.create("by_note", "secondary", "note")
    schema = rows().schema.append(pa.field("fare", pa.float64()))
    table = new_table(schema=schema, **OPTIONS)
    table.upsert(rows((1, "oslo", 1, "a")).append_column("fare", [[1.5]]))
    with pytest.raises(UnsupportedFeatureError, match="double"):
        table.refresh().indexes.create("by_fare", "secondary", "fare")


@pytest.mark.parametrize("options", [{}, MOR], ids=["cow", "mor"])
def test_bloom_filters_of_the_metadata_table_leave_out_files_without_the_key(options: dict[str, str]) -> None:
    given = {"hoodie.parquet.small.file.limit": "0", "hoodie.index.type": "GLOBAL_SIMPLE", **options}
    storage = new_table(**given).handle.state.storage
    for first in range(0, 30, 10):
        numbers = range(first, first + 10)
        open_table(storage, **given).upsert(rows(*((n, CITIES[n % 3], 1, "a") for n in numbers)))
    assert open_table(storage).indexes.create("bloom_filters").file_groups == 4
    open_table(storage, **given).upsert(rows((4, "rome", 2, "newer"), (33, "rome", 2, "new")))
    before = open_table(storage).scan(["id", "note"], where=[("id", "in", [4, 21, 33, 99])])
    found = sorted(before.to_arrow().to_pylist(), key=str)
    expected = [{"id": 21, "note": "a"}, {"id": 33, "note": "new"}, {"id": 4, "note": "newer"}]
    assert found == expected
    (use,) = (one for one in before.explain().indexes if one.index == "bloom_filters")
    assert use.file_slices >= 6
    assert use.columns == ("id",)
    open_table(storage, **given).services.cluster()
    assert sorted(before.to_arrow().to_pylist(), key=str) == expected


def _note_of(storage: Storage, where: Any) -> str | None:
    (use,) = (one for one in _open(storage).scan(where=where).explain().indexes if one.index.startswith("secondary"))
    return use.note


def _as_of_jvm_hudi(storage: Storage) -> None:
    """Make the newest commit one that says nothing of pyhudi."""
    table = load_table(storage)
    newest = table.timeline.completed_writes[-1]
    metadata = load_commit_metadata(storage, newest, table.version)
    assert metadata.operation is WriteOperation.BULK_INSERT
    extra = {key: value for key, value in metadata.extra.items() if not key.startswith("pyhudi")}
    path = instant_path(newest, table.version)
    storage.put(path, encode_commit_metadata(replace(metadata, extra=extra), table.version))
    complete_indexes._known.clear()
