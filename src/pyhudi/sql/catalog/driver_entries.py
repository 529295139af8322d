"""Entries of the session catalog before Spark 4.0, whose SQL takes no format that has no class in the JVM.

There the statement is analyzed for a format that Spark has, and the entry that it makes gets the name of Hudi's.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from pyhudi.spark.reads.jvm_objects import Jvm

_PARSER = "org.apache.spark.sql.execution.SparkSqlParser"
_MODES = "org.apache.spark.sql.execution.CommandExecutionMode"
_IDENTIFIER = "org.apache.spark.sql.catalyst.TableIdentifier"
_PROVIDER, _FIELDS = 5, 20
"""Of the fields of Spark's `CatalogTable` the number of the format, from 1, and how many there are."""
KNOWN_FORMAT = "json"
"""A format that Spark has, and that takes columns of any name."""


def make_entry(spark: SparkSession, statement: str, provider: str) -> None:
    """Make the entry of a `CREATE TABLE … USING json` that names no rows, for another format.

    Raises what Spark does: for a name that is taken, for example.
    """
    jvm = Jvm(spark)
    state = spark._jsparkSession.sessionState()
    plan = jvm.named(_PARSER)().parsePlan(statement)
    command = state.executePlan(plan, jvm.single(_MODES).SKIP()).analyzed()  # which runs no command
    entry = command.table()
    fields = [getattr(entry, f"copy$default${number}")() for number in range(1, _FIELDS + 1)]
    fields[_PROVIDER - 1] = jvm.root.scala.Option.apply(provider)
    state.catalog().createTable(entry.copy(*fields), False, True)


def replace_columns(spark: SparkSession, database: str, table: str, columns: Sequence[StructField]) -> None:
    """Give an entry these columns; its partition columns stay as they are."""
    jvm = Jvm(spark)
    catalog = spark._jsparkSession.sessionState().catalog()
    identifier = jvm.named(_IDENTIFIER)(table, jvm.root.scala.Option.apply(database))
    partitions = catalog.getTableMetadata(identifier).partitionColumnNames()
    of_rows = StructType([field for field in columns if not partitions.contains(field.name)])
    catalog.externalCatalog().alterTableDataSchema(database, table, jvm.data_type(of_rows))
    catalog.refreshTable(identifier)
