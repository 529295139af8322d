"""`df.writeStream.format("hudi")`: each micro-batch is one write, exactly once.

Spark sends a micro-batch again if the query stopped before its end was noted in the checkpoint. A write stores the id
of the query, which is in the checkpoint, and the number of the micro-batch; a micro-batch that is in the table is not
written again (`transaction/idempotence.py`). The first micro-batch of a run may also be one that JVM Hudi's sink wrote
before its query died (`written_by_jvm`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from pyhudi.config.option import options_of, read_group, warn_of_option
from pyhudi.config.options_streams import StreamSinkOptions
from pyhudi.errors import ConfigError
from pyhudi.format.timeline.instant import parse_instant_time
from pyhudi.spark.options import table_options, with_session_store
from pyhudi.spark.settings import is_connect
from pyhudi.spark.streams.checkpoint import LOCATION, Checkpoint
from pyhudi.spark.writer import save_dataframe
from pyhudi.storage.open import open_storage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.instant_times import table_zone
from pyhudi.table.state import load_table, table_exists
from pyhudi.transaction.idempotence import BATCH_ID_METADATA

BATCH_ID: Final = "hoodie.write.batch.id"
SINK_CHECKPOINT: Final = "_hudi_streaming_sink_checkpoint"
"""The key in a commit's metadata by which JVM Hudi's sink finds its last micro-batch, as JSON by identifier."""
JVM_IDENTIFIER: Final = "default_single_writer"
"""The identifier of JVM Hudi's sink, if no option gives one."""
_PREFIX: Final = "hoodie.datasource.write.commitmeta.key.prefix"
_QUERY_ID: Final = "sql.streaming.queryId"
_NO_COMPACTION: Final = {"hoodie.compact.inline": "false", "hoodie.datasource.compaction.async.enable": "false"}
_NAMES: Final = frozenset(name for _, option in options_of(StreamSinkOptions) for name in option.spellings)
_log = logging.getLogger("pyhudi")
_INTERRUPTED: Final = "java.lang.InterruptedException"
_Interrupted = type("Py4JJavaError", (Exception,), {"__module__": "py4j.protocol"})
"""Named as the error that Spark looks for."""


@dataclass(slots=True)
class BatchWriter:
    """The function that writes a micro-batch: the argument of `foreachBatch`. It can be sent to another process."""

    path: str
    options: Mapping[str, Any]
    mode: str
    partition_by: tuple[str, ...]
    checkpoint: Checkpoint
    identifier: str | None
    _query: str | None = field(default=None, init=False)

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Write a micro-batch, if the table does not have it.

        Raises:
            HudiError: as a write.
        """
        spark = rows.sparkSession
        is_first = self._query is None
        query = self._query or _query_id(spark, self.checkpoint)
        if is_first and self._written_by_jvm(spark, number):
            _log.info("micro-batch %d is in the table: JVM Hudi wrote it", number)
        else:
            options = {**self.options, BATCH_ID: f"{query}/{number}", **self._metadata(query, number)}
            with nullcontext() if is_connect(spark) else stopped_quietly():
                save_dataframe(rows, self.path, options=options, mode=self.mode, partition_by=self.partition_by)
        self._query = query

    def _metadata(self, query: str, number: int) -> dict[str, str]:
        """What the commit keeps for JVM Hudi's sink, if the options let metadata of this name into the commit."""
        if not SINK_CHECKPOINT.startswith(str(self.options.get(_PREFIX, "_"))):
            return {}
        return {SINK_CHECKPOINT: json.dumps({self.identifier or query: str(number)})}

    def _written_by_jvm(self, spark: SparkSession, number: int) -> bool:
        """Whether JVM Hudi's sink wrote this micro-batch of this query, and the query died before it noted that.

        JVM Hudi numbers the micro-batches of all queries of one identifier alike, so the number alone does not say it:
        its commit must be later than the micro-batch. Cost: a read per commit since JVM Hudi's last one.
        """
        storage = open_storage(self.path, with_session_store(spark, self.path, self.options))
        if not table_exists(storage):
            return False
        table = load_table(storage)
        for instant in reversed(table.timeline.completed_writes):
            metadata = load_commit_metadata(storage, instant, table.version)
            last = _last_batch(metadata.extra, self.identifier or JVM_IDENTIFIER)
            if last is None:
                continue
            if BATCH_ID_METADATA in metadata.extra or last != str(number):
                return False
            written = parse_instant_time(instant.requested_time, table_zone(table.config))
            planned = self.checkpoint.planned_ms(spark, number)
            return written is not None and planned is not None and planned <= written
        return False


def batch_writer(
    spark: SparkSession,
    path: str,
    *,
    options: Mapping[str, str],
    output_mode: str | None,
    partition_by: tuple[str, ...],
    query_name: str | None = None,
) -> BatchWriter:
    """The function that writes the micro-batches of a query.

    Args:
        spark: the session of the query, classic or Connect.
        path: the table's folder.
        options: Hudi's own option names; the operation is an upsert, if they name none.
        output_mode: append and update write what changed; complete replaces all rows of the table.
        partition_by: the columns of `partitionBy`.
        query_name: the name of the query, which may choose its checkpoint.

    Raises:
        ConfigError: an option is set that the sink sets itself.
        UnsupportedFeatureError: the options ask for failed micro-batches to be passed over.
    """
    given = table_options({name: value for name, value in options.items() if name.lower() != LOCATION})
    if BATCH_ID in given:
        raise ConfigError(f"a stream numbers its batches: leave {BATCH_ID} out", option=BATCH_ID)
    sink = read_group(StreamSinkOptions, {name: str(value) for name, value in given.items() if name in _NAMES})
    for name in given:
        if name.startswith("hoodie.datasource.write.streaming.") and name not in _NAMES:
            warn_of_option(f"{name} has no effect on a stream of pyhudi")
    written = {name: value for name, value in given.items() if ".write.streaming." not in name.lower()}
    return BatchWriter(
        path=path,
        options={**written, **(_NO_COMPACTION if sink.disables_compaction else {})},
        mode="overwrite" if (output_mode or "append").lower() == "complete" else "append",
        partition_by=partition_by,
        checkpoint=Checkpoint.of_query(spark, options, query_name),
        identifier=sink.identifier,
    )


def _last_batch(extra: Mapping[str, str], identifier: str) -> str | None:
    """The number of the micro-batch that a commit keeps under an identifier."""
    try:
        kept = json.loads(extra.get(SINK_CHECKPOINT, "{}"))
    except ValueError:
        return None
    return str(kept[identifier]) if isinstance(kept, dict) and identifier in kept else None


def _query_id(spark: SparkSession, checkpoint: Checkpoint) -> str:
    """The id of the running query, which its checkpoint keeps."""
    known = None if is_connect(spark) else spark.sparkContext.getLocalProperty(_QUERY_ID)
    return str(known) if known else checkpoint.query_id(spark)


@contextmanager
def stopped_quietly() -> Iterator[None]:
    """Raise an interruption of the driver's JVM without its stack trace; other errors as they are."""
    try:
        yield
    except Py4JJavaError as error:
        if not _is_interruption(error.java_exception):
            raise
        raise _Interrupted(f"An error occurred while calling the driver.\n: {_INTERRUPTED}") from None


def _is_interruption(error: Any) -> bool:
    while error is not None:
        if error.getClass().getName() == _INTERRUPTED:
            return True
        error = error.getCause()
    return False
