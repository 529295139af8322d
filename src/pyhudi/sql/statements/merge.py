"""`MERGE INTO name USING rows ON condition WHEN …`: parsed to the plan that the builder of Python has, too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from pyhudi.api.row_changes import Merge
from pyhudi.spark.types import spark_schema
from pyhudi.sql.catalog.names import NamedTable, Names
from pyhudi.sql.reads import tables_read_now
from pyhudi.sql.statements.definitions import Scope
from pyhudi.sql.statements.new_values import Assignment, assignments, new_value, values_of
from pyhudi.sql.statements.pointing import pointing
from pyhudi.sql.statements.protocol import no_rows
from pyhudi.sql.statements.queries import Queries, queries_in
from pyhudi.sql.statements.target import target_table
from pyhudi.sql.statements.update import alias_of
from pyhudi.sql.text.expressions import expression
from pyhudi.sql.text.quoting import FullNames
from pyhudi.sql.text.tokens import Cursor, Slice
from pyhudi.write.row_changes.plan import Delete, Insert, MergePlan, Update

_MATCHED, _NOT_MATCHED, _BY_SOURCE = "MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE"


@dataclass(frozen=True)
class When:
    """One `WHEN … THEN …`. `assigned`: None for `*`, and for DELETE."""

    kind: str
    condition: Slice | None
    action: str
    assigned: tuple[Assignment, ...] | None = None


@dataclass(frozen=True)
class MergeInto:
    """A merge of the rows of a query or table.

    `relation`: what stands after USING, which sees the `definitions` of WITH.
    """

    text: str
    table: NamedTable
    target: str
    relation: Slice
    source: str
    on: Slice
    clauses: tuple[When, ...]
    definitions: Slice | None = None

    def run(self, spark: SparkSession) -> DataFrame:
        """Run the merge, in one commit."""
        with queries_in(spark) as queries:
            clauses = tuple(_changed(when, queries.of, queries.of_values) for when in self.clauses)
            replace(self, on=queries.of(self.on), clauses=clauses)._run(spark, queries)
        return no_rows(spark)

    def _run(self, spark: SparkSession, queries: Queries) -> None:
        table = self.table.open(spark)
        resolve = [(self.relation, lambda text: self._selected(spark, text).schema)]
        with tables_read_now() as read, pointing(self.text, (), resolve):
            rows = self._selected(spark, self.relation.text)
        names = [
            (assignment.column.parts[-1], assignment.column.start)
            for when in self.clauses
            for assignment in when.assigned or ()
        ]
        schema = spark_schema(table.schema)
        nothing = spark.createDataFrame([], schema).alias(self.target)
        with pointing(self.text, names, self._parts(nothing, rows)):
            reads_own = table.handle.state.storage.uri in read

            def again() -> DataFrame:
                queries.refresh()
                return self._selected(spark, self.relation.text) if reads_own else rows

            needs_again = reads_own or queries.read_tables
            Merge(self._plan(schema), table.handle, rows, again if needs_again else None).execute()

    def _selected(self, spark: SparkSession, relation: str) -> DataFrame:
        return spark.sql(self._query(relation))

    def _query(self, relation: str) -> str:
        query = f"SELECT * FROM {relation}"  # noqa: S608 - a part of the user's own statement
        return query if self.definitions is None else f"{self.definitions} {query}"

    def _plan(self, schema: StructType) -> MergePlan:
        return MergePlan(
            on=self.on.text,
            matched=self._clauses(_MATCHED, schema),
            not_matched=self._clauses(_NOT_MATCHED, schema),
            not_matched_by_source=self._clauses(_BY_SOURCE, schema),
            target=self.target,
            source=self.source,
        )

    def _clauses(self, kind: str, schema: StructType) -> tuple[Any, ...]:
        return tuple(self._clause(when, schema) for when in self.clauses if when.kind == kind)

    def _clause(self, when: When, schema: StructType) -> Update | Delete | Insert:
        condition = None if when.condition is None else when.condition.text
        if when.action == "DELETE":
            return Delete(condition)
        is_update = when.action == "UPDATE"
        sides = (self.target, *map(".".join, self.table.full_names))
        values = None
        if when.assigned is not None:  # fields of a row that is not there cannot get values
            values = values_of(self.text, when.assigned, sides, schema if is_update else None)
        return Update(values, condition) if is_update else Insert(values, condition)

    def _parts(self, target: DataFrame, rows: DataFrame) -> list[tuple[Slice, Callable[[str], Any]]]:
        """Each expression, with what lets Spark resolve it alone, as what its clause can see."""
        source = rows.alias(self.source)
        both = target.join(source, how="cross")
        seen = {_MATCHED: both, _NOT_MATCHED: source, _BY_SOURCE: target}
        parts: list[tuple[Slice, Callable[[str], Any]]] = [(self.on, lambda text: both.where(sql.expr(text)).schema)]
        for when in self.clauses:
            resolve = functools.partial(_resolved, seen[when.kind])
            values = [assignment.value for assignment in when.assigned or ()]
            parts += [(part, resolve) for part in (when.condition, *values) if part is not None]
        return parts


def _resolved(rows: DataFrame, text: str) -> Any:
    return rows.select(sql.expr(text)).schema


def parse(cursor: Cursor, names: Names, before: Slice | None = None) -> MergeInto:
    """`MERGE INTO name [[AS] alias] USING … ON … WHEN …`. `before`: the definitions of WITH."""
    cursor.expect("MERGE")
    evolves = cursor.accept("WITH", "SCHEMA", "EVOLUTION")
    cursor.expect("INTO")
    table = target_table(cursor, names)
    if evolves:
        cursor.fail(
            "a merge does not change the columns of a Hudi table: add them by ALTER TABLE first", at=table.name.start
        )
    alias = alias_of(cursor, "USING")
    cursor.expect("USING")
    relation, source, called = _relation(cursor, names)
    scope = Scope(before, {**table.called(alias), **called})
    cursor.expect("ON")
    on = scope.seen(expression(cursor, "WHEN"))
    clauses = []
    while cursor.accept("WHEN"):
        clauses.append(_changed(_when(cursor), scope.seen, scope.seen_values))
    cursor.end()
    if not clauses:
        cursor.fail("WHEN is expected", known=["WHEN"])
    return MergeInto(cursor.text, table, alias or table.name.parts[-1], relation, source, on, tuple(clauses), before)


def _changed(when: When, change: Callable[[Slice], Slice], change_values: Callable[[Any], Any]) -> When:
    """The same with changed expressions."""
    condition = None if when.condition is None else change(when.condition)
    return replace(when, condition=condition, assigned=change_values(when.assigned))


def _relation(cursor: Cursor, names: Names) -> tuple[Slice, str, FullNames]:
    """What stands after USING, the name that it goes by (empty if it has none), and its full names."""
    start = cursor.place
    called: FullNames = {}
    if cursor.peek("("):
        cursor.parenthesised()
        alias = alias_of(cursor, "ON") or ""
    else:
        named = cursor.name()
        is_function = cursor.peek("(")
        if is_function:
            cursor.parenthesised()
        given = alias_of(cursor, "ON")
        alias = given or named.parts[-1]
        if given is None and not is_function:
            found = names.find(named)
            called = {tuple(map(str.lower, named.parts)): alias} if found is None else found.called(None)
    if cursor.peek("("):  # the names of its columns
        cursor.parenthesised()
    end = cursor.tokens[cursor.position - 1].end
    return Slice(cursor.text[start:end], start), alias, called


def _when(cursor: Cursor) -> When:
    kind = _kind(cursor)
    condition = expression(cursor, "THEN") if cursor.accept("AND") else None
    cursor.expect("THEN")
    if kind == _NOT_MATCHED:
        cursor.expect("INSERT")
        return When(kind, condition, "INSERT", _inserted(cursor))
    if cursor.one_of("UPDATE", "DELETE") == "DELETE":
        return When(kind, condition, "DELETE")
    cursor.expect("SET")
    if kind != _BY_SOURCE and cursor.accept("*"):
        return When(kind, condition, "UPDATE")
    return When(kind, condition, "UPDATE", assignments(cursor, "WHEN"))


def _kind(cursor: Cursor) -> str:
    if cursor.accept("MATCHED"):
        return _MATCHED
    cursor.expect("NOT", "MATCHED")
    if not cursor.accept("BY"):
        return _NOT_MATCHED
    return _BY_SOURCE if cursor.one_of("SOURCE", "TARGET") == "SOURCE" else _NOT_MATCHED


def _inserted(cursor: Cursor) -> tuple[Assignment, ...] | None:
    if cursor.accept("*"):
        return None
    columns = [part.name() for part in cursor.parenthesised().listed()]
    cursor.expect("VALUES")
    place = cursor.place
    values = [new_value(part) for part in cursor.parenthesised().listed()]
    if len(columns) != len(values):
        cursor.fail(f"{len(columns)} columns get {len(values)} values", at=place)
    return tuple(Assignment(column, value) for column, value in zip(columns, values, strict=True))
