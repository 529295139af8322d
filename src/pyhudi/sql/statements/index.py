"""`CREATE INDEX`, `DROP INDEX`, `SHOW INDEXES` and `REFRESH INDEX`: indexes of the metadata table, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from pyhudi.api.hudi_table import HudiTable
from pyhudi.api.indexes import IndexKindName
from pyhudi.sql.catalog.names import NamedTable, Names
from pyhudi.sql.statements.protocol import no_rows, texts
from pyhudi.sql.text.clauses import properties
from pyhudi.sql.text.tokens import Cursor, error_at
from pyhudi.table.index_definitions import load_index_definitions

_USING: Mapping[str, IndexKindName] = {
    "record_index": "record",
    "secondary_index": "secondary",
    "bloom_filters": "expression",
    "column_stats": "expression",
}
_OF_A_TABLE: Mapping[str, IndexKindName] = {
    "record_index": "record",
    "column_stats": "column_stats",
    "partition_stats": "partition_stats",
    "bloom_filters": "bloom",
}
"""Names of indexes of which a table has one."""
_TYPES: Mapping[str, str] = {"record": "record_index", "bloom": "bloom_filters", "secondary": "secondary_index"}


@dataclass(frozen=True)
class CreateIndex:
    """An index to be built. `using`: the word of the statement, None if it has none."""

    table: NamedTable
    name: str
    columns: tuple[str, ...]
    using: str | None = None
    expression: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    unless_there: bool = False

    def run(self, spark: SparkSession) -> DataFrame:
        """Build it. With IF NOT EXISTS, one that is there stays as it is."""
        table = self.table.open(spark, self.options)
        if self.unless_there and _has_index(table, self.name):
            return no_rows(spark)
        kind = self._kind(table)
        if kind == "expression":
            table.indexes.create(
                self.name,
                kind,
                self.columns,
                using="bloom_filters" if self.using == "bloom_filters" else "column_stats",
                expression=self.expression,
                hudi_options=self.options,
            )
        else:
            table.indexes.create(self.name, kind, self.columns, hudi_options=self.options)
        return no_rows(spark)

    def _kind(self, table: HudiTable) -> IndexKindName:
        """As in JVM Hudi: without USING a record index over the record key, and a secondary index over others."""
        if self.name in _OF_A_TABLE and not self.expression:
            return _OF_A_TABLE[self.name]
        if self.using is not None:
            return _USING[self.using]
        return "record" if self.columns == table.handle.state.config.record_key_fields else "secondary"


def parse_create(cursor: Cursor, names: Names) -> CreateIndex:
    """`CREATE INDEX [IF NOT EXISTS] name ON [TABLE] table [USING kind] (columns) [OPTIONS (…)]`."""
    cursor.expect("CREATE", "INDEX")
    unless_there = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.identifier()
    table = _table(cursor, names)
    using = None
    if cursor.accept("USING"):
        using = cursor.one_of(*(word.upper() for word in _USING)).lower()
    columns: list[str] = []
    of_columns: dict[str, str] = {}
    if cursor.peek("("):
        for part in cursor.parenthesised().listed():
            columns.append(str(part.name()))
            if part.accept("OPTIONS"):
                of_columns |= properties(part)
            part.end()
    given = {**of_columns, **(properties(cursor) if cursor.accept("OPTIONS") else {})}
    cursor.end()
    options = {key: value for key, value in given.items() if key.startswith("hoodie.")}
    expression = {key: value for key, value in given.items() if key not in options}
    if expression and using not in ("column_stats", "bloom_filters"):
        raise error_at(
            cursor.text, table.name.end, f"{next(iter(expression))} belongs to USING column_stats or bloom_filters"
        )
    return CreateIndex(table, name, tuple(columns), using, expression, options, unless_there)


@dataclass(frozen=True)
class DropIndex:
    """An index that leaves the table."""

    table: NamedTable
    name: str
    if_there: bool = False

    def run(self, spark: SparkSession) -> DataFrame:
        """Drop it. With IF EXISTS, nothing happens where there is none of this name."""
        table = self.table.open(spark)
        if _has_index(table, self.name) or not self.if_there:
            table.indexes.drop(self.name)
        return no_rows(spark)


def parse_drop(cursor: Cursor, names: Names) -> DropIndex:
    """`DROP INDEX [IF EXISTS] name ON [TABLE] table`."""
    cursor.expect("DROP", "INDEX")
    if_there = cursor.accept("IF", "EXISTS")
    name = cursor.identifier()
    table = _table(cursor, names)
    cursor.end()
    return DropIndex(table, name, if_there)


@dataclass(frozen=True)
class RefreshIndex:
    """An index that is built again."""

    table: NamedTable
    name: str

    def run(self, spark: SparkSession) -> DataFrame:
        """Build it again, with its definition."""
        self.table.open(spark).indexes.refresh(self.name)
        return no_rows(spark)


def parse_refresh(cursor: Cursor, names: Names) -> RefreshIndex:
    """`REFRESH INDEX name ON [TABLE] table`."""
    cursor.expect("REFRESH", "INDEX")
    name = cursor.identifier()
    table = _table(cursor, names)
    cursor.end()
    return RefreshIndex(table, name)


@dataclass(frozen=True)
class ShowIndexes:
    """The indexes of a table."""

    table: NamedTable

    def run(self, spark: SparkSession) -> DataFrame:
        """One row per index, by name: `index_name`, `index_type` and `col_name`, as JVM Hudi shows them."""
        table = self.table.open(spark)
        definitions = load_index_definitions(table.handle.state)
        rows = []
        for index in table.indexes.list().to_pylist():
            defined = definitions.get(index["partition"])
            kind = _TYPES.get(index["kind"]) or (index["kind"] if defined is None else defined.kind)
            columns = () if index["partition"] in _OF_A_TABLE else index["columns"]
            rows.append([index["partition"], kind, ",".join(columns or ())])
        return texts(spark, ["index_name", "index_type", "col_name"], rows)


def parse_show(cursor: Cursor, names: Names) -> ShowIndexes:
    """`SHOW INDEXES {FROM | IN} [TABLE] table`."""
    cursor.expect("SHOW", "INDEXES")
    cursor.one_of("FROM", "IN")
    cursor.accept("TABLE")
    table = names.table(cursor.name())
    cursor.end()
    return ShowIndexes(table)


def _table(cursor: Cursor, names: Names) -> NamedTable:
    cursor.expect("ON")
    cursor.accept("TABLE")
    return names.table(cursor.name())


def _has_index(table: HudiTable, name: str) -> bool:
    found = table.indexes.list()
    return name in {*found["name"].to_pylist(), *found["partition"].to_pylist()}
