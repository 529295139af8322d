"""Change data whose parts are read in tasks: what a part says alone, and what its changes need of other parts.

A change is a row by itself, but for one kind: an update of a record key in PostgreSQL, of which a large value is not
sent that did not change. Its insert takes the value from the rows of the old key, which any part may have. Tasks find
such inserts and the rows with their keys, the driver fills them by the code that fills those of a whole batch, and
tasks put the values in.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.cdc.envelopes import Stored
from pyhudi.cdc.event_columns import OPERATION, ORDERING, POSTGRESQL
from pyhudi.cdc.moved_in_parts import ROW, deleted_at, filled, inserts_without_values, rows_with_keys, with_filled
from pyhudi.cdc.unavailable import with_one_marker
from pyhudi.errors import InvalidRequestError, SourceError, UnsupportedFeatureError
from pyhudi.streamer.change_data import ChangeData, check_units
from pyhudi.streamer.sources.apart import RECORD, Apart
from pyhudi.streamer.sources.json_rows import joined
from pyhudi.streamer.sources.protocol import Part, Tell

MOVED_ROWS_MAX: Final = 100_000
"""How many rows of keys that changed the driver takes."""
_ORDERING: Final = ORDERING[POSTGRESQL]
_NO_ROWS: Final = pa.table({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReading:
    """How tasks read the changes of parts.

    Attributes:
        changes: what they are.
        keys: the record keys.
        schema: the columns that the rows have.
        checked: the columns whose types messages must fit to be none that fail; None without such.
        units: the columns of the table, where nothing else says in which unit times come.
        has_errors: whether messages that fail are kept apart; otherwise the first one is an error.
    """

    changes: ChangeData
    keys: tuple[str, ...]
    schema: pa.Schema | None
    checked: pa.Schema | None
    units: pa.Schema | None
    has_errors: bool

    def read(self, part: Part, values: pa.Table | None = None) -> Apart:
        """The rows of a part, apart from the messages that fail. `values`: what `moved_values` gave of it.

        Raises as `ChangeData.rows`, and `SourceError` for a message that cannot be read where none is kept apart. Cost:
        a read of the part.
        """
        apart = self._messages(part)
        _, rows = self._rows(apart.rows)
        return replace(apart, rows=rows if values is None else with_filled(rows, values))

    def told(self, part: Part) -> tuple[Apart, ToldChanges]:
        """What `read` gives, and what the driver needs of the part. Raises, and costs, as `read`."""
        apart = self._messages(part)
        source, rows = self._rows(apart.rows)
        told = ToldChanges(rows=rows.num_rows)
        if source is not None:
            told = replace(told, first=apart.rows.filter(pc.equal(apart.rows[RECORD], rows[RECORD][0])))
        if source == POSTGRESQL:
            moved, columns = inserts_without_values(rows, [*self.keys, *_ORDERING])
            told = replace(told, moved=moved, columns=tuple(columns))
        return replace(apart, rows=rows), told

    def _messages(self, part: Part) -> Apart:
        check = None
        if self.has_errors:
            check = functools.partial(self.changes.check, keys=self.keys, schema=self.checked)
        apart = part.read_apart(None, self.changes.types(self.schema), fits=False, check=check)
        if apart.failed and not self.has_errors:
            raise _unreadable(apart)
        if self.units is not None:
            check_units(apart.rows, self.units)
        return apart

    def _rows(self, messages: pa.Table) -> tuple[str | None, pa.Table]:
        """The kind of source, and the rows of messages, with one marker; None, and no columns, where there are none."""
        if not messages.num_rows:
            return None, _NO_ROWS
        source, rows = self.changes.parsed(messages, self.keys, self.schema)
        if not rows.num_rows:
            return None, _NO_ROWS
        return source, with_one_marker(rows)[0] if source == POSTGRESQL else rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldChanges:
    """What a task tells of the changes of a part.

    Attributes:
        rows: how many rows they have.
        first: the message of the first row.
        moved: keys and places of the inserts that lack values. A source that sends all values has none.
        columns: the columns that these are of.
    """

    rows: int
    first: pa.Table = field(default_factory=lambda: _NO_ROWS)
    moved: pa.Table = field(default_factory=lambda: _NO_ROWS)
    columns: tuple[str, ...] = ()


def _unreadable(apart: Apart) -> SourceError:
    """The error for the first message that cannot be read."""
    first = apart.failed[0]
    (origin,) = apart.origins([first.number])
    partition, offset = map(int, (origin.position or "").split(":"))
    return SourceError(
        f"a message cannot be read: {first.reason}", topic=origin.source, partition=partition, offset=offset
    )


def check_one_table(reading: ChangeReading, told: Sequence[ToldChanges]) -> None:
    """Raise `UnsupportedFeatureError` where parts have changes of several tables: one message stands for a part."""
    first = [part.first for part in told if part.rows]
    if len(first) > 1:
        reading.changes.parsed(joined(first, None), reading.keys, reading.schema)


def moved_values(
    reading: ChangeReading, told: Sequence[ToldChanges], tell: Tell, stored: Stored | None
) -> list[pa.Table | None]:
    """For each part the values that its inserts lack, for `ChangeReading.read`; None where they lack none.

    Raises as `fill_moved_rows`, and `UnsupportedFeatureError` where more than `MOVED_ROWS_MAX` rows have such keys.
    Cost: none without such inserts; with them two reads of all parts, and one call of `stored` as there.
    """
    lacking = [part.moved for part in told if part.moved.num_rows]
    if not lacking:
        return [None] * len(told)
    inserts = joined(lacking, None)
    _check_count(inserts.num_rows)
    places = _distinct(inserts.select(_ORDERING))
    deletes = tell(functools.partial(_deleted_at, reading, places))
    keys = _distinct(joined([part.select(reading.keys) for part in (inserts, *deletes) if part.num_rows], None))
    columns = sorted({name for part in told for name in part.columns})
    parts = tell(functools.partial(_with_keys, reading, keys, [*reading.keys, *_ORDERING, OPERATION, *columns]))
    _check_count(sum(part.num_rows for part in parts))
    rows = joined([part for part in parts if part.num_rows], None)
    try:
        found = filled(rows, reading.keys, _ORDERING, stored).select([*columns, ROW])
    except InvalidRequestError as error:
        if "row" not in error.context:
            raise
        begins = np.cumsum([0, *(part.rows for part in told)])[:-1]
        numbers = [part[ROW].to_numpy() + begin for part, begin in zip(parts, begins, strict=True) if part.num_rows]
        row = int(np.concatenate(numbers)[error.context["row"]])
        raise InvalidRequestError(error.message, **{**error.context, "row": row}) from error
    ends = np.cumsum([part.num_rows for part in parts]).tolist()
    slices = [found.slice(end - part.num_rows, part.num_rows) for part, end in zip(parts, ends, strict=True)]
    return [values if said.columns else None for values, said in zip(slices, told, strict=True)]


def _distinct(rows: pa.Table) -> pa.Table:
    return rows.group_by(rows.column_names).aggregate([])


def _check_count(rows: int) -> None:
    if rows > MOVED_ROWS_MAX:
        raise UnsupportedFeatureError(
            f"the keys of rows changed whose large values PostgreSQL does not send, and more than {MOVED_ROWS_MAX} rows"
            " of a batch have these keys, which one process must see together on Spark: give a smaller source_limit,"
            " leave spark out, or give the source table the replica identity FULL",
            rows=rows,
        )


def _deleted_at(reading: ChangeReading, places: pa.Table, part: Part) -> pa.Table:
    rows = reading.read(part).rows
    return deleted_at(rows, [*reading.keys, *_ORDERING], places) if rows.num_rows else _NO_ROWS


def _with_keys(reading: ChangeReading, keys: pa.Table, names: Sequence[str], part: Part) -> pa.Table:
    rows = reading.read(part).rows
    return rows_with_keys(rows, names, keys) if rows.num_rows else _NO_ROWS
