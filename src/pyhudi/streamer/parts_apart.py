"""Parts of a batch that tasks read where records may fail, or are changes: their rows, and those of the error table.

Tasks read a part when they tell its columns and how many of its records fail, when they write what failed, and when
they write its rows. Each time they find the same, so that a record is in one of the two tables, and in none twice.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import ConfigError
from pyhudi.format.keys.generator import KeyGenerator
from pyhudi.format.schema.evolution import align
from pyhudi.streamer.batch import keys_of
from pyhudi.streamer.change_data import keys_of_changes, stored_rows, with_columns_of
from pyhudi.streamer.changes_in_parts import ChangeReading, ToldChanges, check_one_table, moved_values
from pyhudi.streamer.error_table import ErrorTable, error_rows, without_key_or_value
from pyhudi.streamer.settings import Settings
from pyhudi.streamer.sources.apart import RECORD, Apart, FailedRecord
from pyhudi.streamer.sources.json_rows import joined, with_fractions
from pyhudi.streamer.sources.protocol import Part, Parts, Tell
from pyhudi.table.state import TableState

_NO_COLUMNS = pa.schema([])


@dataclass(frozen=True, slots=True, kw_only=True)
class PartReading:
    """How tasks read the parts of a batch. `wanted`, `stored` and `fits`: as of `Pull.read_apart`.

    `keys`: what makes the record keys, without which a row fails; None where rows are not checked. `table`: the columns
    of the table, of which those that cannot be null are checked, too. `changes`: how changes are read; None for rows.
    """

    wanted: pa.Schema | None
    stored: pa.Schema | None
    fits: bool
    keys: KeyGenerator | None
    table: pa.Schema | None
    changes: ChangeReading | None = None


@dataclass(frozen=True, slots=True)
class PartToRead:
    """A part, and `values` of its changes that are in other parts: see `moved_values`."""

    part: Part
    values: pa.Table | None = None

    @property
    def size_bytes(self) -> int:
        """See `Part.size_bytes`."""
        return self.part.size_bytes

    @property
    def number(self) -> int:
        """The number of a part that an engine keeps."""
        number: int = self.part.number  # type: ignore[attr-defined]
        return number

    def with_rows(self, rows: pa.Table) -> PartToRead:
        """The part as a task has it where an engine keeps it."""
        return replace(self, part=self.part.with_rows(rows))  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldPart:
    """What a task tells of a part.

    Attributes:
        columns: those of its rows, with `RECORD`; none where there are no rows.
        unread: how many of its records cannot be read.
        reason: why the first of these cannot.
        failed: how many fail, those without a key among them; None where its own columns do not say that.
        is_mistyped: whether a value is not of the type of the table's column.
        changes: what changes it has; None for rows.
    """

    columns: pa.Schema
    unread: int
    reason: str | None
    failed: int | None
    is_mistyped: bool = False
    changes: ToldChanges | None = None


def reading_of(
    settings: Settings,
    table: TableState | None,
    config: WriteConfig,
    errors: ErrorTable | None,
    stored: pa.Schema | None,
) -> PartReading:
    """How the parts of a streamer's batch are read, as `batch_of` reads it whole. Cost: none.

    Rows that go through transformers are checked behind these (`checked_on_spark.py`).
    """
    checks_types = errors is not None and errors.settings.checks_types
    has_own_rows = errors is not None and errors.settings.checks_rows and not settings.transforms
    keys = keys_of(settings, table, config) if has_own_rows else None
    wanted = settings.schema
    if settings.changes is None:
        return PartReading(wanted=wanted, stored=stored, fits=checks_types, keys=keys, table=stored)
    known = wanted if wanted is not None else stored
    changes = ChangeReading(
        changes=settings.changes,
        keys=tuple(keys_of_changes(table, config)),
        schema=known,
        checked=known if wanted is not None or checks_types else None,
        units=stored if wanted is None else None,
        has_errors=errors is not None,
    )
    # A delete may know no more than the key, so nothing else of change data is asked for.
    return PartReading(wanted=None, stored=None, fits=False, keys=keys, table=None, changes=changes)


def told_parts(reading: PartReading, parts: Parts, tell: Tell) -> tuple[PartReading, list[ToldPart], pa.Schema]:
    """How the parts of a batch are to be read, what tasks tell of each, and the columns of their rows, with `RECORD`.

    Raises as `Pull.read_apart`, and `ConfigError` for rows without a key column. Cost: a read of all parts; a second
    one where a value decides that the table's types do not count, or a part lacks the key columns of others.
    """
    has_hints = reading.stored is not None and not reading.fits and reading.wanted is None and reading.changes is None
    may_drop_types = has_hints and parts.is_typed_as_a_whole
    told: list[ToldPart] = tell(functools.partial(_typed if may_drop_types else _told, reading))
    if any(part.is_mistyped for part in told):
        reading = replace(reading, stored=None)
        told = tell(functools.partial(_told, reading))
    schemas = [part.columns for part in told if part.columns.names]
    columns = _joined(reading, parts, schemas)
    if any(part.failed is None for part in told):
        told = tell(functools.partial(_told, reading, columns=columns))
    return reading, told, columns


def parts_to_read(
    reading: PartReading, parts: Sequence[Part], told: Sequence[ToldPart], tell: Tell, table: TableState | None
) -> list[PartToRead]:
    """The parts for `good_rows` and `bad_rows`, with what their changes need of others. Raises as `moved_values`."""
    changes = [part.changes for part in told if part.changes is not None]
    if reading.changes is None:
        return [PartToRead(part) for part in parts]
    check_one_table(reading.changes, changes)
    values = moved_values(reading.changes, changes, tell, stored_rows(table))
    return [PartToRead(part, found) for part, found in zip(parts, values, strict=True)]


def _joined(reading: PartReading, parts: Parts, schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The columns of the rows of all parts; none where no part has any."""
    if not schemas:
        return _NO_COLUMNS
    if reading.changes is None:
        return parts.joined(schemas, reading.stored)
    rows = joined([schema.empty_table() for schema in schemas], None)
    return with_columns_of(reading.changes.schema, rows).schema


