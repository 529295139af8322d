"""Queries inside of expressions on Spark Connect, where Spark finds no Hudi tables: temporary views in their places.

In a classic session the parser of `enable` reads the tables of such queries (`sql/parser.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession

from pyhudi.environment import SYSTEM
from pyhudi.spark.settings import is_connect
from pyhudi.sql.catalog.names import NamedTable
from pyhudi.sql.reads import table_rows
from pyhudi.sql.rewriting import with_queries
from pyhudi.sql.statements.new_values import Assignment
from pyhudi.sql.text.quoting import quoted_name
from pyhudi.sql.text.relations import Relation
from pyhudi.sql.text.tokens import Slice

_SELECT = "SELECT "


@dataclass(frozen=True)
class Queries:
    """The Hudi tables that the expressions of a statement read on Spark Connect, each in a temporary view."""

    spark: SparkSession
    _views: dict[str, tuple[NamedTable, Relation]] = field(default_factory=dict)

    def of(self, part: Slice) -> Slice:
        """An expression with names of views in the place of those of Hudi tables."""
        if not is_connect(self.spark):
            return part
        found = with_queries(self.spark, _SELECT + part.text, self._view)
        return part if found is None else Slice(found.removeprefix(_SELECT), part.start)

    def of_values(self, assigned: Sequence[Assignment] | None) -> tuple[Assignment, ...] | None:
        """The same for the values of assignments."""
        return (
            None
            if assigned is None
            else tuple(replace(assignment, value=self.of(assignment.value)) for assignment in assigned)
        )

    @property
    def read_tables(self) -> bool:
        """Whether an expression reads a Hudi table."""
        return bool(self._views)

    def refresh(self) -> None:
        """Let the views read the newest state. Cost: that of planning a read of each table."""
        for name, (table, relation) in self._views.items():
            table_rows(self.spark, table, relation.moment, relation.options).createOrReplaceTempView(name)

    def drop(self) -> None:
        """Drop the views."""
        for name in self._views:
            self.spark.catalog.dropTempView(name)

    def _view(self, table: NamedTable, relation: Relation) -> str:
        name = "_".join(["pyhudi", *SYSTEM.ids.uuid().split("-")])
        table_rows(self.spark, table, relation.moment, relation.options).createOrReplaceTempView(name)
        self._views[name] = (table, relation)
        return quoted_name(name)


@contextmanager
def queries_in(spark: SparkSession) -> Iterator[Queries]:
    """What makes queries in expressions readable during the block, in which the statement has to run."""
    made = Queries(spark)
    try:
        yield made
    finally:
        made.drop()
