"""`CREATE TABLE … USING hudi`: of given columns, of a query, of a table that is there; and its entry in the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession

from pyhudi.spark.enable import FORMATS
from pyhudi.spark.types import spark_schema
from pyhudi.sql.catalog.columns import columns_of, parsed
from pyhudi.sql.catalog.names import NamedTable, Names, NotHudi
from pyhudi.sql.catalog.new_table import NewTable, put_in_catalog
from pyhudi.sql.catalog.registered import properties_of
from pyhudi.sql.statements.protocol import no_rows
from pyhudi.sql.text.clauses import properties, text_value
from pyhudi.sql.text.tokens import Cursor, Name, Slice

_NO_REPLACE = "a Hudi table is not replaced, which would remove its history: use INSERT OVERWRITE, or drop it first"
_CLAUSES = ("USING", "OPTIONS", "PARTITIONED", "LOCATION", "COMMENT", "TBLPROPERTIES", "AS")


@dataclass(frozen=True)
class CreateTable:
    """A new table, or a name for a table that is there."""

    name: Name
    if_not_exists: bool = False
    columns: Slice | None = None
    partition_fields: tuple[str, ...] = ()
    partition_columns: Slice | None = None
    location: str | None = None
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    query: Slice | None = None

    def run(self, spark: SparkSession) -> DataFrame:
        """Make the table and its entry in the catalog; with a query, also its first commit."""
        rows = None if self.query is None else spark.sql(str(self.query))
        schema = None if rows is None else rows.schema
        if self.columns is not None:
            texts = [str(part) for part in (self.columns, self.partition_columns) if part]
            schema = parsed(", ".join(texts))
        new = NewTable(
            self.name.parts, schema, self.partition_fields, self.location, self.comment, self.properties, rows
        )
        put_in_catalog(spark, new, if_not_exists=self.if_not_exists)
        return no_rows(spark)


@dataclass(frozen=True)
class CreateLike:
    """A new table with the columns, partitions and properties of another one, without its rows."""

    name: Name
    source: NamedTable
    if_not_exists: bool
    location: str | None
    properties: Mapping[str, str]

    def run(self, spark: SparkSession) -> DataFrame:
        """Make the table and its entry in the catalog."""
        table = self.source.open(spark)
        config = table.handle.state.config
        own = {name: value for name, value in self.source.properties.items() if name.lower().startswith("hoodie.")}
        given = {**own, **properties_of(config), **self.properties}
        fields = tuple(config.partition_fields or ())
        new = NewTable(self.name.parts, spark_schema(table.schema), fields, self.location, None, given)
        put_in_catalog(spark, new, if_not_exists=self.if_not_exists)
        return no_rows(spark)


def _like(cursor: Cursor, names: Names) -> CreateLike | None:
    """`CREATE TABLE [IF NOT EXISTS] name LIKE source [USING hudi] [LOCATION …] [TBLPROPERTIES (…)]`."""
    ahead = Cursor(cursor.text, cursor.tokens[cursor.position :])
    if not ahead.accept("CREATE", "TABLE"):
        return None
    if_not_exists = ahead.accept("IF", "NOT", "EXISTS")
    name = ahead.name()
    if not ahead.accept("LIKE"):
        return None
    source = names.table(ahead.name())
    if ahead.accept("USING") and str(ahead.name()).lower() not in FORMATS:
        raise NotHudi
    found = CreateTable(name)
    while not ahead.is_at_end:
        found = _with_clause(ahead, found, ahead.one_of("LOCATION", "TBLPROPERTIES"))
    return CreateLike(name, source, if_not_exists, found.location, found.properties)


def parse(cursor: Cursor, names: Names) -> CreateTable | CreateLike:
    """`CREATE TABLE [IF NOT EXISTS] name [(columns)] USING hudi [clauses] [AS query]`."""
    like = _like(cursor, names)
    if like is not None:
        return like
    if not _says_hudi(cursor):
        raise NotHudi
    cursor.expect("CREATE")
    place, may_replace = cursor.place, cursor.accept("OR", "REPLACE")
    cursor.expect("TABLE")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name()
    if may_replace and names.exists(name):
        cursor.fail(_NO_REPLACE, at=place)
    found = CreateTable(name, if_not_exists, columns_of(cursor) if cursor.peek("(") else None)
    while not cursor.is_at_end:
        word = cursor.one_of(*_CLAUSES)
        if word == "AS":
            return replace(found, query=_query(cursor, found))
        found = _with_clause(cursor, found, word)
    return found


def parse_replace(cursor: Cursor, names: Names) -> CreateTable:
    """`REPLACE TABLE name …`, which is refused."""
    place = cursor.place
    is_ours = _says_hudi(cursor)
    cursor.expect("REPLACE", "TABLE")
    name = cursor.name()
    if not is_ours and names.find(name) is None:
        raise NotHudi
    cursor.fail(_NO_REPLACE, at=place)


def _says_hudi(cursor: Cursor) -> bool:
    """Whether `USING hudi` stands in the statement before a query."""
    ahead = Cursor(cursor.text, cursor.tokens[cursor.position :])
    while not ahead.is_at_end:
        ahead.until("USING", "SELECT", "WITH")
        if not ahead.accept("USING"):
            return False
        if str(ahead.name()).lower() in FORMATS:
            return True
    return False


def _query(cursor: Cursor, found: CreateTable) -> Slice:
    if found.columns is not None:
        cursor.fail("a table of a query takes its columns from the query: leave the list of columns out")
    query = cursor.until()
    if not query:
        cursor.fail("a query is expected")
    cursor.end()
    return query


def _with_clause(cursor: Cursor, found: CreateTable, word: str) -> CreateTable:
    match word:
        case "USING":
            cursor.name()
            return found
        case "OPTIONS" | "TBLPROPERTIES":
            return replace(found, properties={**found.properties, **properties(cursor)})
        case "LOCATION":
            return replace(found, location=text_value(cursor))
        case "COMMENT":
            return replace(found, comment=text_value(cursor))
        case _:
            cursor.expect("BY")
            return _partitioned(cursor, found)


def _partitioned(cursor: Cursor, found: CreateTable) -> CreateTable:
    """`PARTITIONED BY (a, b)`, or with types for columns that are not in the list before."""
    ahead = Cursor(cursor.text, cursor.tokens[cursor.position :]).parenthesised().listed()
    typed = [len(part.tokens) > 1 for part in ahead]
    fields = tuple(part.identifier() for part in ahead)
    columns = columns_of(cursor)
    if not any(typed):
        return replace(found, partition_fields=fields)
    if not all(typed) or found.columns is None:
        cursor.fail("the columns of PARTITIONED BY all have types, and a list of columns before it, or none has")
    return replace(found, partition_fields=fields, partition_columns=columns)
