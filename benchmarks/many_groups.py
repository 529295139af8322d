"""A commit that touches many file groups: `python benchmarks/many_groups.py [100000]`.

The tasks that would write data files write none and say that they did, so what is measured is the driver: plan,
workload profile, and the metadata of the commit. One record goes into each file group, of a hundred in each partition.
Prints wall-clock and processor seconds, the peak of memory in MiB and what there was before, and the load of the
machine.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import pyhudi
from pyhudi.api.handle import TableHandle
from pyhudi.engine.local import LocalEngine
from pyhudi.engine.protocol import Exchange
from pyhudi.environment import SYSTEM
from pyhudi.format.file_names import BaseFileName
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.storage.local import LocalStorage
from pyhudi.table.state import load_table

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string())])
GROUPS_PER_PARTITION = 100
OPTIONS = {
    # One record fills a file.
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.parquet.max.file.size": "1000",
    "hoodie.copyonwrite.record.size.estimate": "1000",
    "hoodie.table.services.enabled": "false",
}


class EmptyWork(LocalEngine):
    """An engine whose tasks write no data files."""

    def exchange(self, exchange: Exchange[Any, Any, Any]) -> list[Any]:
        return [[stat_of(task)] for task in exchange.receivers]


def stat_of(task: Any) -> WriteStat:
    """What a task says of a file with one new record."""
    name = BaseFileName(task.file_id, "0-0-0", task.target.instant_time, ".parquet")
    return WriteStat(
        file_id=task.file_id,
        path=f"{task.partition_path}/{name}",
        prev_commit="null",
        num_writes=1,
        num_inserts=1,
        total_write_bytes=1_000,
        file_size_in_bytes=1_000,
        partition_path=task.partition_path,
    )


def main() -> None:
    groups = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    numbers = np.arange(groups)
    rows = pa.table([numbers, [f"p{n // GROUPS_PER_PARTITION:06d}" for n in numbers.tolist()]], schema=SCHEMA)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        path = f"{folder}/table"
        pyhudi.HudiTable.create(path, schema=SCHEMA, record_key="id", partition_by="part")
        table = pyhudi.HudiTable(TableHandle(load_table(LocalStorage(path)), OPTIONS, EmptyWork(), SYSTEM))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        began, used = time.perf_counter(), time.process_time()
        result = table.insert(rows)
        seconds, processor = time.perf_counter() - began, time.process_time() - used
    assert result.files == groups
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"commit of {groups:,} file groups: {seconds:.1f} s, {processor:.1f} processor s, peak {peak:.0f} MiB, "
        f"before {before:.0f} MiB, load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
