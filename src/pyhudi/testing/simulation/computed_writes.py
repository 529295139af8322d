"""Writes that compute their rows from those of the table: updates, deletions by condition, merges.

What such a write decided by the rows that it read must still hold when it is committed.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.api.hudi_table import HudiTable
from pyhudi.transaction.conflicts.footprint import Reads
from pyhudi.write.result import WriteResult

KEYS = ("a1", "a2")
"""The keys that an update and a deletion by condition look at, all of one partition."""
SOURCE = ("a1", "a9")
"""The keys of the source of a merge."""
CLAIMED = "claimed"
"""The value that a claim inserts if no row has it."""
FIRST = "start"
"""The value by which a deletion by condition selects its rows."""


class Computation(enum.Enum):
    """What a write makes of the rows of the table."""

    EXTEND = "the writer's name is added to the values of some keys"
    DISCARD = "rows with the first value are deleted"
    MERGE = "keys of the source are extended or inserted, and all other rows are marked"
    CLAIM = "a key is inserted if no row of any partition has its value"


@dataclass(frozen=True, slots=True)
class Computed:
    """One such write, of an actor with this name."""

    computation: Computation
    name: str

    @property
    def partition_paths(self) -> frozenset[str]:
        """The partitions whose rows it looks at."""
        return frozenset("ab") if self._reads_all else frozenset("a")

    @property
    def _reads_all(self) -> bool:
        return self.computation in (Computation.MERGE, Computation.CLAIM)

    @property
    def _claimed(self) -> str:
        """The key that it claims: each actor has one of its own, in one of two partitions."""
        return f"{'ab'[int(self.name.rpartition('-')[2]) % 2]}7"

    def values(self, rows: Mapping[str, str]) -> Mapping[str, str | None]:
        """The keys that it changes, with their new values; None deletes the key."""
        match self.computation:
            case Computation.EXTEND:
                return {key: f"{rows[key]}+{self.name}" for key in KEYS if key in rows}
            case Computation.DISCARD:
                return {key: None for key in KEYS if rows.get(key) == FIRST}
            case Computation.MERGE:
                marked = {key: f"{value}~" for key, value in rows.items() if key not in SOURCE}
                return marked | {key: f"{rows[key]}+{self.name}" if key in rows else self.name for key in SOURCE}

            case Computation.CLAIM:
                return {} if CLAIMED in rows.values() else {self._claimed: CLAIMED}

    def read(self, values: Mapping[str, str | None]) -> Reads:
        """The partitions on whose rows these values depend, as its write says it: see `RowsRead`."""
        return None if self._reads_all else frozenset(key[0] for key in values)

    def run(self, table: HudiTable) -> WriteResult:
        """Run it by the method of `HudiTable` that users have for it."""
        extended: Any = pc.binary_join_element_wise(pc.field("target.value"), pc.scalar(f"+{self.name}"), "")
        match self.computation:
            case Computation.EXTEND:
                extended = pc.binary_join_element_wise(pc.field("value"), pc.scalar(f"+{self.name}"), "")
                return table.update({"value": extended}, [("key", "in", list(KEYS))])
            case Computation.DISCARD:
                return table.delete_where([("key", "in", list(KEYS)), ("value", "==", FIRST)])
            case Computation.MERGE:
                marked = pc.binary_join_element_wise(pc.field("target.value"), pc.scalar("~"), "")
                source = rows_of_keys(dict.fromkeys(SOURCE, self.name), table.schema)
                merge = table.merge(source, on="key").when_matched_update(set={"value": extended})
                merge = merge.when_not_matched_insert_all()
                return merge.when_not_matched_by_source_update(set={"value": marked}).execute()
            case Computation.CLAIM:
                source = rows_of_keys({self._claimed: CLAIMED}, table.schema)
                return table.merge(source, on="value").when_not_matched_insert_all().execute()


def rows_of_keys(values: Mapping[str, str | None], schema: pa.Schema) -> pa.Table:
    """Rows of these keys for a table with this schema."""
    rows = [
        {"key": key, "part": key[0], "value": value or "", "ts": 1, "note": key, "remark": key, "number": NUMBER}
        for key, value in values.items()
    ]
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema)


NUMBER = 1
"""The value of the column `number` in all rows."""
