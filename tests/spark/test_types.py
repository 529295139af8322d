"""Spark types ↔ Arrow types."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812 - what every Spark program calls it

from pyhudi.errors import SchemaMismatchError, UnsupportedFeatureError
from pyhudi.spark.capabilities import IS_4
from pyhudi.spark.types import arrow_schema, spark_schema

STORABLE = [
    (T.BooleanType(), pa.bool_()),
    (T.ByteType(), pa.int8()),
    (T.ShortType(), pa.int16()),
    (T.IntegerType(), pa.int32()),
    (T.LongType(), pa.int64()),
    (T.FloatType(), pa.float32()),
    (T.DoubleType(), pa.float64()),
    (T.StringType(), pa.string()),
    (T.BinaryType(), pa.binary()),
    (T.DateType(), pa.date32()),
    (T.TimestampType(), pa.timestamp("us", tz="UTC")),
    (T.TimestampNTZType(), pa.timestamp("us")),
    (T.DecimalType(38, 18), pa.decimal128(38, 18)),
]


@pytest.mark.parametrize(("spark_type", "arrow_type"), STORABLE, ids=str)
def test_storable_type_maps_to_arrow_and_back(spark_type: T.DataType, arrow_type: pa.DataType) -> None:
    schema = arrow_schema(T.StructType([T.StructField("a", spark_type)]))

    assert schema == pa.schema([pa.field("a", arrow_type)])
    assert spark_schema(schema) == T.StructType([T.StructField("a", spark_type)])


def test_nested_types_keep_names_and_nullability() -> None:
    inner = T.StructType([T.StructField("at", T.TimestampType(), nullable=False)])
    schema = arrow_schema(
        T.StructType(
            [
                T.StructField("id", T.LongType(), nullable=False),
                T.StructField("visits", T.ArrayType(inner, containsNull=False)),
                T.StructField("tags", T.MapType(T.StringType(), T.IntegerType())),
            ]
        )
    )

    at = pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False)
    assert schema.field("id") == pa.field("id", pa.int64(), nullable=False)
    assert schema.field("visits").type == pa.list_(pa.field("element", pa.struct([at]), nullable=False))
    assert schema.field("tags").type == pa.map_(pa.string(), pa.int32())


@pytest.mark.parametrize(
    "spark_type",
    [
        *(T.DayTimeIntervalType(), T.YearMonthIntervalType(), T.CharType(3), T.NullType()),
        *([T.VariantType(), T.StringType("UTF8_LCASE")] if IS_4 else []),
    ],
    ids=lambda kind: kind.simpleString(),
)
def test_type_that_hudi_cannot_store_is_refused_with_its_column(spark_type: T.DataType) -> None:
    trip = T.StructType([T.StructField("length", spark_type)])

    with pytest.raises(SchemaMismatchError) as caught:
        arrow_schema(T.StructType([T.StructField("trips", T.ArrayType(trip))]))

    assert caught.value.context["column"] == "trips.element.length"
    assert caught.value.context["type"] == spark_type.simpleString()


def test_reading_gives_every_column_as_nullable() -> None:
    schema = spark_schema(pa.schema([pa.field("a", pa.int32(), nullable=False)]))

    assert schema == T.StructType([T.StructField("a", T.IntegerType(), nullable=True)])


def test_large_and_encoded_arrow_types_read_as_the_plain_ones() -> None:
    schema = spark_schema(
        pa.schema(
            [
                ("large", pa.large_string()),
                ("bytes", pa.large_binary()),
                ("fixed", pa.binary(4)),
                ("coded", pa.dictionary(pa.int32(), pa.string())),
                ("millis", pa.timestamp("ms", tz="UTC")),
                ("list", pa.large_list(pa.int32())),
            ]
        )
    )

    assert [field.dataType.simpleString() for field in schema.fields] == [
        "string", "binary", "binary", "string", "timestamp", "array<int>",
    ]  # fmt: skip


def test_arrow_type_that_spark_lacks_is_refused_with_its_column() -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"'opens\.at'"):
        spark_schema(pa.schema([("opens", pa.struct([("at", pa.time64("us"))]))]))
