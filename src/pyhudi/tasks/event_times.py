"""The event times of the rows that a task writes: the smallest and largest, in milliseconds, as JVM Hudi has them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_SECONDS: Final = (10**9, 10**10 - 1)
"""Numbers of ten digits are seconds, and those of thirteen milliseconds, as in JVM Hudi."""
_MILLISECONDS: Final = (10**12, 10**13 - 1)


def has_event_times(data_type: pa.DataType) -> bool:
    """Whether values of a type are times: timestamps, dates, and whole numbers."""
    return bool(pa.types.is_timestamp(data_type) or pa.types.is_date(data_type) or pa.types.is_integer(data_type))


def milliseconds(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Event times as milliseconds since the epoch; null for a number that is neither seconds nor milliseconds."""
    if pa.types.is_date(values.type):
        values = values.cast(pa.timestamp("ms"))
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    numbers = values.cast(pa.int64())
    in_seconds = pc.and_(pc.greater_equal(numbers, _SECONDS[0]), pc.less_equal(numbers, _SECONDS[1]))
    in_milliseconds = pc.and_(pc.greater_equal(numbers, _MILLISECONDS[0]), pc.less_equal(numbers, _MILLISECONDS[1]))
    scaled = pc.multiply(pc.if_else(in_seconds, numbers, 0), 1000)
    return pc.if_else(in_milliseconds, numbers, pc.if_else(in_seconds, scaled, None))


class EventTimes:
    """The smallest and largest event time among rows. `column`: where it is; None: it is not asked for."""

    def __init__(self, column: str | None) -> None:
        self._column = column
        self.smallest: int | None = None
        self.largest: int | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        """Take these rows into account. Rows without the column say nothing."""
        if self._column is None or self._column not in rows.schema.names:
            return
        found = pc.min_max(milliseconds(rows.column(self._column)))
        low, high = found["min"].as_py(), found["max"].as_py()
        if low is not None:
            self.smallest = low if self.smallest is None else min(self.smallest, low)
            self.largest = high if self.largest is None else max(self.largest, high)
