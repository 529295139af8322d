"""The declaration of a procedure: its name, its parameters, the columns of its answer, and the function that runs it.

Names and types are those of JVM Hudi 1.2.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from inspect import getdoc
from typing import Any, Final, TypeAlias

import pyarrow as pa

from pyhudi.sql.procedures.call_context import CallContext, Given


class SqlType(enum.StrEnum):
    """A type of Spark SQL, as DDL names it."""

    STRING = "string"
    INT = "int"
    LONG = "bigint"
    DOUBLE = "double"
    BOOLEAN = "boolean"

    @property
    def arrow(self) -> pa.DataType:
        """The same type in Arrow."""
        return _ARROW[self]


_ARROW: Final = {
    SqlType.STRING: pa.string(),
    SqlType.INT: pa.int32(),
    SqlType.LONG: pa.int64(),
    SqlType.DOUBLE: pa.float64(),
    SqlType.BOOLEAN: pa.bool_(),
}

Default: TypeAlias = str | int | bool | None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a procedure. `default` None: where it is not given, the procedure gets None."""

    name: str
    type: SqlType = SqlType.STRING
    default: Default = None
    required: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column of an answer."""

    name: str
    type: SqlType
    nullable: bool = True


Rows: TypeAlias = Iterable[tuple[Any, ...]]
"""Rows of an answer, in the order of its columns. A generator: rows above the limit are never made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """A procedure.

    `what`: one sentence for `help` and the reference. `limits_rows`: whether the parameter `limit` says how many
    rows the answer has at most, which may depend on the call. `refusal`: why this release does not run it, and what to
    do instead.
    """

    name: str
    what: str
    parameters: tuple[Parameter, ...]
    columns: tuple[Column, ...]
    run: Callable[[CallContext, Given], Rows]
    limits_rows: bool | Callable[[Given], bool] = False
    refusal: str | None = None

    @property
    def accepted(self) -> tuple[Parameter, ...]:
        """The parameters, and `path` where JVM Hudi knows tables by name only: a table in a folder works, too."""
        names = [parameter.name for parameter in self.parameters]
        return (*self.parameters, Parameter("path")) if "table" in names and "path" not in names else self.parameters

    def row_limit(self, given: Given) -> int | None:
        """How many rows the answer may have; None: all."""
        limits = self.limits_rows(given) if callable(self.limits_rows) else self.limits_rows
        limit = given.number("limit") if limits else -1
        return None if limit < 0 else limit

    @property
    def schema(self) -> pa.Schema:
        """The columns of the answer in Arrow."""
        return pa.schema([pa.field(column.name, column.type.arrow, column.nullable) for column in self.columns])


TABLE: Final = Parameter("table", required=True)
"""The parameter of procedures that JVM Hudi calls by the name of the table only. `path` instead of it works, too."""
TABLE_OR_PATH: Final = (Parameter("table"), Parameter("path"))
FILTER: Final = Parameter("filter", default="")


def text(name: str, default: str | None = None) -> Parameter:
    """An optional text."""
    return Parameter(name, SqlType.STRING, default)


def needed(name: str) -> Parameter:
    """A text that must be given."""
    return Parameter(name, required=True)


def number(name: str, default: int | None = None) -> Parameter:
    """An optional number of 32 bits."""
    return Parameter(name, SqlType.INT, default)


def flag(name: str, default: bool) -> Parameter:
    """An optional truth value."""
    return Parameter(name, SqlType.BOOLEAN, default)


def columns(ddl: str) -> tuple[Column, ...]:
    """Columns from their DDL, such as `key string, value bigint not null`; names may have blanks."""
    found = []
    for part in ddl.split(", "):
        described = part.removesuffix(" not null")
        name, _, kind = described.rpartition(" ")
        found.append(Column(name, SqlType(kind), nullable=described == part))
    return tuple(found)


def procedure(
    *parameters: Parameter, answer: str, limits_rows: bool | Callable[[Given], bool] = False
) -> Callable[[Callable[[CallContext, Given], Rows]], Procedure]:
    """Make a function a procedure of its name: the first paragraph of its docstring is what it does.

    `answer`: the DDL of its columns.
    """

    def declare(run: Callable[[CallContext, Given], Rows]) -> Procedure:
        return Procedure(
            name=run.__name__,
            what=" ".join((getdoc(run) or "").split("\n\n")[0].split()),
            parameters=parameters,
            columns=columns(answer),
            run=run,
            limits_rows=limits_rows,
        )

    return declare
