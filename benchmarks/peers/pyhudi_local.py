"""pyhudi without Spark: Arrow in, Arrow out, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pyarrow.compute as pc
import pyarrow.parquet as pq
from inputs import AGGREGATED, DATA_COLUMNS, KEY, ORDERING, PARTITION

from peers.hudi_options import newest_completion_time
from peers.protocol import LOG_OPERATIONS, PAIRED_SCANS, SPARK_OPERATIONS
from pyhudi import HudiTable


class PyhudiLocal:
    lacks: ClassVar[frozenset[str]] = SPARK_OPERATIONS | LOG_OPERATIONS | PAIRED_SCANS

    def __init__(self, work: Path, jars: list[str]) -> None:
        del work, jars

    def start(self) -> None:
        """There is no session."""

    def stop(self) -> None:
        """There is no session."""

    def bulk_insert(self, table: Path, rows: Path) -> None:
        loaded = pq.read_table(rows)
        created = HudiTable.create(
            str(table), schema=loaded.schema, record_key=KEY, partition_by=PARTITION, ordering_fields=ORDERING
        )
        created.bulk_insert(loaded)

    def bulk_insert_computed(self, table: Path, rows: Path) -> None:
        """On Spark only."""
        raise NotImplementedError

    def upsert(self, table: Path, rows: Path) -> None:
        HudiTable.for_path(str(table)).upsert(pq.read_table(rows))

    def delete(self, table: Path, keys: Path) -> None:
        HudiTable.for_path(str(table)).delete(pq.read_table(keys))

    def scan(self, table: Path) -> None:
        for batch in HudiTable.for_path(str(table)).scan(DATA_COLUMNS).to_batches():
            del batch

    def scan_base(self, table: Path) -> None:
        """Merge-on-read tables only."""
        raise NotImplementedError

    def compact(self, table: Path) -> None:
        """Merge-on-read tables only."""
        raise NotImplementedError

    def aggregate(self, table: Path) -> list[str]:
        rows = HudiTable.for_path(str(table)).scan(AGGREGATED).to_arrow()
        return [str(pc.sum(rows[name])) for name in AGGREGATED]

    def lookup(self, table: Path, key: str) -> list[str]:
        rows = HudiTable.for_path(str(table)).scan(["l_comment"], [(KEY, "==", key)]).to_arrow()
        return [str(comment) for comment in rows["l_comment"]]

    def position(self, table: Path) -> str:
        return newest_completion_time(table)

    def changes(self, table: Path, since: Any) -> None:
        HudiTable.for_path(str(table)).changes(since, columns=DATA_COLUMNS).to_arrow()

    def count_changes(self, table: Path, since: Any) -> int:
        return int(HudiTable.for_path(str(table)).changes(since, columns=[KEY]).to_arrow().num_rows)

    def fingerprint(self, table: Path) -> list[str]:
        rows = HudiTable.for_path(str(table)).scan([*AGGREGATED, ORDERING]).to_arrow()
        return [str(rows.num_rows), *[str(pc.sum(rows[name])) for name in AGGREGATED], str(pc.max(rows[ORDERING]))]
