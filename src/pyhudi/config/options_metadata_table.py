"""Options of the metadata table: whether there is one, what is in it, and how its record index is made."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi.config.option import option
from pyhudi.config.parsers import boolean, column_names, fraction, integer


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordIndexOptions:
    """The part of the metadata table that knows the file group of each record key."""

    enabled: bool | None = option(
        "hoodie.metadata.global.record.level.index.enable",
        parse=boolean(),
        default=None,
        doc="A write with `true` builds the record index where there is none: the file group of each record key, for "
        "hoodie.index.type=RECORD_INDEX and for reads by key. Every write keeps it then. `false` does not drop it: "
        "`table.indexes.drop` does.",
        aliases=("hoodie.metadata.record.index.enable",),
    )
    groups_min: int = option(
        "hoodie.metadata.global.record.level.index.min.filegroup.count",
        parse=integer(minimum=1, unit="file groups"),
        default=10,
        doc="The smallest number of file groups of a new record index; later it cannot change.",
        aliases=("hoodie.metadata.record.index.min.filegroup.count",),
    )
    groups_max: int = option(
        "hoodie.metadata.global.record.level.index.max.filegroup.count",
        parse=integer(minimum=1, unit="file groups"),
        default=10_000,
        doc="The largest number of them.",
        aliases=("hoodie.metadata.record.index.max.filegroup.count",),
    )
    growth: float = option(
        "hoodie.metadata.record.index.growth.factor",
        parse=fraction(up_to_one=False),
        default=2.0,
        doc="By how much the records are expected to become more, for the number of file groups.",
    )
    group_bytes_max: int = option(
        "hoodie.metadata.record.index.max.filegroup.size",
        parse=integer(minimum=1, unit="bytes"),
        default=1 << 30,
        doc="How large a file group is meant to become, for the number of file groups: 48 bytes are taken per record.",
    )
    by_partition: bool = option(
        "hoodie.metadata.record.level.index.enable",
        default=False,
        doc="A write with `true` builds a record index by partition where there is no record index: keys are unique in "
        "partitions, and are looked up in that of their row, for hoodie.index.type=RECORD_LEVEL_INDEX. Every write "
        "keeps it then.",
    )
    groups_min_of_partition: int = option(
        "hoodie.metadata.record.level.index.min.filegroup.count",
        parse=integer(minimum=1, unit="file groups"),
        default=1,
        doc="The smallest number of file groups that a partition of the table has in a new record index by partition.",
    )
    groups_max_of_partition: int = option(
        "hoodie.metadata.record.level.index.max.filegroup.count",
        parse=integer(minimum=1, unit="file groups"),
        default=10,
        doc="The largest number of them.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataTableOptions:
    """The table beside the table that knows its files, so that readers need not list them."""

    enabled: bool | None = option(
        "hoodie.metadata.enable",
        parse=boolean(),
        default=None,
        doc="A write with `true` builds the metadata table where there is none, and one with `false` drops it. Without "
        "the option every write keeps what is there. A read takes the list of files from the metadata table with "
        "`true`, and lists the store with `false`; without the option it does the first from table version 8 on. "
        "Where the metadata table is not valid, a read lists the store, with a warning.",
    )
    column_stats: bool = option(
        "hoodie.metadata.index.column.stats.enable",
        default=False,
        doc="A write with `true` builds the column statistics where there are none, and with them the metadata table:"
        " the bounds of the columns of each file, by which reads leave files out. What is built stays, whatever later"
        " writes say.",
    )
    partition_stats: bool = option(
        "hoodie.metadata.index.partition.stats.enable",
        default=False,
        doc="The same for the statistics of partitions, by which reads leave partitions out. They come with column"
        " statistics, in tables with partitions of version 8 or 9.",
    )
    indexed_columns: tuple[str, ...] = option(
        "hoodie.metadata.index.column.stats.column.list",
        parse=column_names(may_be_empty=True),
        default=(),
        doc="The columns of which statistics are built, nested ones by dotted paths. Without the option the first"
        " columns of the table, and those that are added to it.",
    )
    indexed_columns_max: int = option(
        "hoodie.metadata.index.column.stats.max.columns.to.index",
        parse=integer(minimum=1),
        default=32,
        doc="How many columns are the first ones.",
    )
    compact_after: int = option(
        "hoodie.metadata.compact.max.delta.commits",
        aliases=("hoodie.metadata.compaction.delta_commits",),
        parse=integer(minimum=1, unit="delta commits"),
        default=10,
        doc="Before a write after which the metadata table might have so many delta commits since the last time, if a"
        " compaction and a clean follow it, its logs are merged into base files.",
    )
    joins_logs: bool = option(
        "hoodie.metadata.log.compaction.enable",
        default=False,
        doc="Whether a write also joins the logs of a file group of the metadata table where there are many, and no"
        " compaction of it is due: a lookup then reads one log in place of them.",
    )
    join_logs_at: int = option(
        "hoodie.metadata.log.compaction.blocks.threshold",
        parse=integer(minimum=2, unit="logs"),
        default=5,
        doc="The number of logs at which they are joined.",
    )
    bloom_filters: bool = option(
        "hoodie.metadata.index.bloom.filter.enable",
        default=False,
        doc="A write with `true` builds a copy of the bloom filters in the footers of base files, where there is none,"
        " for hoodie.bloom.index.use.metadata. What is built stays, whatever later writes say.",
    )
    bloom_file_groups: int = option(
        "hoodie.metadata.index.bloom.filter.file.group.count",
        parse=integer(minimum=1, unit="file groups"),
        default=4,
        doc="How many file groups they get when they are built.",
    )
