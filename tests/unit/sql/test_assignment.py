"""What fits a column, by Spark's rules of INSERT."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import types as t

from pyhudi.sql.statements.assignment import fits


@pytest.mark.parametrize(
    ("given", "wanted", "expected"),
    [
        (t.LongType(), t.IntegerType(), True),
        (t.DoubleType(), t.DecimalType(4, 1), True),
        (t.IntegerType(), t.StringType(), True),
        (t.StringType(), t.IntegerType(), False),
        (t.BooleanType(), t.IntegerType(), False),
        (t.DateType(), t.TimestampType(), True),
        (t.NullType(), t.BinaryType(), True),
        (t.ArrayType(t.IntegerType()), t.ArrayType(t.LongType()), True),
        (t.ArrayType(t.StringType()), t.ArrayType(t.LongType()), False),
        (t.ArrayType(t.StringType()), t.StringType(), False),
        (t.MapType(t.StringType(), t.IntegerType()), t.MapType(t.StringType(), t.LongType()), True),
        (t.StructType().add("a", t.IntegerType()), t.StructType().add("b", t.LongType()), True),
        (
            t.StructType().add("a", t.IntegerType()),
            t.StructType().add("a", t.IntegerType()).add("b", t.IntegerType()),
            False,
        ),
        (t.BinaryType(), t.IntegerType(), False),
    ],
    ids=str,
)
def test_type_fits_a_column_as_in_spark(given, wanted, expected):
    assert fits(given, wanted) is expected
