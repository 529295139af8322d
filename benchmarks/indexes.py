"""What indexes cost without Spark, in processor time and calls of the store: `make bench-indexes`, or one by one:

    python benchmarks/indexes.py lookup [100] [1000000] | hfile [1000000] | files [100000] | build [1000000] | commit

`lookup`: one key of a table with so many file groups and keys, through the record index; a table that is opened each
time, and one that is open; beside a table of one file group and 1,000 keys. `hfile`: sorted keys of an HFile of so many
records. `files`: a `files` partition of so many names, read. `build`: one of so many names, in 1,000 partitions, built;
the listing is made up. `commit`: upserts of 100 rows into a warm table with files, column and partition statistics,
beside one without a metadata table. Processor time counts all threads of the process, so a busy machine disturbs it
little. Each line ends with the load of the machine.
"""

from __future__ import annotations

import os
import random
import resource
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import pyhudi
from pyhudi.api.handle import TableHandle
from pyhudi.engine.local import LocalEngine
from pyhudi.engine.spilled_rows import SpillSettings
from pyhudi.environment import SYSTEM
from pyhudi.format.hfile.blocks import source_of
from pyhudi.format.hfile.indexed import open_hfile, sorted_keys
from pyhudi.format.hfile.writer import write_hfile
from pyhudi.metadata_table.initialize import initialize_partitions
from pyhudi.metadata_table.lister import metadata_lister
from pyhudi.metadata_table.partitions.files import FilesPartition
from pyhudi.metadata_table.partitions.protocol import Source
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.open import open_storage
from pyhudi.storage.protocol import FileInfo, FolderListing
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage

SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])
RECORD_INDEX = {"hoodie.metadata.record.index.enable": "true"}
STATISTICS = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
}


def report(name: str, **values: float) -> None:
    said = "  ".join(f"{key} {value:.4g}" for key, value in values.items())
    print(f"{name}: {said}  load {os.getloadavg()[0]:.1f}", flush=True)


def rows(numbers: np.ndarray, cities: int, ts: int = 1) -> pa.Table:
    ids = pc.binary_join_element_wise("key-", pa.array(numbers).cast(pa.string()), "")
    places = pc.binary_join_element_wise("c", pa.array(numbers % cities).cast(pa.string()), "")
    stamps = pa.array(np.full(len(numbers), ts))
    return pa.table([ids, places, stamps, pa.array(numbers / 7)], schema=SCHEMA)


def new_table(path: Path, **options: str) -> pyhudi.HudiTable:
    return pyhudi.HudiTable.create(
        str(path), schema=SCHEMA, record_key="id", partition_by="city", ordering_fields="ts", hudi_options=options
    )


def counted(path: Path) -> tuple[FaultStorage, Callable[[], pyhudi.HudiTable]]:
    storage = FaultStorage(open_storage(str(path), {}))
    return storage, lambda: pyhudi.HudiTable(TableHandle(load_table(storage), {}, LocalEngine(parallelism=1)))


def milliseconds(act: Callable[[], object], turns: int) -> float:
    """Processor time, the median."""
    taken = []
    for _ in range(turns):
        used = time.process_time()
        act()
        taken.append((time.process_time() - used) * 1000)
    return statistics.median(taken)


def lookup(folder: Path, groups: int = 100, keys: int = 1_000_000) -> None:
    for cities, number in ((1, 1_000), (groups, keys)):
        path = folder / f"{cities}-{number}"
        options = {**RECORD_INDEX, "hoodie.bulkinsert.shuffle.parallelism": "1"}
        new_table(path).bulk_insert(rows(np.arange(number), cities), hudi_options=options)
        lookup_in(path, number)


def lookup_in(path: Path, number: int) -> None:
    storage, opened = counted(path)
    chance, table = random.Random(1), opened()

    def key() -> list[str]:
        return [f"key-{chance.randrange(number)}"]

    for _ in range(5):
        opened().lookup(key())
    storage.operations.clear()
    assert opened().lookup([f"key-{number - 1}"]).num_rows == 1
    calls = Counter(one.name for one in storage.operations)
    report(
        "lookup of a key, processor ms", keys=number, files=table.scan().explain().base_files,
        open_and_lookup=milliseconds(lambda: opened().lookup(key()), 50),
        lookup=milliseconds(lambda: table.lookup(key()), 50), calls=sum(calls.values()),
    )  # fmt: skip
    print(f"  {dict(calls)}", flush=True)


