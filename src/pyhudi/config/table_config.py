"""Table properties (`.hoodie/hoodie.properties`), typed: reading them, making them, checking options against them.

Hudi 1.2.0 mixes old and new spellings of properties in tables of old versions, so both are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyhudi.config.bucket_properties import new_bucket_properties
from pyhudi.config.enums import IndexType, MergeMode, PartialUpdateMode, TableType, TimelineTimezone
from pyhudi.config.merge_properties import new_merge_properties, read_merging, stored_ordering_fields
from pyhudi.config.option import options_of, text_of
from pyhudi.config.options_merging import BUILT_IN_MERGERS, MERGERS_KEY
from pyhudi.config.options_table import KeyOptions
from pyhudi.config.payloads import rule_of_payload
from pyhudi.config.property_reader import Properties
from pyhudi.config.write_config import WriteConfig, split_partition_field
from pyhudi.errors import ConfigError, CorruptDataError, UnsupportedFeatureError
from pyhudi.format.keys.generator_types import (
    KEY_GENERATOR_CLASSES,
    KeyGeneratorType,
    PartitionFieldKind,
    infer_key_generator,
    key_generator_type,
)
from pyhudi.format.log.cdc import LoggingMode
from pyhudi.format.timeline.table_version import MergeRuleSource, TableVersion, table_version

_EXTRACTOR_PACKAGE = "org.apache.hudi.hive."
_CHANGE_DATA_MODE = "hoodie.table.cdc.supplemental.logging.mode"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConfig:
    """The properties of a table, typed.

    The merge fields are in the terms of version 9, whatever the table's version: a payload class that version 9
    translates appears as the mode, fields and markers that it stands for.

    Attributes:
        values: All properties as text, including those that pyhudi does not know.
        record_key_fields: Empty for a table with generated keys.
        partition_fields: Empty for a table without partitions. None if no property tells whether there are partitions.
        partition_kinds: One entry per partition field of a CUSTOM key generator whose table stores the kinds. Empty
            otherwise.
        unavailable_value: Text that stands for a value that the source did not send; only with FILL_UNAVAILABLE.
        delete_marker: A column, and the value of it that makes a row a delete.
        merger_name: The merger of pyhudi, if the mode is CUSTOM. None if only JVM Hudi can merge the table.
        merger_options: The options of that merger, as text.
    """

    path: str
    values: Mapping[str, str] = field(repr=False, hash=False)
    version: TableVersion
    name: str
    database: str
    table_type: TableType
    record_key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...] | None
    partition_kinds: tuple[PartitionFieldKind, ...]
    ordering_fields: tuple[str, ...]
    key_generator_type: KeyGeneratorType
    payload_class: str | None
    merge_mode: MergeMode
    partial_update_mode: PartialUpdateMode
    unavailable_value: str | None
    delete_marker: tuple[str, str] | None
    merger_name: str | None
    merger_options: str | None
    hive_style: bool
    url_encode: bool
    populate_meta_fields: bool
    drop_partition_columns: bool
    cdc_enabled: bool
    change_data_mode: LoggingMode
    base_file_format: str
    timeline_timezone: TimelineTimezone
    timeline_path: str
    history_path: str
    metadata_partitions: tuple[str, ...]
    metadata_partitions_inflight: tuple[str, ...]
    create_schema: str | None

    @staticmethod
    def from_properties(values: Mapping[str, str], *, path: str) -> TableConfig:
        """Read the properties of the file at `path`.

        Raises:
            CorruptDataError: a required property is missing, or a value is illegal.
            UnsupportedFeatureError: this release does not support the table version.
        """
        return _read(Properties(values, path))

    @property
    def is_partitioned(self) -> bool:
        """Whether data files are in partition folders."""
        return bool(self.partition_fields)

    @property
    def leaves_merging_to_writes(self) -> bool:
        """Whether the options of each write decide how versions merge: no property does, and readers need not know."""
        is_silent = self.payload_class is None and not self.values.get("hoodie.record.merge.mode")
        return (
            is_silent
            and self.version.merge_rule is MergeRuleSource.PAYLOAD_CLASS
            and self.table_type is TableType.COPY_ON_WRITE
        )


def _read(properties: Properties) -> TableConfig:
    version = _read_version(properties)
    partition_fields, partition_kinds = _read_partition_fields(properties)
    record_key_fields = properties.names("hoodie.table.recordkey.fields")
    merging = read_merging(properties, version)
    return TableConfig(
        path=properties.path,
        values=dict(properties.values),
        version=version,
        name=properties.required("hoodie.table.name"),
        database=properties.values.get("hoodie.database.name", ""),
        table_type=properties.parsed("hoodie.table.type", TableType.COPY_ON_WRITE, TableType),
        record_key_fields=record_key_fields,
        partition_fields=partition_fields,
        partition_kinds=partition_kinds,
        ordering_fields=merging.ordering_fields,
        key_generator_type=_read_key_generator(properties, record_key_fields),
        payload_class=merging.payload_class,
        merge_mode=merging.mode,
        partial_update_mode=merging.partial_update_mode,
        unavailable_value=merging.unavailable_value,
        delete_marker=merging.delete_marker,
        merger_name=merging.merger_name,
        merger_options=merging.merger_options,
        hive_style=properties.flag("hoodie.datasource.write.hive_style_partitioning"),
        url_encode=properties.flag("hoodie.datasource.write.partitionpath.urlencode"),
        populate_meta_fields=properties.flag("hoodie.populate.meta.fields", default=True),
        drop_partition_columns=properties.flag("hoodie.datasource.write.drop.partition.columns"),
        cdc_enabled=properties.flag("hoodie.table.cdc.enabled"),
        change_data_mode=properties.parsed(
            _CHANGE_DATA_MODE, LoggingMode.DATA_BEFORE_AFTER, lambda text: LoggingMode(text.upper())
        ),
        base_file_format=(properties.text("hoodie.table.base.file.format") or "PARQUET").upper(),
        timeline_timezone=properties.parsed(
            "hoodie.table.timeline.timezone",
            TimelineTimezone.LOCAL,
            lambda text: TimelineTimezone(text.upper()),
        ),
        timeline_path=properties.text("hoodie.timeline.path") or "timeline",
        history_path=_history_path(properties, version),
        metadata_partitions=properties.names("hoodie.table.metadata.partitions"),
        metadata_partitions_inflight=properties.names("hoodie.table.metadata.partitions.inflight"),
        create_schema=properties.text("hoodie.table.create.schema"),
    )


def _history_path(properties: Properties, version: TableVersion) -> str:
    """The folder of the archived timeline. Each timeline layout has its own property; tables may have both."""
    return properties.text(version.history_property) or version.history_folder.rpartition("/")[2]


def _read_version(properties: Properties) -> TableVersion:
    properties.required("hoodie.table.version")
    number = properties.parsed("hoodie.table.version", 0, int)
    try:
        version = table_version(number)
    except UnsupportedFeatureError as error:
        raise UnsupportedFeatureError(error.message, path=properties.path) from error
    layout = properties.parsed("hoodie.timeline.layout.version", version.layout_version, int)
    if layout != version.layout_version:
        raise CorruptDataError(
            f"hoodie.timeline.layout.version is {layout}, but version {version} has {version.layout_version}",
            path=properties.path,
        )
    return version


def _read_partition_fields(
    properties: Properties,
) -> tuple[tuple[str, ...] | None, tuple[PartitionFieldKind, ...]]:
    if "hoodie.table.partition.fields" not in properties.values:
        # JVM Hudi's SQL omits the property for a table without partitions, and names the key generator.
        return () if _named_key_generator(properties) is KeyGeneratorType.NON_PARTITION else None, ()
    declared = [name.partition(":") for name in properties.names("hoodie.table.partition.fields")]
    names = tuple(name for name, _, _ in declared)
    if not declared or not all(kind for _, _, kind in declared):
        return names, ()
    try:
        return names, tuple(PartitionFieldKind(kind.upper()) for _, _, kind in declared)
    except ValueError as error:
        raise CorruptDataError(
            f"hoodie.table.partition.fields cannot be {properties.values['hoodie.table.partition.fields']!r}",
            path=properties.path,
        ) from error


def _read_key_generator(properties: Properties, record_key_fields: tuple[str, ...]) -> KeyGeneratorType:
    named = _named_key_generator(properties)
    return named or infer_key_generator(record_key_fields, properties.names("hoodie.table.partition.fields"))


def _named_key_generator(properties: Properties) -> KeyGeneratorType | None:
    """The key generator that the table names, or None."""
    named = properties.text("hoodie.table.keygenerator.type", "hoodie.table.keygenerator.class")
    return key_generator_type(named) if named else None


def new_table_properties(
    config: WriteConfig,
    *,
    checksum: str,
    create_schema: str | None = None,
    merger: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The properties of the new table that the options of a write describe.

    Args:
        config: The options.
        checksum: The checksum of the database and table name (`pyhudi.format.properties.table_checksum`).
        create_schema: The Avro schema of the table as JSON.
        merger: The properties that name the merger, if they differ from the options.

    Raises:
        ConfigError: a required option is missing, or the table version does not support an option.
    """
    table, version = config.table, config.new_table_version
    if table.name is None:
        raise ConfigError("a new table needs a name: set hoodie.table.name")
    key_generator = _key_generator(config)
    properties = {
        "hoodie.table.name": table.name,
        "hoodie.table.type": (table.table_type or TableType.COPY_ON_WRITE).value,
        **version.new_table_properties,
        "hoodie.table.version": str(version.number),
        "hoodie.timeline.layout.version": str(version.layout_version),
        "hoodie.table.checksum": checksum,
        "hoodie.table.partition.fields": _partition_fields(config, key_generator),
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.populate.meta.fields": "true",
        "hoodie.datasource.write.hive_style_partitioning": text_of(bool(table.hive_style)),
        "hoodie.datasource.write.partitionpath.urlencode": text_of(bool(table.url_encode)),
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.table.cdc.enabled": text_of(bool(table.cdc_enabled)),
        "hoodie.partition.metafile.use.base.format": "false",
        "hoodie.table.timeline.timezone": (table.timezone or TimelineTimezone.LOCAL).value,
    }
    if table.cdc_enabled:
        properties[_CHANGE_DATA_MODE] = (table.change_data_mode or LoggingMode.DATA_BEFORE_AFTER).value
    if table.record_key_fields:
        properties["hoodie.table.recordkey.fields"] = ",".join(table.record_key_fields)
    if table.database is not None:
        properties["hoodie.database.name"] = table.database
    if create_schema is not None:
        properties["hoodie.table.create.schema"] = create_schema
    if version.has_generator_types:
        properties["hoodie.table.keygenerator.type"] = key_generator.value
    else:
        properties["hoodie.table.keygenerator.class"] = KEY_GENERATOR_CLASSES[key_generator]
    properties |= new_merge_properties(config, merger)
    if key_generator is KeyGeneratorType.TIMESTAMP:
        properties |= _timestamp_properties(config.keys)
    if config.index.index_type is IndexType.BUCKET:
        properties |= new_bucket_properties(config)
    if version.has_partition_extractor:
        properties["hoodie.table.partition_extractor_class"] = _extractor(config)
    return properties


