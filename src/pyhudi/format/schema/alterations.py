"""Changes of single columns in a schema with column ids: what `ALTER TABLE` can say. The rules are JVM Hudi's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from pyhudi.errors import SchemaMismatchError
from pyhudi.format.schema.avro_arrow import MAP_VALUE, ColumnPath, column_text, normalise
from pyhudi.format.schema.evolution import is_read_as
from pyhudi.format.schema.internal_schema import (
    Column,
    InternalSchema,
    ListKind,
    MapKind,
    StructKind,
    columns_inside,
)
from pyhudi.format.schema.internal_types import kind_of, new_columns, type_of
from pyhudi.format.schema.meta_columns import META_COLUMNS

Columns = tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a column goes among its siblings: behind the one named `after`, or `first`; otherwise to the end."""

    after: str | None = None
    first: bool = False


AT_THE_END: Final = Place()


def add_column(
    schema: InternalSchema, path: ColumnPath, data_type: pa.DataType, *, comment: str | None, place: Place
) -> InternalSchema:
    """The columns with a new one, which may be null: present rows have no value for it."""
    field = normalise(pa.schema([pa.field(path[-1], data_type)])).field(0)
    (column,), largest = new_columns([field], schema.max_column_id + 1, path[:-1])
    column = replace(column, doc=comment)

    def change(siblings: Columns) -> Columns:
        _check_free(siblings, path)
        return _placed(siblings, column, place, path)

    return replace(_changed(schema, path[:-1], change), max_column_id=largest)


def drop_column(schema: InternalSchema, path: ColumnPath) -> InternalSchema:
    """The columns without one. A column of the same name that is added later does not have its values."""

    def change(siblings: Columns) -> Columns:
        left = tuple(column for column in siblings if column.name != path[-1])
        if not any(column.name not in META_COLUMNS for column in left):
            raise _refused("is the last one beside it; drop the whole", path)
        return left

    _find(schema, path)
    return _changed(schema, path[:-1], change)


def rename_column(schema: InternalSchema, path: ColumnPath, name: str) -> InternalSchema:
    """The columns with another name for one."""
    normalise(pa.schema([pa.field(name, pa.string())]))
    _find(schema, path)

    def change(siblings: Columns) -> Columns:
        _check_free(siblings, (*path[:-1], name))
        return tuple(replace(sibling, name=name) if sibling.name == path[-1] else sibling for sibling in siblings)

    return _changed(schema, path[:-1], change)


def change_type(schema: InternalSchema, path: ColumnPath, data_type: pa.DataType) -> InternalSchema:
    """The columns with a wider type for one; stored values are read as that type."""
    column = _find(schema, path)
    wanted = normalise(pa.schema([pa.field("column", data_type)])).field(0).type
    present = type_of(column.kind, path)
    if columns_inside(column.kind) or pa.types.is_nested(wanted):
        raise _refused("has columns inside: change the type of each of these", path, type=str(present))
    if not is_read_as(present, wanted):
        raise SchemaMismatchError(
            f"column {column_text(path)!r} is {present}, whose values cannot all be read as {wanted}: add a column of "
            "that type, and write its values",
            column=column_text(path),
            table_type=str(present),
            wanted_type=str(wanted),
        )
    return _with_column(schema, path, replace(column, kind=kind_of(wanted, path)))


def move_column(schema: InternalSchema, path: ColumnPath, place: Place) -> InternalSchema:
    """The columns in another order."""
    column = _find(schema, path)

    def change(siblings: Columns) -> Columns:
        return _placed(tuple(sibling for sibling in siblings if sibling.name != column.name), column, place, path)

    return _changed(schema, path[:-1], change)


def allow_null(schema: InternalSchema, path: ColumnPath) -> InternalSchema:
    """The columns with one that may be null from now on."""
    return _with_column(schema, path, replace(_find(schema, path), optional=True))


def comment_on(schema: InternalSchema, path: ColumnPath, comment: str | None) -> InternalSchema:
    """The columns with another comment on one."""
    return _with_column(schema, path, replace(_find(schema, path), doc=comment))


