"""Rows in the forms that users have: pandas, polars and every kind of Arrow column. Right, or refused by name."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import HudiError, SchemaMismatchError
from pyhudi.format.schema.avro_arrow import COLUMNS_MAX, arrow_to_avro, avro_to_arrow, avro_with_meta_columns

_numbers = itertools.count()


def written(rows: Any, *again: Any, key: str = "id", **options: str) -> list[dict[str, Any]]:
    """The rows of a new table after these writes, in the order of their keys."""
    path = f"memory://inputs-{next(_numbers)}/t"
    described = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": key,
        "hoodie.index.bloom.num_entries": "100",
    }
    for batch in (rows, *again):
        pyhudi.save(batch, path, hudi_options={**described, **options})
    table = pyhudi.HudiTable.for_path(path)
    return (
        table.scan(table.schema.names).to_arrow().sort_by(key).to_pylist()
        if "." not in key
        else table.scan().to_arrow().to_pylist()
    )


# -- pandas -----------------------------------------------------------------------------------------------------------


def test_filtered_pandas_frame_adds_no_column_for_its_index() -> None:
    frame = pd.DataFrame({"id": [1, 2, 3], "v": [10, 20, 30]})

    assert written(frame, frame[frame.v > 20].assign(v=31)) == [
        {"id": 1, "v": 10},
        {"id": 2, "v": 20},
        {"id": 3, "v": 31},
    ]


@pytest.mark.parametrize(
    "index", [pd.Index([1, 2], name="id"), pd.RangeIndex(1, 3, name="id")], ids=["values", "range"]
)
def test_named_index_of_a_pandas_frame_is_a_column(index: pd.Index) -> None:
    assert written(pd.DataFrame({"v": [10, 20]}, index=index)) == [{"id": 1, "v": 10}, {"id": 2, "v": 20}]


def test_named_levels_of_a_pandas_index_are_columns() -> None:
    frame = pd.DataFrame({"city": ["oslo", "oslo"], "id": [1, 1], "v": [10, 20]}).groupby(["city", "id"]).sum()

    assert written(frame) == [{"city": "oslo", "id": 1, "v": 30}]


@pytest.mark.parametrize(
    "index",
    [["a", "b"], pd.to_datetime(["2024-01-01", "2024-01-02"]), [[1, 1], [1, 2]]],
    ids=["text", "time", "levels"],
)
def test_unnamed_pandas_index_that_holds_data_is_refused(index: Any) -> None:
    with pytest.raises(SchemaMismatchError, match="rename_axis"):
        written(pd.DataFrame({"id": [1, 2]}, index=index))


def test_pandas_frame_without_rows_is_a_write_of_no_rows() -> None:
    frame = pd.DataFrame({"id": [1], "v": [10]})

    assert written(frame, frame.iloc[:0], frame[frame.v > 99]) == [{"id": 1, "v": 10}]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"id": [1, 2], "v": [1, "a"]}),
        pd.DataFrame({"id": [1, 2], "v": pd.arrays.SparseArray([1, 0])}),
        pd.DataFrame([[1, 2, 3]], columns=["id", "v", "v"]),
        pd.DataFrame({"id": [1, 2]}, index=pd.Index([1, 2], name="id")),
        pd.DataFrame({"id": [1, 2], "v": pd.period_range("2024-01", periods=2, freq="M")}),
        pd.DataFrame({"id": [1, 2], "v": pd.to_timedelta([1, 2], unit="D")}),
        pd.DataFrame({"id": [1, 2], "v": [2**80, 1]}),
    ],
    ids=["mixed", "sparse", "two of a name", "index of a column's name", "periods", "durations", "large"],
)
def test_pandas_frame_that_no_table_can_hold_is_refused(frame: pd.DataFrame) -> None:
    with pytest.raises(SchemaMismatchError):
        written(frame)


# -- polars and other Arrow -------------------------------------------------------------------------------------------

TEXTS = ["a", None, "b"]


def _polars(values: list[Any], kind: Any) -> pl.DataFrame:
    return pl.DataFrame({"id": [1, 2, 3], "c": pl.Series(values, dtype=kind)})


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (TEXTS, pl.String),
        (TEXTS, pl.Categorical),
        (TEXTS, pl.Enum(["a", "b"])),
        ([["a"], None, ["b"]], pl.List(pl.Categorical)),
        ([{"x": "a"}, {"x": None}, {"x": "b"}], pl.Struct({"x": pl.Enum(["a", "b"])})),
    ],
    ids=["text", "categorical", "enum", "in lists", "in structs"],
)
def test_polars_column_is_stored_as_its_values(values: list[Any], kind: Any) -> None:
    frame = _polars(values, kind)

    stored = written(frame, frame.head(1))

    assert stored == [{"id": n, "c": value} for n, value in enumerate(values, start=1)]


def test_polars_categorical_makes_record_keys() -> None:
    assert written(_polars(["a", "b", "c"], pl.Categorical), key="c")[1] == {"id": 2, "c": "b"}


@pytest.mark.parametrize("kind", [pl.Object, pl.Int128])
def test_polars_column_that_no_table_can_hold_is_refused(kind: Any) -> None:
    frame = pl.DataFrame({"id": [1], "c": pl.Series([object()] if kind == pl.Object else [1], dtype=kind)})

    with pytest.raises(SchemaMismatchError):
        written(frame)


def test_dictionary_of_views_is_stored_as_its_values() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.int8()), pa.array(["a", "b"], pa.string_view()))

    assert [row["c"] for row in written(pa.table({"id": [1, 2, 3], "c": column}))] == TEXTS


def test_eight_bit_booleans_are_stored_as_booleans() -> None:
    column = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None, 0], pa.int8()))

    assert [row["c"] for row in written(pa.table({"id": [1, 2, 3], "c": column}))] == [True, None, False]


# -- sort modes -------------------------------------------------------------------------------------------------------

SORTED_COLUMNS: dict[str, Callable[[], pa.Array]] = {
    "dictionary": lambda: pa.array(["b", None, "a"]).dictionary_encode(),
    "view": lambda: pa.array(["b", None, "a"], pa.string_view()),
    "view beside": lambda: pa.array([["b"], None, ["a"]], pa.list_(pa.string_view())),
    "half float": lambda: pa.array([2.0, None, 1.0]).cast(pa.float16()),
    "nested": lambda: pa.array([{"x": "b"}, {"x": None}, {"x": "a"}]),
}


@pytest.mark.parametrize("mode", ["GLOBAL_SORT", "PARTITION_SORT", "PARTITION_PATH_REPARTITION_AND_SORT"])
@pytest.mark.parametrize("kind", SORTED_COLUMNS)
@pytest.mark.parametrize("is_stream", [False, True], ids=["table", "stream"])
def test_bulk_insert_sorts_by_any_column_that_may_be_a_partition(kind: str, mode: str, is_stream: bool) -> None:
    column = SORTED_COLUMNS[kind]()
    field = {"nested": "c.x", "view beside": "id"}.get(kind, "c")

    rows = pa.table({"id": [3, 2, 1], "c": column})
    stored = written(
        rows.to_reader(max_chunksize=2) if is_stream else rows,
        **{
            "hoodie.datasource.write.operation": "bulk_insert",
            "hoodie.datasource.write.partitionpath.field": field,
            "hoodie.bulkinsert.sort.mode": mode,
        },
    )

    assert stored == [{"id": n, "c": value} for n, value in zip([1, 2, 3], reversed(column.to_pylist()), strict=True)]


# -- columns ----------------------------------------------------------------------------------------------------------

CONTROLS = [
    *("__row", "__position", "__delete", "__file", "__moved", "__version", "__by_commit_time", "__is_deleted"),
    *("__fresh", "__columns", "__hides", "__word", "__bits", "__part", "__place"),
]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("kind", [pa.int64(), pa.bool_()], ids=str)
def test_no_column_name_collides_with_pyhudis_own(table_type: str, kind: pa.DataType) -> None:
    def rows(ids: list[int], value: int) -> pa.Table:
        values = {name: pa.array([value] * len(ids), pa.int64()).cast(kind) for name in CONTROLS}
        return pa.table({"id": pa.array(ids, pa.int64()), **values})

    def row(key: int, value: int) -> dict[str, Any]:
        return rows([key], value).to_pylist()[0]

    stored = written(
        rows([1, 2], 1),
        rows([2, 3], 0),
        **{"hoodie.datasource.write.table.type": table_type, "hoodie.compact.inline": "true"},
    )

    assert stored == [row(1, 1), row(2, 0), row(3, 0)]


def test_schema_of_as_many_columns_as_are_written_is_read_again() -> None:
    widest = pa.schema([(f"c{n}", pa.int64()) for n in range(COLUMNS_MAX)])

    avro = avro_with_meta_columns(arrow_to_avro(widest, table_name="t"))

    assert len(avro_to_arrow(avro, source="test")) == COLUMNS_MAX + 5


@pytest.mark.parametrize("nested", [False, True])
def test_table_of_more_columns_than_are_read_is_refused_before_anything_is_written(
    nested: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyhudi.format.schema.avro_arrow.COLUMNS_MAX", 300)
    columns = {f"c{n}": pa.nulls(1, pa.int64()) for n in range(300)}
    rows = {"s": pa.StructArray.from_arrays(list(columns.values()), list(columns))} if nested else columns
    path = f"memory://inputs-{next(_numbers)}/t"

    with pytest.raises(SchemaMismatchError, match="are not read"):
        pyhudi.save(
            pa.table({"id": [1], **rows}),
            path,
            hudi_options={"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"},
        )
    with pytest.raises(HudiError):
        pyhudi.HudiTable.for_path(path)
