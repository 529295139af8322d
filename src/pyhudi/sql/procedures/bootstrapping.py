"""Procedures of bootstrapped tables: making one, and what its index says; and the import of Parquet files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

from pyhudi.api.hudi_table import HudiTable
from pyhudi.config.enums import TableType
from pyhudi.errors import ConfigError, InvalidRequestError, NotFoundError, UnsupportedFeatureError
from pyhudi.format.bootstrap_index import (
    PARTITIONS_PATH,
    SourcePartition,
    decode_source_folder,
    decode_source_partition,
)
from pyhudi.format.properties import PROPERTIES_BYTES_MAX, parse_properties
from pyhudi.io.hfile import open_hfile_of
from pyhudi.sql.procedures.call_context import CallContext, Given, options_of, renamed
from pyhudi.sql.procedures.declared import (
    FILTER,
    TABLE,
    TABLE_OR_PATH,
    Rows,
    flag,
    needed,
    number,
    procedure,
    text,
)
from pyhudi.storage.bounded import read_at_most
from pyhudi.table.state import TableState

_HUDI = "org.apache.hudi."
_SELECTORS = f"{_HUDI}client.bootstrap.selector."
_INDEX = f"{_HUDI}common.bootstrap.index.hfile.HFileBootstrapIndex"
_PROVIDER = f"{_HUDI}bootstrap.SparkParquetBootstrapDataProvider"
_REGEX_OPTIONS = ("hoodie.bootstrap.mode.selector.regex", "hoodie.bootstrap.mode.selector.regex.mode")
_COMMANDS = {"insert": "insert", "upsert": "upsert", "bulkinsert": "bulk_insert"}
_SORTS = {"partition": 0, "file_id": 1, "source_base_path": 2, "source_partition": 3, "source_file": 4}


@procedure(
    TABLE,
    needed("table_type"),
    needed("bootstrap_path"),
    needed("base_path"),
    needed("rowKey_field"),
    text("base_file_format", "PARQUET"),
    text("partition_path_field", ""),
    text("bootstrap_index_class", _INDEX),
    text("selector_class", f"{_SELECTORS}MetadataOnlyBootstrapModeSelector"),
    text("key_generator_class", f"{_HUDI}keygen.SimpleKeyGenerator"),
    text("full_bootstrap_input_provider", _PROVIDER),
    text("schema_provider_class", ""),
    text("payload_class", f"{_HUDI}common.model.OverwriteWithLatestAvroPayload"),
    number("parallelism", 1500),
    flag("enable_hive_sync", False),
    text("props_file_path", ""),
    flag("bootstrap_overwrite", False),
    text("options"),
    answer="status int",
)
def run_bootstrap(context: CallContext, given: Given) -> Rows:
    """Makes a folder of Parquet files a table, without rewriting its data."""
    _check_bootstrap(given)
    renames = {"payload_class": "hoodie.datasource.write.payload.class"}
    renames["key_generator_class"] = "hoodie.datasource.write.keygenerator.class"
    options = {**_file_options(context, given), **renamed(given, renames), **options_of(given)}
    if given.flag("enable_hive_sync"):
        options["hoodie.datasource.hive_sync.enable"] = "true"
    regex, regex_mode = (
        options.pop(name, default) for name, default in zip(_REGEX_OPTIONS, (".*", "METADATA_ONLY"), strict=True)
    )
    HudiTable.bootstrap(
        given.text("bootstrap_path"),
        given.text("base_path"),
        record_key=given.words("rowKey_field"),
        partition_by=given.words("partition_path_field") or None,
        mode=_mode(given.text("selector_class"), regex, regex_mode.lower()),
        name=given.text("table").rpartition(".")[2],
        table_type=_short_type(given.text("table_type")),
        spark=context.spark,
        hudi_options=options,
    )
    return [(0,)]


def _check_bootstrap(given: Given) -> None:
    only = {"base_file_format": "PARQUET", "bootstrap_index_class": _INDEX, "full_bootstrap_input_provider": _PROVIDER}
    for name, value in only.items():
        if given.text(name).lower() != value.lower():
            raise UnsupportedFeatureError(f"{name} can only be {value}", given=given.text(name))
    refused = {
        "bootstrap_overwrite": "nothing is deleted before a bootstrap: remove the folder base_path, then call again",
    }
    for name, reason in refused.items():
        if given.flag(name):
            raise UnsupportedFeatureError(reason, parameter=name)
    if given.text("schema_provider_class"):
        raise UnsupportedFeatureError(
            "the schema of the source is that of its files", parameter="schema_provider_class"
        )


def _file_options(context: CallContext, given: Given) -> dict[str, str]:
    path = given.text("props_file_path")
    if not path:
        return {}
    folder, _, name = path.rpartition("/")
    return parse_properties(read_at_most(context.storage(folder or "."), name, PROPERTIES_BYTES_MAX), path=path)


def _mode(selector: str, regex: str, regex_mode: str) -> str | Callable[[str], str]:
    kinds = {"MetadataOnlyBootstrapModeSelector": "metadata_only", "FullRecordBootstrapModeSelector": "full_record"}
    name = selector.removeprefix(_SELECTORS)
    if name in kinds:
        return kinds[name]
    if name != "BootstrapRegexModeSelector":
        raise UnsupportedFeatureError(
            f"selector_class must be one of {', '.join((*kinds, 'BootstrapRegexModeSelector'))}", given=selector
        )
    other = "full_record" if regex_mode == "metadata_only" else "metadata_only"
    return lambda path: regex_mode if re.fullmatch(regex, path) else other


def _short_type(word: str) -> str:
    known = {TableType.COPY_ON_WRITE.value: "cow", TableType.MERGE_ON_READ.value: "mor"}
    return known.get(word.upper(), word)


@procedure(
    *TABLE_OR_PATH,
    text("partition_path", ""),
    text("file_ids", ""),
    number("limit", 10),
    text("sort_by", "partition"),
    flag("desc", False),
    FILTER,
    answer="partition string, file_id string, source_base_path string, source_partition string, source_file string",
    limits_rows=True,
)
def show_bootstrap_mapping(context: CallContext, given: Given) -> Rows:
    """The source files of a bootstrapped table, and the file groups that they belong to."""
    table = context.table(given).handle.state
    partition, file_ids = given.text("partition_path"), frozenset(given.words("file_ids"))
    if file_ids and not partition:
        raise ConfigError("file_ids are those of one partition: give partition_path, too")
    by = given.text("sort_by").lower()
    if by not in _SORTS:
        raise ConfigError(f"sort_by must be one of {', '.join(_SORTS)}", sort_by=by)
    rows = [
        (source.partition_path, file_id, folder, source.source_path, status.uri)
        for folder, source in _sources(table)
        for file_id, status in source.files.items()
        if (not partition or source.partition_path == partition) and (not file_ids or file_id in file_ids)
    ]
    return sorted(rows, key=lambda row: (row[_SORTS[by]], row), reverse=given.flag("desc"))


@procedure(*TABLE_OR_PATH, FILTER, answer="indexed_partitions string")
def show_bootstrap_partitions(context: CallContext, given: Given) -> Rows:
    """The partitions of a bootstrapped table that have files in the source."""
    return [
        (path,)
        for path in sorted(partition.partition_path for _, partition in _sources(context.table(given).handle.state))
    ]


def _sources(table: TableState) -> Iterator[tuple[str, SourcePartition]]:
    """The folder of the source, and each of its partitions. Cost: the bootstrap index, a block at a time."""
    try:
        reader = open_hfile_of(table.storage, PARTITIONS_PATH)
    except NotFoundError as error:
        raise InvalidRequestError("this table was not bootstrapped: it has no index of source files") from error
    with reader:
        folder = decode_source_folder(reader.file.file_info, path=PARTITIONS_PATH)
        for _, values in reader.file.blocks():
            for value in values:
                yield folder, decode_source_partition(value.as_py(), path=PARTITIONS_PATH)


@procedure(
    TABLE,
    needed("table_type"),
    needed("src_path"),
    needed("target_path"),
    needed("row_key"),
    needed("partition_key"),
    needed("schema_file_path"),
    text("command", "insert"),
    number("retry", 0),
    number("parallelism", 2),
    text("props_file_path", ""),
    answer="import_result int",
)
def hdfs_parquet_import(context: CallContext, given: Given) -> Rows:
    """Writes the rows of Parquet files to a table."""
    command = given.text("command").lower()
    if command not in _COMMANDS:
        raise ConfigError(f"command must be one of {', '.join(_COMMANDS)}", command=command)
    folder, _, name = given.text("schema_file_path").rpartition("/")
    data = read_at_most(context.storage(folder or "."), name, PROPERTIES_BYTES_MAX)
    try:
        names = [field["name"] for field in json.loads(data)["fields"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError("schema_file_path must name a file with an Avro record schema", path=name) from error
    rows = context.spark.read.parquet(given.text("src_path"))
    chosen = rows.select(*(f"`{name.replace('`', '``')}`" for name in names))
    options = {
        "hoodie.table.name": given.text("table").rpartition(".")[2],
        "hoodie.datasource.write.table.type": given.text("table_type"),
        "hoodie.datasource.write.recordkey.field": given.text("row_key"),
        "hoodie.datasource.write.partitionpath.field": given.text("partition_key"),
        "hoodie.datasource.write.operation": _COMMANDS[command],
        **_file_options(context, given),
    }
    chosen.write.format("hudi").options(**options).mode("append").save(given.text("target_path"))
    return [(0,)]
