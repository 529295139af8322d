"""Options of writes: the operation, incoming rows, the index, Bloom filters, files and concurrency."""

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
    any_text,
    boolean,
    column_names,
    fraction,
    integer,
    one_of,
    partition_paths,
    python_name,
    text,
)
from pyhudi.format.bloom import BloomFilterType
from pyhudi.format.metadata.write_operation import USER_OPERATIONS, WriteOperation

METADATA_PREFIX, DEFAULT_METADATA_PREFIX = "hoodie.datasource.write.commitmeta.key.prefix", "_"
"""The option with the prefix of names that are stored in the commit metadata, and its default."""
_INDEX_NOT_BUILT = {
    name: f"the {name} index {NOT_BUILT}; use SIMPLE, BLOOM, GLOBAL_SIMPLE, GLOBAL_BLOOM or BUCKET"
    for name in ("FLINK_STATE",)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlOptions:
    """What statements do where SQL leaves it open."""

    insert_into: WriteOperation = option(
        "hoodie.spark.sql.insert.into.operation",
        default=WriteOperation.INSERT,
        doc="The operation of `INSERT INTO`: insert, upsert or bulk_insert. Without it, "
        "`hoodie.datasource.write.operation` is used if it is one of these.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOptions:
    """Handling of incoming rows: combining, duplicates, missing columns, parallelism."""

    combine_before_insert: bool = option(
        "hoodie.combine.before.insert",
        default=False,
        doc="Whether insert and bulk_insert combine rows of a batch with the same key.",
    )
    combine_before_upsert: bool = option(
        "hoodie.combine.before.upsert",
        default=True,
        doc="Whether upsert combines rows of a batch with the same key.",
    )
    combine_before_delete: bool = option(
        "hoodie.combine.before.delete",
        default=True,
        doc="Whether delete looks up each key of a batch only once.",
    )
    tombstone_hours: int = option(
        "hoodie.write.tombstones.retained.hours",
        parse=integer(minimum=0, unit="hours"),
        default=0,
        doc="How long deletes are remembered, so that a late row with a smaller ordering value does not bring back a "
        "record that a delete marker deleted. Every write and compaction of the table must set it; 0 remembers "
        "nothing. JVM Hudi ignores it. docs/late_deletes.md describes costs and limits.",
    )
    partial_updates_of_merges: bool = option(
        "hoodie.spark.sql.merge.into.partial.updates",
        default=True,
        doc="Whether a merge that gives new values to some columns writes these columns alone to the logs of a "
        "merge-on-read table of version 8 or later, if they include the ordering fields. Otherwise it writes whole "
        "rows.",
    )
    insert_drop_duplicates: bool = option(
        "hoodie.datasource.write.insert.drop.duplicates",
        default=False,
        doc="Whether an insert drops rows whose key is in the table; an older option for the policy `drop`.",
    )
    insert_duplicate_policy: DuplicatePolicy = option(
        "hoodie.datasource.insert.dup.policy",
        default=DuplicatePolicy.NONE,
        doc="How an insert treats rows whose key is in the table: `none` inserts them without a lookup, `drop` drops"
        " them, `fail` refuses the batch.",
    )
    reconcile_schema: bool = option(
        "hoodie.datasource.write.reconcile.schema",
        default=False,
        doc="Whether a batch may lack columns of the table; they become null.",
    )
    null_for_missing_columns: bool = option(
        "hoodie.write.set.null.for.missing.columns",
        default=False,
        doc="The same as `hoodie.datasource.write.reconcile.schema`.",
    )
    allows_column_drop: bool = option(
        "hoodie.datasource.write.schema.allow.auto.evolution.column.drop",
        default=False,
        doc="Whether a batch that lacks columns of the table drops them from the table.",
    )
    schema_on_read: bool = option(
        "hoodie.schema.on.read.enable",
        default=False,
        doc="Whether `table.alter` may give the columns of a table ids, so that they can be renamed and dropped."
        " Columns of a table that has ids are always found by them, with or without this option.",
    )
    commit_metadata_prefix: str = option(
        METADATA_PREFIX,
        parse=text(),
        default=DEFAULT_METADATA_PREFIX,
        doc="Options whose key starts with this prefix are stored in the commit metadata.",
    )
    upsert_splits: int = option(
        "hoodie.upsert.shuffle.parallelism",
        parse=integer(minimum=0),
        default=0,
        doc="The number of tasks that an upsert splits its rows into; 0: the engine decides. Without Spark it has no"
        " effect: all rows are in one task, so that rows of one key meet.",
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
    tracks_event_time: bool = option(
        "hoodie.write.track.event.time.watermark",
        default=False,
        doc="Whether commits keep the event times of their rows: of each file the smallest and largest one, as in JVM "
        "Hudi, and how far each source has come, for `HudiTable.watermark`. Costs one read per commit.",
    )
    event_time_field: str | None = option(
        "hoodie.payload.event.time.field",
        parse=text("a column"),
        default=None,
        doc="The column with the event time: a timestamp, a date, or a whole number of ten digits (seconds) or "
        "thirteen (milliseconds). The first ordering field, if it is not given.",
    )
    event_time_source: str = option(
        "hoodie.write.event.time.source",
        parse=any_text(),
        default="",
        doc="The name of the source whose rows are written, where several write to one table: the watermark is that of "
        "the slowest. Each must write its rows in the order of their event times, or as late as readers allow. JVM "
        "Hudi does not know this option.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOptions:
    """The index, which finds the file groups of record keys."""

    index_type: IndexType = option(
        "hoodie.index.type",
        parse=one_of(IndexType, refused=_INDEX_NOT_BUILT),
        default=IndexType.SIMPLE,
        doc="SIMPLE reads the key columns of the partitions of the rows. BLOOM reads only the files whose footers "
        "cannot exclude the keys. The GLOBAL_ forms search all partitions. INMEMORY remembers keys in this process, "
        "HBASE in an external store. RECORD_INDEX, now GLOBAL_RECORD_LEVEL_INDEX, looks keys up in the metadata table, "
        "RECORD_LEVEL_INDEX within their partitions; docs/indexes.md describes them. BUCKET computes the file group "
        "from the key, and reads nothing; a table has it from its first write on, and every write uses it then.",
    )
    index_class: str | None = option(
        "hoodie.index.class",
        parse=python_name(),
        default=None,
        doc="An index of your own, which then finds keys in place of that of hoodie.index.type: an importable Python "
        "class or object, as package.module:Name, with the methods of `KeyStore`. hoodie.index.type still says "
        "whether a key is unique in its partition or in the table.",
    )
    store: str | None = option(
        "hoodie.index.hbase.store",
        parse=text("thrift://host:port/table, sqlite:///folder/file or redis://host:port/number"),
        default=None,
        doc="HBASE: the external store that keeps the file groups of keys; thrift:// is a Thrift server of HBase, and "
        "a table that is created if it is not there. A key of pyhudi: JVM Hudi finds HBase by its ZooKeeper.",
    )
    hbase_table: str | None = option(
        "hoodie.index.hbase.table",
        parse=text("the name of a table of HBase"),
        default=None,
        doc="HBASE: the table of JVM Hudi's HBase index, with the column family `_s`. Writes keep it beside their own "
        "entries, so that JVM Hudi finds what they wrote. It needs a store at thrift://.",
    )
    keys_per_get: int = option(
        "hoodie.index.hbase.get.batch.size",
        parse=integer(minimum=1),
        default=100,
        doc="HBASE, with a store at thrift://: how many keys a call asks for.",
    )
    keys_per_put: int = option(
        "hoodie.index.hbase.put.batch.size",
        parse=integer(minimum=1),
        default=100,
        doc="HBASE, with a store at thrift://: how many keys a call writes or deletes.",
    )
    store_moves_partition: bool = option(
        "hoodie.hbase.index.update.partition.path",
        default=False,
        doc="HBASE: whether a record moves if its partition path has changed.",
    )
    simple_moves_partition: bool = option(
        "hoodie.simple.index.update.partition.path",
        default=True,
        doc="GLOBAL_SIMPLE: whether a record moves if its partition path has changed; false: it stays in its old"
        " partition.",
    )
    bloom_moves_partition: bool = option(
        "hoodie.bloom.index.update.partition.path",
        default=True,
        doc="The same for GLOBAL_BLOOM.",
    )
    record_moves_partition: bool = option(
        "hoodie.record.index.update.partition.path",
        default=False,
        doc="The same for RECORD_INDEX.",
    )
    prune_by_ranges: bool = option(
        "hoodie.bloom.index.prune.by.ranges",
        default=True,
        doc="Whether BLOOM first excludes files by their smallest and largest key.",
    )
    bloom_filters_of_metadata: bool = option(
        "hoodie.bloom.index.use.metadata",
        default=False,
        doc="Whether BLOOM takes the filters from the metadata table, if it has them, and not from the footers of "
        "files; key ranges are not compared then.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomOptions:
    """The bloom filters in the footers of base files."""

    enabled: bool = option(
        "hoodie.parquet.bloom.filter.enabled",
        default=True,
        doc="Whether new base files get a filter.",
    )
    num_entries: int = option(
        "hoodie.index.bloom.num_entries",
        parse=integer(minimum=1, unit="keys"),
        default=60_000,
        doc="The number of keys that a filter, or one row of a dynamic filter, is sized for.",
    )
    false_positive_rate: float = option(
        "hoodie.index.bloom.fpp",
        parse=fraction(),
        default=1e-9,
        doc="The false positive rate that a filter is sized for.",
    )
    filter_type: BloomFilterType = option(
        "hoodie.bloom.index.filter.type",
        default=BloomFilterType.DYNAMIC_V0,
        doc="SIMPLE: fixed size. DYNAMIC_V0: the filter grows with the keys, and a rewrite of the file gives it a new "
        "one where it has outgrown its false positive rate.",
    )
    dynamic_max_entries: int = option(
        "hoodie.bloom.index.filter.dynamic.max.entries",
        parse=integer(minimum=1, unit="keys"),
        default=500_000,
        doc="The number of keys up to which a dynamic filter grows; the filter of a file that has more has a higher "
        "false positive rate. JVM Hudi's default is 100000, which a file of full size exceeds if its records take less "
        "than 1.2 KB. For 500000 keys at the default rate a filter takes 3.6 MB in the footer.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """Sizes and encoding of base files."""

    max_file_size: int = option(
        "hoodie.parquet.max.file.size",
        parse=integer(minimum=1, unit="bytes"),
        default=120 << 20,
        doc="The target size of a base file.",
    )
    small_file_limit: int = option(
        "hoodie.parquet.small.file.limit",
        parse=integer(minimum=0, unit="bytes"),
        default=100 << 20,
        doc="Files below this size get new records of later inserts and upserts; 0: none do.",
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
        doc="Compression of pages. The default of JVM Hudi is gzip, which takes many times as long to write for files "
        "a few percent smaller. Every release of JVM Hudi reads both.",
    )
    record_size_estimate: int | None = option(
        "hoodie.copyonwrite.record.size.estimate",
        parse=integer(minimum=1, unit="bytes"),
        default=None,
        doc="The size of a stored record, by which new records are distributed over files: where it is given, by JVM "
        "Hudi's rule, until a commit is large enough to tell it. Without it, some rows of the write are encoded and "
        "measured. Whichever it is, files that get new records are closed at hoodie.parquet.max.file.size.",
    )
    record_size_threshold: float = option(
        "hoodie.record.size.estimation.threshold",
        parse=fraction(up_to_one=False),
        default=1.0,
        doc="With hoodie.copyonwrite.record.size.estimate: a commit tells the size of a record if it wrote more than "
        "this factor times the small file limit.",
    )
    sort_mode: Arrangement = option(
        "hoodie.bulkinsert.sort.mode",
        parse=one_of(BULK_INSERT_SORT_MODES),
        default=Arrangement.NONE,
        doc="How bulk_insert distributes rows over files.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrencyOptions:
    """Concurrent writers of one table. No option is required: all writes take the lock and detect conflicts."""

    mode: ConcurrencyMode = option(
        "hoodie.write.concurrency.mode",
        default=ConcurrencyMode.SINGLE_WRITER,
        doc="Writes take the lock and detect conflicts in the first two modes. JVM Hudi does neither in SINGLE_WRITER. "
        "NON_BLOCKING_CONCURRENCY_CONTROL, for merge-on-read tables of version 8 or 9 with a simple bucket index: "
        "upserts, inserts and deletes append to logs, and do not conflict with one another (docs/buckets.md).",
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
        doc="How often a write is repeated after a conflict with another write.",
    )
    failed_writes_policy: FailedWritesPolicy = option(
        "hoodie.clean.failed.writes.policy",
        aliases=("hoodie.cleaner.policy.failed.writes",),
        default=FailedWritesPolicy.EAGER,
        doc="When a write rolls back the pending writes of dead writers, never those of live ones. EAGER: before it"
        " begins. LAZY: after its commit, so that it is not delayed. NEVER: other processes do it.",
    )
    heartbeat_interval_ms: int = option(
        "hoodie.client.heartbeat.interval_in_ms",
        parse=integer(minimum=1000, unit="milliseconds"),
        default=60_000,
        doc="The interval of the heartbeat of a writer.",
    )
    heartbeat_tolerable_misses: int = option(
        "hoodie.client.heartbeat.tolerable.misses",
        parse=integer(minimum=0),
        default=2,
        doc="The number of missed heartbeats after which a writer counts as dead.",
    )
    carried_keys: tuple[str, ...] = option(
        "hoodie.write.rolling.metadata.keys",
        parse=column_names(may_be_empty=True),
        default=(),
        doc="Keys of commit metadata that each commit of a write, a compaction or a clustering carries along from the "
        "newest commits, if it says nothing in them itself. With `deltastreamer.checkpoint.key` among them a "
        "checkpoint stays on the active timeline, where JVM Hudi looks for it. Cleans of pyhudi carry nothing. Costs "
        "one read per commit.",
    )
    carried_from: int = option(
        "hoodie.write.rolling.metadata.timeline.lookback.commits",
        parse=integer(minimum=1, unit="commits"),
        default=10,
        doc="In how many of the newest commits these keys are looked for.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """The operation of a write and its parameters."""

    operation: WriteOperation = option(
        "hoodie.datasource.write.operation",
        parse=one_of(USER_OPERATIONS),
        default=WriteOperation.UPSERT,
        doc="upsert updates and inserts by key. insert and bulk_insert add rows without looking up their keys. delete "
        "deletes keys. The others replace whole partitions or the table.",
    )
    partitions_to_delete: tuple[str, ...] | None = option(
        "hoodie.datasource.write.partitions.to.delete",
        parse=partition_paths(),
        default=None,
        doc="delete_partition: the partition paths, separated by commas; `*` matches any characters. Without it, the "
        "partitions of the rows.",
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
        doc="A name of the batch, for example its source offsets, for idempotent writes. If a completed write on the "
        "active timeline has the same name, nothing is written and the result of that write is returned. Costs one "
        "read per completed write.",
    )
    allows_empty_commit: bool | None = option(
        "hoodie.allow.empty.commit",
        parse=boolean(),
        default=None,
        doc="Whether a write that finds no rows to write makes a commit, without files. Without it a merge, an update "
        "or a deletion by a condition makes none, unless it has metadata to store, and all other writes make one. "
        "false: no write does, whatever metadata it has. Overwrites always make one, and so does the streamer, whose "
        "commits keep where its source is.",
    )
