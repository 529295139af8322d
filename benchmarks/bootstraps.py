"""What a bootstrap costs: `python benchmarks/bootstraps.py`, with `--jvm` beside `run_bootstrap` of JVM Hudi.

Three parts, each with ratios of one run. *Bootstrap*: files with a key column and others; skeletons alone beside a
copy of all rows. *Scan*: the bootstrapped table beside its source as plain Parquet, without and with the meta columns.
*Index*: a bootstrap index of many entries, written, and one partition of it looked up. CPU time is that of this process
and its threads, so that a busy machine changes the figures little.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import pyhudi
from pyhudi.format.bootstrap_index import (
    FILE_IDS_PATH,
    PARTITIONS_PATH,
    SourcePartition,
    SourceStatus,
    write_file_ids,
    write_partitions,
)
from pyhudi.storage.local import LocalStorage
from pyhudi.table.bootstrap import load_sources

META = ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path"]
SPENT: list[float] = []
"""CPU seconds of the writes of `skeletons_by_arrow`."""


def measured(what: str, action: Callable[[], object], rows: int = 0) -> float:
    """CPU seconds of an action, printed with its time on the clock and the rows per CPU second."""
    clock, cpu = time.perf_counter(), time.process_time()
    action()
    clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
    rate = f"  {rows / cpu:12,.0f} rows per CPU second" if rows else ""
    print(f"{what:<44} {cpu:8.2f} s of CPU {clock:8.2f} s{rate}")
    return cpu


def source(folder: Path, files: int, rows: int, more_columns: int) -> int:
    """Files of a key column and of random numbers, in four partitions; their rows in all."""
    chance = np.random.default_rng(1)
    for number in range(files):
        part = folder / f"part={number % 4}"
        part.mkdir(parents=True, exist_ok=True)
        keys = pa.array(np.arange(number * rows, (number + 1) * rows)).cast(pa.string())
        columns = {f"c{column:02}": chance.random(rows) for column in range(more_columns)}
        pq.write_table(pa.table({"id": keys, **columns}), folder / f"part={number % 4}" / f"{number}.parquet")
    return files * rows


def skeletons_by_arrow(table: Path) -> None:
    """Read the skeletons of a table, and write the same columns with pyarrow: the least that a bootstrap can take."""
    for path in table.rglob("*.parquet"):
        rows = pq.ParquetFile(path).read()
        for name in META:
            number = rows.column_names.index(name)
            if pc.count_distinct(rows[name]).as_py() == 1:
                rows = rows.set_column(number, name, rows[name].dictionary_encode())
        sink = pa.BufferOutputStream()
        clock = time.process_time()
        constant = [field.name for field in rows.schema if pa.types.is_dictionary(field.type)]
        pq.write_table(rows, sink, compression="zstd", use_dictionary=constant, store_schema=False)
        SPENT.append(time.process_time() - clock)


def bootstraps(folder: Path, files: int, rows: int, columns: int) -> None:
    """A bootstrap that leaves the files where they are, and one that copies them; then scans."""
    count = source(folder / "source", files, rows, columns - 1)
    print(f"{count:,} rows of {columns} columns")

    def bootstrap(mode: str) -> pyhudi.HudiTable:
        return pyhudi.HudiTable.bootstrap(folder / "source", folder / mode, record_key="id", mode=mode)

    source(folder / "small", 1, 100, 1)
    pyhudi.HudiTable.bootstrap(folder / "small", folder / "first", record_key="id")  # loads what is loaded once
    skeletons = measured("bootstrap metadata_only", lambda: bootstrap("metadata_only"), count)
    copies = measured("bootstrap full_record", lambda: bootstrap("full_record"), count)
    SPENT.clear()
    skeletons_by_arrow(folder / "metadata_only")
    least = sum(SPENT)
    print(f"full_record / metadata_only: {copies / skeletons:.1f}; / skeletons by pyarrow alone: {copies / least:.1f}")

    table = pyhudi.HudiTable.for_path(folder / "metadata_only")
    names = ["id", *(f"c{column:02}" for column in range(columns - 1))]
    dataset = ds.dataset(folder / "source", partitioning="hive")
    plain = measured("scan of the source by Arrow", lambda: dataset.to_table(columns=names), count)
    data = measured("scan of the table, data columns", lambda: table.scan(columns=names).to_arrow(), count)
    whole = measured(
        "scan of the table, meta columns, too", lambda: table.scan(columns=[*META, *names]).to_arrow(), count
    )
    print(f"table / source: {data / plain:.2f}; with meta columns: {whole / plain:.2f}")


def index(folder: Path, entries: int, partitions: int) -> None:
    """An index of many entries: written, and asked for one partition."""
    each = entries // partitions
    made = [
        SourcePartition(
            f"day={number:05}",
            f"day={number:05}",
            {
                f"{number:08x}-0000-4000-8000-{file:012x}": SourceStatus(
                    f"file:/s/day={number:05}/{file}.parquet", 9, 7
                )
                for file in range(each)
            },
        )
        for number in range(partitions)
    ]
    storage = LocalStorage(folder / "index")

    def write() -> None:
        for path, written in ((PARTITIONS_PATH, write_partitions), (FILE_IDS_PATH, write_file_ids)):
            with storage.open_output(path) as sink:
                written(made, sink.write, source_folder="file:/s", created_ms=1)
            print(f"{path.split('/')[-2]}: {(folder / 'index' / path).stat().st_size:,} bytes")

    measured(f"index of {each * partitions:,} entries, written", write)
    measured("one partition of it, looked up", lambda: load_sources(storage, [made[partitions // 2].partition_path]))
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")


def by_jvm_hudi(folder: Path, release: str) -> None:
    """`run_bootstrap` of JVM Hudi on the same files, by the clock, the second of two: the first one loads classes."""
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from tests.support.oracle import Oracle

    oracle = Oracle(release)
    for turn in ("first", "second"):
        clock = time.perf_counter()
        oracle.sql(
            f"call run_bootstrap(table => '{turn}', table_type => 'COPY_ON_WRITE', bootstrap_path => '{folder}/source',"
            f" base_path => '{folder}/{turn}', rowKey_field => 'id', partition_path_field => 'part',"
            " key_generator_class => 'org.apache.hudi.keygen.SimpleKeyGenerator',"
            " options => 'hoodie.metadata.enable=false,hoodie.datasource.write.hive_style_partitioning=true')"
        )
        print(f"run_bootstrap of JVM Hudi {release}, {turn:<8} {time.perf_counter() - clock:8.2f} s")
    oracle.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=16, help="0: no bootstrap")
    parser.add_argument("--rows", type=int, default=250_000, help="of each file")
    parser.add_argument("--columns", type=int, default=21, help="of each file, one of them the key")
    parser.add_argument("--entries", type=int, default=250_000, help="0: no index")
    parser.add_argument("--partitions", type=int, default=3_500)
    parser.add_argument("--jvm", metavar="RELEASE", help="also run JVM Hudi: 1.2.0 for example")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bootstraps-"))
    try:
        if chosen.files:
            bootstraps(folder, chosen.files, chosen.rows, chosen.columns)
        if chosen.files and chosen.jvm:
            by_jvm_hudi(folder, chosen.jvm)
        if chosen.entries:
            index(folder, chosen.entries, chosen.partitions)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
