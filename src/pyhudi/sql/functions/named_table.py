"""The table function by which classic sessions read a Hudi table: `pyhudi_table('["db", "t"]', 'VERSION AS OF 3')`.

Spark resolves the call when it analyzes a statement, so that the rows are those of then, in views and functions, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from pyhudi.spark.enable import original_of
from pyhudi.spark.reads.jvm_objects import Jvm
from pyhudi.sql.catalog.names import Names
from pyhudi.sql.catalog.session_tables import TablesOfDriver
from pyhudi.sql.functions.jvm_functions import current_namespace, plan_of, register
from pyhudi.sql.plain import plain_sql
from pyhudi.sql.reads import table_rows
from pyhudi.sql.text.quoting import literal, quoted_name
from pyhudi.sql.text.relations import moment_of
from pyhudi.sql.text.tokens import Cursor, Name

_FUNCTION = "pyhudi_table"
_ALIAS = "org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias"


@dataclass(frozen=True, slots=True)
class TableRead:
    """A table as a statement reads it.

    Attributes:
        name: its name. A name of one part is looked up where the call stands: in the namespace of the view or function.
        clause: `VERSION AS OF …` or `TIMESTAMP AS OF …`, as the statement has it; empty for now.
        options: those of `WITH (…)`.
    """

    name: tuple[str, ...]
    clause: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    def call(self) -> str:
        """The call of the function for it."""
        values = [json.dumps(self.name), self.clause, json.dumps(list(self.options.items())) if self.options else ""]
        while not values[-1]:
            values.pop()
        return f"{_FUNCTION}({', '.join(map(literal, values))})"


def register_reads(spark: SparkSession) -> bool:
    """Give a session the function. False where the JVM cannot call this process."""
    return register(spark, _FUNCTION, _plan_of_call)


def _plan_of_call(spark: SparkSession, name: str, clause: str = "", options: str = "[]") -> Any:
    read = TableRead(tuple(json.loads(name)), clause, dict(json.loads(options)))
    namespace = current_namespace(spark)
    table = Names(spark, namespace).find(Name(read.name, 0, 0))
    if table is None:
        return _plan_of_spark(spark, read.name if len(read.name) > 1 else (*namespace, *read.name), read)
    moment = moment_of(Cursor(read.clause)) if read.clause else None
    rows = table_rows(spark, table, moment, read.options)
    return Jvm(spark).single(_ALIAS).apply(Jvm(spark).sequence(table.full_name), plan_of(rows))


def _plan_of_spark(spark: SparkSession, parts: tuple[str, ...], read: TableRead) -> Any:
    """What Spark makes of a name that is no Hudi table's here, or none any more: another session has replaced it."""
    name = quoted_name(*parts)
    if read.clause:
        return plan_of(plain_sql(spark, f"SELECT * FROM {name} {read.clause}"))  # noqa: S608 - the user's own words
    _, database, table = parts
    TablesOfDriver(spark).forget(database, table)
    return plan_of(original_of(type(spark), "table")(spark, name))