def resolved(schema: InternalSchema, text: str) -> ColumnPath:
    """The path of a column that exists, from its names with points between them, in any letter case.

    Raises `SchemaMismatchError` if there is none.
    """
    siblings = tuple(column for column in schema.columns if column.name not in META_COLUMNS)
    path: ColumnPath = ()
    for name in text.split("."):
        column = _named(siblings, name)
        if column is None:
            raise SchemaMismatchError(
                f"the table has no column {text!r}; where it would be, there are "
                f"{', '.join(sibling.name for sibling in siblings) or 'none'}",
                column=text,
            )
        path = (*path, column.name)
        siblings = columns_inside(column.kind)
    return path


def resolved_new(schema: InternalSchema, text: str) -> ColumnPath:
    """The path of a column that is to be added: `resolved` but for the last name."""
    parent, _, name = text.rpartition(".")
    return (*(resolved(schema, parent) if parent else ()), name)


def _named(siblings: Sequence[Column], name: str) -> Column | None:
    exact = next((column for column in siblings if column.name == name), None)
    return exact or next((column for column in siblings if column.name.lower() == name.lower()), None)


def _find(schema: InternalSchema, path: ColumnPath) -> Column:
    siblings, column = schema.columns, None
    for name in path:
        column = next(sibling for sibling in siblings if sibling.name == name)
        siblings = columns_inside(column.kind)
    assert column is not None
    return column


def _with_column(schema: InternalSchema, path: ColumnPath, column: Column) -> InternalSchema:
    return replace(schema, columns=_replaced(schema.columns, path, lambda _: column))


def _changed(schema: InternalSchema, parent: ColumnPath, change: Callable[[Columns], Columns]) -> InternalSchema:
    """The schema with other columns inside of `parent`, which must be a struct."""
    if not parent:
        return replace(schema, columns=change(schema.columns))

    def of_parent(column: Column) -> Column:
        if not isinstance(column.kind, StructKind):
            raise _refused("is no struct: only structs have columns that can be changed", parent)
        return replace(column, kind=StructKind(change(column.kind.columns)))

    return replace(schema, columns=_replaced(schema.columns, parent, of_parent))


def _replaced(columns: Columns, path: ColumnPath, change: Callable[[Column], Column]) -> Columns:
    name, *rest = path
    return tuple(_inside(column, tuple(rest), change) if column.name == name else column for column in columns)


def _inside(column: Column, path: ColumnPath, change: Callable[[Column], Column]) -> Column:
    if not path:
        return change(column)
    kind = column.kind
    match kind:
        case StructKind():
            return replace(column, kind=StructKind(_replaced(kind.columns, path, change)))
        case ListKind():
            return replace(column, kind=ListKind(_inside(kind.element, path[1:], change)))
        case MapKind() if path[0] == MAP_VALUE:
            return replace(column, kind=MapKind(kind.key, _inside(kind.value, path[1:], change)))
    raise _refused("cannot be changed", path)


def _check_free(siblings: Sequence[Column], path: ColumnPath) -> None:
    taken = _named(siblings, path[-1])
    if taken is not None:
        raise _refused(f"is there already, as {taken.name!r} (letter case does not count)", path)


def _placed(siblings: Columns, column: Column, place: Place, path: ColumnPath) -> Columns:
    meta = tuple(sibling for sibling in siblings if sibling.name in META_COLUMNS and len(path) == 1)
    own = siblings[len(meta) :]
    if place.first:
        return (*meta, column, *own)
    if place.after is None:
        return (*siblings, column)
    behind = _named(own, place.after)
    if behind is None:
        raise SchemaMismatchError(
            f"column {column_text(path)!r} cannot be put behind {place.after!r}, which is not beside it",
            column=column_text(path),
            after=place.after,
        )
    at = own.index(behind) + 1
    return (*meta, *own[:at], column, *own[at:])


def _refused(reason: str, path: ColumnPath, **context: str) -> SchemaMismatchError:
    return SchemaMismatchError(f"column {column_text(path)!r} {reason}", column=column_text(path), **context)
