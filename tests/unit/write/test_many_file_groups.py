"""What a commit of many file groups takes on the driver: its tasks write no data files here, and say that they did."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pyarrow as pa
from tests.support.tables import SCHEMA, environment, new_table

import pyhudi
from pyhudi.api.handle import TableHandle
from pyhudi.engine.local import LocalEngine
from pyhudi.engine.protocol import Exchange
from pyhudi.format.file_names import BaseFileName
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.table.state import load_table

OPTIONS = {
    # One record fills a file.
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.parquet.max.file.size": "1000",
    "hoodie.copyonwrite.record.size.estimate": "1000",
    "hoodie.table.services.enabled": "false",
}
BYTES_PER_GROUP_MAX = 5_000
"""So that 100,000 file groups take less than half a GiB."""


class EmptyWork(LocalEngine):
    """An engine whose tasks write no data files."""

    def exchange(self, exchange: Exchange[Any, Any, Any]) -> list[Any]:
        return [[stat_of(task)] for task in exchange.receivers]


def stat_of(task: Any) -> WriteStat:
    name = BaseFileName(task.file_id, "0-0-0", task.target.instant_time, ".parquet")
    return WriteStat(
        file_id=task.file_id,
        path=f"{task.partition_path}/{name}",
        num_writes=1,
        num_inserts=1,
        total_write_bytes=1_000,
        file_size_in_bytes=1_000,
        partition_path=task.partition_path,
    )


def peak_of_commit(groups: int, *, metadata: bool) -> int:
    """The largest memory of Python's objects during a commit of so many file groups, a hundred in each partition."""
    numbers = np.arange(groups)
    cities = [f"c{number // 100:04d}" for number in numbers.tolist()]
    rows = pa.table([numbers, cities, numbers, cities], schema=SCHEMA)
    enabled = {"hoodie.metadata.enable": str(metadata).lower()}
    state = load_table(new_table(**enabled).handle.state.storage)
    table = pyhudi.HudiTable(TableHandle(state, {**OPTIONS, **enabled}, EmptyWork(), environment()))
    tracemalloc.start()
    try:
        result = table.insert(rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.files == groups
    assert result.inserted == groups
    return peak


def test_commit_of_four_times_as_many_file_groups_takes_four_times_the_memory() -> None:
    peak_of_commit(100, metadata=True)  # what is loaded once

    few, many = (peak_of_commit(groups, metadata=True) for groups in (1_000, 4_000))

    assert many < 4.5 * few
    assert (many - few) / 3_000 < BYTES_PER_GROUP_MAX
