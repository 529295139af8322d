"""What Spark's filters demand of columns; what is not certain demands nothing."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as sql

from pyhudi.read.skipping.comparisons import Comparison
from pyhudi.read.skipping.predicates import AllOf, AnyOf, NullTest, Predicate, TextTest
from pyhudi.spark.reads.catalyst import predicate_of
from pyhudi.spark.types import spark_schema

UTC = dt.UTC
SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("small", pa.int32()),
        ("s", pa.string()),
        ("flag", pa.bool_()),
        ("x", pa.float64()),
        ("y", pa.float32()),
        ("price", pa.decimal128(9, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("data", pa.binary()),
        ("trip", pa.struct([("km", pa.int64())])),
    ]
)


def test(name: str, sign: str, value: Any) -> Comparison:
    kind = SCHEMA.field(name).type
    values = tuple(pa.scalar(each, kind) for each in value) if isinstance(value, tuple) else pa.scalar(value, kind)
    return Comparison(name, sign, values)


test.__test__ = False  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def rows(spark: Any) -> Any:
    return spark.createDataFrame([], spark_schema(SCHEMA)).localCheckpoint()


def filters_of(rows: Any, condition: Any) -> list[Any]:
    """The conditions of a query as Spark's optimizer leaves them."""
    node = rows.where(condition)._jdf.queryExecution().optimizedPlan()
    while node.nodeName() != "Filter":
        node = node.children().head()
    return [node.condition()]


def predicate(rows: Any, condition: Any) -> Predicate:
    return predicate_of(filters_of(rows, condition), SCHEMA)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("n = 5", [test("n", "==", 5)]),
        ("5 < n", [test("n", ">", 5)]),
        ("n between 1 and 3", [test("n", ">=", 1), test("n", "<=", 3)]),
        ("small >= 7L", [test("small", ">=", 7)]),
        ("s = 'it\\'s\n\"é\" \U0001f600'", [test("s", "==", "it's\n\"é\" \U0001f600")]),
        ("s <=> 'a'", [test("s", "==", "a")]),
        ("s != 'a'", [test("s", "!=", "a")]),
        ("n in (1, 2, 2)", [test("n", "in", (1, 2))]),
        ("n not in (1, 2)", [test("n", "not in", (1, 2))]),
        ("flag", [test("flag", "==", True)]),
        ("not flag", [test("flag", "==", False)]),
        ("x <= 0.1", [test("x", "<=", 0.1)]),
        ("y = float('0.1')", [test("y", "==", 0.1)]),
        ("price > 1.5", [test("price", ">", Decimal("1.50"))]),
        ("day = date'2024-01-31'", [test("day", "==", dt.date(2024, 1, 31))]),
        ("local < timestamp_ntz'2024-01-31 01:02:03'", [test("local", "<", dt.datetime(2024, 1, 31, 1, 2, 3))]),
        ("at >= '2024-01-31 00:00:00+01:00'", [test("at", ">=", dt.datetime(2024, 1, 30, 23, tzinfo=UTC))]),
        ("s like 'ab%'", [test("s", ">=", "ab"), test("s", "<", "ac")]),
        ("s like '%ab%'", [TextTest("s", "contains", "ab")]),
        ("s like '%ab'", [TextTest("s", "ends with", "ab")]),
        ("n is null", [NullTest("n", is_null=True)]),
        ("n = 1 or s = 'a'", [AnyOf((test("n", "==", 1), test("s", "==", "a")))]),
    ],
    ids=str,
)  # fmt: skip
def test_filters_demand_what_they_say(rows: Any, condition: str, expected: list[Predicate]) -> None:
    found = flat(predicate(rows, condition))

    assert [part for part in found if not isinstance(part, NullTest) or part.is_null] == expected


