"""`DESCRIBE [TABLE] [EXTENDED] name`, `DESCRIBE HISTORY name` and `DESCRIBE DETAIL name`."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from pyspark.sql import DataFrame, SparkSession

from pyhudi.spark.frames import frame_of_arrow
from pyhudi.sql.catalog.names import NamedTable, Names, NotHudi
from pyhudi.sql.catalog.registered import catalog_facts, catalog_schema
from pyhudi.sql.catalog.session_tables import CatalogTable
from pyhudi.sql.statements.protocol import texts
from pyhudi.sql.text.tokens import Cursor

_COLUMNS = ["col_name", "data_type", "comment"]
_EMPTY: list[str | None] = ["", "", ""]


@dataclass(frozen=True)
class Describe:
    """The columns of a table; `extended`: and what the catalog knows of it."""

    table: NamedTable
    entry: CatalogTable
    extended: bool

    def run(self, spark: SparkSession) -> DataFrame:
        """Rows as those of JVM Hudi: columns, partition columns, facts."""
        schema = catalog_schema(spark, self.entry)
        rows: list[list[str | None]] = [
            [field.name, field.dataType.simpleString(), field.metadata.get("comment")] for field in schema.fields
        ]
        fields = self.table.open(spark).handle.state.config.partition_fields or ()
        if fields:
            rows += [["# Partition Information", "", ""], ["# col_name", "data_type", "comment"]]
            rows += [row for name in fields for row in rows if row[0] == name][: len(fields)]
        if self.extended:
            rows += [_EMPTY, ["# Detailed Table Information", "", ""]]
            rows += [[name, value, ""] for name, value in catalog_facts(spark, self.entry).items()]
        return texts(spark, _COLUMNS, rows)


@dataclass(frozen=True)
class DescribeHistory:
    """The writes of a table, newest first."""

    table: NamedTable

    def run(self, spark: SparkSession) -> DataFrame:
        """The rows of `table.inspect.history()`."""
        return frame_of_arrow(spark, self.table.open(spark).inspect.history())


@dataclass(frozen=True)
class DescribeDetail:
    """What kind of table it is, and its size."""

    table: NamedTable

    def run(self, spark: SparkSession) -> DataFrame:
        """One row per fact of `table.inspect.detail()`, columns `name` and `value`."""
        facts = asdict(self.table.open(spark).inspect.detail())
        rows: list[list[str | None]] = [
            [name, ",".join(map(str, value)) if isinstance(value, tuple) else str(value)]
            for name, value in facts.items()
        ]
        return texts(spark, ["name", "value"], rows)


def parse(cursor: Cursor, names: Names) -> Describe | DescribeHistory | DescribeDetail:
    """`{DESCRIBE | DESC} [TABLE] [EXTENDED | FORMATTED] name`, or with HISTORY or DETAIL."""
    cursor.one_of("DESCRIBE", "DESC")
    if len(cursor.tokens) > cursor.position + 1:
        if cursor.accept("HISTORY"):
            return DescribeHistory(_only_name(cursor, names))
        if cursor.accept("DETAIL"):
            return DescribeDetail(_only_name(cursor, names))
    cursor.accept("TABLE")
    extended = cursor.accept("EXTENDED") or cursor.accept("FORMATTED")
    if not cursor.is_at_end and cursor.token is not None and cursor.token.is_text:
        raise NotHudi
    table = names.table(cursor.name())
    if table.entry is None or not cursor.is_at_end:  # AS JSON, a column, a partition
        raise NotHudi
    return Describe(table, table.entry, extended)


def _only_name(cursor: Cursor, names: Names) -> NamedTable:
    table = names.table(cursor.name())
    cursor.end()
    return table
