"""Options that describe a table: the properties of a new table, and expectations of an existing one."""

# ruff: noqa: RUF009 - option() declares a field, as dataclasses.field does
from __future__ import annotations

from dataclasses import dataclass

from pyhudi.config.enums import (
    MergeMode,
    TableType,
    TimelineTimezone,
)
from pyhudi.config.jvm_names import BASE_FILE_FORMAT, KEY_GENERATOR_CLASS, MERGE_STRATEGY, TABLE_VERSION
from pyhudi.config.option import option
from pyhudi.config.parsers import (
    NOT_BUILT,
    any_text,
    boolean,
    column_names,
    one_of,
    text,
)
from pyhudi.config.payloads import PAYLOAD
from pyhudi.format.keys.generator_types import KeyGeneratorType
from pyhudi.format.keys.timestamps import TimestampKind, TimeUnit
from pyhudi.format.log.cdc import LoggingMode
from pyhudi.format.timeline.table_version import TableVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """Options about the table itself. They become the properties of a new table.

    For an existing table they are not needed, and must agree with its properties.
    """

    name: str | None = option(
        "hoodie.table.name",
        aliases=("hoodie.datasource.write.table.name",),
        parse=text(),
        default=None,
        doc="The table's name. Needed to create a table.",
    )
    database: str | None = option(
        "hoodie.database.name",
        parse=any_text(),
        default=None,
        doc="The database that catalogs list the table in.",
    )
    table_type: TableType | None = option(
        "hoodie.datasource.write.table.type",
        aliases=("hoodie.table.type", "hoodie.datasource.write.storage.type"),
        parse=one_of(TableType),
        default=None,
        doc="Whether updates rewrite base files, or go to log files that reads merge. Default: COPY_ON_WRITE.",
    )
    version: TableVersion | None = option(
        "hoodie.write.table.version",
        parse=TABLE_VERSION,
        default=None,
        doc="The format version of a new table. Default: 9. A write never upgrades a table: a version other than "
        "the table's own is refused, and `table.alter.upgrade` changes it.",
        by_alter=True,
    )
    record_key_fields: tuple[str, ...] | None = option(
        "hoodie.datasource.write.recordkey.field",
        aliases=("hoodie.table.recordkey.fields",),
        parse=column_names(),
        default=None,
        doc="The columns that identify a record. A new table without them generates keys and takes inserts only.",
    )
    partition_fields: tuple[str, ...] | None = option(
        "hoodie.datasource.write.partitionpath.field",
        aliases=("hoodie.table.partition.fields",),
        parse=column_names(may_be_empty=True),
        default=None,
        doc="The columns of the partition path. A new table without them is not partitioned. CUSTOM key generators "
        "need `column:SIMPLE` or `column:TIMESTAMP`.",
    )
    ordering_fields: tuple[str, ...] | None = option(
        "hoodie.table.ordering.fields",
        aliases=(
            "hoodie.datasource.write.precombine.field",
            "hoodie.table.precombine.field",
            "hoodie.payload.ordering.field",
        ),
        parse=column_names(may_be_empty=True),
        default=None,
        doc="The columns that decide which of two versions of a record is newer. Versions 6 and 8 take one.",
    )
    key_generator_type: KeyGeneratorType | None = option(
        "hoodie.datasource.write.keygenerator.type",
        aliases=("hoodie.table.keygenerator.type",),
        parse=one_of(
            KeyGeneratorType,
            refused={
                "USER_PROVIDED": f"a key generator of your own {NOT_BUILT}",
                "GLOBAL_DELETE": "GLOBAL_DELETE is not needed: delete with a GLOBAL_* index and the table's own keys",
            },
        ),
        default=None,
        doc="How record keys and partition paths are made from columns. Default for a new table: NON_PARTITION without "
        "partition fields, SIMPLE with one key field and one partition field, otherwise COMPLEX.",
    )
    key_generator_class: KeyGeneratorType | None = option(
        "hoodie.datasource.write.keygenerator.class",
        aliases=("hoodie.table.keygenerator.class",),
        parse=KEY_GENERATOR_CLASS,
        default=None,
        doc="The key generator by the name of its class in JVM Hudi.",
    )
    hive_style: bool | None = option(
        "hoodie.datasource.write.hive_style_partitioning",
        parse=boolean(),
        default=None,
        doc="Whether partition folders are named `column=value`. Default for a new table: false.",
    )
    url_encode: bool | None = option(
        "hoodie.datasource.write.partitionpath.urlencode",
        parse=boolean(),
        default=None,
        doc="Whether special characters of partition values are percent-encoded. Default for a new table: false.",
    )
    merge_mode: MergeMode | None = option(
        "hoodie.record.merge.mode",
        aliases=("hoodie.write.record.merge.mode",),
        parse=one_of(MergeMode),
        default=None,
        doc="Which version of a record wins. A new table's is EVENT_TIME_ORDERING if it has ordering "
        "fields (version 6: if a payload class says so), else COMMIT_TIME_ORDERING; CUSTOM if it has a merger.",
    )
    payload: str | None = option(
        "hoodie.datasource.write.payload.class",
        aliases=("hoodie.compaction.payload.class", "hoodie.table.legacy.payload.class"),
        parse=PAYLOAD,
        default=None,
        doc="The older way to say the merge mode, and with it partial updates, delete markers and, for Debezium's "
        "classes, the ordering fields. Each class does what version 9 of Hudi's format takes it for. A table keeps its "
        "rule, and refuses another; only copy-on-write tables of version 6 that name none leave it to each write. "
        "`RecordCountAvroPayload` means the merger `record_count`, and `package.module.Class` one of your own in "
        "Python.",
    )
    delete_field: str | None = option(
        "hoodie.payload.delete.field",
        aliases=("hoodie.record.merge.property.hoodie.payload.delete.field",),
        parse=text("a column"),
        default=None,
        doc="Rows with the delete marker in this column delete their record. A new table of version 9 keeps it.",
    )
    delete_marker: str | None = option(
        "hoodie.payload.delete.marker",
        aliases=("hoodie.record.merge.property.hoodie.payload.delete.marker",),
        parse=text(),
        default=None,
        doc="The value that makes a row a delete.",
    )
    merge_strategy: MergeMode | None = option(
        "hoodie.write.record.merge.strategy.id",
        aliases=(
            "hoodie.record.merge.strategy.id",
            "hoodie.datasource.write.record.merger.strategy",
            "hoodie.compaction.record.merger.strategy",
        ),
        parse=MERGE_STRATEGY,
        default=None,
        doc="The merge mode by its UUID.",
    )
    populate_meta_fields: bool | None = option(
        "hoodie.populate.meta.fields",
        parse=boolean(refused={"FALSE": f"writing tables without the _hoodie_* columns {NOT_BUILT}"}),
        default=None,
        doc="Whether rows carry the five `_hoodie_*` columns: always.",
    )
    drop_partition_columns: bool | None = option(
        "hoodie.datasource.write.drop.partition.columns",
        parse=boolean(refused={"TRUE": f"leaving the partition columns out of data files {NOT_BUILT}"}),
        default=None,
        doc="Whether data files leave the partition columns out: never.",
    )
    slash_separated_dates: bool | None = option(
        "hoodie.datasource.write.slash.separated.date.partitioning",
        parse=boolean(refused={"TRUE": f"writing partition folders of the form 2026/01/31 {NOT_BUILT}"}),
        default=None,
        doc="Whether a date in a partition path becomes three folders: never.",
    )
    cdc_enabled: bool | None = option(
        "hoodie.table.cdc.enabled",
        parse=boolean(),
        default=None,
        doc="Whether writes to the table log what they do to its records, for reads of change data; true switches it on"
        " for a table that exists.",
        by_alter=True,
    )
    change_data_mode: LoggingMode | None = option(
        "hoodie.table.cdc.supplemental.logging.mode",
        parse=one_of(LoggingMode),
        default=None,
        doc="What is logged of a change: operation and key, also the row before it, or also the row after it;"
        " DATA_BEFORE_AFTER if not given. Readers find the rest in the data files.",
        by_alter=True,
    )
    base_file_format: str | None = option(
        "hoodie.table.base.file.format",
        aliases=("hoodie.datasource.write.base.file.format", "hoodie.base.file.format"),
        parse=BASE_FILE_FORMAT,
        default=None,
        doc="The format of data files.",
    )
    timezone: TimelineTimezone | None = option(
        "hoodie.table.timeline.timezone",
        parse=one_of(TimelineTimezone),
        default=None,
        doc="The zone of a new table's instant times; LOCAL if not given, as in the JVM.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOptions:
    """Details of key generators. A TIMESTAMP table keeps them, a CUSTOM one needs them at every write."""

    timestamp_type: TimestampKind | None = option(
        "hoodie.keygen.timebased.timestamp.type",
        aliases=("hoodie.deltastreamer.keygen.timebased.timestamp.type",),
        parse=one_of(TimestampKind),
        default=None,
        doc="What the partition column of a TIMESTAMP key generator holds.",
    )
    timestamp_unit: TimeUnit = option(
        "hoodie.keygen.timebased.timestamp.scalar.time.unit",
        aliases=("hoodie.deltastreamer.keygen.timebased.timestamp.scalar.time.unit",),
        default=TimeUnit.SECONDS,
        doc="The unit of a SCALAR timestamp column.",
    )
    input_format: str = option(
        "hoodie.keygen.timebased.input.dateformat",
        aliases=("hoodie.deltastreamer.keygen.timebased.input.dateformat",),
        parse=any_text(),
        default="",
        doc="The pattern, or patterns, of date strings, in the letters of Joda-Time.",
    )
    input_format_delimiter: str = option(
        "hoodie.keygen.timebased.input.dateformat.list.delimiter.regex",
        aliases=("hoodie.deltastreamer.keygen.timebased.input.dateformat.list.delimiter.regex",),
        parse=text(),
        default=",",
        doc="What separates the patterns.",
    )
    input_timezone: str = option(
        "hoodie.keygen.timebased.input.timezone",
        aliases=("hoodie.deltastreamer.keygen.timebased.input.timezone",),
        parse=any_text(),
        default="",
        doc="The zone of date strings that name none.",
    )
    output_format: str | None = option(
        "hoodie.keygen.timebased.output.dateformat",
        aliases=("hoodie.deltastreamer.keygen.timebased.output.dateformat",),
        parse=text(),
        default=None,
        doc="The pattern of the partition path.",
    )
    output_timezone: str = option(
        "hoodie.keygen.timebased.output.timezone",
        aliases=("hoodie.deltastreamer.keygen.timebased.output.timezone",),
        parse=any_text(),
        default="",
        doc="The zone of the partition path, if not that of `hoodie.keygen.timebased.timezone`.",
    )
    timestamp_timezone: str = option(
        "hoodie.keygen.timebased.timezone",
        aliases=("hoodie.deltastreamer.keygen.timebased.timezone",),
        parse=text("the name of a time zone"),
        default="UTC",
        doc="The zone of input and output where they have none of their own.",
    )
    consistent_logical_timestamps: bool = option(
        "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled",
        default=False,
        doc="Record keys and partition paths of timestamps as local times. Refused for tables that have timestamps "
        "there, without effect for others.",
    )
    bare_complex_key: bool = option(
        "hoodie.write.complex.keygen.new.encoding",
        default=True,
        doc="Versions 6 and 8: whether a COMPLEX key of one column is the bare value, as 0.15.0 and 1.0.2 write "
        "it, and not `column:value`. Version 9 always has the latter.",
    )