def _key_generator(config: WriteConfig) -> KeyGeneratorType:
    table, fields = config.table, config.table.partition_fields or ()
    kind = config.key_generator_type or infer_key_generator(table.record_key_fields or (), fields)
    if kind is not KeyGeneratorType.NON_PARTITION and not fields:
        raise ConfigError(
            f"a {kind.value} key generator needs hoodie.datasource.write.partitionpath.field; without "
            "partitions use NON_PARTITION"
        )
    if kind is not KeyGeneratorType.CUSTOM and any(":" in declared for declared in fields):
        raise ConfigError(
            f"partition fields of the form `column:KIND` need the CUSTOM key generator, not {kind.value}",
            partition_fields=fields,
        )
    if kind is KeyGeneratorType.TIMESTAMP and (config.keys.timestamp_type is None or config.keys.output_format is None):
        raise ConfigError(
            "a TIMESTAMP key generator needs hoodie.keygen.timebased.timestamp.type and "
            "hoodie.keygen.timebased.output.dateformat"
        )
    return kind


def _partition_fields(config: WriteConfig, key_generator: KeyGeneratorType) -> str:
    fields = config.table.partition_fields or ()
    if key_generator is KeyGeneratorType.CUSTOM and not config.new_table_version.has_generator_types:
        # The table stores the names only: every write has to name the kinds again.
        fields = tuple(split_partition_field(declared)[0] for declared in fields)
    return ",".join(fields)


