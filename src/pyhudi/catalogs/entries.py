"""The entries of a table in a catalog, and the values of its partitions there, as JVM Hudi's HiveSyncTool has them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

import pyarrow as pa

from pyhudi.catalogs.hive_types import hive_type, spark_schema_properties
from pyhudi.catalogs.protocol import CatalogColumn, CatalogTable, StorageFormat
from pyhudi.config.enums import TableType
from pyhudi.config.options_catalogs import CatalogOptions, Extractor, TableStrategy
from pyhudi.errors import ConfigError, InvalidRequestError
from pyhudi.format.keys.partition_paths import unescape_value
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
_DAY_PARTS, _HOUR_PARTS = 3, 4


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


def values_of_path(
    path: str, fields: Sequence[str], *, extractor: Extractor | None, hive_style: bool, decodes: bool
) -> tuple[str, ...]:
    """The values of the partition columns of a partition.

    Raises:
        ConfigError: the path does not have the form that the extractor asks for, or another number of values.
    """
    values = _extracted(path, fields, extractor, hive_style=hive_style)
    if len(values) != len(fields):
        raise ConfigError(
            f"the path of a partition has {len(values)} values for {len(fields)} partition columns: name these in "
            "hoodie.datasource.hive_sync.partition_fields, or another "
            "hoodie.datasource.hive_sync.partition_extractor_class",
            partition_path=path,
            partition_columns=tuple(fields),
        )
    return tuple(map(unescape_value, values)) if decodes else values


def _extracted(path: str, fields: Sequence[str], extractor: Extractor | None, *, hive_style: bool) -> tuple[str, ...]:
    if extractor is Extractor.NONE:
        return ()
    parts = path.split("/")
    if extractor is Extractor.SINGLE_PART or (extractor is None and len(fields) == 1 and len(parts) > 1):
        return (path,)
    if extractor is Extractor.HIVE_STYLE:
        _, separator, value = path.partition("=")
        if not separator or "/" in path:
            raise ConfigError("the path of a partition is not in the form name=value", partition_path=path)
        return (value,)
    if extractor in {Extractor.SLASH_DAY, Extractor.SLASH_HOUR}:
        return (_date_of(path, parts, _DAY_PARTS if extractor is Extractor.SLASH_DAY else _HOUR_PARTS),)
    strips = hive_style or extractor is Extractor.MULTI_PART
    return tuple(part.partition("=")[2] if strips and "=" in part else part for part in parts)


def _date_of(path: str, parts: Sequence[str], count: int) -> str:
    """`2024-01-31`, or `2024-01-31-07`, of the parts `2024/1/31`, with names or without."""
    try:
        numbers = [int(part.rpartition("=")[2]) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) != count:
        form = "yyyy/mm/dd" if count == _DAY_PARTS else "yyyy/mm/dd/HH"
        raise ConfigError(f"the path of a partition is not in the form {form}", partition_path=path)
    return "-".join([f"{numbers[0]:04}", *(f"{number:02}" for number in numbers[1:])])
