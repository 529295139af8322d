"""What every peer can be asked: one function per operation, the same inputs, the same answers.

`table` is the folder of a table, `rows` and `keys` are Parquet files or folders of them (`inputs.py`). A function
returns when its effect is committed, or when all rows that it is about were read; nothing is left to do later.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Protocol

PAIRED_SCANS = frozenset({"scan_again", "scan_plain"})
"""What only pyhudi on Spark does: its table against plain Parquet that is laid out like it."""
SPARK_OPERATIONS = frozenset({"bulk_insert_computed"})
"""What only peers on Spark have."""
LOG_OPERATIONS = frozenset({"scan_base", "compact"})
"""What only merge-on-read tables have."""


class Peer(Protocol):
    """One system in one process. Made with the folder of its tables and its jars; then started, used and stopped."""

    lacks: ClassVar[frozenset[str]]
    """Names of operations that this peer does not have, or not without making its other operations slower."""

    def start(self) -> None:
        """Start the session, if there is one. Not measured."""
        ...

    def stop(self) -> None:
        """End the session. Not measured."""
        ...

    def bulk_insert(self, table: Path, rows: Path) -> None:
        """Make a table, partitioned by `PARTITION`, and load it."""
        ...

    def bulk_insert_computed(self, table: Path, rows: Path) -> None:
        """Like `bulk_insert`, of rows with a column that Spark has to compute."""
        ...

    def upsert(self, table: Path, rows: Path) -> None:
        """Replace the records of equal partition and key, add the others."""
        ...

    def delete(self, table: Path, keys: Path) -> None:
        """Remove the records of equal partition and key."""
        ...

    def scan(self, table: Path) -> None:
        """Read all `DATA_COLUMNS` of all rows, and do nothing with them."""
        ...

    def lay_out_plain(self, table: Path, plain: Path) -> None:
        """Write the rows of each file of a table to one file of plain Parquet, with the same codec. Not measured."""
        ...

    def scan_plain(self, plain: Path) -> None:
        """Like `scan`, of what `lay_out_plain` wrote."""
        ...

    def aggregate(self, table: Path) -> list[str]:
        """The sums of the two columns `AGGREGATED` over all rows, as text."""
        ...

    def scan_base(self, table: Path) -> None:
        """Like `scan`, of the base files alone."""
        ...

    def compact(self, table: Path) -> None:
        """Merge all logs into base files."""
        ...

    def lookup(self, table: Path, key: str) -> list[str]:
        """Comments of the rows with a record key; the partition is not known."""
        ...

    def position(self, table: Path) -> Any:
        """The newest commit, in a form that `changes` takes. Not measured."""
        ...

    def changes(self, table: Path, since: Any) -> None:
        """Read all `DATA_COLUMNS` of the rows that were written after a position, and do nothing with them."""
        ...

    def count_changes(self, table: Path, since: Any) -> int:
        """How many rows `changes` reads. Not measured."""
        ...

    def fingerprint(self, table: Path) -> list[str]:
        """Number of rows, sums of `AGGREGATED`, greatest ordering value. Not measured; must be equal for all peers."""
        ...
