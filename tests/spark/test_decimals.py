"""Decimals on their way from Spark to Python: each arrives as it was, whether it crosses as a double or not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest

from pyhudi.config.enums import Arrangement
from pyhudi.engine.protocol import Distribution, TaskContext
from pyhudi.errors import SchemaMismatchError
from pyhudi.spark.decimals import DIGITS_MAX, crossing_rows, crossing_schema, restored
from pyhudi.spark.engine import SparkEngine

EXACT = Context(prec=60)
TYPES = [(1, 0), (1, 1), (7, 3), (9, 9), (10, 0), (14, 7), (15, 0), (15, 2), (15, 14), (15, 15), (16, 2), (18, 18)]
LONGER_TYPES = [(19, 2), (38, 0), (38, 38)]


def numbers(precision: int, scale: int, count: int) -> list[Decimal | None]:
    """The ends of the type, numbers next to them and to nothing, null, and some in between."""
    random.seed(precision * 100 + scale)
    top = 10**precision - 1
    unscaled = [0, 1, -1, top, -top, top - 1, 1 - top, *(random.randint(-top, top) for _ in range(count))]
    return [None, *(Decimal(number).scaleb(-scale, EXACT) for number in unscaled), None]


def collected(engine: SparkEngine, rows: Any) -> pa.Table:
    def tables(_: TaskContext, batches: Iterator[pa.RecordBatch]) -> pa.Table:
        return pa.Table.from_batches(batches, schema)

    schema = engine.schema_of(rows)
    distribution = Distribution(Arrangement.NONE, splits=1)
    (table,) = engine.map_splits(rows, tables, distribution=distribution, description="look")
    return table


@pytest.mark.parametrize("scale", range(DIGITS_MAX + 1))
def test_doubles_become_the_decimals_they_were(scale: int) -> None:
    for precision in range(max(scale, 1), DIGITS_MAX + 1):
        field = pa.field("x", pa.decimal128(precision, scale))
        schema = pa.schema([field, ("other", pa.string())])
        decimals = numbers(precision, scale, 300)
        doubles = [None if number is None else float(number) for number in decimals]
        other = ["a"] * len(decimals)
        batch = pa.record_batch([pa.array(doubles, pa.float64()), pa.array(other)], ["c0", "c1"])

        found, part = restored(batch, schema), restored(batch.slice(5, 100), schema)

        found.validate(full=True)
        assert found.schema == schema == crossing_schema(schema).set(0, field)
        assert found.column(0).to_pylist() == decimals
        assert part.column(0).to_pylist() == decimals[5:105]


def test_what_lies_below_a_null_does_not_matter() -> None:
    values = pa.Array.from_buffers(
        pa.float64(), 3, [pa.py_buffer(b"\x04"), pa.array([float("nan"), 1e300, -0.07]).buffers()[1]]
    )

    found = restored(pa.record_batch([values], ["c0"]), pa.schema([("x", pa.decimal128(5, 2))]))

    assert found.column(0).to_pylist() == [None, None, Decimal("-0.07")]


@pytest.mark.parametrize("value", [1000.0, -1000.0, 1e30, float("nan"), float("-inf")])
def test_number_with_more_digits_than_its_type_is_refused(value: float) -> None:
    batch = pa.record_batch([pa.array([1.0, None, value])], ["c0"])

    with pytest.raises(SchemaMismatchError, match="more digits"):
        restored(batch, pa.schema([("x", pa.decimal128(5, 2))]))


def test_no_rows_become_no_decimals() -> None:
    schema = pa.schema([("x", pa.decimal128(5, 2))])

    assert restored(pa.record_batch([pa.array([], pa.float64())], ["c0"]), schema).schema == schema


def test_decimals_of_any_size_arrive_from_spark_as_they_were(spark: Any) -> None:
    types = [*TYPES, *LONGER_TYPES]
    columns = {f"d{p}_{s}": pa.array(numbers(p, s, 2_000), pa.decimal128(p, s)) for p, s in types}
    sent = pa.table(columns)
    rows = spark.createDataFrame(sent)
    crossing = crossing_schema(SparkEngine(spark).schema_of(rows))

    found = collected(SparkEngine(spark), rows)

    assert sum(field.type == pa.float64() for field in crossing) == 10
    assert found.to_pydict() == sent.to_pydict()
    assert found.schema.types == sent.schema.types


def test_decimals_inside_of_other_columns_arrive_as_they_were(spark: Any) -> None:
    rows = spark.sql(
        "select cast(-1.25 as decimal(5,2)) as `a.b`, cast(null as decimal(5,2)) as `A``C`,"
        " named_struct('d', cast(-1.25 as decimal(5,2))) as s, array(cast(2.5 as decimal(5,2)), null) as l,"
        " map('k', cast(3.75 as decimal(5,2))) as m, 'text' as t"
    )

    found = collected(SparkEngine(spark), rows).to_pylist()

    assert found == [
        {
            "a.b": Decimal("-1.25"),
            "A`C": None,
            "s": {"d": Decimal("-1.25")},
            "l": [Decimal("2.50"), None],
            "m": [("k", Decimal("3.75"))],
            "t": "text",
        }
    ]


def test_rows_without_short_decimals_are_handed_over_as_they_are(spark: Any) -> None:
    rows = spark.sql("select 1 as id, cast(1 as decimal(16,0)) as long, 1.5D as double")

    assert crossing_rows(rows, SparkEngine(spark).schema_of(rows)) is rows