def _timestamp_properties(keys: KeyOptions) -> dict[str, str]:
    """The options of a TIMESTAMP key generator that differ from their defaults."""
    properties = {}
    for name, declared in options_of(KeyOptions):
        value = getattr(keys, name)
        if declared.key.startswith("hoodie.keygen.timebased.") and value != declared.default:
            properties[declared.key] = text_of(getattr(value, "value", value))
    return properties


def _extractor(config: WriteConfig) -> str:
    """The class by which JVM Hudi's catalog sync splits partition paths."""
    fields = config.table.partition_fields or ()
    if not fields:
        return f"{_EXTRACTOR_PACKAGE}NonPartitionedExtractor"
    if len(fields) > 1:
        return f"{_EXTRACTOR_PACKAGE}MultiPartKeysValueExtractor"
    if config.table.hive_style:
        return f"{_EXTRACTOR_PACKAGE}HiveStylePartitionValueExtractor"
    return f"{_EXTRACTOR_PACKAGE}SinglePartPartitionValueExtractor"


@dataclass(frozen=True, slots=True)
class Conflict:
    """An option of a write that contradicts the table's properties."""

    key: str
    given: Any
    of_table: Any

    def __str__(self) -> str:
        return f"{self.key} is {_shown(self.given)}, the table has {_shown(self.of_table)}"


