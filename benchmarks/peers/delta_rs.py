"""Delta Lake without Spark: the `deltalake` wheel. No incremental pull, for the reason in `delta.py`."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from deltalake.table import TableMerger
from inputs import AGGREGATED, DATA_COLUMNS, KEY, ORDERING, PARTITION

from peers.protocol import LOG_OPERATIONS, PAIRED_SCANS, SPARK_OPERATIONS


class DeltaRs:
    lacks: ClassVar[frozenset[str]] = SPARK_OPERATIONS | LOG_OPERATIONS | PAIRED_SCANS | {"incremental"}

    def __init__(self, work: Path, jars: list[str]) -> None:
        del work, jars

    def start(self) -> None:
        """There is no session."""

    def stop(self) -> None:
        """There is no session."""

    def bulk_insert(self, table: Path, rows: Path) -> None:
        write_deltalake(str(table), pq.read_table(rows), partition_by=[PARTITION])

    def bulk_insert_computed(self, table: Path, rows: Path) -> None:
        """On Spark only."""
        raise NotImplementedError

    def upsert(self, table: Path, rows: Path) -> None:
        self._merge(table, rows).when_matched_update_all().when_not_matched_insert_all().execute()

    def delete(self, table: Path, keys: Path) -> None:
        self._merge(table, keys).when_matched_delete().execute()

    def scan(self, table: Path) -> None:
        for batch in self._rows(table).to_batches(columns=list(DATA_COLUMNS)):
            del batch

    def scan_base(self, table: Path) -> None:
        """Merge-on-read tables only."""
        raise NotImplementedError

    def compact(self, table: Path) -> None:
        """Merge-on-read tables only."""
        raise NotImplementedError

    def aggregate(self, table: Path) -> list[str]:
        rows = self._rows(table).to_table(columns=list(AGGREGATED))
        return [str(pc.sum(rows[name])) for name in AGGREGATED]

    def lookup(self, table: Path, key: str) -> list[str]:
        rows = self._rows(table).to_table(columns=["l_comment"], filter=ds.field(KEY) == key)
        return [str(comment) for comment in rows["l_comment"]]

    def fingerprint(self, table: Path) -> list[str]:
        rows = self._rows(table).to_table(columns=[*AGGREGATED, ORDERING])
        return [str(rows.num_rows), *[str(pc.sum(rows[name])) for name in AGGREGATED], str(pc.max(rows[ORDERING]))]

    def _rows(self, table: Path) -> ds.Dataset:
        return DeltaTable(str(table)).to_pyarrow_dataset()

    def _merge(self, table: Path, rows: Path) -> TableMerger:
        same = " AND ".join(f"stored.{name} = batch.{name}" for name in (PARTITION, KEY))
        return DeltaTable(str(table)).merge(
            pq.read_table(rows), predicate=same, source_alias="batch", target_alias="stored"
        )
