"""`TRUNCATE TABLE name`: all rows leave the table, in one commit."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from pyhudi.sql.names import NamedTable, Names
from pyhudi.sql.statement import no_rows
from pyhudi.sql.tokens import Cursor


@dataclass(frozen=True)
class Truncate:
    """All rows of a table, or of a partition."""

    table: NamedTable

    def run(self, spark: SparkSession) -> DataFrame:
        """Delete the rows."""
        self.table.open(spark).truncate()
        return no_rows(spark)


def parse(cursor: Cursor, names: Names) -> Truncate:
    """`TRUNCATE TABLE name`."""
    cursor.expect("TRUNCATE", "TABLE")
    table = names.table(cursor.name())
    cursor.end()
    return Truncate(table)
