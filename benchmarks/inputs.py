"""What every peer is given: paths of Parquet files and the names of the columns. Standard library only.

`dataset.py` makes the files. The peers run under three different Pythons, and all of them import this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

KEY = "l_key"
"""Record key: order number and line number as one text, `0000000001,1`. Text order is number order."""
PARTITION = "l_shipmode"
"""Seven values, spread evenly over the rows in any order."""
ORDERING = "l_updated_at"
"""When the row was last changed, in milliseconds: the later of two versions of a record wins."""
DATA_COLUMNS = (
    "l_orderkey",
    "l_partkey",
    "l_suppkey",
    "l_linenumber",
    "l_quantity",
    "l_extendedprice",
    "l_discount",
    "l_tax",
    "l_returnflag",
    "l_linestatus",
    "l_shipdate",
    "l_commitdate",
    "l_receiptdate",
    "l_shipinstruct",
    PARTITION,
    "l_comment",
    KEY,
    ORDERING,
)
"""TPC-H's sixteen columns, the record key and the ordering column. Whatever a format adds is not read back."""
AGGREGATED = ("l_quantity", "l_extendedprice")
COMPUTED = "l_comment"
"""The column that one bulk insert computes: in capital letters."""

SMALL_TABLE_ROWS = 100_000
SMALL_BATCH_ROWS = 100
SMALL_BATCHES = 10
WARM_UP_BATCHES = 20
"""A JVM compiles for many commits: in its first ones real Hudi spends more time in the compiler than in its tasks."""


@dataclass(frozen=True)
class Inputs:
    """The Parquet files of one scale factor, in one folder."""

    folder: Path

    @property
    def base(self) -> Path:
        """Folder: all rows of lineitem."""
        return self.folder / "base"

    @property
    def upsert_random(self) -> Path:
        """A random tenth of the rows of `base`, changed."""
        return self.folder / "upsert_random.parquet"

    @property
    def upsert_newest(self) -> Path:
        """The last hundredth of the rows of `base`, changed."""
        return self.folder / "upsert_newest.parquet"

    @property
    def delete(self) -> Path:
        """Key, partition and ordering column of a random hundredth of the rows of `base`."""
        return self.folder / "delete.parquet"

    @property
    def small_base(self) -> Path:
        """Folder: the first `SMALL_TABLE_ROWS` rows of `base`."""
        return self.folder / "small_base"

    def small_batch(self, number: int) -> Path:
        """`SMALL_BATCH_ROWS` rows: half of them change rows of `small_base`, half are new."""
        return self.folder / f"small_batch_{number:02d}.parquet"

    @property
    def small_batches(self) -> list[Path]:
        """The batches that there are, in order."""
        return sorted(self.folder.glob("small_batch_*.parquet"))

    @property
    def lookup_key(self) -> str:
        """A record key in the middle of `base`."""
        return (self.folder / "lookup_key.txt").read_text()
