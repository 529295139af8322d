"""The options of writes, in groups. Every `hoodie.*` key that a write honours is declared here, once."""

# ruff: noqa: RUF009 - option() declares a field, as dataclasses.field does
from __future__ import annotations

from dataclasses import dataclass

from pyhudi.config.enums import (
    BULK_INSERT_SORT_MODES,
    Arrangement,
    ConcurrencyMode,
    DuplicatePolicy,
    FailedWritesPolicy,
    IndexType,
    OverwriteMode,
    ParquetCodec,
)
from pyhudi.config.option import option
from pyhudi.config.parsers import (
    NOT_BUILT,
    boolean,
    fraction,
    integer,
    one_of,
    partition_paths,
    text,
)
from pyhudi.format.bloom import BloomFilterType
from pyhudi.format.metadata.write_operation import USER_OPERATIONS, WriteOperation

METADATA_PREFIX, DEFAULT_METADATA_PREFIX = "hoodie.datasource.write.commitmeta.key.prefix", "_"
"""The option that says how names begin which are no options, but go into the commit's metadata."""
_INDEX_NOT_BUILT = {
    name: f"the {name} index {NOT_BUILT}; use SIMPLE, BLOOM, GLOBAL_SIMPLE or GLOBAL_BLOOM"
    for name in (
        "BUCKET",
        "FLINK_STATE",
        "GLOBAL_RECORD_LEVEL_INDEX",
        "INMEMORY",
        "RECORD_INDEX",
        "RECORD_LEVEL_INDEX",
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOptions:
    """How the incoming rows are combined, compared with the table, and recorded."""

    combine_before_insert: bool = option(
        "hoodie.combine.before.insert",
        parse=boolean(),
        default=False,
        doc="Whether insert and bulk_insert keep one row of those with one key in a batch.",
    )
    combine_before_upsert: bool = option(
        "hoodie.combine.before.upsert",
        parse=boolean(),
        default=True,
        doc="Whether upsert keeps one row of those with one key in a batch.",
    )
    combine_before_delete: bool = option(
        "hoodie.combine.before.delete",
        parse=boolean(),
        default=True,
        doc="Whether delete looks each key of a batch up once.",
    )
    tombstone_hours: int = option(
        "hoodie.write.tombstones.retained.hours",
        parse=integer(minimum=0, unit="hours"),
        default=0,
        doc="For so long late rows do not bring back a record that was deleted with a larger ordering value, by a row "
        "that is marked as a delete. Every write and compaction of the table has to set it; 0 remembers nothing. "
        "JVM Hudi does not know it. See docs/late_deletes.md for what it costs, and when it does not help.",
    )
    insert_drop_duplicates: bool = option(
        "hoodie.datasource.write.insert.drop.duplicates",
        parse=boolean(),
        default=False,
        doc="Whether an insert leaves out rows whose key is in the table; the older way to say the policy `drop`.",
    )
    insert_duplicate_policy: DuplicatePolicy = option(
        "hoodie.datasource.insert.dup.policy",
        parse=one_of(DuplicatePolicy),
        default=DuplicatePolicy.NONE,
        doc="What an insert does with rows whose key is in the table: `none` inserts them without looking,"
        " `drop` leaves them out, `fail` refuses the batch.",
    )
    reconcile_schema: bool = option(
        "hoodie.datasource.write.reconcile.schema",
        parse=boolean(),
        default=False,
        doc="Whether a batch may leave columns of the table out; they become null.",
    )
    null_for_missing_columns: bool = option(
        "hoodie.write.set.null.for.missing.columns",
        parse=boolean(),
        default=False,
        doc="The same, by its other name.",
    )
    commit_metadata_prefix: str = option(
        METADATA_PREFIX,
        parse=text(),
        default=DEFAULT_METADATA_PREFIX,
        doc="Options whose key starts with this are written into the commit's metadata.",
    )
    upsert_splits: int = option(
        "hoodie.upsert.shuffle.parallelism",
        parse=integer(minimum=0),
        default=0,
        doc="Into how many tasks an upsert splits its rows; 0: the engine's choice. Without Spark it has no effect:"
        " all rows are one split, so that those of one key meet.",
    )
    insert_splits: int = option(
        "hoodie.insert.shuffle.parallelism",
        parse=integer(minimum=0),
        default=0,
        doc="The same for insert.",
    )
    bulk_insert_splits: int = option(
        "hoodie.bulkinsert.shuffle.parallelism",
        parse=integer(minimum=0),
        default=0,
        doc="The same for bulk_insert.",
    )
    delete_splits: int = option(
        "hoodie.delete.shuffle.parallelism",
        parse=integer(minimum=0),
        default=0,
        doc="The same for delete.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOptions:
    """How the file groups of record keys are found."""

    index_type: IndexType = option(
        "hoodie.index.type",
        parse=one_of(IndexType, refused=_INDEX_NOT_BUILT),
        default=IndexType.SIMPLE,
        doc="SIMPLE reads the key columns of the touched partitions; BLOOM reads only the files whose "
        "footers cannot rule the keys out; the GLOBAL_ forms look in all partitions.",
    )
    simple_moves_partition: bool = option(
        "hoodie.simple.index.update.partition.path",
        parse=boolean(),
        default=True,
        doc="GLOBAL_SIMPLE: whether a record whose partition path has changed moves there; false: it stays"
        " where it is.",
    )
    bloom_moves_partition: bool = option(
        "hoodie.bloom.index.update.partition.path",
        parse=boolean(),
        default=True,
        doc="The same for GLOBAL_BLOOM.",
    )
    prune_by_ranges: bool = option(
        "hoodie.bloom.index.prune.by.ranges",
        parse=boolean(),
        default=True,
        doc="Whether BLOOM first rules files out by their smallest and largest key.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomOptions:
    """The bloom filters in the footers of base files."""

    enabled: bool = option(
        "hoodie.parquet.bloom.filter.enabled",
        parse=boolean(),
        default=True,
        doc="Whether new base files get a filter.",
    )
    num_entries: int = option(
        "hoodie.index.bloom.num_entries",
        parse=integer(minimum=1, unit="keys"),
        default=60_000,
        doc="Keys that a filter, or one row of a dynamic one, is sized for.",
    )
    false_positive_rate: float = option(
        "hoodie.index.bloom.fpp",
        parse=fraction(),
        default=1e-9,
        doc="How often a filter may claim a key that is not there.",
    )
    filter_type: BloomFilterType = option(
        "hoodie.bloom.index.filter.type",
        parse=one_of(BloomFilterType),
        default=BloomFilterType.DYNAMIC_V0,
        doc="Of a fixed size, or growing with the keys.",
    )
    dynamic_max_entries: int = option(
        "hoodie.bloom.index.filter.dynamic.max.entries",
        parse=integer(minimum=1, unit="keys"),
        default=100_000,
        doc="Keys up to which a dynamic filter grows.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """Sizes and encoding of base files."""

    max_file_size: int = option(
        "hoodie.parquet.max.file.size",
        parse=integer(minimum=1, unit="bytes"),
        default=120 << 20,
        doc="What a base file should grow to.",
    )
    small_file_limit: int = option(
        "hoodie.parquet.small.file.limit",
        parse=integer(minimum=0, unit="bytes"),
        default=100 << 20,
        doc="Files below this take new records of later inserts and upserts; 0: none does.",
    )
    block_size: int = option(
        "hoodie.parquet.block.size",
        parse=integer(minimum=1, unit="bytes"),
        default=120 << 20,
        doc="Size of a row group.",
    )
    page_size: int = option(
        "hoodie.parquet.page.size",
        parse=integer(minimum=1, unit="bytes"),
        default=1 << 20,
        doc="Size of a data page.",
    )
    codec: ParquetCodec = option(
        "hoodie.parquet.compression.codec",
        parse=one_of(
            ParquetCodec,
            refused={
                "LZO": "the LZO codec is not supported: use zstd",
                "BROTLI": "the BROTLI codec is not supported: use zstd",
                "LZ4": "the framing of Hadoop's LZ4 codec is not supported: use lz4_raw or zstd",
            },
        ),
        default=ParquetCodec.ZSTD,
        doc="Compression of pages. The JVM's default is gzip, which takes many times as long to write for "
        "files a few percent smaller; every Hudi reads both.",
    )
    record_size_estimate: int = option(
        "hoodie.copyonwrite.record.size.estimate",
        parse=integer(minimum=1, unit="bytes"),
        default=1024,
        doc="Size of a record, until commits have shown it.",
    )
    record_size_threshold: float = option(
        "hoodie.record.size.estimation.threshold",
        parse=fraction(up_to_one=False),
        default=1.0,
        doc="A commit counts for the estimate if it wrote more than this times the small file limit.",
    )
    sort_mode: Arrangement = option(
        "hoodie.bulkinsert.sort.mode",
        parse=one_of(BULK_INSERT_SORT_MODES),
        default=Arrangement.NONE,
        doc="How bulk_insert arranges rows over files.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrencyOptions:
    """How writers of one table get along. None needs to be set: writes lock and look for conflicts anyway."""

    mode: ConcurrencyMode = option(
        "hoodie.write.concurrency.mode",
        parse=one_of(
            ConcurrencyMode,
            refused={"NON_BLOCKING_CONCURRENCY_CONTROL": f"NON_BLOCKING_CONCURRENCY_CONTROL {NOT_BUILT}"},
        ),
        default=ConcurrencyMode.SINGLE_WRITER,
        doc="Writes of both modes lock and look for conflicts: SINGLE_WRITER, which JVM Hudi does not protect, is"
        " protected here.",
    )
    lock_wait_ms: int = option(
        "hoodie.write.lock.wait_time_ms",
        parse=integer(minimum=0, unit="milliseconds"),
        default=60_000,
        doc="How long to wait for the table lock.",
    )
    conflict_retries: int = option(
        "hoodie.write.num.retries.on.conflict.failures",
        parse=integer(minimum=0),
        default=0,
        doc="How often a write that lost against another one is run again.",
    )
    failed_writes_policy: FailedWritesPolicy = option(
        "hoodie.clean.failed.writes.policy",
        aliases=("hoodie.cleaner.policy.failed.writes",),
        parse=one_of(FailedWritesPolicy),
        default=FailedWritesPolicy.EAGER,
        doc="EAGER: a write begins by rolling back the pending writes of dead writers, never those of live"
        " ones. LAZY: it does so after its commit, so that dead writers do not delay it. NEVER leaves them to others.",
    )
    heartbeat_interval_ms: int = option(
        "hoodie.client.heartbeat.interval_in_ms",
        parse=integer(minimum=1000, unit="milliseconds"),
        default=60_000,
        doc="How often a writer shows that it is alive.",
    )
    heartbeat_tolerable_misses: int = option(
        "hoodie.client.heartbeat.tolerable.misses",
        parse=integer(minimum=0),
        default=2,
        doc="Missed heartbeats after which a writer counts as dead.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """What is asked of a write."""

    operation: WriteOperation = option(
        "hoodie.datasource.write.operation",
        parse=one_of(USER_OPERATIONS),
        default=WriteOperation.UPSERT,
        doc="upsert updates and inserts by key; insert and bulk_insert add rows without looking for their "
        "keys; delete removes keys; the others replace whole partitions or the table.",
    )
    partitions_to_delete: tuple[str, ...] | None = option(
        "hoodie.datasource.write.partitions.to.delete",
        parse=partition_paths(),
        default=None,
        doc="delete_partition: the partition paths, separated by commas; `*` stands for any characters. "
        "Without it, the partitions that the rows are in.",
    )
    overwrite_mode: OverwriteMode | None = option(
        "hoodie.datasource.overwrite.mode",
        parse=one_of(OverwriteMode),
        default=None,
        doc="insert_overwrite: STATIC replaces the whole table, DYNAMIC (as without it) the partitions of the rows.",
    )
    batch_id: str | None = option(
        "hoodie.write.batch.id",
        parse=text(),
        default=None,
        doc="A name of the batch, such as the offsets that it was read from: a write whose name a completed write of "
        "the active timeline has writes nothing and returns that write's result. Costs one read per completed write.",
    )
