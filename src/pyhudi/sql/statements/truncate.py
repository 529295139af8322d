"""`TRUNCATE TABLE name [PARTITION (…)]`: rows leave the table, in one commit."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from pyhudi.sql.catalog.names import NamedTable, Names
from pyhudi.sql.catalog.partitions import Spec, drop_partitions
from pyhudi.sql.statements.protocol import no_rows
from pyhudi.sql.statements.target import target_table
from pyhudi.sql.text.clauses import partition_values
from pyhudi.sql.text.tokens import Cursor


@dataclass(frozen=True)
class Truncate:
    """All rows of a table, or of the partitions of a clause."""

    table: NamedTable
    partition: Spec = ()

    def run(self, spark: SparkSession) -> DataFrame:
        """Delete the rows."""
        table = self.table.open(spark)
        if self.partition:
            drop_partitions(spark, table, [self.partition])
        else:
            table.truncate()
        return no_rows(spark)


def parse(cursor: Cursor, names: Names) -> Truncate:
    """`TRUNCATE TABLE name [PARTITION (a = 1, …)]`."""
    cursor.expect("TRUNCATE", "TABLE")
    table = target_table(cursor, names)
    partition = partition_values(cursor) if cursor.accept("PARTITION") else ()
    cursor.end()
    return Truncate(table, partition)
