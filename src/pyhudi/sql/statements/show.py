"""Statements that show a table: `SHOW PARTITIONS`, `SHOW CREATE TABLE`, `SHOW TBLPROPERTIES`, `MSCK REPAIR TABLE`."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from pyhudi.errors import InvalidRequestError
from pyhudi.sql.catalog.columns import ddl_lines
from pyhudi.sql.catalog.names import NamedTable, Names, NotHudi
from pyhudi.sql.catalog.partitions import Spec, matching, partition_paths, pattern_of_spec
from pyhudi.sql.catalog.registered import catalog_schema
from pyhudi.sql.catalog.session_tables import CatalogTable
from pyhudi.sql.statements.alter_table import Nothing
from pyhudi.sql.statements.protocol import texts
from pyhudi.sql.text.clauses import partition_values, property_name
from pyhudi.sql.text.quoting import quoted_name, quoted_text
from pyhudi.sql.text.tokens import Cursor

_OF_SPARK = ("owner", "provider", "location", "path", "option.path")


@dataclass(frozen=True)
class ShowPartitions:
    """The partitions that have rows, by their paths."""

    table: NamedTable
    partition: Spec = ()

    def run(self, spark: SparkSession) -> DataFrame:
        """One row per partition, column `partition`; none for a table without partitions."""
        table = self.table.open(spark)
        if not table.handle.state.config.partition_fields:
            return texts(spark, ["partition"], [])
        paths = partition_paths(table)
        if self.partition:
            paths = list(matching(paths, [pattern_of_spec(spark, table, self.partition)]))
        return texts(spark, ["partition"], [[path] for path in paths])


def parse_partitions(cursor: Cursor, names: Names) -> ShowPartitions:
    """`SHOW PARTITIONS name [PARTITION (…)]`."""
    cursor.expect("SHOW", "PARTITIONS")
    table = names.table(cursor.name())
    partition = partition_values(cursor) if cursor.accept("PARTITION") else ()
    cursor.end()
    return ShowPartitions(table, partition)


@dataclass(frozen=True)
class ShowCreateTable:
    """The statement that registers the table."""

    table: NamedTable
    entry: CatalogTable

    def run(self, spark: SparkSession) -> DataFrame:
        """One row, column `createtab_stmt`."""
        fields = tuple(self.table.open(spark).handle.state.config.partition_fields or ())
        own = {name: value for name, value in self.table.properties.items() if name.lower() not in _OF_SPARK}
        lines = [
            f"CREATE TABLE {quoted_name('spark_catalog', self.entry.database, self.entry.table)} (",
            ",\n".join(f"  {line}" for line in ddl_lines(catalog_schema(spark, self.entry))) + ")",
            "USING hudi",
            *([f"PARTITIONED BY ({', '.join(map(quoted_name, fields))})"] if fields else []),
            *([] if self.entry.managed else [f"LOCATION {quoted_text(self.table.location)}"]),
        ]
        if own:
            listed = ",\n".join(f"  {quoted_text(name)} = {quoted_text(own[name])}" for name in sorted(own))
            lines.append(f"TBLPROPERTIES (\n{listed})")
        return texts(spark, ["createtab_stmt"], [["\n".join(lines) + "\n"]])


def parse_create_table(cursor: Cursor, names: Names) -> ShowCreateTable:
    """`SHOW CREATE TABLE name`."""
    cursor.expect("SHOW", "CREATE", "TABLE")
    table = names.table(cursor.name())
    if table.entry is None:
        raise NotHudi
    cursor.end()
    return ShowCreateTable(table, table.entry)


@dataclass(frozen=True)
class ShowProperties:
    """The properties of the table in the catalog, or one of them."""

    table: NamedTable
    entry: CatalogTable
    key: str | None

    def run(self, spark: SparkSession) -> DataFrame:
        """One row per property, columns `key` and `value`."""
        schema = StructType([StructField("key", StringType()), StructField("value", StringType())])
        values = self.table.properties
        if self.key is not None:
            if self.key not in values:
                raise InvalidRequestError("the table has no such property", property=self.key)
            return spark.createDataFrame([(self.key, values[self.key])], schema)
        return spark.createDataFrame(sorted(values.items()), schema)


def parse_properties(cursor: Cursor, names: Names) -> ShowProperties:
    """`SHOW TBLPROPERTIES name [(key)]`."""
    cursor.expect("SHOW", "TBLPROPERTIES")
    table = names.table(cursor.name())
    if table.entry is None:
        raise NotHudi
    key = None
    if cursor.peek("("):
        inner = cursor.parenthesised()
        key = property_name(inner)
        inner.end()
    cursor.end()
    return ShowProperties(table, table.entry, key)


def parse_repair(cursor: Cursor, names: Names) -> Nothing:
    """`MSCK REPAIR TABLE name` and `REPAIR TABLE name`."""
    cursor.accept("MSCK")
    cursor.expect("REPAIR", "TABLE")
    return Nothing(names.table(cursor.name()))
