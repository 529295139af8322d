"""`ChangeScan`: change data that was asked for, in all the forms of a scan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.api.arguments import moment_text
from pyhudi.api.handle import TableHandle
from pyhudi.api.scan import Scan, scan_of_changes
from pyhudi.config.enums import QueryType
from pyhudi.config.read_config import ReadConfig, begin_of
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.format.log.cdc import DELETED, INSTANT, OPERATION
from pyhudi.format.pieces import reordered
from pyhudi.read.arrow import checked_names
from pyhudi.read.cdc.plan import ChangePlan
from pyhudi.read.cdc.planning import plan_changes
from pyhudi.read.cdc.rows import read_changes
from pyhudi.read.conditions import Where, condition_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyhudi.api.explanation import ScanExplanation

ChangesFormat = Literal["latest_state", "cdc", "cdc_typed"]
CHANGES_FORMATS: Final = ("latest_state", "cdc", "cdc_typed")


@dataclass(frozen=True, eq=False)
class ChangeScan(Scan):
    """The changes of a range of time, one row for each. See `HudiTable.changes`."""

    _changes: ChangePlan = field(repr=False)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result and their types. Cost: none."""
        return pa.schema([self._changes.schema.field(name) for name in self.columns])

    def to_arrow(self) -> pa.Table:
        """The changes as one Arrow table, in memory, in the order in which their writes completed, deletes first.

        So they can be replayed one after the other: a record that moves is deleted before it is inserted.
        """
        rows = pa.Table.from_batches(self._batches(), self._changes.schema)
        place = pc.not_equal(rows.column(OPERATION), DELETED)
        write = pc.index_in(rows.column(INSTANT), value_set=pa.array(self._changes.writes, pa.string()))
        keys = pa.table({"write": write, "place": place, "row": np.arange(rows.num_rows)})
        order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])
        return reordered(rows.select(list(self.columns)), order.to_numpy().astype(np.int64))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The changes batch by batch, in bounded memory; those of one file group in the order of the writes."""
        for batch in self._batches():
            yield batch.select(list(self.columns))

    def _batches(self) -> Iterator[pa.RecordBatch]:
        condition = condition_of(self.where, self._changes.schema)
        for task in self._changes.tasks:
            for batch in read_changes(self._state.storage, self._changes, task):
                rows = pa.Table.from_batches([batch])
                rows = rows if condition is None else rows.filter(condition.whole)
                yield from (kept for kept in rows.to_batches() if kept.num_rows)

    def to_df(self, spark: SparkSession) -> DataFrame:
        """The changes as a Spark DataFrame; executors read them when an action runs, in no order."""
        from pyhudi.spark.reads.cdc import change_frame  # noqa: PLC0415
        from pyhudi.spark.reads.reader import spark_condition  # noqa: PLC0415

        rows = change_frame(spark, self._changes)
        if self.where is not None:
            rows = rows.where(spark_condition(self.where, self._changes.schema))
        return rows.select(*self.columns)

    def count(self) -> int:
        """How many changes there are. Cost: as `to_batches`."""
        return sum(batch.num_rows for batch in self.to_batches())

    def files(self) -> pa.Table:
        """Not for change data: raises `UnsupportedFeatureError`."""
        raise _not_of_changes("files")

    def explain(self) -> ScanExplanation:
        """Not for change data: raises `UnsupportedFeatureError`."""
        raise _not_of_changes("explain")


def _not_of_changes(method: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{method} tells of rows of files, not of change data: ask the changes as latest_state"
    )


def changes_of(
    handle: TableHandle,
    begin: str | datetime | None,
    end: str | datetime | None,
    columns: Sequence[str] | None,
    where: Where,
    form: str | None,
) -> Scan:
    """A scan of a range of time in one of the formats; None: in that of the table's options."""
    if form is not None and form not in CHANGES_FORMATS:
        raise ConfigError("there is no such format of changes", given=repr(form), known=CHANGES_FORMATS)
    request = ReadConfig.from_options(handle.options)
    if form == "latest_state" or (form is None and not request.change_data):
        return scan_of_changes(handle, begin, end, columns, where)
    begin = request.begin if begin is None else begin_of(moment_text(begin, "begin"))
    end = request.end if end is None else moment_text(end, "end")
    request = replace(request, query_type=QueryType.INCREMENTAL, as_of=None, begin=begin, end=end, change_data=True)
    handle, meter = handle.counting()
    changes = plan_changes(handle.state, request, handle.mergers, typed=form == "cdc_typed")
    names = checked_names(changes.schema.names, columns)
    condition_of(where, changes.schema)
    return ChangeScan(tuple(names), where, handle.state, request, changes.rows, meter, changes)
