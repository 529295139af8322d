"""The columns of a table in the words of Hive and of Spark, as JVM Hudi 1.2.0 writes them into a catalog."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.types as pat

from pyhudi.errors import UnsupportedFeatureError


def hive_type(kind: pa.DataType, *, as_timestamps: bool) -> str:
    """Hive's type of a column, in lower case and without blanks. `as_timestamps`: else they are `bigint`."""
    if pat.is_struct(kind):
        fields = ",".join(
            f"{field.name.lower()}:{hive_type(field.type, as_timestamps=as_timestamps)}" for field in kind
        )
        return f"struct<{fields}>"
    if pat.is_map(kind):
        value = hive_type(kind.item_type, as_timestamps=as_timestamps)
        return f"map<{hive_type(kind.key_type, as_timestamps=as_timestamps)},{value}>"
    if pat.is_list(kind) or pat.is_large_list(kind):
        return f"array<{hive_type(kind.value_type, as_timestamps=as_timestamps)}>"
    if pat.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pat.is_timestamp(kind):
        return "timestamp" if as_timestamps else "bigint"
    return _plain_name(kind, _HIVE_NAMES)


def spark_schema(schema: Iterable[pa.Field]) -> str:
    """The JSON text of Spark's schema."""
    return _spark_struct(schema)


def spark_schema_properties(schema: pa.Schema, partition_columns: Sequence[str], part_length: int) -> dict[str, str]:
    """The properties by which Spark finds its schema in a catalog. Partition columns go to the end, in their order."""
    data = [column for column in schema if column.name not in partition_columns]
    text = spark_schema([*data, *(schema.field(name) for name in partition_columns if name in schema.names)])
    parts = [text[start : start + part_length] for start in range(0, len(text), part_length)]
    properties = {"spark.sql.sources.schema.numParts": str(len(parts))}
    properties |= {f"spark.sql.sources.schema.part.{number}": part for number, part in enumerate(parts)}
    if partition_columns:
        properties["spark.sql.sources.schema.numPartCols"] = str(len(partition_columns))
    return properties | {
        f"spark.sql.sources.schema.partCol.{number}": name for number, name in enumerate(partition_columns)
    }


def _spark_struct(fields: Iterable[pa.Field]) -> str:
    columns = ",".join(
        f'{{"name":{json.dumps(field.name, ensure_ascii=False)},"type":{_spark_type(field.type)},'
        f'"nullable":{_word(field.nullable)},"metadata":{{}}}}'
        for field in fields
    )
    return f'{{"type":"struct","fields":[{columns}]}}'


def _spark_type(kind: pa.DataType) -> str:
    # The blank behind the first comma is JVM Hudi's: equal texts make no change in the catalog.
    if pat.is_struct(kind):
        return _spark_struct(kind)
    if pat.is_map(kind):
        key, value = _spark_type(kind.key_type), _spark_type(kind.item_type)
        nulls = _word(kind.item_field.nullable)
        return f'{{"type":"map", "keyType":{key},"valueType":{value},"valueContainsNull":{nulls}}}'
    if pat.is_list(kind) or pat.is_large_list(kind):
        nulls = _word(kind.value_field.nullable)
        return f'{{"type":"array", "elementType":{_spark_type(kind.value_type)},"containsNull":{nulls}}}'
    if pat.is_decimal(kind):
        return f'"decimal({kind.precision},{kind.scale})"'
    if pat.is_timestamp(kind):
        return '"timestamp"' if kind.tz is not None else '"timestamp_ntz"'
    return json.dumps(_plain_name(kind, _SPARK_NAMES))


def _word(truth: bool) -> str:
    return "true" if truth else "false"


def _plain_name(kind: pa.DataType, names: dict[str, str]) -> str:
    family = "binary" if pat.is_fixed_size_binary(kind) or pat.is_large_binary(kind) else str(kind)
    if pat.is_time(kind):
        family = f"time{kind.bit_width}"
    name = names.get(family.removeprefix("large_"))
    if name is None:
        raise UnsupportedFeatureError("catalogs have no type for a column of this type", type=str(kind))
    return name


_HIVE_NAMES = {
    "bool": "boolean",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date32[day]": "date",
    "time32": "int",
    "time64": "bigint",
}
_SPARK_NAMES = {
    **_HIVE_NAMES,
    "int8": "integer",
    "int16": "integer",
    "int32": "integer",
    "int64": "long",
    "time32": "integer",
    "time64": "long",
}
