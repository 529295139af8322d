"""Bootstrapped slices are read in parts and pruned by row groups: the rows are those of a read of everything."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
import threading
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from tests.support.mutants.tools import patched

import pyhudi
from pyhudi.read import arrow
from pyhudi.read.prefetch import in_order
from pyhudi.read.skipping.comparisons import comparisons_of, expression_of
from pyhudi.tasks import bootstrap

ROWS = 60
NOON, HOUR, AT = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC), dt.timedelta(hours=1), pa.timestamp("us", tz="UTC")
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
                    "when": pa.array([None if at is None else NOON + at * HOUR for at in numbers], AT),
                    "sure": pa.array(sorted(rng.choices([True, False], k=ROWS))),
                    "cost": pa.array([None if at is None else Decimal(at - 4) for at in numbers], pa.decimal128(9, 2)),
                }
            )
            path = folder / f"city={city}" / f"{number}.parquet"
            statistics = rng.choice([True, True, False, ["n", "s", "when"]])
            with pq.ParquetWriter(path, table.schema, write_statistics=statistics) as writer:
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
        "when": [NOON, NOON + 4 * HOUR, NOON + 20 * HOUR],
        "sure": [True, False],
        "cost": [Decimal(0), Decimal(-5), Decimal("1.5")],
    }
    column = rng.choice(list(values))
    if rng.random() < 0.2:
        return column, rng.choice(["in", "not in"]), rng.sample(values[column], rng.randint(1, len(values[column])))
    return column, rng.choice(list(OPERATORS)), rng.choice(values[column])


def expression_over(expression: pc.Expression, rows: pa.Table) -> pa.ChunkedArray:
    """The values of an expression."""
    return ds.dataset(rows).to_table(columns={"it": expression})["it"]


def passing(rows: pa.Table, condition: tuple[str, str, Any]) -> pa.ChunkedArray:
    """Which rows pass a comparison; none without a value."""
    column, operator, value = condition
    if operator in OPERATORS:
        return OPERATORS[operator](rows[column], value)
    compared = pc.add(rows[column], 0.0) if column == "x" else rows[column]  # 0.0 and -0.0 are one number
    among = pc.is_in(compared, pa.array(value, rows[column].type))
    return pc.and_(pc.is_valid(rows[column]), among if operator == "in" else pc.invert(among))


@pytest.mark.parametrize("rows_of_skeleton", [1, 10_000], ids=["row groups in common", "one row group"])
@pytest.mark.parametrize("seed", range(3))
def test_parts_of_a_bootstrapped_file_have_the_rows_that_a_read_of_everything_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, rows_of_skeleton: int
) -> None:
    rng = random.Random(seed)
    source = random_source(tmp_path / "source", rng)
    monkeypatch.setattr(bootstrap, "ROWS_PER_PART", rows_of_skeleton)
    monkeypatch.setattr(bootstrap, "DIVIDED_FROM_BYTES", 0)
    table = pyhudi.HudiTable.bootstrap(source, tmp_path / "table", record_key="id")
    everything = table.scan().to_arrow()
    assert everything.num_rows == 4 * ROWS
    monkeypatch.setattr(arrow, "DIVIDED_FROM_BYTES", 0)
    monkeypatch.setattr(arrow, "ROWS_PER_PART", 1)
    for _ in range(10):
        where = [random_condition(rng) for _ in range(rng.randint(0, 2))]
        columns = rng.sample(everything.column_names, rng.randint(1, len(everything.column_names)))
        expected = everything
        for condition in where:
            expected = expected.filter(passing(expected, condition))
        found = table.scan(columns, where=where or None).to_arrow()
        assert repr(found.to_pylist()) == repr(expected.select(columns).to_pylist()), (seed, where, columns)
        other, is_null = random_condition(rng), pc.field(rng.choice(everything.column_names)).is_null()
        either = pc.or_kleene(passing(everything, other), expression_over(is_null, everything))
        found = table.scan(
            columns, where=expression_of(comparisons_of([other], everything.schema)) | is_null
        ).to_arrow()
        expected = everything.filter(either)
        assert repr(found.to_pylist()) == repr(expected.select(columns).to_pylist()), (seed, other, is_null)


def test_parts_that_cannot_match_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "source").mkdir()
    rows = pa.table({"id": [f"{n:03}" for n in range(100)], "n": range(100)})
    pq.write_table(rows, tmp_path / "source" / "x.parquet", row_group_size=10)
    table = pyhudi.HudiTable.bootstrap(tmp_path / "source", tmp_path / "table", record_key="id")
    monkeypatch.setattr(arrow, "DIVIDED_FROM_BYTES", 0)
    monkeypatch.setattr(arrow, "ROWS_PER_PART", 1)
    read = list[range]()
    matching = arrow._matching_rows_of_parts

    def told(*call: Any) -> list[range]:
        read.extend(matching(*call))
        return read

    with patched((arrow, matching, told)):
        rows_read = table.scan(["n"], where=[("n", ">", 75), ("id", "<", "090")]).to_arrow()

    assert rows_read["n"].to_pylist() == [*range(76, 90)]

    assert read == [range(70, 80), range(80, 90)]


def batch(number: int, size: int = 8) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array([number] * (size // 8), pa.int64())})


def numbers(batches: Iterator[pa.RecordBatch], count: int | None = None) -> list[int]:
    return [rows["n"][0].as_py() for rows in itertools.islice(batches, count)]


def test_pieces_are_given_in_order_while_others_are_read_and_some_only_when_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    begun, second_has_begun = list[int](), threading.Event()

    def piece(number: int) -> Iterator[pa.RecordBatch]:
        begun.append(number)
        if number == 0:
            assert second_has_begun.wait(100)
        if number == 1:
            second_has_begun.set()
        yield from (batch(number), batch(number))

    found = in_order((partial(piece, number), number == 2) for number in range(4))
    assert numbers(found, 4) == [0, 0, 1, 1]
    assert set(begun) == {0, 1}
    assert numbers(found) == [2, 2, 3, 3]


def test_pieces_wait_where_so_many_bytes_are_not_asked_for_and_the_first_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    made, waits = list[int](), threading.Semaphore(0)

    def piece(number: int) -> Iterator[pa.RecordBatch]:
        if number == 0:
            for _ in range(6):
                assert waits.acquire(timeout=100)
        for _ in range(20):
            made.append(number)
            waits.release()
            yield batch(number, 1000)

    found = in_order(((partial(piece, number), False) for number in range(5)), 4000)
    assert numbers(found, 1) == [0]
    # Four batches are kept, one more waits in each of the two threads ahead.
    assert len([number for number in made if number]) == 6
    assert numbers(found) == sorted([*range(5)] * 20)[1:]


def test_error_in_a_piece_comes_after_what_was_read_and_pieces_after_it_are_not_begun() -> None:
    begun = list[int]()

    def piece(number: int) -> Iterator[pa.RecordBatch]:
        begun.append(number)
        yield batch(number)
        if number == 1:
            raise ValueError("damaged")

    found = in_order((partial(piece, number), True) for number in range(9))
    assert numbers(found, 2) == [0, 1]
    with pytest.raises(ValueError, match="damaged"):
        next(found)
    assert begun == [0, 1]

    found = in_order((partial(piece, number), False) for number in range(9))
    assert numbers(found, 2) == [0, 1]
    with pytest.raises(ValueError, match="damaged"):
        next(found)


def test_read_that_nobody_goes_on_with_ends_its_threads() -> None:
    def piece(number: int) -> Iterator[pa.RecordBatch]:
        yield from (batch(number, 1000) for _ in range(100))

    before = threading.enumerate()
    found = in_order(((partial(piece, number), False) for number in range(9)), 2000)
    assert numbers(found, 2) == [0, 0]
    found.close()  # type: ignore[attr-defined]
    assert [thread.name for thread in threading.enumerate() if thread not in before] == []
