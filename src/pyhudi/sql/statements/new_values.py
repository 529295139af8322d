"""New values of columns in statements: `column = expression`, fields inside of columns, and `DEFAULT`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pyspark.sql.types import StructType

from pyhudi.sql.text.expressions import expression
from pyhudi.sql.text.quoting import quoted_name, quoted_text
from pyhudi.sql.text.tokens import Cursor, Name, Slice, error_at

_DEFAULT = "DEFAULT"


def new_value(cursor: Cursor, *stops: str) -> Slice:
    """Take the expression of a column's new value. `DEFAULT` is null: columns of Hudi tables have no other defaults."""
    found = expression(cursor, *stops)
    return Slice("NULL", found.start) if _is_default(found) else found


def _is_default(found: Slice) -> bool:
    return found.text.upper() == _DEFAULT


def with_nulls(cursor: Cursor) -> str:
    """Take `VALUES …` up to the end, with `NULL` in the place of each `DEFAULT` that is a value of its own."""
    ahead, written = Cursor(cursor.text, cursor.tokens[cursor.position :]), cursor.until()
    if not any(token.is_word(_DEFAULT) for token in ahead.tokens):
        return written.text
    ahead.expect("VALUES")
    pieces, done, end = list[str](), written.start, written.start + len(written.text)
    for value in _values(ahead):
        if _is_default(value):
            pieces += [cursor.text[done : value.start], "NULL"]
            done = value.start + len(_DEFAULT)
    return "".join([*pieces, cursor.text[done:end]])


def _values(cursor: Cursor) -> Iterator[Slice]:
    """The values of the rows of `VALUES (1, 2), 3, …`."""
    while True:
        if cursor.peek("("):
            yield from map(expression, cursor.parenthesised().listed())
            cursor.until(",")  # what follows the last row, such as a name
        else:
            yield expression(cursor)
        if not cursor.accept(","):
            return


@dataclass(frozen=True, slots=True)
class Assignment:
    """`column = expression`."""

    column: Name
    value: Slice


def assignments(cursor: Cursor, *stops: str) -> tuple[Assignment, ...]:
    """Take `column = expression, …`."""
    found = []
    while True:
        column = cursor.name()
        cursor.expect("=")
        found.append(Assignment(column, new_value(cursor, ",", *stops)))
        if not cursor.accept(","):
            return tuple(found)


def values_of(
    text: str, assigned: Sequence[Assignment], sides: Sequence[str], schema: StructType | None = None
) -> dict[str, str]:
    """The values by column. `sides`: the names by which the statement calls the table, the one in force first.

    With the `schema` of the table, fields inside of columns can get values: such a column becomes a struct of these
    values and of its other fields.

    Raises:
        SqlStatementError: a column is a field of another, belongs to another table, or is given twice.
    """
    found: dict[str, Any] = {}
    for assignment in assigned:
        path = _path_of(text, assignment, sides, schema)
        _put(found, path, assignment, text)
    fields = {} if schema is None else {field.name.lower(): field for field in schema.fields}
    return {
        name: value
        if isinstance(value, str)
        else _struct(cast("StructType", fields[name.lower()].dataType), value, (sides[0], fields[name.lower()].name))
        for name, value in found.items()
    }


def _path_of(text: str, assignment: Assignment, sides: Sequence[str], schema: StructType | None) -> tuple[str, ...]:
    """The column, and the fields inside of it, that an assignment names."""
    parts = assignment.column.parts
    for cut in range(len(parts) - 1, 0, -1):
        if ".".join(parts[:cut]).lower() in {side.lower() for side in sides}:
            parts = parts[cut:]
            break
    kind: Any = schema
    for part in parts if len(parts) > 1 else ():
        inside = {field.name.lower(): field for field in kind.fields} if isinstance(kind, StructType) else {}
        if part.lower() not in inside:
            raise error_at(
                text, assignment.column.start, f"{assignment.column} is no column of the table, and no field of one"
            )
        kind = inside[part.lower()].dataType
    return parts


def _put(found: dict[str, Any], path: Sequence[str], assignment: Assignment, text: str) -> None:
    """Note a value in a tree of columns and their fields, whose names keep the letter case of their first mention."""
    spelled = {name.lower(): name for name in found}
    name = spelled.get(path[0].lower(), path[0])
    if len(path) > 1 and isinstance(found.setdefault(name, {}), dict):
        _put(found[name], path[1:], assignment, text)
    elif name in spelled.values() or len(path) > 1:
        raise error_at(text, assignment.column.start, f"column {assignment.column} is given two values")
    else:
        found[name] = assignment.value.text


def _struct(kind: StructType, given: Mapping[str, Any], place: tuple[str, ...]) -> str:
    """A struct with the given values of fields, and its own others."""
    spelled = {name.lower(): value for name, value in given.items()}
    parts = []
    for field in kind.fields:
        value = spelled.get(field.name.lower(), quoted_name(*place, field.name))
        if not isinstance(value, str):
            value = _struct(cast("StructType", field.dataType), value, (*place, field.name))
        parts.append(f"{quoted_text(field.name)}, {value}")
    return f"named_struct({', '.join(parts)})"
