"""`df.writeTo(name)`: what appends to, overwrites and makes Hudi tables. Columns go by their names, as in Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from pyhudi.errors import TableNotFoundError, UnsupportedFeatureError
from pyhudi.spark.enable import Notes, refuse_unsupported
from pyhudi.spark.options import table_options
from pyhudi.sql.catalog.names import NamedTable, Names
from pyhudi.sql.catalog.new_table import NewTable, put_in_catalog
from pyhudi.sql.frames.by_name import name_of
from pyhudi.sql.statements.insert import Clauses, insert_rows
from pyhudi.sql.text.tokens import Name

_MODE = "hoodie.datasource.overwrite.mode"
_LOCATION = ("location", "path")


def run(verb: str, rows: DataFrame, text: str, notes: Notes, *args: Any) -> bool:
    """Do what a method of the writer says, if it is about a Hudi table. False: it is Spark's, and nothing was done.

    Raises:
        TableExistsError: a table is to be made, and the name is taken.
        TableNotFoundError: a table is to be replaced, and there is none of the name.
        UnsupportedFeatureError: rows are to be replaced under a condition, or a table that is there by another one.
        SchemaMismatchError: the rows do not fit the table.
    """
    spark = rows.sparkSession
    name = name_of(text)
    table = None if name is None else Names(spark).find(name)
    if name is None or not (notes.is_hudi if _makes(verb) and notes.source is not None else table is not None):
        return False
    refuse_unsupported(notes, "written")
    if _makes(verb):
        _make(verb, rows, name, table, notes)
    else:
        assert table is not None
        _write(verb, rows, table, notes, *args)
    return True


def _makes(verb: str) -> bool:
    return verb in ("create", "replace", "createOrReplace")


def _write(verb: str, rows: DataFrame, table: NamedTable, notes: Notes, condition: Any = None) -> None:
    """Write rows to a table that is there."""
    spark = rows.sparkSession
    if verb == "overwrite":
        _check_all(spark, condition)
    options = dict(table_options(notes.options))
    if verb != "append":
        options[_MODE] = "STATIC" if verb == "overwrite" else "DYNAMIC"
    insert_rows(table.open(spark, options), rows, Clauses(overwrite=verb != "append", by_name=True))


def _check_all(spark: SparkSession, condition: Any) -> None:
    """Check that a condition means all rows.

    Raises:
        UnsupportedFeatureError: it depends on a row, or is not true.
    """
    try:
        means_all = spark.range(1).drop("id").select(condition).first()[0] is True
    except AnalysisException:  # it has columns
        means_all = False
    if not means_all:
        raise UnsupportedFeatureError(
            "rows of a Hudi table cannot be replaced under a condition: use overwritePartitions(), INSERT OVERWRITE "
            "… PARTITION (…), or a deletion and append(); overwrite(lit(True)) replaces all rows"
        )


def _make(verb: str, rows: DataFrame, name: Name, table: NamedTable | None, notes: Notes) -> None:
    """Make a table of the rows."""
    if table is not None and verb != "create":
        raise UnsupportedFeatureError(
            f"{verb}() would remove a Hudi table with its history: drop it first, or use overwrite(lit(True))",
            table=str(name),
        )
    if verb == "replace":
        raise TableNotFoundError("there is no table of this name to be replaced", table=str(name))
    location = next((value for key, value in _places(notes).items() if key.lower() in _LOCATION), None)
    new = NewTable(
        name.parts,
        rows.schema,
        _columns(rows, notes.partition_by),
        location,
        notes.properties.get("comment"),
        {key: value for key, value in notes.properties.items() if key.lower() not in ("comment", *_LOCATION)},
        rows,
        table_options({key: value for key, value in notes.options.items() if key.lower() not in _LOCATION}),
    )
    put_in_catalog(rows.sparkSession, new)


def _places(notes: Notes) -> Mapping[str, str]:
    return {**notes.options, **notes.properties}


def _columns(rows: DataFrame, partitioned_by: tuple[Any, ...]) -> tuple[str, ...]:
    """The names of the partition columns. A transformation, such as `years("day")`, is no column, which Spark says."""
    return tuple(rows.select(*partitioned_by).columns) if partitioned_by else ()
