"""Hudi tables by name in the DataFrame API: `spark.table`, `spark.read.table`, `saveAsTable` and `insertInto`."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from pyhudi.errors import ConfigError, SqlStatementError
from pyhudi.spark.options import table_options
from pyhudi.spark.reads.reader import load_table
from pyhudi.spark.writer import save_dataframe
from pyhudi.sql.catalog.names import NamedTable, Names
from pyhudi.sql.catalog.new_table import NewTable, put_in_catalog
from pyhudi.sql.statements.insert import Clauses, insert_rows
from pyhudi.sql.text.tokens import Cursor, Name
from pyhudi.write.save import SaveMode

_PATH = "path"


def find(spark: SparkSession, text: str) -> NamedTable | None:
    """The Hudi table of a name as the DataFrame API has it; None for all other names."""
    name = name_of(text)
    return None if name is None else Names(spark).find(name)


def stored_table(spark: SparkSession, name: Name) -> NamedTable | None:
    """The Hudi table of a name, as `saveAsTable` and `toTable` of Spark look it up: also one that a view hides."""
    return Names(spark, (spark.catalog.currentDatabase(),)).find(name)


def name_of(text: str) -> Name | None:
    """A name of one or several parts; None if the text is none, which Spark then says."""
    try:
        cursor = Cursor(text)
        name = cursor.name()
    except SqlStatementError:
        return None
    return name if cursor.is_at_end else None


def read(spark: SparkSession, table: NamedTable, options: Mapping[str, str]) -> DataFrame:
    """The rows of a table under its name, with the options of a reader."""
    rows = load_table(spark, table.location, options_of_read(spark, table, options))
    return rows.alias(table.name.parts[-1])


def options_of_read(spark: SparkSession, table: NamedTable, options: Mapping[str, str]) -> dict[str, str]:
    """The options of a read by name: those of a reader, over those of the session, over those of the catalog."""
    return table.options(spark, table_options(options))


def insert(rows: DataFrame, table: NamedTable, options: Mapping[str, str], *, overwrite: bool) -> None:
    """Write rows as `INSERT INTO`, or `INSERT OVERWRITE`, does."""
    spark = rows.sparkSession
    insert_rows(table.open(spark, table_options(options)), rows, Clauses(overwrite=overwrite))


def save(
    rows: DataFrame, text: str, options: Mapping[str, str], mode: str | None, partition_by: tuple[str, ...]
) -> None:
    """Write rows to the table of a name, and make it if there is none.

    Raises:
        TableExistsError: the mode is that without a name, and there is a table.
        ConfigError: the name is none.
    """
    spark = rows.sparkSession
    name = name_of(text)
    if name is None:
        raise ConfigError("this is no name of a table", name=text)
    saving = SaveMode.parse(mode or "default")
    table = stored_table(spark, name)
    if table is None or saving is SaveMode.ERROR_IF_EXISTS:
        given = {key: value for key, value in options.items() if key.lower() != _PATH}
        location = next((value for key, value in options.items() if key.lower() == _PATH), None)
        new = NewTable(name.parts, rows.schema, partition_by, location, rows=rows, options=table_options(given))
        put_in_catalog(spark, new)
    elif saving is not SaveMode.IGNORE:
        given = table.options(spark, table_options(options))
        save_dataframe(rows, table.location, options=given, mode=mode, partition_by=partition_by)
