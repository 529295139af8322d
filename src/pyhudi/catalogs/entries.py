"""The entries that a table is to have in a catalog, field by field as JVM Hudi's HiveSyncTool makes them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import pyarrow as pa

from pyhudi.catalogs.hive_types import hive_type, spark_schema_properties
from pyhudi.catalogs.protocol import CatalogColumn, CatalogTable, StorageFormat
from pyhudi.config.enums import TableType
from pyhudi.config.options_catalogs import CatalogOptions, TableStrategy
from pyhudi.errors import InvalidRequestError
from pyhudi.format.schema.meta_columns import with_meta_columns
from pyhudi.table.schema import TableSchema, load_table_schema
from pyhudi.table.state import TableState

TIME_STAMP, COMPLETION_STAMP = "last_commit_time_sync", "last_commit_completion_time_sync"
"""Up to which write an entry is right: the newest requested time, and the newest completion time."""
READ_OPTIMIZED = "hoodie.query.as.ro.table"
PATH = "path"
_INPUT_FORMAT = "org.apache.hudi.hadoop.HoodieParquetInputFormat"
_REALTIME_INPUT_FORMAT = "org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat"
_OUTPUT_FORMAT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"
_SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"


def wanted_entries(table: TableState, options: CatalogOptions) -> tuple[CatalogTable, ...]:
    """The entries of a table, without the stamps. Cost: that of `load_table_schema`.

    Raises:
        InvalidRequestError: the table has no schema yet.
        UnsupportedFeatureError: catalogs have no type for a column.
    """
    schema = load_table_schema(table)
    if schema is None:
        raise InvalidRequestError("the table has no columns yet: write to it first", table=table.storage.uri)
    name = options.table or table.config.name
    return tuple(
        _entry(table, options, schema, name + suffix, realtime=realtime)
        for suffix, realtime in _suffixes(table.config.table_type, options)
    )


def partition_fields_of(table: TableState, options: CatalogOptions) -> tuple[str, ...]:
    """The partition columns of the entries."""
    if options.partition_fields is not None:
        return options.partition_fields
    return tuple(table.config.partition_fields or ())


def location_of(table: TableState, options: CatalogOptions) -> str:
    """The folder of the table as the entries name it: by default as the table was opened; a local one by its path."""
    return (options.base_path or re.sub(r"^file:(//)?(?=/)", "", table.storage.uri)).rstrip("/")


def _suffixes(kind: TableType, options: CatalogOptions) -> tuple[tuple[str, bool], ...]:
    """What is put behind the name for each entry, and whether its reads have the logs."""
    if kind is TableType.COPY_ON_WRITE:
        return (("", False),)
    if options.strategy is not TableStrategy.ALL:
        return (("", options.strategy is TableStrategy.RT),)
    return (("", False), ("_rt", True)) if options.skips_ro_suffix else (("_ro", False), ("_rt", True), ("", True))


def _entry(
    table: TableState, options: CatalogOptions, schema: TableSchema, name: str, *, realtime: bool
) -> CatalogTable:
    columns = schema.arrow if options.omits_meta_columns else with_meta_columns(schema.arrow)
    fields = partition_fields_of(table, options)
    comments = _comments(schema.avro) if options.with_comments else {}
    described = {
        column.name: CatalogColumn(
            column.name.lower(),
            hive_type(column.type, as_timestamps=options.as_timestamps),
            comments.get(column.name, ""),
        )
        for column in columns
    }
    location = location_of(table, options)
    is_read_optimized = table.config.table_type is TableType.MERGE_ON_READ and not realtime
    serde = dict(options.serde_properties)
    parameters = {"EXTERNAL": "TRUE", **dict(options.properties)}
    # JVM Hudi's Spark cannot read the logs of a bootstrapped table by such an entry.
    if options.for_spark and not (table.config.values.get("hoodie.bootstrap.base.path") and realtime):
        serde |= {PATH: location, READ_OPTIMIZED: "true" if is_read_optimized else "false"}
        parameters |= _spark_properties(columns, fields, options)
    return CatalogTable(
        database=options.database.lower(),
        name=name.lower(),
        location=location,
        columns=tuple(column for named, column in described.items() if named not in fields),
        partition_columns=tuple(_partition_column(field, described) for field in fields),
        format=StorageFormat(_REALTIME_INPUT_FORMAT if realtime else _INPUT_FORMAT, _OUTPUT_FORMAT, _SERDE),
        serde_parameters={**serde, "serialization.format": "1"},
        parameters=parameters,
    )


def _partition_column(field: str, described: Mapping[str, CatalogColumn]) -> CatalogColumn:
    return CatalogColumn(field.lower(), described[field].type if field in described else "string")


def _spark_properties(columns: pa.Schema, fields: tuple[str, ...], options: CatalogOptions) -> dict[str, str]:
    version = {} if options.spark_version is None else {"spark.sql.create.version": options.spark_version}
    schema = spark_schema_properties(columns, fields, options.schema_part_length)
    return {"spark.sql.sources.provider": "hudi", **version, **schema}


def _comments(avro: str) -> dict[str, str]:
    """The comments of columns, by name."""
    return {field["name"]: field["doc"] for field in json.loads(avro)["fields"] if field.get("doc")}
