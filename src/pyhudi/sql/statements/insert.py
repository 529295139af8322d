"""`INSERT INTO` and `INSERT OVERWRITE`: rows of a query or of VALUES, with column lists and partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from pyhudi.api.hudi_table import HudiTable
from pyhudi.api.writes import write_rows
from pyhudi.errors import ConfigError, SchemaMismatchError
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.schema.meta_columns import META_COLUMNS
from pyhudi.spark.fitted_values import fitting
from pyhudi.spark.settings import setting
from pyhudi.spark.types import spark_schema
from pyhudi.sql.catalog.columns import own_name, with_last
from pyhudi.sql.catalog.names import NamedTable, Names, NotHudi
from pyhudi.sql.catalog.partitions import Spec, pattern_of_spec
from pyhudi.sql.reads import tables_read_now
from pyhudi.sql.statements.assignment import assigned, by_name_or_place, by_place, check_count, numbered
from pyhudi.sql.statements.new_values import with_nulls
from pyhudi.sql.statements.protocol import no_rows
from pyhudi.sql.statements.target import target_table
from pyhudi.sql.text.clauses import column_names, partition_spec
from pyhudi.sql.text.tokens import Cursor, Slice

_QUERY = ("SELECT", "VALUES", "FROM", "WITH", "TABLE", "MAP", "REDUCE", "(")
_INSERT_INTO: Final = "hoodie.spark.sql.insert.into.operation"
_OPERATION: Final = "hoodie.datasource.write.operation"
_MODE: Final = "hoodie.datasource.overwrite.mode"
_SPARK_MODE: Final = "spark.sql.sources.partitionOverwriteMode"
_INTO = {member.value: member for member in (WriteOperation.INSERT, WriteOperation.UPSERT, WriteOperation.BULK_INSERT)}


@dataclass(frozen=True)
class Insertion:
    """The operation of an insert, and the options that go with it.

    `of_clause`: whether it replaces the partitions of the PARTITION clause, besides those of its rows.
    """

    operation: WriteOperation
    options: Mapping[str, str]
    of_clause: bool = False


@dataclass(frozen=True, kw_only=True)
class Clauses:
    """How rows come into a table.

    Attributes:
        overwrite: whether they replace what is there.
        partition: the columns of the PARTITION clause, with their values.
        columns: the columns that the rows have, if they are listed.
        by_name: whether the columns of the rows are those of the same names.
    """

    overwrite: bool = False
    partition: Spec = ()
    columns: tuple[str, ...] = ()
    by_name: bool = False


@dataclass(frozen=True, kw_only=True)
class Insert(Clauses):
    """Rows that come into a table. `query`: the rows, as a statement of Spark."""

    table: NamedTable
    query: str

    def run(self, spark: SparkSession) -> DataFrame:
        """Write the rows in one commit."""
        with tables_read_now() as read:
            rows = spark.sql(self.query)
        table = self.table.open(spark)
        replaces_own = self.overwrite and table.handle.state.storage.uri in read
        insert_rows(table, rows, self, again=(lambda: spark.sql(self.query)) if replaces_own else None)
        return no_rows(spark)


def insert_rows(
    table: HudiTable, rows: DataFrame, clauses: Clauses, *, again: Callable[[], DataFrame] | None = None
) -> None:
    """Write rows to a table as `INSERT` with these clauses does. The rows' meta columns are left out.

    `again`: makes the rows anew where they are computed from what they replace.

    Raises:
        SchemaMismatchError: a column is not in the table, or the rows have other columns.
    """
    spark, fields = rows.sparkSession, tuple(table.handle.state.config.partition_fields or ())
    ready = _ready(table, rows, clauses)
    if clauses.overwrite:
        static = sum(value is not None for _, value in clauses.partition)
        found = insertion_overwrite(spark, table.handle.options, len(fields), len(clauses.partition), static)
    else:
        found = insertion_into(table.handle.options)
    write_rows(
        table.handle,
        ready,
        found.operation,
        found.options,
        overwritten=pattern_of_spec(spark, table, clauses.partition) if found.of_clause else None,
        again=None if again is None else lambda: _ready(table, again(), clauses),
    )


def _schema(table: HudiTable) -> StructType:
    """The columns of a table in the order of SQL, in which partition columns come last."""
    fields = table.handle.state.config.partition_fields or ()
    return with_last(spark_schema(table.schema), [name for name in fields if name in table.schema.names])


def _ready(table: HudiTable, rows: DataFrame, clauses: Clauses) -> DataFrame:
    """The rows with the columns of the table."""
    rows, schema = rows.drop(*META_COLUMNS), _schema(table)
    named = [(own_name(schema, name, "the partition column"), value) for name, value in clauses.partition]
    _check_partition([name for name, _ in named], tuple(table.handle.state.config.partition_fields or ()))
    fit, kinds = fitting(rows), {field.name: field.dataType for field in schema.fields}
    # As in Spark, the text of a value fits any type that can be read from it.
    static = {name: fit(sql.expr(str(value)), kinds[name], name) for name, value in named if value is not None}
    columns = tuple(rows.columns) if clauses.by_name else clauses.columns
    wanted = _wanted(schema, tuple(static), columns)
    check_count(rows, wanted)
    known = by_place(wanted) if columns else by_name_or_place(rows.columns, wanted)
    return assigned(numbered(rows), {**known, **static}, schema)


def _check_partition(named: Sequence[str], fields: tuple[str, ...]) -> None:
    for name in named:
        if name not in fields:
            raise SchemaMismatchError(f"{name!r} is no partition column of the table", partition_by=fields)


def _wanted(schema: StructType, static: tuple[str, ...], columns: tuple[str, ...]) -> list[str]:
    """The columns that the rows have to give, in the order of the statement or of the table."""
    listed = [own_name(schema, name, "the column") for name in columns]
    twice = [name for name in (*listed, *static) if (*listed, *static).count(name) > 1]
    if twice:
        raise SchemaMismatchError(f"the column {twice[0]!r} is named twice", column=twice[0])
    return listed or [field.name for field in schema.fields if field.name not in static]


def parse(cursor: Cursor, names: Names, before: Slice | None = None) -> Insert:
    """`INSERT {INTO | OVERWRITE} [TABLE] name [PARTITION (…)] [(columns) | BY NAME] query`.

    `before`: what stands before INSERT, and belongs to the query.
    """
    cursor.expect("INSERT")
    overwrite = cursor.one_of("INTO", "OVERWRITE") == "OVERWRITE"
    if cursor.peek("DIRECTORY") or cursor.peek("LOCAL", "DIRECTORY"):
        raise NotHudi
    cursor.accept("TABLE")
    table = target_table(cursor, names)
    partition = partition_spec(cursor) if cursor.accept("PARTITION") else ()
    if cursor.peek("IF"):
        cursor.fail("IF NOT EXISTS is not supported for a partition of a Hudi table")
    if cursor.peek("REPLACE"):
        cursor.fail("REPLACE WHERE is not supported for a Hudi table: use DELETE, and INSERT INTO")
    by_name = cursor.accept("BY", "NAME")
    columns = column_names(cursor) if _lists_columns(cursor) else ()
    if not any(cursor.peek(word) for word in _QUERY):
        cursor.fail("a query or VALUES is expected", known=_QUERY)
    query = with_nulls(cursor) if cursor.peek("VALUES") else str(cursor.until())
    cursor.end()
    return Insert(
        table=table,
        query=query if before is None else f"{before} {query}",
        overwrite=overwrite,
        partition=partition,
        columns=columns,
        by_name=by_name,
    )


def parse_from(cursor: Cursor, names: Names) -> Insert:
    """`FROM rows INSERT …`."""
    before = cursor.until("INSERT")
    if not (cursor.peek("INSERT", "INTO") or cursor.peek("INSERT", "OVERWRITE")):
        raise NotHudi
    ahead = Cursor(cursor.text, cursor.tokens[cursor.position + 1 :])
    ahead.until("INSERT")
    found = parse(cursor, names, before)
    if ahead.peek("INSERT"):
        ahead.fail("a Hudi table takes the only insert of a FROM: write several statements")
    return found


def _lists_columns(cursor: Cursor) -> bool:
    """Whether a list of columns follows, and not a query in parentheses."""
    if not cursor.peek("("):
        return False
    following = cursor.tokens[cursor.position + 1 : cursor.position + 2]
    return bool(following) and not any(following[0].is_word(word) for word in _QUERY)


def insertion_into(options: Mapping[str, str]) -> Insertion:
    """What `INSERT INTO` does: `insert`, unless an option of the session or the table says otherwise.

    Raises:
        ConfigError: the option names another operation.
    """
    named = options.get(_INSERT_INTO) or options.get(_OPERATION) or WriteOperation.INSERT.value
    operation = _INTO.get(named.strip().lower())
    if operation is None:
        raise ConfigError(f"INSERT INTO is one of {', '.join(_INTO)}", operation=named)
    return Insertion(operation, {})


def insertion_overwrite(
    spark: SparkSession, options: Mapping[str, str], partitions: int, named: int, static: int
) -> Insertion:
    """What `INSERT OVERWRITE` replaces, for a table with so many partition columns.

    `named`: how many of them the PARTITION clause has; `static`: how many of those have a value. Mode dynamic replaces
    the partitions of the rows; mode static those of the clause, and all without one. A clause with values for all
    partition columns means that partition in both modes, even if there are no rows.
    """
    if not partitions:
        return Insertion(WriteOperation.INSERT_OVERWRITE_TABLE, {_MODE: "STATIC"})
    mode = options.get(_MODE) or setting(spark, _SPARK_MODE) or "STATIC"
    if mode.strip().upper() not in ("STATIC", "DYNAMIC"):
        raise ConfigError(f"{_MODE}, or {_SPARK_MODE}, must be STATIC or DYNAMIC", given=mode)
    is_dynamic = mode.strip().upper() == "DYNAMIC"
    if static == partitions or (static and not is_dynamic):
        return Insertion(WriteOperation.INSERT_OVERWRITE, {_MODE: "DYNAMIC"}, of_clause=True)
    if is_dynamic:
        return Insertion(WriteOperation.INSERT_OVERWRITE, {_MODE: "DYNAMIC"})
    whole = WriteOperation.INSERT_OVERWRITE if named else WriteOperation.INSERT_OVERWRITE_TABLE
    return Insertion(whole, {_MODE: "STATIC"})