def test_a_doubled_quote_is_what_this_release_of_spark_reads(spark: Any, rows: Any) -> None:
    """PySpark 4.0 reads two texts side by side, newer ones a quote."""
    [[text]] = spark.sql("SELECT 'it''s'").collect()

    assert flat(predicate(rows, "s = 'it''s'"))[-1] == test("s", "==", text)


def flat(predicate: Predicate) -> list[Predicate]:
    if isinstance(predicate, AllOf):
        return [leaf for part in predicate.parts for leaf in flat(part)]
    return [predicate]


@pytest.mark.parametrize(
    "condition",
    [
        "upper(s) = 'A'",
        "n + 1 = 5",
        "n = small",
        "x > 5",
        "x >= 5",
        "x != 5",
        "x = double('NaN')",
        "x in (1, double('NaN'))",
        "data = x'61'",
        "trip.km = 5",
        "trip is null",
        "n = 1 or upper(s) = 'A'",
        "not (n <=> 5)",
        "s like 'a_c'",
        "day = date'+12024-01-01'",
        "s = cast(x'ff' as string)",
        "rand() < n",
    ],
)
def test_filters_of_uncertain_meaning_demand_nothing(rows: Any, condition: str) -> None:
    found = flat(predicate(rows, condition))

    assert [part for part in found if not isinstance(part, NullTest) or part.is_null] == []


def test_functions_in_python_demand_nothing(rows: Any) -> None:
    is_odd = sql.udf(lambda number: number % 2 == 1, "boolean")

    assert predicate(rows, sql.expr("n < 5") & is_odd("n")) == AllOf(()) or flat(
        predicate(rows, sql.expr("n < 5") & is_odd("n"))
    )[-1:] == [test("n", "<", 5)]


def test_long_lists_are_read_exactly(rows: Any) -> None:
    numbers = tuple(range(0, 40, 2))
    texts = ("null", "a\nb", "c, d", "", *map(str, numbers))
    days = tuple(dt.date(2024, 1, 1) + dt.timedelta(number) for number in numbers)
    times = tuple(dt.datetime(2024, 11, 3, 5, 30, tzinfo=UTC) + dt.timedelta(minutes=30 * each) for each in numbers)
    prices = tuple(Decimal(number).scaleb(-2) for number in numbers)

    for name, values in {"n": numbers, "s": texts, "day": days, "at": times, "price": prices}.items():
        (found,) = [
            part
            for part in flat(predicate(rows, sql.col(name).isin([sql.lit(value) for value in values])))
            if isinstance(part, Comparison)
        ]
        assert {value.as_py() for value in found.value} == set(values), name
        assert found.operator == "in"


def test_times_that_the_clock_shows_twice_are_told_apart(rows: Any) -> None:
    """New York, where the session is, has 01:30 twice in this night."""
    for hour in (5, 6):
        time = dt.datetime(2024, 11, 3, hour, 30, tzinfo=UTC)
        assert test("at", "==", time) in flat(predicate(rows, sql.col("at") == sql.lit(time)))


def test_columns_of_another_type_than_the_scan_has_demand_nothing(rows: Any) -> None:
    filters = filters_of(rows, "n = 5 and s = 'a'")

    assert flat(predicate_of(filters, pa.schema([("n", pa.int32()), ("s", pa.string())])))[-1] == test("s", "==", "a")
    assert flat(predicate_of(filters, pa.schema([]))) == []


def test_chains_become_one_list(rows: Any) -> None:
    chain = predicate(rows, " or ".join(f"(n = {number} and s = 'x{number}')" for number in range(20)))

    (found,) = [part for part in flat(chain) if isinstance(part, AnyOf)]
    assert len(found.parts) == 20


class Deep:
    """An expression of many negations."""

    def toJSON(self) -> str:  # noqa: N802
        return json.dumps([{"class": "Not", "num-children": 1}] * 100_000 + [{"class": "Literal", "num-children": 0}])


def test_filters_that_are_too_deep_demand_nothing() -> None:
    assert predicate_of([Deep()], SCHEMA) == AllOf(())
