"""`CREATE TEMPORARY VIEW … USING hudi` where Spark has no Python data sources, and so finds no format of this name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from pyhudi.config.location import table_path
from pyhudi.config.spelling import spelled
from pyhudi.spark.capabilities import HAS_PYTHON_SOURCES
from pyhudi.spark.enable import FORMATS
from pyhudi.sql.catalog.names import PATH_NAMESPACE, Names, NotHudi
from pyhudi.sql.functions.named_table import TableRead
from pyhudi.sql.plain import plain_sql
from pyhudi.sql.text.clauses import properties
from pyhudi.sql.text.tokens import Cursor


@dataclass(frozen=True)
class CreateTemporaryView:
    """A view of the session over the table in a folder.

    Attributes:
        beginning: the statement up to the name of the view, as it is written.
        options: those of the reader, with the path.
    """

    beginning: str
    options: Mapping[str, str]

    def run(self, spark: SparkSession) -> DataFrame:
        """Make the view, which reads the table anew each time.

        Raises:
            ConfigError: the options name no folder.
            TableNotFoundError: there is no table in it.
        """
        options = spelled(self.options)
        path = table_path(None, options)
        rest = {name: value for name, value in options.items() if name not in ("path", "hoodie.base.path")}
        read = TableRead((PATH_NAMESPACE, path if "/" in path else f"./{path}"), options=rest)
        return plain_sql(spark, f"{self.beginning} AS SELECT * FROM {read.call()}")  # noqa: S608 - quoted


def parse(cursor: Cursor, names: Names) -> CreateTemporaryView:
    """`CREATE [OR REPLACE] [GLOBAL] TEMPORARY VIEW name USING hudi [OPTIONS (…)]`."""
    del names  # a path needs no catalog
    start = cursor.place
    cursor.expect("CREATE")
    cursor.accept("OR", "REPLACE")
    cursor.accept("GLOBAL")
    is_temporary = cursor.accept("TEMPORARY") or cursor.accept("TEMP")
    if HAS_PYTHON_SOURCES or not is_temporary or not cursor.accept("VIEW"):
        raise NotHudi
    cursor.name()
    beginning, columns_at = cursor.text[start : cursor.place].rstrip(), cursor.place
    has_columns = cursor.peek("(")
    if has_columns:
        cursor.parenthesised()
    if not cursor.accept("USING") or str(cursor.name()).lower() not in FORMATS:
        raise NotHudi
    if has_columns:
        cursor.fail("the view has the columns of the table: leave the list of columns out", at=columns_at)
    options = properties(cursor) if cursor.accept("OPTIONS") else {}
    cursor.end()
    return CreateTemporaryView(beginning, options)
