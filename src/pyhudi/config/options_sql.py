"""Options of SQL statements."""

# ruff: noqa: RUF009 - option() declares a field, as dataclasses.field does
from __future__ import annotations

from dataclasses import dataclass

from pyhudi.config.option import option
from pyhudi.config.parsers import one_of
from pyhudi.format.metadata.write_operation import WriteOperation


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlOptions:
    """What statements do where SQL leaves it open."""

    insert_into: WriteOperation = option(
        "hoodie.spark.sql.insert.into.operation",
        parse=one_of(WriteOperation),
        default=WriteOperation.INSERT,
        doc="The operation of `INSERT INTO`: insert, upsert or bulk_insert. Without it, "
        "`hoodie.datasource.write.operation` is used if it is one of these.",
    )
