"""Changes of columns as values, to be committed one by one or several at once (`alter_columns`). Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pyhudi.errors import ConfigError
from pyhudi.format.schema import alterations
from pyhudi.format.schema.avro_arrow import ColumnPath
from pyhudi.format.schema.internal_schema import InternalSchema


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """One change of columns.

    `of`: the column that stops to be what it was; None where none does. `to`: the columns after it. `needs_ids`:
    whether readers by name would read older files wrongly.
    """

    to: Callable[[InternalSchema], InternalSchema]
    of: Callable[[InternalSchema], ColumnPath] | None = None
    needs_ids: bool = True


def add_column(
    name: str, kind: pa.DataType, *, after: str | None = None, first: bool = False, comment: str | None = None
) -> ColumnChange:
    """A new column. Raises `ConfigError` for two places, or for what is no type."""
    place, kind = _place(after, first=first), _arrow_type(kind)

    def to(columns: InternalSchema) -> InternalSchema:
        resolved = alterations.resolved_new(columns, name)
        return alterations.add_column(columns, resolved, kind, comment=comment, place=place)

    return ColumnChange(to, needs_ids=False)


def _arrow_type(kind: Any) -> pa.DataType:
    try:
        return pa.field("", kind).type  # takes Arrow's names of types, too
    except (TypeError, ValueError) as error:
        raise ConfigError("the type of a column is one of Arrow, such as pa.int64()", given=repr(kind)) from error


def drop_column(name: str) -> ColumnChange:
    """A column goes."""
    return _of_one(name, alterations.drop_column)


def rename_column(name: str, to: str) -> ColumnChange:
    """A column gets another name. `to`: the new name alone."""
    return _of_one(name, lambda columns, path: alterations.rename_column(columns, path, to))


def change_type(name: str, kind: pa.DataType) -> ColumnChange:
    """A column gets a wider type. Raises `ConfigError` for what is no type."""
    kind = _arrow_type(kind)
    return _of_one(name, lambda columns, path: alterations.change_type(columns, path, kind), needs_ids=False)


def move_column(name: str, *, after: str | None = None, first: bool = False) -> ColumnChange:
    """A column gets another place. Raises `ConfigError` for two places, or none."""
    place = _place(after, first=first)
    if place == alterations.AT_THE_END:
        raise ConfigError("say where the column goes: after=…, or first=True", column=name)
    return _of_one(name, lambda columns, path: alterations.move_column(columns, path, place), is_free=True)


def allow_null(name: str) -> ColumnChange:
    """A column may be null from now on."""
    return _of_one(name, alterations.allow_null, needs_ids=False)


def comment_column(name: str, comment: str | None) -> ColumnChange:
    """A column gets another comment; None takes it away."""
    return _of_one(
        name, lambda columns, path: alterations.comment_on(columns, path, comment), needs_ids=False, is_free=True
    )


def _of_one(
    name: str,
    change: Callable[[InternalSchema, ColumnPath], InternalSchema],
    *,
    needs_ids: bool = True,
    is_free: bool = False,
) -> ColumnChange:
    """A change of one present column. `is_free`: also of one that makes keys or is in an index."""

    def of(columns: InternalSchema) -> ColumnPath:
        return alterations.resolved(columns, name)

    return ColumnChange(lambda columns: change(columns, of(columns)), None if is_free else of, needs_ids)


def _place(after: str | None, *, first: bool) -> alterations.Place:
    if after is not None and first:
        raise ConfigError("a column goes first, or after another one: give one of the two", after=after)
    return alterations.Place(after, first)
