"""`DROP TABLE name [PURGE]`: the entry in the catalog goes; the folder of a managed table, or with PURGE, too."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from pyhudi.errors import TableNotFoundError
from pyhudi.sql.catalog.names import NamedTable, Names, NotHudi
from pyhudi.sql.plain import plain_sql
from pyhudi.sql.statements.protocol import no_rows
from pyhudi.sql.text.tokens import Cursor
from pyhudi.storage.open import open_storage
from pyhudi.table.state import load_table


@dataclass(frozen=True)
class DropTable:
    """A table that leaves the catalog; `purge`: and its folder the store."""

    table: NamedTable
    purge: bool

    def run(self, spark: SparkSession) -> DataFrame:
        """Drop the entry first: a folder without a name loses nothing."""
        assert self.table.entry is not None
        plain_sql(spark, f"DROP TABLE {self.table.entry.quoted}")
        if self.purge or self.table.entry.managed:
            storage = open_storage(self.table.location, self.table.options(spark))
            try:
                load_table(storage)
            except TableNotFoundError:  # the catalog has deleted the folder
                return no_rows(spark)
            storage.delete_folder("")
        return no_rows(spark)


def parse(cursor: Cursor, names: Names) -> DropTable:
    """`DROP TABLE [IF EXISTS] name [PURGE]`."""
    cursor.expect("DROP", "TABLE")
    cursor.accept("IF", "EXISTS")
    table = names.table(cursor.name())
    if table.entry is None:
        raise NotHudi
    purge = cursor.accept("PURGE")
    cursor.end()
    return DropTable(table, purge)
