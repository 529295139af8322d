"""`df.writeStream.format("hudi")`: each micro-batch is one write, exactly once.

Spark sends a micro-batch again if the query stopped before its end was noted in the checkpoint. A write stores the id
of the query, which is in the checkpoint, and the number of the micro-batch; a micro-batch that is in the table is not
written again (`transaction/idempotence.py`).
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import DataFrame

from pyhudi.config.option import OptionWarning
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.spark.options import table_options
from pyhudi.spark.writer import save_dataframe

BATCH_ID: Final = "hoodie.write.batch.id"
IDENTIFIER: Final = "hoodie.datasource.write.streaming.checkpoint.identifier"
SINK_CHECKPOINT: Final = "_hudi_streaming_sink_checkpoint"
"""The key in a commit's metadata by which JVM Hudi's sink finds its last micro-batch, as JSON by identifier."""
_PREFIX: Final = "hoodie.datasource.write.commitmeta.key.prefix"
_IGNORE_FAILED: Final = "hoodie.datasource.write.streaming.ignore.failed.batch"
_QUERY_ID: Final = "sql.streaming.queryId"

WriteBatch = Callable[[DataFrame, int], None]


def batch_writer(
    path: str, *, options: Mapping[str, str], output_mode: str | None, partition_by: tuple[str, ...]
) -> WriteBatch:
    """The function that writes a micro-batch: the argument of `foreachBatch`.

    Args:
        path: the table's folder.
        options: Hudi's own option names; the operation is an upsert, if they name none.
        output_mode: append and update write what changed; complete replaces all rows of the table.
        partition_by: the columns of `partitionBy`.

    Raises:
        ConfigError: an option is set that the sink sets itself.
        UnsupportedFeatureError: the options ask for failed micro-batches to be passed over.
    """
    options = {name: value for name, value in options.items() if name.lower() != "checkpointlocation"}
    given = table_options(options)
    if BATCH_ID in given:
        raise ConfigError(f"a stream numbers its batches: leave {BATCH_ID} out", option=BATCH_ID)
    if str(given.get(_IGNORE_FAILED, "false")).lower() == "true":
        raise UnsupportedFeatureError(
            "rows of a failed micro-batch would be lost: leave the option out; the query stops and can be restarted",
            option=_IGNORE_FAILED,
        )
    for name in given:
        if name.startswith("hoodie.datasource.write.streaming.") and name != IDENTIFIER:
            warnings.warn(f"{name} has no effect on a stream of pyhudi", OptionWarning, stacklevel=2)
    options = {name: value for name, value in options.items() if ".write.streaming." not in name.lower()}
    identifier = given.get(IDENTIFIER)
    mode = "overwrite" if (output_mode or "append").lower() == "complete" else "append"

    def write(rows: DataFrame, number: int) -> None:
        query = _query_id(rows)
        checkpoint = {SINK_CHECKPOINT: json.dumps({str(identifier or query): str(number)})}
        save_dataframe(
            rows,
            path,
            options={**options, BATCH_ID: f"{query}/{number}", **_as_metadata(checkpoint, given)},
            mode=mode,
            partition_by=partition_by,
        )

    return write


def _as_metadata(values: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Options that go into the commit's metadata."""
    prefix = str(given.get(_PREFIX, "_"))
    return dict(values) if all(name.startswith(prefix) for name in values) else {}


def _query_id(rows: DataFrame) -> str:
    """The id of the running query, which its checkpoint keeps."""
    context = rows.sparkSession.sparkContext
    found = context.getLocalProperty(_QUERY_ID)
    if not found:
        raise UnsupportedFeatureError("a micro-batch can only be written by the query that it belongs to")
    return str(found)
