"""Merge rules: how versions of a record are ordered, what partial updates keep, and custom mergers.

https://hudi.apache.org/docs/record_merger describes the merge modes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

import pyarrow as pa

from pyhudi.config.enums import PartialUpdateMode
from pyhudi.errors import InvalidRequestError, SchemaMismatchError
from pyhudi.format.schema.meta_columns import META_COLUMNS, PARTITION_PATH, RECORD_KEY

OPERATION: Final = "_hoodie_operation"
"""The kind of a change (`I`, `-U`, `U`, `D`): a meta column that only some tables have."""
OF_THE_WRITE: Final = frozenset({*META_COLUMNS, OPERATION})
"""Columns that identify the write of a row. Partial updates never mix them: all are those of the topmost version."""


class Merger(Protocol):
    """A custom rule that merges two versions of a record: a small, stateless, picklable object.

    The rule must be associative. Versions are merged in adjacent pairs, when a batch is combined and when logs and base
    files are read, and the grouping is undefined. A merger never sees deletes. It may also have `first`, see
    `PreparingMerger`.
    """

    @property
    def name(self) -> str:
        """The name by which the table's properties refer to the merger."""
        ...

    def merge(self, older: pa.Table, newer: pa.Table) -> pa.Table:
        """The merged rows: row `i` of both tables are versions of one record, and `newer` was written later.

        The result must have the same schema, and the same keys in the same order. If the versions are stored rows, the
        tables have the meta columns, too.
        """
        ...


@runtime_checkable
class PreparingMerger(Merger, Protocol):
    """A merger that also processes the rows of every write, before they are stored or merged."""

    def first(self, rows: pa.Table) -> pa.Table:
        """The rows as they are stored if there is no other version of their records.

        The result must have the same schema, and the same keys in the same order, and the operation must be idempotent.
        Raise an error for rows that cannot be merged, for example because a column is missing. The method is also
        called with no rows, so that such an error occurs before the write begins.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRules:
    """How versions of one record become one.

    Attributes:
        ordering_fields: Columns whose values order the versions. Empty: versions are ordered by time of writing.
        null_is_zero: A null ordering value counts as 0 if the column is numeric. Otherwise, and in all other columns,
            null is below all values.
        partial_updates: Which values of an upper version keep the value of the version below.
        unavailable_value: The marker of `FILL_UNAVAILABLE`.
        delete_marker: A column and its value, as text, that make a row a delete (`Op`, `D`).
        merger: The merger of a table with merge mode CUSTOM.
    """

    ordering_fields: tuple[str, ...] = ()
    null_is_zero: bool = False
    partial_updates: PartialUpdateMode = PartialUpdateMode.NONE
    unavailable_value: str | None = None
    delete_marker: tuple[str, str] | None = None
    merger: Merger | None = None

    def __post_init__(self) -> None:
        if self.partial_updates is PartialUpdateMode.FILL_UNAVAILABLE and self.unavailable_value is None:
            raise InvalidRequestError("FILL_UNAVAILABLE needs a marker for unavailable values")
        if self.merger is not None and self.partial_updates is not PartialUpdateMode.NONE:
            raise InvalidRequestError(
                "a custom merger cannot be combined with partial updates",
                merger=self.merger.name,
            )

    @property
    def selects(self) -> bool:
        """Whether every merged record equals one of its versions, except for rows that declare only some columns."""
        return self.partial_updates is PartialUpdateMode.NONE and self.merger is None


def merge_by(merger: Merger, older: pa.Table, newer: pa.Table, identity: Sequence[str]) -> pa.Table:
    """Merge pairs of versions with the merger, and check its result.

    Raises:
        InvalidRequestError: the merger did not return a table, or the table has another number of rows or other values
            in the `identity` columns.
        SchemaMismatchError: the result has other columns or types, or a null in a column that allows none.
    """
    return _checked(merger, merger.merge(older, newer), newer, identity)


def first_versions(merger: Merger | None, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The keyed rows of a write after `first` of a `PreparingMerger`, or unchanged. Raises the errors of `merge_by`."""
    if not isinstance(merger, PreparingMerger):
        return rows
    given = pa.Table.from_batches([rows])
    made = _checked(merger, merger.first(given), given, (RECORD_KEY, PARTITION_PATH)).combine_chunks()
    return made.to_batches()[0] if rows.num_rows else rows


def _checked(merger: Merger, made: Any, given: pa.Table, identity: Sequence[str]) -> pa.Table:
    if not isinstance(made, pa.Table):
        raise InvalidRequestError("the merger must return a pyarrow.Table", merger=merger.name, got=type(made).__name__)
    if made.num_rows != given.num_rows:
        raise InvalidRequestError(
            "the merger must return one row per record",
            merger=merger.name,
            records=given.num_rows,
            rows=made.num_rows,
        )
    expected = given.schema
    if made.schema.names != expected.names or made.schema.types != expected.types:
        raise SchemaMismatchError(
            "the merger must return the same columns, with the same types, as it was given",
            merger=merger.name,
            differing=_differing(expected, made.schema),
        )
    for column, values in zip(expected, made.columns, strict=True):
        if not column.nullable and values.null_count:
            raise SchemaMismatchError(
                "the merger returned a null in a column that allows none", merger=merger.name, column=column.name
            )
    for name in identity:
        if made.column(name) != given.column(name):
            raise InvalidRequestError(
                "the merger must return the records in the order of its arguments", merger=merger.name, column=name
            )
    return pa.Table.from_arrays(made.columns, schema=expected)


def _differing(expected: pa.Schema, got: pa.Schema) -> str:
    """The differences between two schemas, as text."""
    if sorted(expected.names) == sorted(got.names) and expected.names != got.names:
        return f"order of columns: {', '.join(got.names)}"
    sides = [{f"{column.name}: {column.type}" for column in schema} for schema in (expected, got)]
    return f"missing {sorted(sides[0] - sides[1])}, unexpected {sorted(sides[1] - sides[0])}"