def hfile(folder: Path, number: int = 1_000_000) -> None:
    del folder
    keys = pa.array([f"{each:032x}" for each in range(number)]).cast(pa.binary())
    values = pa.array([b"v" * 60] * number, pa.binary())
    data = write_hfile(keys, values, schema=None)
    file = open_hfile(source_of(data, "bench", 0))
    for wanted in (100_000, 10_000):
        chosen = pa.array(np.random.default_rng(1).choice(number, wanted, replace=False))
        some = sorted_keys(keys.take(chosen).cast(pa.string()))
        taken = milliseconds(partial(file.with_keys, some), 5)
        report("HFile, sorted keys per processor second", records=number, keys=wanted, per_s=wanted / taken * 1000)


class MadeUpListing(LocalStorage):
    """A store of a table whose properties are there, and whose data files are only listed."""

    def __init__(self, folder: Path, partitions: int, names: int) -> None:
        super().__init__(folder)
        self.partitions, self.names = partitions, names

    def list_folder(self, path: str) -> FolderListing:
        if path.startswith("p="):
            return FolderListing(self.list_recursive(path), ())
        found = super().list_folder(path)
        made = tuple(f"p={number:04d}" for number in range(self.partitions))
        return found if path else FolderListing(found.files, (*found.folders, *made))

    def list_recursive(self, path: str) -> tuple[FileInfo, ...]:
        if not path.startswith("p="):
            return super().list_recursive(path)
        number = int(path[2:6])
        return tuple(
            FileInfo(f"{path}/{name(number, each)}", 1_000, 0) for each in range(self.names // self.partitions)
        )


def name(partition: int, each: int) -> str:
    return f"{partition:08x}-0000-0000-0000-{each:012x}-0_0-0-0_20200101000000000.parquet"


def put_listing(folder: Path, partitions: int, names: int) -> MadeUpListing:
    """A table with a metadata table over made-up files, older than its one commit."""
    new_table(folder).upsert(rows(np.arange(1), 1), hudi_options={"hoodie.metadata.enable": "false"})
    return MadeUpListing(folder, partitions, names)


def build_files(storage: MadeUpListing) -> None:
    initialize_partitions(Source(load_table(storage), SYSTEM, SpillSettings()), [FilesPartition()], lambda: None)


def files(folder: Path, names: int = 100_000) -> None:
    storage = put_listing(folder / "table", 100, names)
    build_files(storage)

    def read() -> int:
        lister = metadata_lister(load_table(storage), True)
        assert lister is not None
        return len(lister.table())

    assert read() == names + 1
    report("files partition read, processor ms", names=names, ms=milliseconds(read, 5))


def build(folder: Path, names: int = 1_000_000) -> None:
    storage = put_listing(folder / "table", 1_000, names)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    used, began = time.process_time(), time.perf_counter()
    build_files(storage)
    taken, seconds = time.process_time() - used, time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    report("files partition built", names=names, processor_s=taken, s=seconds, peak_mib=peak, before_mib=before)


def commit(folder: Path, turns: int = 40) -> None:
    cases = {
        "no metadata table": {"hoodie.metadata.enable": "false"},
        "files": {"hoodie.metadata.enable": "true"},
        "files and statistics": STATISTICS,
    }
    for case, options in cases.items():
        path = folder / case.replace(" ", "_")
        new_table(path).bulk_insert(rows(np.arange(10_000), 4), hudi_options=options)
        storage, opened = counted(path)
        table, wall, used, calls = opened(), [], [], []
        for turn in range(turns):
            batch = rows(np.arange(turn * 100, turn * 100 + 100), 4, ts=turn + 2)
            storage.operations.clear()
            began, at = time.perf_counter(), time.process_time()
            table.refresh().upsert(batch, hudi_options=options)
            used.append((time.process_time() - at) * 1000)
            wall.append((time.perf_counter() - began) * 1000)
            calls.append(Counter(one.name for one in storage.operations))
        middle = sorted(calls, key=Counter.total)[turns // 2]
        report(
            f"upsert of 100 rows, {case}", processor_ms=statistics.median(used), ms=statistics.median(wall),
            calls=middle.total(),
        )  # fmt: skip
        print(f"  {dict(middle)}", flush=True)


def main() -> None:
    actions: dict[str, Callable[..., None]] = {
        "lookup": lookup, "hfile": hfile, "files": files, "build": build, "commit": commit,
    }  # fmt: skip
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        actions[sys.argv[1]](Path(folder), *map(int, sys.argv[2:]))


if __name__ == "__main__":
    main()
