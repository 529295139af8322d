"""Values as text: goldens are what Hudi 1.2.0's KeyGenUtils and Java's toString print."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import ConfigError
from pyhudi.format.keys.value_text import distinct_values, value_text

JAVA_DOUBLES = {
    0.0: "0.0",
    1.0: "1.0",
    0.1: "0.1",
    0.001: "0.001",
    9.999e-4: "9.999E-4",
    1e-3 - 1e-18: "9.99999999999999E-4",
    1e-4: "1.0E-4",
    1.2e-5: "1.2E-5",
    1e-5: "1.0E-5",
    3.25e-6: "3.25E-6",
    1e-7: "1.0E-7",
    9999999.5: "9999999.5",
    1e7: "1.0E7",
    12345678.5: "1.23456785E7",
    123456789.0: "1.23456789E8",
    1700000000.123: "1.700000000123E9",
    -1700000000.0: "-1.7E9",
    1e10: "1.0E10",
    1.5e15: "1.5E15",
    2e23: "2.0E23",
    1.7976931348623157e308: "1.7976931348623157E308",
    2.2250738585072014e-308: "2.2250738585072014E-308",
    5e-324: "4.9E-324",
    1e-323: "9.9E-324",
    math.inf: "Infinity",
    -math.inf: "-Infinity",
}
JAVA_FLOATS = {
    0.1: "0.1",
    0.001: "0.001",
    1e-4: "1.0E-4",
    16777216.0: "1.6777216E7",
    3.4028235e38: "3.4028235E38",
    1.4e-45: "1.4E-45",
    1e10: "1.0E10",
}


def java_text(value: float) -> str:
    """Java's Double.toString, said in plain Python."""
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if math.isinf(value):
        return f"{sign}Infinity"
    shortest = f"{abs(value):.1e}" if float(f"{abs(value):.1e}") == abs(value) else repr(abs(value))
    number = Decimal(shortest).normalize()
    _, digits, exponent = number.as_tuple()
    text = "".join(map(str, digits))
    power = len(text) - 1 + int(exponent)
    if value == 0:
        return f"{sign}0.0"
    if 1e-3 <= abs(value) < 1e7:
        whole = f"{number:f}"
        return sign + (whole if "." in whole else f"{whole}.0")
    return f"{sign}{text[0]}.{text[1:].rstrip('0') or '0'}E{power}"


@pytest.mark.parametrize(
    ("kind", "golden"), [(pa.float64(), JAVA_DOUBLES), (pa.float32(), JAVA_FLOATS)], ids=["double", "float"]
)
def test_floating_values_print_as_in_java(kind: pa.DataType, golden: dict[float, str]) -> None:
    array = pa.array(np.array(list(golden), np.float64)).cast(kind, safe=False)
    assert value_text(array).to_pylist() == list(golden.values())


def test_nan_and_null_of_a_double_column_stay_apart() -> None:
    assert value_text(pa.array([math.nan, None, 1.0, 1e300], from_pandas=False)).to_pylist() == [
        "NaN",
        None,
        "1.0",
        "1.0E300",
    ]


def test_negative_zero_keeps_its_sign() -> None:
    assert value_text(pa.array([-0.0, 0.0])).to_pylist() == ["-0.0", "0.0"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(width=64), max_size=40))
def test_any_double_prints_as_the_plain_model(values: list[float]) -> None:
    assert value_text(pa.array(values, pa.float64())).to_pylist() == [java_text(value) for value in values]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(width=64, allow_nan=False), max_size=40))
def test_printed_doubles_read_back_to_the_same_value(values: list[float]) -> None:
    texts = value_text(pa.array(values, pa.float64())).to_pylist()
    assert [float(text.replace("Infinity", "inf")) for text in texts] == values


DAYS = {0: "1970-01-01", 19724: "2024-01-02", 3000000: "+10183-09-21", -800000: "-0221-09-04"}


def decimals(*values: str) -> pa.Array:
    return pa.array([Decimal(value) for value in values], pa.decimal128(20, 7))


@pytest.mark.parametrize(
    ("array", "texts"),
    [
        (pa.array([-5, None, 2**63 - 1]), ["-5", None, "9223372036854775807"]),
        (pa.array([255], pa.uint8()), ["255"]),
        (pa.array([True, False, None]), ["true", "false", None]),
        (pa.array([Decimal("1.50"), Decimal("-0.01")], pa.decimal128(10, 2)), ["1.50", "-0.01"]),
        (decimals("0.0000001", "0", "0.0000015", "1000000"), ["1E-7", "0E-7", "0.0000015", "1000000.0000000"]),
        (pa.array(list(DAYS), pa.int32()).cast(pa.date32()), list(DAYS.values())),
        (pa.array([dt.date(2024, 1, 2), None], pa.date64()), ["2024-01-02", None]),
        (pa.array([1704164645678901, -1, None], pa.timestamp("us")), ["1704164645678901", "-1", None]),
        (pa.array([1704164645678], pa.timestamp("ms", "UTC")), ["1704164645678000"]),
        (pa.array(["a", "", None]), ["a", "", None]),
        (pa.array(["a"], pa.large_string()), ["a"]),
        (pa.array(["a", "b", None, "a"]).dictionary_encode(), ["a", "b", None, "a"]),
        (pa.array(["héy".encode(), b"", None, b"\xff\x00"]), ["68c3a979", "", None, "ff00"]),
        (pa.array([b"xx", b"ab", b"cd"], pa.binary(2)).slice(1), ["6162", "6364"]),
        (pa.nulls(2), [None, None]),
        (pa.array([], pa.binary()), []),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_values_of_each_type_print_as_in_hudi(array: pa.Array, texts: list[str | None]) -> None:
    result = value_text(array)
    assert result.type == pa.string()
    assert result.to_pylist() == texts


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.time64("us")], ids=str)
def test_type_without_text_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(ConfigError, match="cannot be part of a record key"):
        value_text(pa.nulls(1, kind))
    with pytest.raises(ConfigError, match="cannot be part of a record key"):
        distinct_values(pa.nulls(1, kind))


def test_distinct_values_count_null_as_a_value() -> None:
    found = distinct_values(pa.array(["b", None, "b", "a"]))
    assert found.indices.to_pylist() == [0, 1, 0, 2]
    assert found.dictionary.to_pylist() == ["b", None, "a"]
