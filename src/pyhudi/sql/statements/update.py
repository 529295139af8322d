"""`UPDATE name SET column = expression, … WHERE condition`, and `DELETE FROM name WHERE condition`."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from pyhudi.api.row_changes import change_rows
from pyhudi.spark.types import spark_schema
from pyhudi.sql.catalog.names import NamedTable, Names
from pyhudi.sql.statements.expressions import Assignment, assignments, expression, pointing, values_of
from pyhudi.sql.statements.protocol import no_rows
from pyhudi.sql.text.tokens import Cursor, Name, Slice


@dataclass(frozen=True)
class Update:
    """New values for the rows that meet a condition; without `assigned`, their deletion.

    `alias`: what the statement calls the table.
    """

    text: str
    table: NamedTable
    alias: str
    assigned: tuple[Assignment, ...] | None
    where: Slice | None

    def run(self, spark: SparkSession) -> DataFrame:
        """Change the rows, in one commit."""
        table = self.table.open(spark)
        values = None
        if self.assigned is not None:
            values = values_of(self.text, self.assigned, (self.alias, str(self.table.name)))
        nothing = spark.createDataFrame([], spark_schema(table.schema)).alias(self.alias)
        names = [(each.column.parts[-1], each.column.start) for each in self.assigned or ()]
        parts = [(each.value, lambda text: nothing.select(sql.expr(text)).schema) for each in self.assigned or ()]
        if self.where is not None:
            parts.append((self.where, lambda text: nothing.where(sql.expr(text)).schema))
        where = None if self.where is None else self.where.text
        verb = "DELETE" if values is None else "UPDATE"
        with pointing(self.text, names, parts):
            change_rows(table.handle, where, values, None, call=verb, target_name=self.alias)
        return no_rows(spark)


def parse_update(cursor: Cursor, names: Names) -> Update:
    """`UPDATE [TABLE] name [[AS] alias] SET …`."""
    cursor.expect("UPDATE")
    named = cursor.name()
    table = names.table(named)
    alias = alias_of(cursor, named, "SET")
    cursor.expect("SET")
    assigned = assignments(cursor, "WHERE")
    return Update(cursor.text, table, alias, assigned, _where(cursor))


def parse_delete(cursor: Cursor, names: Names) -> Update:
    """`DELETE FROM name [[AS] alias] …`."""
    cursor.expect("DELETE", "FROM")
    named = cursor.name()
    table = names.table(named)
    alias = alias_of(cursor, named, "WHERE")
    return Update(cursor.text, table, alias, None, _where(cursor))


def alias_of(cursor: Cursor, named: Name, *following: str) -> str:
    """Take `[AS] alias`, unless one of these words follows; the last part of the name where there is none."""
    if cursor.accept("AS") or not (cursor.is_at_end or any(cursor.peek(word) for word in following)):
        return cursor.identifier()
    return named.parts[-1]


def _where(cursor: Cursor) -> Slice | None:
    where = expression(cursor) if cursor.accept("WHERE") else None
    cursor.end()
    return where
