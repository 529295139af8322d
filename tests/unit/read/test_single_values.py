"""Meta columns of one value, and texts that occur often: a read that does not decode them finds the rows as stored."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tables import SCHEMA, new_table, open_table, plan_of, rows, values_of

import pyhudi
from pyhudi.errors import CorruptDataError
from pyhudi.format.schema.meta_columns import COMMIT_TIME, FILE_NAME, PARTITION_PATH
from pyhudi.io.base_file import read_batches
from pyhudi.read import arrow
from pyhudi.read.conditions import Where
from pyhudi.read.single_values import single_values
from pyhudi.storage.memory import MemoryStorage

MANY = 20_000
FIRST = st.sampled_from(["", "a", "ä" * 3, "b"])
VALUES = st.one_of(st.lists(FIRST | st.none(), max_size=8), FIRST.flatmap(lambda value: st.lists(st.just(value))))


def footer_of(column: pa.Array, name: str = FILE_NAME, **options: Any) -> pq.FileMetaData:
    file = io.BytesIO()
    pq.write_table(pa.table({"other": pa.repeat("x", len(column)), name: column}), file, **options)
    return pq.read_metadata(file)


@given(values=VALUES, row_group_size=st.integers(1, 4))
def test_footer_tells_a_value_exactly_where_all_rows_have_it(values: list[str | None], row_group_size: int) -> None:
    footer = footer_of(pa.array(values, pa.string()), row_group_size=row_group_size)

    found = {name: value.as_py() for name, value in single_values(footer).items()}

    (value, *others) = {*values} or {None}
    assert found == ({} if others or value is None else {FILE_NAME: value})


@pytest.mark.parametrize(
    ("column", "options"),
    [
        (pa.array(["x" * 5_000] * 3), {}),
        (pa.array(["x"] * 3), {"write_statistics": False}),
        (pa.array([7] * 3), {}),
        (pa.array([b"x"] * 3), {}),
        (pa.array([["x"]] * 3), {}),
        (
            pa.Array.from_buffers(
                pa.string(), 1, [None, pa.py_buffer(bytes([0] * 4 + [1, 0, 0, 0])), pa.py_buffer(b"\xff")]
            ),
            {},
        ),
    ],
    ids=["no bounds of long texts", "no statistics", "numbers", "bytes", "lists", "no UTF-8"],
)
def test_footer_without_bounds_of_a_text_tells_no_value(column: pa.Array, options: dict[str, Any]) -> None:
    assert not single_values(footer_of(column, **options))


def test_footer_tells_values_of_meta_columns_alone() -> None:
    assert not single_values(footer_of(pa.array(["x"] * 3), name="city"))


@pytest.fixture
def storage() -> MemoryStorage:
    """Files of one commit and of several, with few rows and with many, whose rows repeat texts; a city is null."""
    storage = MemoryStorage()
    note = ("low", "high", "even")
    new_table(storage).insert(rows(*((key, "oslo", 1, note[key % 3]) for key in range(MANY))))
    open_table(storage).insert(rows((1, "rome", 1, "a"), (2, "rome", 1, "b"), (3, "", 1, "")))
    open_table(storage).upsert(rows((5, "oslo", 2, "new"), (2, "rome", 2, "new"), (1, "bonn", 2, "high")))
    return storage


CONDITIONS: dict[str, Where] = {
    "all rows": None,
    "a text that occurs often": [("note", "==", "high")],
    "a meta column": [(PARTITION_PATH, "==", "city=oslo"), ("id", "<", 9)],
    "a file": pc.match_substring(pc.field(FILE_NAME), "parquet") & (pc.field("id") < 3),
    "no row": [("ts", ">", 9)],
}


@pytest.mark.parametrize("columns", [None, ["note", FILE_NAME, "id"], [COMMIT_TIME], ["id"]], ids=str)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_rows_are_those_that_the_base_files_have(
    storage: MemoryStorage, condition: str, columns: list[str] | None
) -> None:
    where, plan = CONDITIONS[condition], plan_of(open_table(storage))

    found = arrow.read_table(storage, plan, columns, where)

    schema = plan.schema
    stored = [pa.Table.from_batches(read_batches(storage, one.files.base or ""), schema) for one in plan.slices]
    whole = pa.concat_tables(stored)
    kept = whole if where is None else whole.filter(arrow.scan_condition(plan, where).whole)  # type: ignore[union-attr]
    expected = kept.select(columns or schema.names)
    assert found.schema == expected.schema
    assert found == expected
    found.validate(full=True)


def test_rows_are_those_of_their_files_where_arrow_leaves_some_files_out(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, where = replace(plan_of(open_table(storage)), folder_columns=("city",)), [("city", "in", ["rome", "bonn"])]
    expected = arrow.read_table(storage, plan, None, where)
    monkeypatch.setattr(arrow, "in_matching_partitions", lambda plan, _condition: plan)

    found = arrow.read_table(storage, plan, None, where)

    assert found == expected
    assert sorted(found.column(PARTITION_PATH).to_pylist()) == ["city=bonn", "city=rome", "city=rome"]


def test_read_without_columns_has_as_many_rows_as_the_files(storage: MemoryStorage) -> None:
    table = open_table(storage)

    assert table.scan(columns=[]).to_arrow().num_rows == MANY + 4
    assert sum(batch.num_rows for batch in table.scan(columns=[], where=[("id", "<", 3)]).to_batches()) == 6


def test_range_of_time_has_the_rows_of_its_commits_alone(storage: MemoryStorage) -> None:
    before = open_table(storage).insert(rows((4, "bern", 3, "a")))
    last = open_table(storage).upsert(rows((1, "oslo", 4, "low"), (2, "rome", 4, "low")))

    found = open_table(storage).changes(before.completion_time).to_arrow()

    assert values_of(found, ("id", "city")) == [(1, "oslo"), (2, "rome")]
    assert {*found.column(COMMIT_TIME).to_pylist()} == {last.instant}


@pytest.fixture
def large(tmp_path: Path) -> tuple[pyhudi.HudiTable, Path]:
    """A file with several row groups, in the first of them one of the two texts alone."""
    schema = SCHEMA.remove(1)
    table = pyhudi.HudiTable.create(
        str(tmp_path),
        schema=schema,
        record_key="id",
        hudi_options={"hoodie.parquet.block.size": "500000"},
    )
    note = pa.array(["low"] * MANY + ["high"] * MANY)
    table.bulk_insert(pa.table([pa.array(range(2 * MANY)), pa.repeat(1, 2 * MANY), note], schema=schema))
    (file,) = tmp_path.glob("*.parquet")
    return table, file


def damage(file: Path, group: int, column: str) -> None:
    described = pq.read_metadata(file).row_group(group)
    (chunk,) = (
        described.column(number)
        for number in range(described.num_columns)
        if described.column(number).path_in_schema == column
    )
    content = bytearray(file.read_bytes())
    begin = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
    content[begin : begin + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    file.write_bytes(bytes(content))


@pytest.mark.parametrize("column", [COMMIT_TIME, PARTITION_PATH, FILE_NAME])
def test_page_of_a_meta_column_with_one_value_is_not_decoded(large: tuple[pyhudi.HudiTable, Path], column: str) -> None:
    table, file = large
    expected = table.scan().to_arrow()
    damage(file, 0, column)

    assert table.scan().to_arrow() == expected


@pytest.mark.parametrize("column", ["_hoodie_record_key", "note"])
def test_page_of_another_column_is_read_where_the_condition_does_not_rule_it_out(
    large: tuple[pyhudi.HudiTable, Path], column: str
) -> None:
    table, file = large
    damage(file, 0, column)

    # Row groups are left out by the bounds of a text, also where it could be read as a dictionary.
    assert table.scan(where=[("note", "==", "high")]).to_arrow().num_rows == MANY
    with pytest.raises(CorruptDataError, match=file.name):
        table.scan(where=[("note", "==", "low")]).to_arrow()
