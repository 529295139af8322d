"""Columns in the words of Hive and of Spark."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from pyhudi.catalogs.hive_types import hive_type, spark_schema, spark_schema_properties
from pyhudi.errors import UnsupportedFeatureError

TYPES = [
    (pa.bool_(), "boolean", "boolean"),
    (pa.int32(), "int", "integer"),
    (pa.int64(), "bigint", "long"),
    (pa.float32(), "float", "float"),
    (pa.float64(), "double", "double"),
    (pa.string(), "string", "string"),
    (pa.large_string(), "string", "string"),
    (pa.binary(), "binary", "binary"),
    (pa.binary(16), "binary", "binary"),
    (pa.date32(), "date", "date"),
    (pa.decimal128(10, 2), "decimal(10,2)", "decimal(10,2)"),
    (pa.timestamp("us", "UTC"), "bigint", "timestamp"),
    (pa.timestamp("us"), "bigint", "timestamp_ntz"),
    (pa.time32("ms"), "int", "integer"),
    (pa.time64("us"), "bigint", "long"),
]


@pytest.mark.parametrize(("kind", "hive", "spark"), TYPES, ids=str)
def test_type_has_the_names_that_jvm_hudi_writes(kind: pa.DataType, hive: str, spark: str) -> None:
    assert hive_type(kind, as_timestamps=False) == hive
    assert json.loads(spark_schema([pa.field("x", kind)]))["fields"][0]["type"] == spark


def test_nested_types_and_names_with_quotes_are_written_whole() -> None:
    kind = pa.struct([("A", pa.list_(pa.int32())), ("m", pa.map_(pa.string(), pa.timestamp("us", "UTC")))])
    assert hive_type(kind, as_timestamps=True) == "struct<a:array<int>,m:map<string,timestamp>>"

    [field] = json.loads(spark_schema([pa.field('say "x"', kind, nullable=False)]))["fields"]

    assert (field["name"], field["nullable"]) == ('say "x"', False)
    assert field["type"]["fields"][0]["type"] == {"type": "array", "elementType": "integer", "containsNull": True}


def test_partition_columns_go_to_the_end_of_sparks_schema() -> None:
    schema = pa.schema([("day", pa.string()), ("id", pa.int64()), ("city", pa.string())])

    found = spark_schema_properties(schema, ("city", "day", "gone"), 60)

    count = int(found["spark.sql.sources.schema.numParts"])
    text = "".join(found[f"spark.sql.sources.schema.part.{number}"] for number in range(count))
    assert [field["name"] for field in json.loads(text)["fields"]] == ["id", "city", "day"]
    assert [found[f"spark.sql.sources.schema.partCol.{number}"] for number in range(3)] == ["city", "day", "gone"]


def test_type_that_catalogs_do_not_have_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedFeatureError, match="no type for a column"):
        hive_type(pa.duration("s"), as_timestamps=False)
