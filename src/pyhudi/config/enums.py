"""Enumerations of the legal values of options and table properties, in Hudi's spelling."""

from __future__ import annotations

import enum
from typing import Final


class TableType(enum.Enum):
    """Whether an update rewrites a base file or appends to a log."""

    COPY_ON_WRITE = "COPY_ON_WRITE"
    MERGE_ON_READ = "MERGE_ON_READ"


class MergeMode(enum.Enum):
    """Which of two versions of a record wins: the later commit, the greater ordering value, or a merger's result."""

    COMMIT_TIME_ORDERING = "COMMIT_TIME_ORDERING"
    EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"
    CUSTOM = "CUSTOM"


class PartialUpdateMode(enum.Enum):
    """Which columns of the winning version keep the older value (`hoodie.table.partial.update.mode`)."""

    NONE = "NONE"
    IGNORE_DEFAULTS = "IGNORE_DEFAULTS"
    """Columns that have their default in the table's schema, which is null unless the schema names another."""
    FILL_UNAVAILABLE = "FILL_UNAVAILABLE"
    """Columns that hold the table's marker (text or bytes) for values that the source could not send."""


class IndexType(enum.Enum):
    """How the index finds the file group of a record key."""

    SIMPLE = "SIMPLE"
    GLOBAL_SIMPLE = "GLOBAL_SIMPLE"
    BLOOM = "BLOOM"
    GLOBAL_BLOOM = "GLOBAL_BLOOM"
    INMEMORY = "INMEMORY"
    HBASE = "HBASE"
    BUCKET = "BUCKET"
    RECORD_INDEX = "RECORD_INDEX"
    """The older name of GLOBAL_RECORD_LEVEL_INDEX."""
    GLOBAL_RECORD_LEVEL_INDEX = "GLOBAL_RECORD_LEVEL_INDEX"
    RECORD_LEVEL_INDEX = "RECORD_LEVEL_INDEX"

    @property
    def is_global(self) -> bool:
        """Whether a key is unique in the whole table, not only in its partition."""
        return self in {
            IndexType.GLOBAL_SIMPLE,
            IndexType.GLOBAL_BLOOM,
            IndexType.HBASE,
            IndexType.RECORD_INDEX,
            IndexType.GLOBAL_RECORD_LEVEL_INDEX,
        }

    @property
    def is_in_metadata_table(self) -> bool:
        """Whether the index is the record index of the metadata table."""
        return self in {
            IndexType.RECORD_INDEX,
            IndexType.GLOBAL_RECORD_LEVEL_INDEX,
            IndexType.RECORD_LEVEL_INDEX,
        }

    @property
    def remembers(self) -> bool:
        """Whether the index keeps the file groups of keys somewhere else than in the table."""
        return self in {IndexType.INMEMORY, IndexType.HBASE}

    @property
    def uses_bloom_filters(self) -> bool:
        """Whether the index uses the Bloom filters in the footers of base files."""
        return self in {IndexType.BLOOM, IndexType.GLOBAL_BLOOM}


class BucketEngine(enum.Enum):
    """How a bucket index divides record keys into buckets."""

    SIMPLE = "SIMPLE"
    """A fixed number of buckets in each partition."""
    CONSISTENT_HASHING = "CONSISTENT_HASHING"
    """A ring of buckets in each partition, which can be split and merged."""


class Arrangement(enum.Enum):
    """How rows are distributed over the files of a bulk insert, or over the tasks of any other write."""

    NONE = "NONE"
    GLOBAL_SORT = "GLOBAL_SORT"
    PARTITION_SORT = "PARTITION_SORT"
    PARTITION_PATH_REPARTITION = "PARTITION_PATH_REPARTITION"
    PARTITION_PATH_REPARTITION_AND_SORT = "PARTITION_PATH_REPARTITION_AND_SORT"
    BY_KEY = "BY_KEY"
    """All rows of one record key, which is a text, in one task. Not a value of `hoodie.bulkinsert.sort.mode`."""


