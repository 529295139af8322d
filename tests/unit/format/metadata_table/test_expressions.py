"""What is known of Spark's functions: exactly what Spark gives, or bounds in which it lies, or nothing."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from pyhudi.format.metadata_table.expressions import FUNCTIONS, evaluated, result_type

DAY = dt.date(2024, 2, 29)
MOMENT = dt.datetime(2024, 2, 29, 23, 30, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("function", "values", "options", "expected"),
    [
        ("identity", ["a", None], {}, ["a", None]),
        ("lower", ["AbC", None, ""], {}, ["abc", None, ""]),
        ("upper", ["AbC", None], {}, ["ABC", None]),
        ("trim", [" a\t ", None], {}, ["a\t", None]),
        ("ltrim", ["xxax"], {"trimString": "x"}, ["ax"]),
        ("rtrim", ["xxax"], {"trimString": "x"}, ["xxa"]),
        ("length", ["é\U0001f600", None, ""], {}, [2, None, 0]),
        ("substring", ["héllo", "a", None], {"pos": "2", "len": "3"}, ["éll", "", None]),
        ("substring", ["hello"], {"pos": "0", "len": "2"}, ["he"]),
        ("date_add", [DAY, None], {"days": "1"}, [dt.date(2024, 3, 1), None]),
        ("date_sub", [DAY], {"days": "-1"}, [dt.date(2024, 3, 1)]),
        ("date_format", [DAY, None], {"format": "yyyy/MM"}, ["2024/02", None]),
        ("year", [DAY, None], {}, [2024, None]),
        ("month", [DAY], {}, [2]),
        ("day", [DAY], {}, [29]),
        ("unix_timestamp", [MOMENT, None], {}, [int(MOMENT.timestamp()), None]),
    ],
)
def test_value_that_is_known_is_that_of_spark(
    function: str, values: list[object], options: dict[str, str], expected: list[object]
) -> None:
    column = pa.array(values)
    found = evaluated(function, column, options)
    assert found is not None
    assert found.is_exact
    assert found.low.to_pylist() == expected
    assert found.low.type == result_type(function, column.type)


@pytest.mark.parametrize(
    ("function", "values", "options", "low", "high"),
    [
        ("from_unixtime", [0, None], {"format": "yyyy-MM-dd"}, ["1969-12-31", None], ["1970-01-01", None]),
        ("from_unixtime", [0], {}, ["1969-12-31 06:00:00"], ["1970-01-01 18:00:00"]),
        ("date_format", [MOMENT], {"format": "yyyyMMdd"}, ["20240229"], ["20240301"]),
        ("year", [dt.datetime(2023, 12, 31, 23, tzinfo=dt.UTC)], {}, [2023], [2024]),
        ("hour", [MOMENT, None], {}, [0, None], [23, None]),
        ("month", [MOMENT], {}, [1], [12]),
    ],
)
def test_value_that_depends_on_the_time_zone_lies_between_bounds_of_all_zones(
    function: str, values: list[object], options: dict[str, str], low: list[object], high: list[object]
) -> None:
    found = evaluated(function, pa.array(values), options)
    assert found is not None
    assert not found.is_exact
    assert (found.low.to_pylist(), found.high.to_pylist()) == (low, high)


@pytest.mark.parametrize(
    ("function", "values", "options"),
    [
        ("lower", ["ÄB"], {}),
        ("upper", ["straße"], {}),
        ("substring", ["hello"], {"pos": "-2", "len": "2"}),
        ("regexp_extract", ["a"], {"pattern": "a", "idx": "0"}),
        ("from_unixtime", [0], {"format": "dd-MM-yyyy"}),
        ("from_unixtime", [0], {"format": "EEEE"}),
        ("from_unixtime", [10**12], {}),
        ("from_unixtime", ["1"], {}),
        ("date_add", [dt.date(9999, 12, 31)], {"days": str(2**31 - 1)}),
        ("date_add", ["2024-01-01"], {"days": "1"}),
        ("year", ["2024-01-01"], {}),
        ("hour", [DAY], {}),
        ("to_date", ["2024-01-01"], {}),
        ("to_timestamp", ["2024-01-01 00:00:00"], {"format": "dd-MM-yyyy"}),
    ],
)
def test_value_that_python_may_make_otherwise_is_not_known(
    function: str, values: list[object], options: dict[str, str]
) -> None:
    assert evaluated(function, pa.array(values), options) is None


def test_every_function_of_jvm_hudi_but_split_is_there() -> None:
    assert len(FUNCTIONS) == 21
    assert "split" not in FUNCTIONS