def check_against_table(config: WriteConfig, table: TableConfig) -> None:
    """Check that the options of a write agree with the table's properties. Options that are not given always agree.

    Raises:
        ConfigError: options conflict with the table; the error lists all of them.
    """
    conflicts = tuple(_conflicts(config, table))
    if conflicts:
        raise ConfigError(
            "options conflict with the table: leave them out, or write to another table: "
            + "; ".join(str(conflict) for conflict in conflicts),
            path=table.path,
            keys=tuple(conflict.key for conflict in conflicts),
        )


def as_merged_by(config: WriteConfig, table: TableConfig, merger: Mapping[str, str] | None = None) -> TableConfig:
    """The table with the merge rule that applies to a write: its own, or that of the options if it has none.

    JVM Hudi 0.15.0 stores no payload class in a copy-on-write table, and takes it from the options of each write.
    `merger` are the properties that name the merger of the options.

    Raises:
        ConfigError: a required option is missing.
    """
    if not table.leaves_merging_to_writes:
        return table
    ordering = table.ordering_fields or config.table.ordering_fields
    asked = replace(config.table, version=table.version, ordering_fields=ordering)
    rule = new_merge_properties(replace(config, table=asked), merger)
    return TableConfig.from_properties({**table.values, **rule}, path=table.path)


