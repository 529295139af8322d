"""The values that options and table properties choose from. Each member's value is Hudi's own spelling."""

from __future__ import annotations

import enum


class WriteOperation(enum.Enum):
    """What a write does with its rows."""

    UPSERT = "upsert"
    INSERT = "insert"
    BULK_INSERT = "bulk_insert"
    DELETE = "delete"
    DELETE_PARTITION = "delete_partition"
    INSERT_OVERWRITE = "insert_overwrite"
    INSERT_OVERWRITE_TABLE = "insert_overwrite_table"


class TableType(enum.Enum):
    """Whether an update rewrites a base file or appends to a log."""

    COPY_ON_WRITE = "COPY_ON_WRITE"
    MERGE_ON_READ = "MERGE_ON_READ"


class KeyGeneratorType(enum.Enum):
    """How record keys and partition paths come from a row's columns."""

    SIMPLE = "SIMPLE"
    COMPLEX = "COMPLEX"
    NON_PARTITION = "NON_PARTITION"
    TIMESTAMP = "TIMESTAMP"
    CUSTOM = "CUSTOM"
    GLOBAL_DELETE = "GLOBAL_DELETE"
    USER_PROVIDED = "USER_PROVIDED"
    """A class of the user's own, or one that this release does not know."""


class PartitionKind(enum.Enum):
    """How one partition field of a CUSTOM key generator becomes a part of the path."""

    SIMPLE = "SIMPLE"
    TIMESTAMP = "TIMESTAMP"


class TimestampKeyType(enum.Enum):
    """What the partition column of a TIMESTAMP key generator holds."""

    UNIX_TIMESTAMP = "UNIX_TIMESTAMP"
    DATE_STRING = "DATE_STRING"
    MIXED = "MIXED"
    EPOCHMILLISECONDS = "EPOCHMILLISECONDS"
    EPOCHMICROSECONDS = "EPOCHMICROSECONDS"
    SCALAR = "SCALAR"


class TimeUnit(enum.Enum):
    """The unit of a SCALAR timestamp column."""

    DAYS = "DAYS"
    HOURS = "HOURS"
    MINUTES = "MINUTES"
    SECONDS = "SECONDS"
    MILLISECONDS = "MILLISECONDS"
    MICROSECONDS = "MICROSECONDS"
    NANOSECONDS = "NANOSECONDS"


class MergeMode(enum.Enum):
    """Which of two versions of a record wins: the later commit, the greater ordering value, or what a merger says."""

    COMMIT_TIME_ORDERING = "COMMIT_TIME_ORDERING"
    EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"
    CUSTOM = "CUSTOM"


class PartialUpdateMode(enum.Enum):
    """Which columns of the winning version leave the older value as it is."""

    NONE = "NONE"
    IGNORE_DEFAULTS = "IGNORE_DEFAULTS"
    """Those with the default of the schema, which is null nearly always."""
    FILL_UNAVAILABLE = "FILL_UNAVAILABLE"
    """Those with a marker that says that the source did not send the value."""


class IndexType(enum.Enum):
    """How the file group of a record key is found."""

    SIMPLE = "SIMPLE"
    GLOBAL_SIMPLE = "GLOBAL_SIMPLE"
    BLOOM = "BLOOM"
    GLOBAL_BLOOM = "GLOBAL_BLOOM"

    @property
    def is_global(self) -> bool:
        """Whether a key is unique in the whole table, and not only in its partition."""
        return self in {IndexType.GLOBAL_SIMPLE, IndexType.GLOBAL_BLOOM}

    @property
    def uses_bloom_filters(self) -> bool:
        """Whether the filters in the footers of base files narrow the search."""
        return self in {IndexType.BLOOM, IndexType.GLOBAL_BLOOM}


class BloomFilterType(enum.Enum):
    """Whether a filter has a fixed size, or grows in rows up to a maximum."""

    SIMPLE = "SIMPLE"
    DYNAMIC_V0 = "DYNAMIC_V0"


class BulkInsertSortMode(enum.Enum):
    """How bulk_insert arranges rows over files."""

    NONE = "NONE"
    GLOBAL_SORT = "GLOBAL_SORT"
    PARTITION_SORT = "PARTITION_SORT"
    PARTITION_PATH_REPARTITION = "PARTITION_PATH_REPARTITION"
    PARTITION_PATH_REPARTITION_AND_SORT = "PARTITION_PATH_REPARTITION_AND_SORT"


