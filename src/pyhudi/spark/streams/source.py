"""`spark.readStream.format("hudi")`: the rows that each micro-batch's commits wrote.

The offset of the stream is a position on the timeline, as `HudiTable.changes` takes it. A micro-batch has the rows that
were written after its start and until its end, in their version as of the end. Deleted rows do not appear. Of change
data it has every insert, update and delete, with the rows before and after.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pyhudi.config.location import table_path
from pyhudi.config.option import options_of, read_group
from pyhudi.config.options_streams import StreamSourceOptions
from pyhudi.config.read_config import EARLIEST, ReadConfig
from pyhudi.config.refused_keys import Side
from pyhudi.config.registry import given_options
from pyhudi.errors import ConfigError, SchemaMismatchError, UnsupportedFeatureError
from pyhudi.read.arrow import read_batches
from pyhudi.read.cdc.plan import ChangePlan, ChangeTask
from pyhudi.read.cdc.rows import read_changes
from pyhudi.read.scan import ScanPlan
from pyhudi.read.stream import (
    Limits,
    StreamOffset,
    first_offset,
    newest_position,
    next_offset,
    plan_batch,
    plan_change_batch,
)
from pyhudi.spark.batches import conformed
from pyhudi.spark.capabilities import VERSION
from pyhudi.spark.options import table_options
from pyhudi.spark.types import arrow_schema, spark_schema
from pyhudi.storage.open import open_spec, open_storage
from pyhudi.storage.protocol import StorageSpec
from pyhudi.table.state import TableState, load_table

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
except ImportError:  # before 4.2 a stream reads all that is there
    ReadAllAvailable = ReadLimit = ReadMaxFiles = None

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Not in this PySpark."""


NAMES: Final = frozenset(name for _, option in options_of(StreamSourceOptions) for name in option.spellings)
"""The options that only streams have."""


class HudiStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """A stream of one table, with a Spark partition for each file slice of a micro-batch, or each task of changes."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = table_options(options)
        self._path = table_path(None, self._options)
        self._config = ReadConfig.of_stream(self._options)
        given = read_group(StreamSourceOptions, given_options(self._options, Side.READ))
        self._start = given.start
        self._limits = Limits(commits=given.max_commits, files=given.max_files, bytes=given.max_bytes)
        if self._limits.are_set and ReadLimit is None:
            raise UnsupportedFeatureError(
                "limits of a micro-batch need PySpark 4.2 or newer: leave them out",
                pyspark=VERSION,
            )
        if self._config.change_data and self._limits.splits:
            raise ConfigError("change data is limited by commits: leave limits of files and bytes out")
        self._schema = schema
        self._newest: dict[str, str] | None = None
        self._target: str | None = None

    def initialOffset(self) -> dict[str, str]:  # noqa: N802 - the name in Spark's interface
        """Where a new query starts. Cost: one read and one listing."""
        table = self._table()
        return first_offset(table, self._start).to_json(table.version)

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """That there are limits; which they are, `latestOffset` knows better than Spark's classes can say."""
        return ReadMaxFiles(self._limits.files or 1) if self._limits.are_set else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Take the newest commit as the end of the query."""
        self._target = newest_position(self._table()) or EARLIEST

    def latestOffset(self, start: dict[str, str] | None = None, limit: Any = None) -> dict[str, str]:  # noqa: N802
        """The end of the next micro-batch: at most the newest commit before which no write is still running.

        Cost: one read and one listing; with limits also those of planning the micro-batch.
        """
        table = self._table()
        newest = StreamOffset(newest_position(table) or EARLIEST)
        self._newest = newest.to_json(table.version)
        target = newest.position if self._target is None else self._target
        begin = StreamOffset(EARLIEST) if start is None else StreamOffset.from_json(start)
        begin.check(table)
        unlimited = ReadAllAvailable is None or isinstance(limit, ReadAllAvailable)
        limits = Limits() if unlimited else self._limits
        end = next_offset(table, self._config, begin, target, limits)
        if end == begin and start is not None:
            return start  # as it is: another text would be a micro-batch
        return end.of(table).to_json(table.version)

    def reportLatestOffset(self) -> dict[str, str] | None:  # noqa: N802
        """The newest commit, as `latestOffset` last saw it, for the query's progress."""
        return self._newest

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        """The file slices with rows of the micro-batch.

        Raises:
            ConfigError: the checkpoint is that of a stream of another table, or of another kind.
            HistoryNotRetainedError: files of the micro-batch have been cleaned; names the earliest position.
            SchemaMismatchError: the table has other columns than when the query was started.
        """
        table = self._table()
        begin, until = (StreamOffset.from_json(offset) for offset in (start, end))
        begin.check(table)
        until.check(table)
        if until.until is None and until.position <= begin.position:
            return []
        if self._config.change_data:
            changes = plan_change_batch(table, self._config, begin, until)
            return [InputPartition((dataclasses.replace(changes, tasks=()), task)) for task in changes.tasks]
        plan = plan_batch(table, self._config, begin, until)
        if spark_schema(plan.schema) != spark_schema(arrow_schema(self._schema)):
            raise SchemaMismatchError(
                "the table has other columns than when this query was started: start the query again, from the same "
                "checkpoint",
                path=table.storage.uri,
                columns=plan.schema.names,
            )
        spec = table.storage.spec
        return [InputPartition((spec, dataclasses.replace(plan, slices=(file_slice,)))) for file_slice in plan.slices]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one file slice, or the changes of one task, in a worker."""
        schema = arrow_schema(self._schema)
        if self._config.change_data:
            change: tuple[ChangePlan, ChangeTask] = partition.value
            changes, task = change
            return conformed(read_changes(open_spec(changes.storage), changes, task), schema)
        value: tuple[StorageSpec, ScanPlan] = partition.value
        spec, plan = value
        return conformed(read_batches(open_spec(spec), plan, list(schema.names), None), schema)

    def _table(self) -> TableState:
        return load_table(open_storage(self._path, self._options))
