"""`spark.readStream.format("hudi")`: the rows that each micro-batch's commits wrote.

The offset of the stream is a position on the timeline, as `HudiTable.changes` takes it. A micro-batch has the rows that
were written after its start and until its end, in their version as of the end. Deleted rows do not appear.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pyhudi.config.enums import QueryType
from pyhudi.config.location import table_path
from pyhudi.config.read_config import EARLIEST, ReadConfig
from pyhudi.errors import ConfigError, SchemaMismatchError
from pyhudi.format.timeline.instant import instant_time_from_user
from pyhudi.read.arrow import read_batches
from pyhudi.read.scan import ScanPlan, plan_table_scan
from pyhudi.spark.engine import conformed
from pyhudi.spark.options import table_options
from pyhudi.spark.types import arrow_schema, spark_schema
from pyhudi.storage.open import open_spec, open_storage
from pyhudi.storage.protocol import StorageSpec
from pyhudi.table.state import TableState, load_table
from pyhudi.table.timeline import position_of

START: Final = "hoodie.datasource.streaming.startoffset"
_POSITION: Final = "position"


class HudiStreamReader(DataSourceStreamReader):  # type: ignore[misc]
    """A stream of one table, with one Spark partition for each file slice of a micro-batch."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._start = next((value for name, value in options.items() if name.lower() == START), "earliest")
        self._options = table_options({name: value for name, value in options.items() if name.lower() != START})
        self._path = table_path(None, self._options)
        self._config = ReadConfig.from_options(self._options)
        if self._config.query_type is not QueryType.SNAPSHOT or self._config.as_of is not None:
            raise ConfigError("a stream has no query type and no time travel: say where it starts by startOffset")
        self._schema = schema

    def initialOffset(self) -> dict[str, str]:  # noqa: N802 - the name in Spark's interface
        """Where a new query starts: `earliest` (all rows), `latest` (what is written from now on), or a time."""
        start = self._start.strip()
        if start.lower() == "earliest":
            return {_POSITION: EARLIEST}
        if start.lower() == "latest":
            return {_POSITION: _newest(self._table()) or EARLIEST}
        return {_POSITION: instant_time_from_user(start)}

    def latestOffset(self, start: dict[str, str] | None = None, limit: Any = None) -> dict[str, str]:  # noqa: N802
        """The newest commit before which no write is still running. Cost: one read and one listing."""
        del limit
        newest = _newest(self._table()) or EARLIEST
        before = EARLIEST if start is None else start[_POSITION]
        # A restore may have removed the newest commits.
        return {_POSITION: max(newest, before)}

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        """The file slices with rows of the micro-batch.

        Raises:
            HistoryNotRetainedError: files of the micro-batch have been cleaned; names the earliest position.
            SchemaMismatchError: the table has other columns than when the query was started.
        """
        if start[_POSITION] >= end[_POSITION]:
            return []
        table = self._table()
        config = dataclasses.replace(
            self._config, query_type=QueryType.INCREMENTAL, begin=start[_POSITION], end=end[_POSITION]
        )
        plan = plan_table_scan(table, config)
        if spark_schema(plan.schema) != _without_metadata(self._schema):
            raise SchemaMismatchError(
                "the table has other columns than when this query was started: start the query again, from the same "
                "checkpoint",
                path=table.storage.uri,
                columns=plan.schema.names,
            )
        spec = table.storage.spec
        return [InputPartition((spec, dataclasses.replace(plan, slices=(one,)))) for one in plan.slices]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one file slice, in a worker."""
        value: tuple[StorageSpec, ScanPlan] = partition.value
        spec, plan = value
        schema = arrow_schema(self._schema)
        return conformed(read_batches(open_spec(spec), plan, list(schema.names), None), schema)

    def _table(self) -> TableState:
        return load_table(open_storage(self._path, self._options))


def _newest(table: TableState) -> str | None:
    """The position of the newest completed write; in version 6 of those that no running write comes before."""
    timeline = table.timeline
    positions = [position_of(instant) for instant in timeline.completed_writes]
    if not table.version.has_completion_times and timeline.pending_writes:
        first = min(instant.requested_time for instant in timeline.pending_writes)
        positions = [position for position in positions if position < first]
    return max(positions, default=None)


def _without_metadata(schema: StructType) -> StructType:
    return spark_schema(arrow_schema(schema))