class ParquetCodec(enum.Enum):
    """How the pages of base files are compressed."""

    ZSTD = "zstd"
    SNAPPY = "snappy"
    GZIP = "gzip"
    LZ4 = "lz4_raw"
    UNCOMPRESSED = "uncompressed"

    @property
    def arrow_name(self) -> str:
        """What pyarrow calls this codec."""
        return {ParquetCodec.LZ4: "lz4", ParquetCodec.UNCOMPRESSED: "none"}.get(self, self.value)


class LogBlockFormat(enum.Enum):
    """How the records of a log block are encoded."""

    AVRO = "avro"
    PARQUET = "parquet"


class CompactionTrigger(enum.Enum):
    """When a compaction is due: after delta commits, after a time, or by both."""

    NUM_COMMITS = "NUM_COMMITS"
    NUM_COMMITS_AFTER_LAST_REQUEST = "NUM_COMMITS_AFTER_LAST_REQUEST"
    TIME_ELAPSED = "TIME_ELAPSED"
    NUM_AND_TIME = "NUM_AND_TIME"
    NUM_OR_TIME = "NUM_OR_TIME"


class CompactionStrategy(enum.Enum):
    """Which file slices a compaction takes, and in which order. The values are the JVM's class names, unqualified."""

    LOG_FILE_SIZE = "LogFileSizeBasedCompactionStrategy"
    """Those with the most bytes of logs first, up to the I/O budget."""
    LOG_FILE_NUM = "LogFileNumBasedCompactionStrategy"
    """Those with the most log files first, up to the I/O budget."""
    BOUNDED_IO = "BoundedIOCompactionStrategy"
    """In the order found, up to the I/O budget."""
    UNBOUNDED = "UnBoundedCompactionStrategy"
    """All."""
    DAY_BASED = "DayBasedCompactionStrategy"
    """Of the newest days, where partition paths are dates."""
    BOUNDED_PARTITION_AWARE = "BoundedPartitionAwareCompactionStrategy"
    """Of the newest days back from today, where partition paths are dates."""
    UNBOUNDED_PARTITION_AWARE = "UnBoundedPartitionAwareCompactionStrategy"
    """All that the former leaves."""
    PARTITION_REGEX = "PartitionRegexBasedCompactionStrategy"
    """Of the partitions whose path contains a match of a regular expression."""


class DuplicatePolicy(enum.Enum):
    """What an insert does with rows whose key is in the table already."""

    NONE = "none"
    DROP = "drop"
    FAIL = "fail"


class OverwriteMode(enum.Enum):
    """Whether an overwrite replaces the whole table or the partitions that the rows are in."""

    STATIC = "STATIC"
    DYNAMIC = "DYNAMIC"


class ConcurrencyMode(enum.Enum):
    """Hudi's name for how writers get along. pyhudi always checks for conflicts: both mean the same here."""

    SINGLE_WRITER = "SINGLE_WRITER"
    OPTIMISTIC_CONCURRENCY_CONTROL = "OPTIMISTIC_CONCURRENCY_CONTROL"


class FailedWritesPolicy(enum.Enum):
    """Who rolls back the pending write of a dead writer."""

    EAGER = "EAGER"
    LAZY = "LAZY"
    NEVER = "NEVER"


class MarkerKeeping(enum.Enum):
    """How a write keeps the markers of its files: in a file each, or in few files by a service."""

    DIRECT = "DIRECT"
    TIMELINE_SERVER_BASED = "TIMELINE_SERVER_BASED"


class EarlyDetectionStrategy(enum.Enum):
    """Who looks for other writers' markers. The values are the JVM's class names, unqualified."""

    BY_TASKS = "SimpleDirectMarkerBasedDetectionStrategy"
    """Each task, before it announces a file."""
    BY_SERVICE = "AsyncTimelineServerBasedDetectionStrategy"
    """The marker service, before it stores a batch."""


class QueryType(enum.Enum):
    """What a read returns."""

    SNAPSHOT = "snapshot"
    READ_OPTIMIZED = "read_optimized"
    INCREMENTAL = "incremental"


class TimelineTimezone(enum.StrEnum):
    """The zone that the table's instant times are written in: this machine's own, or UTC."""

    LOCAL = "LOCAL"
    UTC = "UTC"
