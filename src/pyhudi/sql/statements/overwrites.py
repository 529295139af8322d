"""The operation of `INSERT INTO` and `INSERT OVERWRITE`, as options and the session's settings say, and as JVM Hudi.

An overwrite never removes the table: each is one commit that replaces file groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

from pyhudi.errors import ConfigError
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.spark.settings import setting

_INSERT_INTO: Final = "hoodie.spark.sql.insert.into.operation"
_OPERATION: Final = "hoodie.datasource.write.operation"
_MODE: Final = "hoodie.datasource.overwrite.mode"
_SPARK_MODE: Final = "spark.sql.sources.partitionOverwriteMode"
_INTO = {one.value: one for one in (WriteOperation.INSERT, WriteOperation.UPSERT, WriteOperation.BULK_INSERT)}


@dataclass(frozen=True)
class Insertion:
    """The operation of an insert, and the options that go with it.

    `of_clause`: whether it replaces the partitions of the PARTITION clause, besides those of its rows.
    """

    operation: WriteOperation
    options: Mapping[str, str]
    of_clause: bool = False


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
        raise ConfigError("the overwrite mode is static or dynamic", mode=mode)
    is_dynamic = mode.strip().upper() == "DYNAMIC"
    if static == partitions or (static and not is_dynamic):
        return Insertion(WriteOperation.INSERT_OVERWRITE, {_MODE: "DYNAMIC"}, of_clause=True)
    if is_dynamic:
        return Insertion(WriteOperation.INSERT_OVERWRITE, {_MODE: "DYNAMIC"})
    whole = WriteOperation.INSERT_OVERWRITE if named else WriteOperation.INSERT_OVERWRITE_TABLE
    return Insertion(whole, {_MODE: "STATIC"})