def columns_of_rows(reading: PartReading, columns: pa.Schema) -> pa.Schema:
    """The columns of the rows that go into the table. `columns`: as of `told_parts`. Cost: none."""
    return _checked(reading, columns.empty_table())[0].drop([RECORD]).schema


def good_rows(reading: PartReading, columns: pa.Schema, part: PartToRead) -> Iterator[pa.RecordBatch]:
    """The rows of a part that go into the table. `columns`: as of `told_parts`. Cost: a read of the part."""
    rows, _, _ = _checked(reading, rows_of_part(read_part(reading, part), columns))
    yield from rows.drop([RECORD]).to_batches()


def bad_rows(reading: PartReading, columns: pa.Schema, target: str, part: PartToRead) -> Iterator[pa.RecordBatch]:
    """The rows of the error table for the records of a part that fail; see `error_rows`. Cost: a read of the part."""
    apart = read_part(reading, part)
    _, failed, lost = _checked(reading, rows_of_part(apart, columns))
    yield from error_rows(target, apart, (*apart.failed, *failed), lost).to_batches()


def read_part(reading: PartReading, part: PartToRead) -> Apart:
    """The rows of a part, with columns of its own, apart from the records that cannot be read. Cost: a read of it."""
    if reading.changes is not None:
        return reading.changes.read(part.part, part.values)
    return part.part.read_apart(reading.wanted, reading.stored, fits=reading.fits)


def _typed(reading: PartReading, part: Part) -> ToldPart:
    """What a part says, and whether the table's types fit its values. Cost: a second read where something fails."""
    typed = _told(replace(reading, fits=True), part)
    if not typed.unread:
        return typed
    told = _told(reading, part)
    return replace(told, is_mistyped=told.unread < typed.unread)


def _told(reading: PartReading, part: Part, columns: pa.Schema | None = None) -> ToldPart:
    """What a part says; with `columns` where its own do not say how many of its records fail."""
    changes: ToldChanges | None = None
    if reading.changes is None:
        apart = read_part(reading, PartToRead(part))
    else:
        apart, changes = reading.changes.told(part)
    failed: int | None = None
    try:
        rows = apart.rows if columns is None else rows_of_part(apart, columns)
        failed = len(apart.failed) + len(_checked(reading, rows)[1])
    except ConfigError:  # another part may have the key columns
        if columns is not None:
            raise
    return ToldPart(
        columns=apart.rows.schema,
        unread=len(apart.failed),
        failed=failed,
        reason=apart.failed[0].reason if apart.failed else None,
        changes=changes,
    )


def rows_of_part(apart: Apart, columns: pa.Schema) -> pa.Table:
    """The rows of a part, with the columns of all parts; none where all of its records fail."""
    return align(with_fractions(apart.rows, columns), columns) if apart.rows.column_names else columns.empty_table()


def _checked(reading: PartReading, rows: pa.Table) -> tuple[pa.Table, list[FailedRecord], pa.Table]:
    """See `without_key_or_value`."""
    if reading.keys is None or not rows.column_names:
        return rows, [], rows.slice(0, 0)
    return without_key_or_value(rows, reading.keys, reading.table)
