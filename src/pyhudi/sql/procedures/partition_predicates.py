"""The partitions of a table that a SQL condition selects."""

from __future__ import annotations

import pyarrow as pa

from pyhudi.api.hudi_table import HudiTable
from pyhudi.errors import ConfigError
from pyhudi.format.keys.partition_paths import partition_values
from pyhudi.sql.procedures.call_context import CallContext

_PATH = "_pyhudi_partition_path"


def partitions_where(context: CallContext, table: HudiTable, condition: str) -> list[str]:
    """The partition paths whose values meet the condition, which Spark evaluates.

    Raises `ConfigError` for a table without partitions, and a condition that is not one on partition columns.
    """
    config = table.handle.state.config
    fields = config.partition_fields or ()
    if not fields:
        raise ConfigError("the table has no partitions, so there is nothing for a predicate to select")
    schema = table.schema
    paths = table.inspect.partitions().column("partition_path").to_pylist()
    values = [
        partition_values(path, fields, hive_style=config.hive_style, url_encoded=config.url_encode) for path in paths
    ]
    if not paths:
        return []
    rows = [(path, *(one.get(name) for name in fields)) for path, one in zip(paths, values, strict=True)]
    from pyhudi.spark.types import spark_schema  # noqa: PLC0415 - only a predicate needs pyspark

    quoted = ", ".join(f"`{name.replace('`', '``')}` string" for name in fields)
    texts = context.spark.createDataFrame(rows, f"{_PATH} string, {quoted}")
    kinds = spark_schema(pa.schema([schema.field(name) for name in fields])).fields
    typed = texts.select(_PATH, *(texts[f"`{kind.name}`"].cast(kind.dataType).alias(kind.name) for kind in kinds))
    try:
        return sorted(row[0] for row in typed.where(condition).select(_PATH).collect())
    except Exception as error:
        if type(error).__name__ != "AnalysisException":
            raise
        raise ConfigError(
            f"the predicate must be a condition on the partition columns ({', '.join(fields)}): {error}",
            predicate=condition,
        ) from error
