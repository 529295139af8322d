"""`MERGE INTO name USING rows ON condition WHEN …`: parsed to the plan that the builder of Python has, too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from pyhudi.api.row_changes import Merge
from pyhudi.spark.types import spark_schema
from pyhudi.sql.catalog.names import NamedTable, Names
from pyhudi.sql.statements.expressions import Assignment, assignments, expression, pointing, values_of
from pyhudi.sql.statements.protocol import no_rows
from pyhudi.sql.statements.update import alias_of
from pyhudi.sql.text.tokens import Cursor, Slice
from pyhudi.write.merge_plan import Delete, Insert, MergePlan, Update

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
    """A merge of the rows of a query or table. `relation`: what stands after USING."""

    text: str
    table: NamedTable
    target: str
    relation: Slice
    source: str
    on: Slice
    clauses: tuple[When, ...]

    def run(self, spark: SparkSession) -> DataFrame:
        """Run the merge, in one commit."""
        table = self.table.open(spark)
        with pointing(self.text, (), [(self.relation, lambda text: _selected(spark, text).schema)]):
            rows = _selected(spark, self.relation.text)
        names = [(each.column.parts[-1], each.column.start) for when in self.clauses for each in when.assigned or ()]
        nothing = spark.createDataFrame([], spark_schema(table.schema)).alias(self.target)
        with pointing(self.text, names, self._parts(nothing, rows)):
            Merge(self._plan(), table.handle, rows).execute()
        return no_rows(spark)

    def _plan(self) -> MergePlan:
        return MergePlan(
            on=self.on.text,
            matched=self._clauses(_MATCHED),
            not_matched=self._clauses(_NOT_MATCHED),
            not_matched_by_source=self._clauses(_BY_SOURCE),
            target=self.target,
            source=self.source,
        )

    def _clauses(self, kind: str) -> tuple[Any, ...]:
        return tuple(self._clause(when) for when in self.clauses if when.kind == kind)

    def _clause(self, when: When) -> Update | Delete | Insert:
        condition = None if when.condition is None else when.condition.text
        if when.action == "DELETE":
            return Delete(condition)
        sides = (self.target, str(self.table.name))
        values = None if when.assigned is None else values_of(self.text, when.assigned, sides)
        return Update(values, condition) if when.action == "UPDATE" else Insert(values, condition)

    def _parts(self, target: DataFrame, rows: DataFrame) -> list[tuple[Slice, Callable[[str], Any]]]:
        """Each expression, with what lets Spark resolve it alone, as what its clause can see."""
        source = rows.alias(self.source)
        both = target.join(source, how="cross")
        seen = {_MATCHED: both, _NOT_MATCHED: source, _BY_SOURCE: target}
        parts: list[tuple[Slice, Callable[[str], Any]]] = [(self.on, lambda text: both.where(sql.expr(text)).schema)]
        for when in self.clauses:
            resolve = functools.partial(_resolved, seen[when.kind])
            values = [each.value for each in when.assigned or ()]
            parts += [(part, resolve) for part in (when.condition, *values) if part is not None]
        return parts


def _selected(spark: SparkSession, relation: str) -> DataFrame:
    return spark.sql(f"SELECT * FROM {relation}")  # noqa: S608 - a part of the user's own statement


def _resolved(rows: DataFrame, text: str) -> Any:
    return rows.select(sql.expr(text)).schema


def parse(cursor: Cursor, names: Names) -> MergeInto:
    """`MERGE INTO name [[AS] alias] USING … ON … WHEN …`."""
    cursor.expect("MERGE")
    evolves = cursor.accept("WITH", "SCHEMA", "EVOLUTION")
    cursor.expect("INTO")
    named = cursor.name()
    table = names.table(named)
    if evolves:
        cursor.fail(
            "a merge does not change the columns of a Hudi table: add them by ALTER TABLE first", at=named.start
        )
    target = alias_of(cursor, named, "USING")
    cursor.expect("USING")
    relation, source = _relation(cursor)
    cursor.expect("ON")
    on = expression(cursor, "WHEN")
    clauses = []
    while cursor.accept("WHEN"):
        clauses.append(_when(cursor))
    cursor.end()
    if not clauses:
        cursor.fail("WHEN is expected", known=["WHEN"])
    return MergeInto(cursor.text, table, target, relation, source, on, tuple(clauses))


def _relation(cursor: Cursor) -> tuple[Slice, str]:
    """What stands after USING, and the name that it goes by."""
    start = cursor.place
    if cursor.peek("("):
        cursor.parenthesised()
        cursor.accept("AS")
        alias = cursor.identifier()
    else:
        named = cursor.name()
        if cursor.peek("("):  # a function
            cursor.parenthesised()
        alias = alias_of(cursor, named, "ON")
    if cursor.peek("("):  # the names of its columns
        cursor.parenthesised()
    end = cursor.tokens[cursor.position - 1].end
    return Slice(cursor.text[start:end], start), alias


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
    values = [expression(part) for part in cursor.parenthesised().listed()]
    if len(columns) != len(values):
        cursor.fail(f"{len(columns)} columns get {len(values)} values", at=place)
    return tuple(Assignment(column, value) for column, value in zip(columns, values, strict=True))
