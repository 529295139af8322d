"""Rows in pieces: what each row takes, where batches are cut, and files whose rows are wider than they look."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format import pieces
from pyhudi.format.pieces import PIECE_BYTES, cuts, in_pieces, one_batch, reordered, row_bytes, runs, take_rows
from pyhudi.io.base_file import read_batches
from pyhudi.io.parquet_batches import row_groups_of, rows_at_once, wide_dictionaries
from pyhudi.storage.local import LocalStorage

_numbers = itertools.count()
MB = 1 << 20

ARRAYS = {
    "text": (pa.array(["x", "yyy", None]), [1, 3, 0]),
    "views": (pa.array(["x", "y" * 30, None], pa.string_view()), [1, 30, 0]),
    "large": (pa.array([b"x", b"yyy", None], pa.large_binary()), [1, 3, 0]),
    "slices": (pa.array(["zzz", "x", "yyy", None]).slice(1), [1, 3, 0]),
    "dictionaries": (pa.array(["zzz", "x", "yyy", None]).dictionary_encode().slice(1), [1, 3, 0]),
    "structs": (pa.array([{"a": "x"}, {"a": "yyy"}, None]), [1, 3, 0]),
    "lists": (pa.array([["zz"], ["x"], ["y", "yy"], None]).slice(1), [1, 3, 0]),
    "maps": (pa.array([[("k", "z")], [], [("k", "yy")], None], pa.map_(pa.string(), pa.string())).slice(1), [0, 3, 0]),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_bytes_of_rows_follow_their_values(kind: str) -> None:
    array, lengths = ARRAYS[kind]

    sizes = row_bytes(pa.table({"c": pa.chunked_array([array, array])}))

    overhead = sizes - np.array(lengths * 2)
    assert (overhead >= 0).all()
    assert (overhead <= 16 * (1 + np.array([1, 2, 1] * 2))).all()


def test_ranges_take_up_to_the_limit_or_are_one_row() -> None:
    assert list(cuts(np.array([10, 20, 30, 100, 5, 5]), 40)) == [(0, 2), (2, 3), (3, 4), (4, 6)]
    assert list(cuts(np.zeros(0, dtype=np.int64), 40)) == []


def test_batch_of_repeated_wide_values_is_cut_by_their_full_length() -> None:
    wide = pa.DictionaryArray.from_arrays(pa.array([0] * 100, pa.int32()), pa.array(["x" * MB]))
    batch = pa.RecordBatch.from_arrays([wide], ["c"])

    pieces = list(in_pieces(batch))

    assert sum(piece.num_rows for piece in pieces) == 100
    assert max(piece.num_rows for piece in pieces) <= PIECE_BYTES // MB


@pytest.mark.parametrize("chunks", [[["a", "b"], [], ["c"]], [["a", "b", "c"]]], ids=["chunks", "one chunk"])
def test_rows_of_a_table_are_taken_in_the_order_asked_for(chunks: list[list[str]]) -> None:
    table = pa.table({"c": pa.chunked_array(chunks, pa.string())})

    assert take_rows(table, np.array([2, 0, 2, 1])).column("c").to_pylist() == ["c", "a", "c", "b"]
    assert take_rows(table, np.array([1, 2])).column("c").to_pylist() == ["b", "c"]
    assert take_rows(table, np.array([2, 1])).column("c").to_pylist() == ["c", "b"]
    assert take_rows(table, np.zeros(0, dtype=np.int64)).num_rows == 0


def test_rows_of_more_than_one_array_holds_are_put_into_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"n": range(100), "c": pa.chunked_array([[bytes([n]) * MB] for n in range(100)])})
    numbers = np.array([*range(99, -1, -1), 7, 7])
    whole = table.take(pa.array(numbers))
    monkeypatch.setattr(pieces, "ARRAY_BYTES_MAX", PIECE_BYTES + MB)

    turned = reordered(table, numbers)

    assert turned.equals(whole)
    assert turned.column("c").num_chunks > 1
    assert reordered(table.select(["n"]), numbers).equals(whole.select(["n"]))
    assert reordered(table, numbers[:0]).schema == table.schema


def test_more_than_one_array_holds_is_refused_by_name() -> None:
    chunk = pa.array(["x" * (64 * MB)])

    with pytest.raises(UnsupportedFeatureError, match="2 GiB"):
        one_batch(pa.table({"c": pa.chunked_array([chunk] * 33)}))


def _stored(folder: Path, table: pa.Table, **options: Any) -> str:
    name = f"{next(_numbers)}.parquet"
    pq.write_table(table, folder / name, store_schema=False, **options)
    return name


WIDE = {
    "text": pa.array(["x" * MB] * 300),
    "nested": pa.array([[{"a": "x" * MB}]] * 300),
}


@pytest.mark.parametrize("kind", WIDE)
@pytest.mark.parametrize("use_dictionary", [True, False])
def test_wide_rows_are_read_a_bounded_number_of_bytes_at_a_time(
    tmp_path: Path, kind: str, use_dictionary: bool
) -> None:
    table = pa.table({"id": range(300), "c": WIDE[kind]})
    name = _stored(tmp_path, table, use_dictionary=use_dictionary)

    rows = 0
    for batch in read_batches(LocalStorage(str(tmp_path)), name):
        assert batch.nbytes <= PIECE_BYTES + 2 * MB
        assert batch.column("c").equals(table.column("c").slice(rows, batch.num_rows).combine_chunks())
        rows += batch.num_rows
    assert rows == 300


def test_narrow_rows_are_read_in_as_large_batches_as_ever(tmp_path: Path) -> None:
    table = pa.table({"id": range(200_000), "c": ["oslo", "rome"] * 100_000, "n": pa.nulls(200_000, pa.string())})
    footer = pq.ParquetFile(tmp_path / _stored(tmp_path, table)).metadata

    assert rows_at_once(row_groups_of(footer, None), 65_536) == 65_536
    assert wide_dictionaries(row_groups_of(footer, None), 65_536) in ((), ("n",))


@pytest.mark.parametrize("condition", [None, [("id", "<", 150)]])
def test_scan_of_wide_rows_gives_batches_of_bounded_bytes(tmp_path: Path, condition: Any) -> None:
    path = str(tmp_path / "t")
    schema = pa.schema([("id", pa.int64()), ("doc", pa.string()), ("city", pa.string())])
    table = pyhudi.HudiTable.create(path, schema=schema, record_key="id", partition_by="city")
    doc = pa.array(["x" * MB])
    for city, first in (("oslo", 0), ("rome", 100)):
        ids = pa.array(range(first, first + 100), pa.int64())
        docs = doc.take(pa.array([0] * 100))
        table.bulk_insert(pa.table({"id": ids, "doc": docs, "city": [city] * 100}, schema))

    batches = list(table.refresh().scan(["id", "doc", "city"], condition).to_batches())

    assert all(batch.nbytes <= PIECE_BYTES + 2 * MB for batch in batches)
    found = {row["id"]: (row["city"], row["doc"]) for row in pa.Table.from_batches(batches).to_pylist()}
    assert found == {n: ("oslo" if n < 100 else "rome", "x" * MB) for n in range(150 if condition else 200)}


@pytest.mark.parametrize(
    ("values", "found"),
    [([], []), ([5], [(0, 1)]), ([5, 5, 2], [(0, 2), (2, 3)]), ([1, 2, 1], [(0, 1), (1, 2), (2, 3)])],
)
def test_runs_of_equal_values_are_cut_where_the_next_value_differs(
    values: list[int], found: list[tuple[int, int]]
) -> None:
    assert list(runs(np.array(values, np.int64))) == found