def _goes_by(table: TableConfig, payload: str) -> bool:
    """Whether a payload class means the merge rule of the table."""
    rule = rule_of_payload(payload)
    return (
        rule.merge_mode is table.merge_mode
        and rule.partial_update_mode is table.partial_update_mode
        and rule.delete_marker in {None, table.delete_marker}
    )


def _conflicts(config: WriteConfig, table: TableConfig) -> Iterator[Conflict]:
    given = config.table
    kinds = None
    names = None
    if given.partition_fields is not None:
        split = [split_partition_field(declared) for declared in given.partition_fields]
        names = tuple(name for name, _ in split)
        kinds = tuple(kind for _, kind in split if kind is not None) or None
    compared = (
        ("hoodie.table.name", given.name, table.name),
        ("hoodie.write.table.version", given.version and given.version.number, table.version.number),
        ("hoodie.datasource.write.table.type", given.table_type, table.table_type),
        ("hoodie.datasource.write.recordkey.field", given.record_key_fields, table.record_key_fields),
        ("hoodie.datasource.write.partitionpath.field", names, table.partition_fields),
        ("hoodie.datasource.write.partitionpath.field", kinds, table.partition_kinds or kinds),
        ("hoodie.table.ordering.fields", _ordering_that_counts(config, table), table.ordering_fields),
        ("hoodie.datasource.write.keygenerator.type", config.key_generator_type, table.key_generator_type),
        ("hoodie.datasource.write.hive_style_partitioning", given.hive_style, table.hive_style),
        ("hoodie.datasource.write.partitionpath.urlencode", given.url_encode, table.url_encode),
        ("hoodie.populate.meta.fields", given.populate_meta_fields, table.populate_meta_fields),
        (
            "hoodie.datasource.write.drop.partition.columns",
            given.drop_partition_columns,
            table.drop_partition_columns,
        ),
        # A write whose options ask for it switches it on; only `alter` switches it off.
        ("hoodie.table.cdc.enabled", given.cdc_enabled if table.cdc_enabled else None, table.cdc_enabled),
        (_CHANGE_DATA_MODE, given.change_data_mode if table.cdc_enabled else None, table.change_data_mode),
        ("hoodie.record.merge.mode", config.named_merge_mode, table.merge_mode),
        ("hoodie.payload.delete.field", config.delete_marker, table.delete_marker),
    )
    for key, asked, of_table in compared:
        if asked is not None and asked != of_table:
            yield Conflict(key, asked, of_table)
    if given.payload is not None and not _goes_by(table, given.payload):
        yield Conflict("hoodie.datasource.write.payload.class", given.payload, _rule_text(table))
    yield from _merger_conflicts(config, table)


def _ordering_that_counts(config: WriteConfig, table: TableConfig) -> tuple[str, ...] | None:
    """The ordering fields of the options; None if a payload class of the options or of the table overrides them."""
    given = config.table.ordering_fields
    is_forced = config.table.payload is not None and rule_of_payload(config.table.payload).ordering_fields
    if is_forced or given == stored_ordering_fields(Properties(table.values, table.path)):
        return None
    return given


def _merger_conflicts(config: WriteConfig, table: TableConfig) -> Iterator[Conflict]:
    """Conflicts of named mergers. Names of custom classes, and options, are compared when the merger is loaded."""
    mergers = config.merging.mergers
    is_known = table.merger_name is None or set(mergers) <= set(BUILT_IN_MERGERS)
    if mergers and is_known and table.merger_name not in mergers:
        yield Conflict(MERGERS_KEY, mergers, table.merger_name)


def _rule_text(table: TableConfig) -> str:
    """The merge rule of the table, as text for messages."""
    partial = table.partial_update_mode
    updates = "" if partial is PartialUpdateMode.NONE else f" and {partial.value}"
    return f"the rule {table.merge_mode.value}{updates}"


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return repr(",".join(_shown(part).strip("'") for part in value)) if value else "none"
    return repr(getattr(value, "value", value))
