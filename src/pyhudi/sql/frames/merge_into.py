"""`DataFrame.mergeInto` on Hudi tables: Spark's calls, which describe a merge of pyhudi."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame

from pyhudi.api.row_changes import Merge
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.sql.catalog.names import NamedTable, Names
from pyhudi.sql.text.tokens import Cursor
from pyhudi.write.row_changes.plan import Delete, Insert, MergePlan, Update


def writer_of(rows: DataFrame, table: str, condition: Column) -> HudiMergeWriter | None:
    """The writer of a merge into the table with this name; None if it is no Hudi table."""
    found = Names(rows.sparkSession).find(Cursor(table).name())
    return None if found is None else HudiMergeWriter(rows, found, condition)


class HudiMergeWriter:
    """What Spark calls `MergeIntoWriter`: clauses, and `merge()`. The DataFrame is the source."""

    def __init__(self, rows: DataFrame, table: NamedTable, condition: Column) -> None:
        self._rows, self._table = rows, table
        # Columns of the source are known by the DataFrame, or by the alias that the user gave it.
        self._plan = MergePlan(on=condition, target=table.name.parts[-1], source="")

    def whenMatched(self, condition: Column | None = None) -> _Matched:  # noqa: N802 - Spark's name
        """Rows of the table that a row of the DataFrame matches."""
        return _Matched(self, "matched", condition)

    def whenNotMatched(self, condition: Column | None = None) -> _NotMatched:  # noqa: N802 - Spark's name
        """Rows of the DataFrame that match none of the table."""
        return _NotMatched(self, "not_matched", condition)

    def whenNotMatchedBySource(self, condition: Column | None = None) -> _Matched:  # noqa: N802 - Spark's name
        """Rows of the table that no row of the DataFrame matches."""
        return _Matched(self, "not_matched_by_source", condition)

    def withSchemaEvolution(self) -> HudiMergeWriter:  # noqa: N802 - Spark's name
        """Not supported: a merge does not change the columns of the table."""
        raise UnsupportedFeatureError(
            "a merge does not change the columns of a Hudi table: add them by ALTER TABLE first",
            table=str(self._table.name),
        )

    def merge(self) -> None:
        """Run the merge, in one commit. Errors and cost: see `Merge.execute`."""
        handle = self._table.open(self._rows.sparkSession).handle
        Merge(self._plan, handle, self._rows).execute()

    def _with(self, kind: str, clause: Update | Delete | Insert) -> HudiMergeWriter:
        clauses: dict[str, Any] = {kind: (*getattr(self._plan, kind), clause)}
        self._plan = replace(self._plan, **clauses)
        return self


@dataclass(frozen=True)
class _Matched:
    writer: HudiMergeWriter
    kind: str
    condition: Column | None

    def updateAll(self) -> HudiMergeWriter:  # noqa: N802 - Spark's name
        """All columns get the values of the DataFrame."""
        return self.writer._with(self.kind, Update(None, self.condition))

    def update(self, assignments: Mapping[str, Column]) -> HudiMergeWriter:
        """These columns get these values."""
        return self.writer._with(self.kind, Update(_by_column(self.writer, assignments), self.condition))

    def delete(self) -> HudiMergeWriter:
        """The rows are deleted."""
        return self.writer._with(self.kind, Delete(self.condition))


@dataclass(frozen=True)
class _NotMatched:
    writer: HudiMergeWriter
    kind: str
    condition: Column | None

    def insertAll(self) -> HudiMergeWriter:  # noqa: N802 - Spark's name
        """The rows are inserted."""
        return self.writer._with(self.kind, Insert(None, self.condition))

    def insert(self, assignments: Mapping[str, Column]) -> HudiMergeWriter:
        """Rows with these values are inserted."""
        return self.writer._with(self.kind, Insert(_by_column(self.writer, assignments), self.condition))


def _by_column(writer: HudiMergeWriter, assignments: Mapping[str, Column]) -> dict[str, Column]:
    """The values by column; a name may begin with that of the table."""
    prefixes = (f"{writer._table.name}.", f"{writer._table.name.parts[-1]}.")
    return {
        next((name[len(p) :] for p in prefixes if name.lower().startswith(p.lower())), name): value
        for name, value in assignments.items()
    }
