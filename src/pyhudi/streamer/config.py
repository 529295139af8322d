"""`StreamerConfig`: the arguments of a streamer, under the names of JVM Hudi's HoodieStreamer."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from pyhudi.api.arguments import HudiOptions
from pyhudi.streamer.result import StreamerResult
from pyhudi.streamer.transformers import Transformers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class StreamerConfig:
    """What a streamer reads, and how it writes. `run` takes these fields as its arguments.

    Attributes:
        target_base_path: the table's folder: a path, or a URI of an object store.
        source_class: the source, by the name of JVM Hudi's class: `ParquetDFSSource`, `ORCDFSSource`,
            `AvroDFSSource`, `JsonDFSSource`, `CsvDFSSource`, `JsonKafkaSource`, `AvroKafkaSource`,
            `PostgresDebeziumSource`, `MysqlDebeziumSource`, `HoodieIncrSource`, `JdbcSource`, `SqlSource`,
            `SqlFileBasedSource`, `S3EventsSource` or `S3EventsHoodieIncrSource`.
        target_table: the name of a new table; the folder's, if not given.
        table_type: of a new table: "cow" or "mor", or COPY_ON_WRITE or MERGE_ON_READ.
        op: the operation: UPSERT, INSERT, BULK_INSERT, INSERT_OVERWRITE, INSERT_OVERWRITE_TABLE, DELETE or
            DELETE_PARTITION, which ends the partitions that the rows of a batch are in.
        source_ordering_fields: the columns that say which version of a record is the newest.
        filter_dupes: with INSERT: drop rows whose keys the table has, and all but one of those with the same key.
        props: a property file with options.
        hoodie_conf: options under Hudi's own names, over those of the file; other names go to the source's client.
        schemaprovider_class: `FilebasedSchemaProvider`, for a file with the Avro schema of the rows;
            `JdbcbasedSchemaProvider`, for a table of a database; for Avro from Kafka also `SchemaRegistryProvider`.
        schema: the columns of the rows, in place of a schema provider.
        transformer_class: what becomes of the rows before they are written: `SqlQueryBasedTransformer`,
            `SqlFileBasedTransformer`, `FlatteningTransformer`, a function that takes an Arrow table, with `spark` a
            DataFrame, and gives rows, `RowWise` of one that takes Arrow with `spark`, too, or several of these. Names
            may have ids, as `first:FlatteningTransformer`: options that end in `.first` are
            then for this one alone.
        source_limit: about how many bytes of files, or how many messages, a batch may have.
        checkpoint: where to begin, whatever the table says. It counts once: a run with the same value goes on.
        ignore_checkpoint: a word, for which the source is read from its begin. It counts once, too.
        allow_commit_on_no_checkpoint_change: commit even where there is nothing new.
        continuous: go on until something stops it, in place of one round.
        min_sync_interval_seconds: with `continuous`: how long a round takes at least, so that commits are not too many.
        max_pending_compactions: with `continuous`: no round begins while so many compactions are planned and not done.
        max_pending_clustering: the same for clusterings.
        disable_compaction: whether another process compacts the table.
        post_write_termination: with `continuous`: a function of the result so far and of the number of rounds without
            anything new since the last batch; the run ends when it returns True. `None`: only an error or an
            interruption ends it.
        retry_on_source_failures: whether a source that fails is asked again.
        retry_interval_seconds: how long to wait before.
        max_retry_count: how often it is asked again; with `continuous` also how many rounds in a row may fail for
            another reason that may pass, such as another writer.
        spark: a Spark session, whose tasks read files or topics and write the table; `None`: this process does both.
    """

    target_base_path: str | os.PathLike[str]
    source_class: str = "JsonDFSSource"
    target_table: str | None = None
    table_type: str | None = None
    op: str = "UPSERT"
    source_ordering_fields: str | Sequence[str] | None = None
    filter_dupes: bool = False
    props: str | os.PathLike[str] | None = None
    hoodie_conf: HudiOptions | None = field(default=None, repr=False)
    schemaprovider_class: str | None = None
    schema: pa.Schema | None = None
    transformer_class: Transformers = None
    source_limit: int | None = None
    checkpoint: str | None = None
    ignore_checkpoint: str | None = None
    allow_commit_on_no_checkpoint_change: bool = False
    continuous: bool = False
    min_sync_interval_seconds: float = 0
    max_pending_compactions: int = 5
    max_pending_clustering: int = 5
    disable_compaction: bool = False
    post_write_termination: Callable[[StreamerResult, int], bool] | None = None
    retry_on_source_failures: bool = False
    retry_interval_seconds: float = 30
    max_retry_count: int = 3
    spark: SparkSession | None = None
