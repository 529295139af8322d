"""What a table says about merging: the order of versions, partial updates, deletes by marker, a rule of the user's.

Source: `format/logs-and-indexes.md` 1.5, 1.7; mission rows S3-21, S3-29 to S3-32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

import pyarrow as pa

from pyhudi.config.enums import PartialUpdateMode
from pyhudi.errors import InvalidRequestError, SchemaMismatchError
from pyhudi.format.schema.meta_columns import META_COLUMNS, PARTITION_PATH, RECORD_KEY

OPERATION: Final = "_hoodie_operation"
"""What a change did (`I`, `-U`, `U`, `D`): a meta column that only some tables have."""
OF_THE_WRITE: Final = frozenset({*META_COLUMNS, OPERATION})
"""Columns that say which write a row is from. Partial updates do not mix them: they are the topmost version's."""


class Merger(Protocol):
    """A user's rule of what two versions of a record make: a small picklable object, without state of its own.

    It must be associative: versions are merged in adjacent pairs, here while a batch is combined, there when logs or a
    base file are read, and how they are grouped is not defined. It never sees deletes. It may also have `first`: see
    `PreparingMerger`.
    """

    @property
    def name(self) -> str:
        """What the table calls it."""
        ...

    def merge(self, older: pa.Table, newer: pa.Table) -> pa.Table:
        """The merged rows: row `i` of both tables are versions of one record, and `newer` was written later.

        The result has the same schema and the same keys in the same order. Meta columns are among the columns where
        the versions come from stored rows.
        """
        ...


@runtime_checkable
class PreparingMerger(Merger, Protocol):
    """A merger that looks at the rows of every write before they are stored or merged."""

    def first(self, rows: pa.Table) -> pa.Table:
        """The rows as they are stored where they meet no other version.

        The result has the same schema, and the same keys in the same order; doing it twice must be the same as once.
        Rows that cannot be merged, as a column is missing, are refused by raising. It is also called without any rows,
        so that this is known before the write begins.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRules:
    """How versions of one record become one.

    Attributes:
        ordering_fields: Columns by whose values versions are ordered; none: by the order in which they were written.
        null_is_zero: A missing ordering value counts as 0 where values are numbers. Else it is below all others, as it
            always is where they are none.
        partial_updates: Which values of an upper version let those below it show through.
        unavailable_value: The marker of `FILL_UNAVAILABLE`.
        defaults: The values that `IGNORE_DEFAULTS` leaves out, of columns where that is not null (`default_values`).
        delete_marker: A column and its value, as text, by which a row deletes its record (`Op`, `D`).
        merger: The rule of a table with merge mode CUSTOM.
    """

    ordering_fields: tuple[str, ...] = ()
    null_is_zero: bool = False
    partial_updates: PartialUpdateMode = PartialUpdateMode.NONE
    unavailable_value: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    delete_marker: tuple[str, str] | None = None
    merger: Merger | None = None

    def __post_init__(self) -> None:
        if self.partial_updates is PartialUpdateMode.FILL_UNAVAILABLE and self.unavailable_value is None:
            raise InvalidRequestError("FILL_UNAVAILABLE needs the marker of unavailable values")
        if self.merger is not None and self.partial_updates is not PartialUpdateMode.NONE:
            raise InvalidRequestError(
                "a custom merger decides every column by itself; it goes without partial updates",
                merger=self.merger.name,
            )

    @property
    def selects(self) -> bool:
        """Whether every merged record is one of its versions as it stands (but for rows that say some columns only)."""
        return self.partial_updates is PartialUpdateMode.NONE and self.merger is None


def default_values(avro_schema: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults that are not null of a record schema's top-level columns, as Arrow would hold them.

    Those of decimals, records, arrays and maps are left out: nulls of these columns are what counts as a default.
    """
    found: dict[str, Any] = {}
    for column in avro_schema["fields"]:
        value = column.get("default")
        if value is None or isinstance(value, (dict, list)):
            continue
        first = column["type"][0] if isinstance(column["type"], list) else column["type"]
        kind = first if isinstance(first, Mapping) else {"type": first}
        if kind.get("logicalType") == "decimal":
            continue
        # Avro's JSON writes bytes as text of the characters up to U+00FF.
        found[column["name"]] = value.encode("latin-1") if kind["type"] in ("bytes", "fixed") else value
    return found


def merge_by(merger: Merger, older: pa.Table, newer: pa.Table, identity: Sequence[str]) -> pa.Table:
    """What the merger makes of pairs of versions, checked.

    Raises:
        InvalidRequestError: it returned no table, another number of rows, or other values in `identity` columns.
        SchemaMismatchError: it returned other columns or types, or a null where none may be.
    """
    return _checked(merger, merger.merge(older, newer), newer, identity)


def first_versions(merger: Merger | None, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Keyed rows of a write as a `PreparingMerger` wants them stored, else as they are. Errors: see `merge_by`."""
    if not isinstance(merger, PreparingMerger):
        return rows
    given = pa.Table.from_batches([rows])
    made = _checked(merger, merger.first(given), given, (RECORD_KEY, PARTITION_PATH)).combine_chunks()
    return made.to_batches()[0] if rows.num_rows else rows


def _checked(merger: Merger, made: Any, given: pa.Table, identity: Sequence[str]) -> pa.Table:
    if not isinstance(made, pa.Table):
        raise InvalidRequestError("the merger returned no pyarrow Table", merger=merger.name, got=type(made).__name__)
    if made.num_rows != given.num_rows:
        raise InvalidRequestError(
            "the merger must return one row per record", merger=merger.name, records=given.num_rows, rows=made.num_rows
        )
    expected = given.schema
    if made.schema.names != expected.names or made.schema.types != expected.types:
        raise SchemaMismatchError(
            "the merger must return the columns it was given, with their types",
            merger=merger.name,
            differing=_differing(expected, made.schema),
        )
    for column, values in zip(expected, made.columns, strict=True):
        if not column.nullable and values.null_count:
            raise SchemaMismatchError(
                "the merger returned a null in a column that has none", merger=merger.name, column=column.name
            )
    for name in identity:
        if made.column(name) != given.column(name):
            raise InvalidRequestError(
                "the merger must return the records in the order it was given", merger=merger.name, column=name
            )
    return pa.Table.from_arrays(made.columns, schema=expected)


def _differing(expected: pa.Schema, got: pa.Schema) -> str:
    """The columns that are not the same on both sides, as text."""
    if sorted(expected.names) == sorted(got.names) and expected.names != got.names:
        return f"order of columns: {', '.join(got.names)}"
    sides = [{f"{column.name}: {column.type}" for column in schema} for schema in (expected, got)]
    return f"missing {sorted(sides[0] - sides[1])}, unexpected {sorted(sides[1] - sides[0])}"
