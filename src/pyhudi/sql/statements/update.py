"""`UPDATE name SET column = expression, … WHERE condition`, and `DELETE FROM name WHERE condition`."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from pyhudi.api.row_changes import change_rows
from pyhudi.spark.types import spark_schema
from pyhudi.sql.catalog.names import NamedTable, Names
from pyhudi.sql.statements.definitions import Scope
from pyhudi.sql.statements.new_values import Assignment, assignments, values_of
from pyhudi.sql.statements.pointing import pointing
from pyhudi.sql.statements.protocol import no_rows
from pyhudi.sql.statements.queries import Queries, queries_in
from pyhudi.sql.statements.target import target_table
from pyhudi.sql.text.expressions import expression
from pyhudi.sql.text.tokens import Cursor, Slice


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
        with queries_in(spark) as queries:
            self._run(spark, queries)
        return no_rows(spark)

    def _run(self, spark: SparkSession, queries: Queries) -> None:
        table = self.table.open(spark)
        values, schema = None, spark_schema(table.schema)
        assigned, where = queries.of_values(self.assigned), None if self.where is None else queries.of(self.where)
        if assigned is not None:
            values = values_of(self.text, assigned, (self.alias, *map(".".join, self.table.full_names)), schema)
        nothing = spark.createDataFrame([], schema).alias(self.alias)
        names = [(assignment.column.parts[-1], assignment.column.start) for assignment in assigned or ()]
        parts = [
            (assignment.value, lambda text: nothing.select(sql.expr(text)).schema) for assignment in assigned or ()
        ]
        if where is not None:
            parts.append((where, lambda text: nothing.where(sql.expr(text)).schema))
        verb = "DELETE" if values is None else "UPDATE"
        with pointing(self.text, names, parts):
            condition = None if where is None else where.text
            change_rows(
                table.handle, condition, values, None, call=verb, target_name=self.alias, before=queries.refresh
            )


def parse_update(cursor: Cursor, names: Names, before: Slice | None = None) -> Update:
    """`UPDATE name [[AS] alias] SET …`. `before`: the definitions of WITH, which its queries see."""
    cursor.expect("UPDATE")
    table = target_table(cursor, names)
    alias = alias_of(cursor, "SET")
    cursor.expect("SET")
    scope = Scope(before, table.called(alias))
    assigned = scope.seen_values(assignments(cursor, "WHERE"))
    return Update(cursor.text, table, alias or table.name.parts[-1], assigned, _where(cursor, scope))


def parse_delete(cursor: Cursor, names: Names, before: Slice | None = None) -> Update:
    """`DELETE FROM name [[AS] alias] …`. `before`: as for `parse_update`."""
    cursor.expect("DELETE", "FROM")
    table = target_table(cursor, names)
    alias = alias_of(cursor, "WHERE")
    scope = Scope(before, table.called(alias))
    return Update(cursor.text, table, alias or table.name.parts[-1], None, _where(cursor, scope))


def alias_of(cursor: Cursor, *following: str) -> str | None:
    """Take `[AS] alias`, unless one of these words follows. None where there is none."""
    if cursor.accept("AS") or not (cursor.is_at_end or any(cursor.peek(word) for word in following)):
        return cursor.identifier()
    return None


def _where(cursor: Cursor, scope: Scope) -> Slice | None:
    where = scope.seen(expression(cursor)) if cursor.accept("WHERE") else None
    cursor.end()
    return where
