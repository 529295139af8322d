"""Bootstrapped slices are read in parts and pruned by row groups: the rows are those of a read of everything."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.support.mutants.tools import patched

import pyhudi
from pyhudi.read import divided
from pyhudi.read.in_order import BYTES_AT_ONCE, in_order
from pyhudi.tasks import skeletons

ROWS = 60
OPERATORS = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def random_source(folder: Path, rng: random.Random) -> Path:
    """Files with row groups of different sizes, of sorted and of random values, with nulls, NaN and -0.0."""
    for city in "ab":
        (folder / f"city={city}").mkdir(parents=True)
        for number in range(2):
            numbers = sorted(rng.choices([*range(9), None], k=ROWS), key=lambda value: -1 if value is None else value)
            table = pa.table(
                {
                    "id": [f"{city}{number}{row:02}" for row in range(ROWS)],
                    "n": pa.array(numbers, pa.int32()),
                    "x": pa.array(rng.choices([0.0, -0.0, 1.5, math.nan, None], k=ROWS), pa.float64()),
                    "s": pa.array(rng.choices(["", "b", "é", "\U0001f600", None], k=ROWS)),
                }
            )
            path = folder / f"city={city}" / f"{number}.parquet"
            with pq.ParquetWriter(path, table.schema) as writer:
                at = 0
                while at < ROWS:
                    size = rng.randint(1, 12)
                    writer.write_table(table.slice(at, size))
                    at += size
    return folder


def random_condition(rng: random.Random) -> tuple[str, str, Any]:
    values: dict[str, list[Any]] = {
        "n": [0, 4, 8, 20],
        "x": [0.0, 1.5],
        "s": ["", "b", "é"],
        "city": ["a", "b"],
        "id": ["a000", "b130"],
        "_hoodie_record_key": ["a105", "b000"],
        "_hoodie_partition_path": ["city=a"],
    }
    column = rng.choice(list(values))
    return column, rng.choice(list(OPERATORS)), rng.choice(values[column])


@pytest.mark.parametrize("rows_of_skeleton", [1, 10_000], ids=["row groups in common", "one row group"])
@pytest.mark.parametrize("seed", range(3))
def test_parts_of_a_bootstrapped_file_have_the_rows_that_a_read_of_everything_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, rows_of_skeleton: int
) -> None:
    rng = random.Random(seed)
    source = random_source(tmp_path / "source", rng)
    monkeypatch.setattr(skeletons, "ROWS_PER_PART", rows_of_skeleton)
    monkeypatch.setattr(skeletons, "DIVIDED_FROM_BYTES", 0)
    table = pyhudi.HudiTable.bootstrap(source, tmp_path / "table", record_key="id")
    everything = table.scan().to_arrow()
    assert everything.num_rows == 4 * ROWS
    monkeypatch.setattr(divided, "DIVIDED_FROM_BYTES", 0)
    monkeypatch.setattr(divided, "ROWS_PER_PART", 1)
    for _ in range(25):
        where = [random_condition(rng) for _ in range(rng.randint(0, 2))]
        columns = rng.sample(everything.column_names, rng.randint(1, len(everything.column_names)))
        expected = everything
        for column, operator, value in where:
            expected = expected.filter(OPERATORS[operator](expected[column], value))
        found = table.scan(columns, where=where or None).to_arrow()
        assert repr(found.to_pylist()) == repr(expected.select(columns).to_pylist()), (seed, where, columns)


def test_parts_that_cannot_match_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "source").mkdir()
    rows = pa.table({"id": [f"{n:03}" for n in range(100)], "n": range(100)})
    pq.write_table(rows, tmp_path / "source" / "x.parquet", row_group_size=10)
    table = pyhudi.HudiTable.bootstrap(tmp_path / "source", tmp_path / "table", record_key="id")
    monkeypatch.setattr(divided, "DIVIDED_FROM_BYTES", 0)
    monkeypatch.setattr(divided, "ROWS_PER_PART", 1)
    read = list[range]()
    matching = divided._matching

    def told(*call: Any) -> list[range]:
        read.extend(matching(*call))
        return read

    with patched((divided, matching, told)):
        rows_read = table.scan(["n"], where=[("n", ">", 75), ("id", "<", "090")]).to_arrow()

    assert rows_read["n"].to_pylist() == [*range(76, 90)]

    assert read == [range(70, 80), range(80, 90)]


def test_pieces_are_given_in_order_while_others_are_read_and_large_ones_only_when_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    begun, second_has_begun = list[int](), threading.Event()

    def piece(number: int) -> Iterator[int]:
        begun.append(number)
        if number == 0:
            assert second_has_begun.wait(10)
        if number == 1:
            second_has_begun.set()
        yield from (number, number)

    sizes = [1, 1, BYTES_AT_ONCE + 1, 1]
    found = in_order((size, partial(piece, number)) for number, size in enumerate(sizes))
    assert [next(found) for _ in range(4)] == [0, 0, 1, 1]
    assert set(begun) == {0, 1}
    assert list(found) == [2, 2, 3, 3]


def test_error_in_a_piece_ends_the_read_and_pieces_after_it_are_not_begun() -> None:
    begun = list[int]()

    def piece(number: int) -> Iterator[int]:
        begun.append(number)
        if number == 1:
            raise ValueError("damaged")
        yield number

    found = in_order((BYTES_AT_ONCE, partial(piece, number)) for number in range(9))
    assert next(found) == 0
    with pytest.raises(ValueError, match="damaged"):
        list(found)
    assert len(begun) <= 3
