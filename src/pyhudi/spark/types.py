"""Conversion between Spark types and Arrow types, for the types that a Hudi table can store.

It does not use `pyspark.sql.pandas.types`: its signatures change between releases, and it accepts types that
Avro and Hudi do not have.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as spark_types

from pyhudi.errors import SchemaMismatchError, UnsupportedFeatureError
from pyhudi.spark.capabilities import has_other_collation

_DECIMAL_PRECISION_MAX = 38

_ARROW_OF: dict[type[spark_types.DataType], pa.DataType] = {
    spark_types.BooleanType: pa.bool_(),
    spark_types.ByteType: pa.int8(),
    spark_types.ShortType: pa.int16(),
    spark_types.IntegerType: pa.int32(),
    spark_types.LongType: pa.int64(),
    spark_types.FloatType: pa.float32(),
    spark_types.DoubleType: pa.float64(),
    spark_types.StringType: pa.string(),
    spark_types.BinaryType: pa.binary(),
    spark_types.DateType: pa.date32(),
    spark_types.TimestampType: pa.timestamp("us", tz="UTC"),
    spark_types.TimestampNTZType: pa.timestamp("us"),
}


def arrow_schema(schema: spark_types.StructType) -> pa.Schema:
    """The Arrow schema of a Spark schema: same names, order and nullability; timestamps in UTC.

    Raises:
        SchemaMismatchError: a column has a type that Hudi cannot store; the message names the column.
    """
    return pa.schema([_arrow_field(field, field.name) for field in schema.fields])


def spark_schema(schema: pa.Schema) -> spark_types.StructType:
    """The Spark schema with which Spark reads files of this Arrow schema. All columns are nullable.

    Raises:
        UnsupportedFeatureError: Spark has no type for a column; the message names the column.
    """
    return spark_types.StructType([_spark_field(field, field.name) for field in schema])


def _arrow_field(field: spark_types.StructField, column: str) -> pa.Field:
    return pa.field(field.name, _arrow_type(field.dataType, column), nullable=field.nullable)


def _arrow_type(kind: spark_types.DataType, column: str) -> pa.DataType:
    """The Arrow type of a Spark type, with Spark's names for the parts of lists and maps.

    `column` is the dotted path of the column for messages.
    """
    # Only exact classes: CharType and user-defined types derive from the types in `_ARROW_OF`, or wrap them.
    if (simple := _ARROW_OF.get(type(kind))) is not None and not _has_collation(kind):
        return simple
    if type(kind) is spark_types.DecimalType:
        return pa.decimal128(kind.precision, kind.scale)
    if type(kind) is spark_types.ArrayType:
        element = pa.field("element", _arrow_type(kind.elementType, f"{column}.element"), kind.containsNull)
        return pa.list_(element)
    if type(kind) is spark_types.MapType:
        key = pa.field("key", _arrow_type(kind.keyType, f"{column}.key"), nullable=False)
        value = pa.field("value", _arrow_type(kind.valueType, f"{column}.value"), kind.valueContainsNull)
        return pa.map_(key, value)
    if type(kind) is spark_types.StructType:
        return pa.struct([_arrow_field(child, f"{column}.{child.name}") for child in kind.fields])
    raise SchemaMismatchError(
        f"column {column!r} has the Spark type {kind.simpleString()}, which a Hudi table cannot store: "
        "cast it before writing",
        column=column,
        type=kind.simpleString(),
    )


def _has_collation(kind: spark_types.DataType) -> bool:
    """Whether text compares by other rules than its bytes. A table would lose them, and with them rows of a query."""
    return isinstance(kind, spark_types.StringType) and has_other_collation(kind)


def _spark_field(field: pa.Field, column: str) -> spark_types.StructField:
    # Always nullable: files of an older schema lack newer columns, and Spark does not check for nulls.
    return spark_types.StructField(field.name, _spark_type(field.type, column), nullable=True)


def _spark_type(kind: pa.DataType, column: str) -> spark_types.DataType:
    if (simple := _simple_spark_type(kind)) is not None:
        return simple
    if pa.types.is_map(kind):
        key = _spark_type(kind.key_type, f"{column}.key")
        return spark_types.MapType(key, _spark_type(kind.item_type, f"{column}.value"), True)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return spark_types.ArrayType(_spark_type(kind.value_type, f"{column}.element"), True)
    if pa.types.is_struct(kind):
        children = [
            _spark_field(kind.field(index), f"{column}.{kind.field(index).name}") for index in range(kind.num_fields)
        ]
        return spark_types.StructType(children)
    raise UnsupportedFeatureError(
        f"column {column!r} has the type {kind}, which Spark cannot read; select other columns through "
        "HudiTable.scan(…).to_arrow()",
        column=column,
        type=str(kind),
    )


def _simple_spark_type(kind: pa.DataType) -> spark_types.DataType | None:
    """The Spark type of an Arrow type without children."""
    if pa.types.is_dictionary(kind):
        return _simple_spark_type(kind.value_type)
    if pa.types.is_timestamp(kind):
        return spark_types.TimestampNTZType() if kind.tz is None else spark_types.TimestampType()
    if pa.types.is_decimal(kind) and kind.precision <= _DECIMAL_PRECISION_MAX:
        return spark_types.DecimalType(kind.precision, kind.scale)
    if pa.types.is_large_string(kind):
        return spark_types.StringType()
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return spark_types.BinaryType()
    return next((spark_kind() for spark_kind, arrow_kind in _ARROW_OF.items() if kind == arrow_kind), None)
