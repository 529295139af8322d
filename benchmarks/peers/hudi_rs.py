"""hudi-rs 0.6, no JVM: the program that `python tools/hudi_rs.py` builds, started anew for each operation.

Its start takes some milliseconds. It reads the rows of a batch itself, as the other peers do.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from contestants import HUDI_RS_PROGRAM
from inputs import KEY, ORDERING, PARTITION

from peers.hudi_options import newest_completion_time
from peers.protocol import LOG_OPERATIONS, PAIRED_SCANS, SPARK_OPERATIONS
from peers.pyhudi_local import PyhudiLocal

WITHOUT_METADATA_TABLE = "hoodie.metadata.enable=false"


class HudiRs:
    lacks: ClassVar[frozenset[str]] = (
        SPARK_OPERATIONS | LOG_OPERATIONS | PAIRED_SCANS | {"aggregate", "aggregate_after", "lookup"} | {"incremental"}
    )
    """Those that the program has no verb for."""

    def __init__(self, work: Path, jars: list[str]) -> None:
        self._keys = work / "keys.arrow"
        self._reader = PyhudiLocal(work, jars)

    def start(self) -> None:
        """There is no session."""

    def stop(self) -> None:
        """There is no session."""

    def bulk_insert(self, table: Path, rows: Path) -> None:
        names = (f"record_key={KEY}", f"partition_by={PARTITION}", f"ordering={ORDERING}")
        _run("create", table, "name=lineitem", "version=9", "hive_style=false", "metadata_table=false", *names)
        _run("append", table, rows, WITHOUT_METADATA_TABLE)

    def bulk_insert_computed(self, table: Path, rows: Path) -> None:
        """On Spark only."""
        raise NotImplementedError

    def upsert(self, table: Path, rows: Path) -> None:
        _run("upsert", table, rows, WITHOUT_METADATA_TABLE)

    def delete(self, table: Path, keys: Path) -> None:
        chosen = pq.read_table(keys, columns=[KEY, PARTITION])
        named = chosen.rename_columns(["_hoodie_record_key", "_hoodie_partition_path"])
        with pa.OSFile(str(self._keys), "wb") as sink, pa.ipc.new_stream(sink, named.schema) as writer:
            writer.write_table(named)
        _run("delete_keys", table, self._keys, WITHOUT_METADATA_TABLE)

    def scan(self, table: Path) -> None:
        _run("scan", table)

    def scan_base(self, table: Path) -> None:
        """Merge-on-read tables only."""
        raise NotImplementedError

    def compact(self, table: Path) -> None:
        """Merge-on-read tables only."""
        raise NotImplementedError

    def position(self, table: Path) -> Any:
        return newest_completion_time(table)

    def fingerprint(self, table: Path) -> list[str]:
        """Read by pyhudi: this is not measured."""
        return self._reader.fingerprint(table)


def _run(*arguments: object) -> None:
    """Raises `CalledProcessError` where the program failed."""
    subprocess.run([str(HUDI_RS_PROGRAM), *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)
