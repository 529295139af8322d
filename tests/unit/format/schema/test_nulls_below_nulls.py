"""A struct that is null hides what its columns hold; readers of Parquet and Avro mark that as null, too."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi.errors import SchemaMismatchError
from pyhudi.format.schema.evolution import align, without_nulls

VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), ["a", None, "c"]),
    (pa.int32(), [1, None, 3]),
    (pa.bool_(), [True, None, False]),
    (pa.binary(3), [b"abc", None, b"def"]),
    (pa.decimal128(5, 2), [None, None, None]),
    (pa.list_(pa.int64()), [[1, 2], None, [3]]),
    (pa.map_(pa.string(), pa.int64()), [{"a": 1}, None, {"b": 2, "c": 3}]),
    (pa.struct([pa.field("x", pa.string(), nullable=False)]), [{"x": "a"}, None, {"x": "c"}]),
]


@pytest.mark.parametrize(("kind", "values"), VALUES)
@pytest.mark.parametrize("offset", [0, 2])
def test_values_without_marks_of_nulls_are_valid_and_the_others_stay(
    kind: pa.DataType, values: list[Any], offset: int
) -> None:
    array = pa.array([None] * offset + values, kind).slice(offset)

    found = without_nulls(array)

    found.validate(full=True)
    assert found.null_count == 0
    for value, before in zip(found, array, strict=True):
        assert not before.is_valid or value == before


def rows_with(inner: list[str | None], *, outer_is_null: list[bool]) -> pa.Table:
    """Rows whose column `v.path` is marked as null where it is, as readers do it."""
    path = pa.field("path", pa.string(), nullable=False)
    values = pa.StructArray.from_arrays([pa.array(inner)], fields=[path], mask=pa.array(outer_is_null))
    return pa.table({"v": values})


def test_rows_with_a_null_struct_of_columns_that_may_not_be_null_can_be_written(tmp_path: Any) -> None:
    rows = rows_with(["a", None], outer_is_null=[False, True])

    aligned = align(rows, rows.schema)

    pq.write_table(aligned, tmp_path / "rows.parquet")
    aligned.cast(rows.schema)
    assert pq.read_table(tmp_path / "rows.parquet").column("v").to_pylist() == [{"path": "a"}, None]


def test_a_null_where_the_struct_is_there_is_refused() -> None:
    rows = rows_with(["a", None], outer_is_null=[False, False])

    with pytest.raises(SchemaMismatchError, match=r"v\.path"):
        align(rows, rows.schema)
