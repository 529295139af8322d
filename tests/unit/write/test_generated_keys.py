"""Tables that generate their record keys: rows as reads give them name their records by their meta columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.audit import audit
from tests.support.tables import rows

from pyhudi import HudiTable, save
from pyhudi.errors import (
    AmbiguousChangeError,
    ConfigError,
    InvalidRequestError,
    RecordKeyError,
    UnsafePathError,
)

CLASSES = [(version, kind) for version in (6, 8, 9) for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")]
ROWS = ((1, "oslo", 1, "a"), (2, "oslo", 1, "b"), (3, "rome", 1, "c"), (4, "rome", 1, "d"), (5, "bern", 1, "e"))
KEY, PATH = "_hoodie_record_key", "_hoodie_partition_path"


def keyless(name: str, version: int = 9, kind: str = "COPY_ON_WRITE", **more: str) -> HudiTable:
    path = f"memory://{name}-{version}-{kind}/t"
    options = {
        "hoodie.table.name": "t",
        "hoodie.write.table.version": str(version),
        "hoodie.datasource.write.table.type": kind,
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.operation": "insert",
        **more,
    }
    save(rows(*ROWS), path, hudi_options=options)
    return HudiTable.for_path(path)


def stored(table: HudiTable, *ids: int) -> pa.Table:
    """Rows of the table as reads give them, meta columns included."""
    everything = table.refresh().scan().to_arrow()
    return everything.filter(pc.is_in(everything["id"], pa.array(ids, everything["id"].type)))


def with_note(frame: pa.Table, note: str) -> pa.Table:
    at = frame.schema.get_field_index("note")
    return frame.set_column(at, "note", pa.array([note] * frame.num_rows))


def contents(table: HudiTable) -> list[tuple[Any, ...]]:
    audit(table.handle.state.storage)
    found = table.refresh().scan(["id", "city", "note"]).to_arrow().to_pylist()
    return sorted(tuple(row.values()) for row in found)


@pytest.mark.parametrize(("version", "kind"), CLASSES)
def test_upsert_and_delete_of_rows_that_were_read_change_these_rows(version: int, kind: str) -> None:
    table = keyless("read", version, kind)
    keys = {row["id"]: row[KEY] for row in stored(table, 1, 2, 3, 4, 5).to_pylist()}

    updated = table.upsert(with_note(stored(table, 2, 3), "new"))
    deleted = table.delete(stored(table, 1, 5))

    assert (updated.updated, updated.inserted, deleted.deleted) == (2, 0, 2)
    assert contents(table) == [(2, "oslo", "new"), (3, "rome", "new"), (4, "rome", "d")]
    assert {row["id"]: row[KEY] for row in stored(table, 2, 3, 4).to_pylist()} == {n: keys[n] for n in (2, 3, 4)}


def test_delete_needs_the_meta_columns_alone_and_takes_a_row_twice() -> None:
    table = keyless("delete")
    named = stored(table, 1, 3).select([PATH, KEY])

    assert table.delete(pa.concat_tables([named, named])).deleted == 2
    assert [row[0] for row in contents(table)] == [2, 4, 5]
    assert table.delete(named).deleted == 0


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_upsert_moves_a_row_whose_partition_column_has_changed(kind: str) -> None:
    table = keyless("move", kind=kind)
    moved = stored(table, 1)
    moved = moved.set_column(moved.schema.get_field_index("city"), "city", pa.array(["rome"]))

    table.upsert(moved)

    assert contents(table) == sorted([(1, "rome", "a"), *((row[0], row[1], row[3]) for row in ROWS[1:])])


def test_rows_without_a_key_are_new_and_deleted_rows_come_back_in_an_upsert() -> None:
    table = keyless("new")
    gone = stored(table, 1)
    table.delete(gone)

    new = rows((6, "oslo", 1, "f"), (7, "york", 1, "g"))
    result = table.upsert(pa.concat_tables([gone, new], promote_options="default"))

    assert (result.updated, result.inserted) == (0, 3)
    assert [row[0] for row in contents(table)] == [1, 2, 3, 4, 5, 6, 7]
    assert len(set(stored(table, 1, 2, 3, 4, 5, 6, 7)[KEY].to_pylist())) == 7


def test_save_without_an_operation_upserts_rows_that_have_meta_columns() -> None:
    table = keyless("saved")
    path = table.handle.state.storage.uri

    save(with_note(stored(table, 4), "new"), path, hudi_options={"hoodie.table.name": "t"})
    save(rows((6, "oslo", 1, "f")), path, hudi_options={"hoodie.table.name": "t"})

    assert [row[2] for row in contents(table)] == ["a", "b", "c", "new", "e", "f"]


def test_rows_that_do_not_name_their_record_are_refused_by_name() -> None:
    table = keyless("refused")
    row = stored(table, 1)
    for call in (table.upsert, table.delete):
        with pytest.raises(InvalidRequestError, match=r"generates its record keys.*_hoodie_record_key"):
            call(rows(*ROWS))
        with pytest.raises(ConfigError, match=PATH):
            call(row.drop_columns([PATH]))
        outside = row.set_column(row.schema.get_field_index(PATH), PATH, pa.array(["../elsewhere"]))
        with pytest.raises(UnsafePathError):
            call(outside)
        with pytest.raises(RecordKeyError, match=PATH):
            call(row.set_column(row.schema.get_field_index(PATH), PATH, pa.nulls(1, pa.string())))
    with pytest.raises(RecordKeyError, match=KEY):
        table.delete(row.set_column(row.schema.get_field_index(KEY), KEY, pa.nulls(1, pa.string())))
    with pytest.raises(AmbiguousChangeError):
        table.upsert(pa.concat_tables([row, row]))
    assert len(contents(table)) == 5
