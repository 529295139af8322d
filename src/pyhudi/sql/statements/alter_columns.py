"""The clauses of `ALTER TABLE` that change columns: by `table.alter`, and then in the catalog."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyhudi.errors import CatalogWarning
from pyhudi.services.columns import column_change
from pyhudi.services.columns.alter import alter_columns
from pyhudi.services.columns.column_change import ColumnChange
from pyhudi.spark.types import arrow_schema, spark_schema
from pyhudi.sql.catalog.columns import parsed, with_last
from pyhudi.sql.catalog.names import NamedTable
from pyhudi.sql.catalog.registered import with_columns_of
from pyhudi.sql.catalog.session_tables import CatalogTable
from pyhudi.sql.statements.protocol import no_rows
from pyhudi.sql.text.clauses import text_value
from pyhudi.sql.text.expressions import take_type
from pyhudi.sql.text.tokens import Cursor

_AFTER_TYPE = ("COMMENT", "FIRST", "AFTER", "DEFAULT")


@dataclass(frozen=True)
class Step:
    """One change of one column.

    Attributes:
        column: its name, with points for a column inside of another.
        to: its new name.
        type: its type as the statement has it, for a new column or a wider one.
        is_new: whether it is added.
        is_dropped: whether it goes.
        may_be_null: whether it may be null from now on.
        comment: its new comment.
        first: whether it goes in front of the others.
        after: the column beside it that it goes behind.
    """

    column: str
    to: str | None = None
    type: str | None = None
    is_new: bool = False
    is_dropped: bool = False
    may_be_null: bool = False
    comment: str | None = None
    first: bool = False
    after: str | None = None


@dataclass(frozen=True)
class AlterColumns:
    """Changes of columns, in one commit."""

    table: NamedTable
    entry: CatalogTable
    steps: tuple[Step, ...] = field(default=())

    def run(self, spark: SparkSession) -> DataFrame:
        """Change the table, then the catalog: where the second fails, readers by name see the new columns already.

        Warns (`CatalogWarning`) where the entry is one of a Hive metastore that names classes of JVM Hudi.
        """
        table = self.table.open(spark)
        changes = [change for step in self.steps for change in _changes(step, table.schema)]
        if changes:
            call = table.handle.service_call(None, call="alter")
            alter_columns(call, changes, by_ids=call.config.input.schema_on_read)
            table = table.refresh()
        fields = [name for name in table.handle.state.config.partition_fields or () if name in table.schema.names]
        comments = {step.to or step.column: step.comment for step in self.steps if step.comment is not None}
        try:
            with_columns_of(spark, self.entry, with_last(spark_schema(table.schema), fields), comments)
        except PySparkException as error:
            if "ClassNotFoundException: org.apache.hudi." not in str(error):
                raise
            warnings.warn(
                f"{self.entry.quoted} has its new columns. The Hive metastore still shows the previous ones: the entry"
                " names classes of JVM Hudi, which Hive asks for. The next write of JVM Hudi brings it up to date",
                CatalogWarning,
                stacklevel=2,
            )
        return no_rows(spark)


def _changes(step: Step, present: pa.Schema) -> list[ColumnChange]:
    """What a step does to the columns of a table, in this order."""
    name = step.column
    if step.is_dropped:
        return [column_change.drop_column(name)]
    kind = None if step.type is None else arrow_schema(parsed(f"`value` {step.type}")).field(0).type
    if step.is_new:
        assert kind is not None
        return [column_change.add_column(name, kind, after=step.after, first=step.first, comment=step.comment)]
    changes: list[ColumnChange] = []
    # `CHANGE COLUMN a a INT COMMENT '…'` repeats the type.
    if kind is not None and [column.type for column in present if column.name.lower() == name.lower()] != [kind]:
        changes.append(column_change.change_type(name, kind))
    if step.may_be_null:
        changes.append(column_change.allow_null(name))
    if step.comment is not None:
        changes.append(column_change.comment_column(name, step.comment))
    if step.first or step.after is not None:
        changes.append(column_change.move_column(name, after=step.after, first=step.first))
    if step.to is not None and step.to != name:
        changes.append(column_change.rename_column(name, step.to))
    return changes


def parse_columns(cursor: Cursor, table: NamedTable, entry: CatalogTable, word: str) -> AlterColumns:
    """What follows `ALTER TABLE name` and the first word of a change of columns."""
    steps = _PARSERS[word](cursor) if word in _PARSERS else cursor.fail("the columns cannot be replaced: alter them")
    cursor.end()
    return AlterColumns(table, entry, tuple(steps))


def _added(cursor: Cursor) -> list[Step]:
    cursor.one_of("COLUMNS", "COLUMN")
    part, steps = cursor.parenthesised() if cursor.peek("(") else cursor, []
    while True:
        name = str(part.name())
        part.accept(":")
        steps.append(_with_options(part, name, _type(part), is_new=True))
        if not part.accept(","):
            return steps


def _type(cursor: Cursor) -> str:
    """A type, up to what may follow it."""
    start = cursor.place
    take_type(cursor)
    cursor.until(",", *_AFTER_TYPE)  # as in TIMESTAMP WITHOUT TIME ZONE
    return cursor.text[start : cursor.tokens[cursor.position - 1].end]


def _with_options(cursor: Cursor, name: str, kind: str | None, *, is_new: bool = False, to: str | None = None) -> Step:
    """The rest of a column: its comment and its place, in any order."""
    comment, first, after, may_be_null = None, False, None, False
    while not (cursor.is_at_end or cursor.peek(",")):
        word = cursor.one_of("COMMENT", "FIRST", "AFTER", "TYPE", "DROP")
        if word == "COMMENT":
            comment = text_value(cursor)
        elif word == "FIRST":
            first = True
        elif word == "AFTER":
            after = cursor.identifier()
        elif word == "TYPE":
            kind = _type(cursor)
        else:
            cursor.expect("NOT", "NULL")
            may_be_null = True
    return Step(
        name, to=to, type=kind, is_new=is_new, comment=comment, first=first, after=after, may_be_null=may_be_null
    )


def _dropped(cursor: Cursor) -> list[Step]:
    cursor.one_of("COLUMNS", "COLUMN")
    parts = cursor.parenthesised().listed() if cursor.peek("(") else cursor.listed()
    return [Step(str(part.name()), is_dropped=True) for part in parts]


def _renamed(cursor: Cursor) -> list[Step]:
    cursor.expect("COLUMN")
    name = str(cursor.name())
    cursor.expect("TO")
    return [Step(name, to=cursor.identifier())]


def _altered(cursor: Cursor) -> list[Step]:
    cursor.accept("COLUMN")
    return [_with_options(cursor, str(cursor.name()), None)]


def _changed(cursor: Cursor) -> list[Step]:
    """`CHANGE [COLUMN] old new type …`, of Hive."""
    cursor.accept("COLUMN")
    name, to = str(cursor.name()), cursor.identifier()
    return [_with_options(cursor, name, _type(cursor), to=to)]


_PARSERS: dict[str, Callable[[Cursor], list[Step]]] = {
    "ADD": _added,
    "DROP": _dropped,
    "RENAME": _renamed,
    "ALTER": _altered,
    "CHANGE": _changed,
}