BULK_INSERT_SORT_MODES: Final = tuple(mode for mode in Arrangement if mode is not Arrangement.BY_KEY)
"""The arrangements that a user can ask for."""


class ParquetCodec(enum.Enum):
    """How the pages of base files are compressed."""

    ZSTD = "zstd"
    SNAPPY = "snappy"
    GZIP = "gzip"
    LZ4 = "lz4_raw"
    UNCOMPRESSED = "uncompressed"

    @property
    def arrow_name(self) -> str:
        """The name of the codec in pyarrow."""
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
    """Which file slices a compaction selects, in which order. Values are class names of JVM Hudi, unqualified."""

    LOG_FILE_SIZE = "LogFileSizeBasedCompactionStrategy"
    """Slices with the most bytes of logs first, up to the I/O budget."""
    LOG_FILE_NUM = "LogFileNumBasedCompactionStrategy"
    """Slices with the most log files first, up to the I/O budget."""
    BOUNDED_IO = "BoundedIOCompactionStrategy"
    """Slices in listing order, up to the I/O budget."""
    UNBOUNDED = "UnBoundedCompactionStrategy"
    """All slices."""
    DAY_BASED = "DayBasedCompactionStrategy"
    """Slices of the newest days, if partition paths are dates."""
    BOUNDED_PARTITION_AWARE = "BoundedPartitionAwareCompactionStrategy"
    """Slices of the newest days before today, if partition paths are dates."""
    UNBOUNDED_PARTITION_AWARE = "UnBoundedPartitionAwareCompactionStrategy"
    """All slices that BOUNDED_PARTITION_AWARE does not select."""
    PARTITION_REGEX = "PartitionRegexBasedCompactionStrategy"
    """Slices of the partitions whose path contains a match of a regular expression."""


class DuplicatePolicy(enum.Enum):
    """How an insert treats rows whose key is in the table already."""

    NONE = "none"
    DROP = "drop"
    FAIL = "fail"


class OverwriteMode(enum.Enum):
    """Whether an overwrite replaces the whole table or only the partitions of its rows."""

    STATIC = "STATIC"
    DYNAMIC = "DYNAMIC"


class ConcurrencyMode(enum.Enum):
    """What writers do that change the same file groups at the same time."""

    SINGLE_WRITER = "SINGLE_WRITER"
    OPTIMISTIC_CONCURRENCY_CONTROL = "OPTIMISTIC_CONCURRENCY_CONTROL"
    NON_BLOCKING_CONCURRENCY_CONTROL = "NON_BLOCKING_CONCURRENCY_CONTROL"


class FailedWritesPolicy(enum.Enum):
    """When a write rolls back the pending writes of dead writers."""

    EAGER = "EAGER"
    LAZY = "LAZY"
    NEVER = "NEVER"


class EarlyDetectionStrategy(enum.Enum):
    """Who checks the markers of other writers. The values are class names of JVM Hudi, unqualified."""

    BY_TASKS = "SimpleDirectMarkerBasedDetectionStrategy"
    """Each task, before it announces a file."""
    BY_SERVICE = "AsyncTimelineServerBasedDetectionStrategy"
    """The marker service, before it stores a batch."""


class QueryType(enum.Enum):
    """The kind of a read."""

    SNAPSHOT = "snapshot"
    READ_OPTIMIZED = "read_optimized"
    INCREMENTAL = "incremental"


class IncrementalFormat(enum.Enum):
    """What an incremental read returns of a record: its row as of the end, or every change of it."""

    LATEST_STATE = "latest_state"
    CHANGE_DATA = "cdc"


class TimelineTimezone(enum.Enum):
    """The time zone of the table's instant times: that of the writing machine, or UTC."""

    LOCAL = "LOCAL"
    UTC = "UTC"


class ErrorTableFailure(enum.Enum):
    """What becomes of a batch whose failed records cannot be written to the error table."""

    ROLLBACK_COMMIT = "ROLLBACK_COMMIT"
    """Nothing of it is written."""
    LOG_ERROR = "LOG_ERROR"
    """Its rows are written, and its failed records are lost."""
