"""Whole tables read into Arrow without a JVM, by pyhudi and by hudi-rs: `reads_beside_hudi_rs.py [--write-docs]`.

The tables are of version 9 with TPC-H's `lineitem` (`dataset.py`), without a metadata table: a copy-on-write one, and
two merge-on-read ones with an upsert of 10 % of the rows in logs, whose blocks are Parquet (pyhudi's default) or Avro
(JVM Hudi's). Every reader opens a table anew in each turn and reads all columns of all rows, meta columns among them.
It does so several times in one process: the first turn is that of a process that has done nothing else. Readers take
turns, and the median of several processes counts. Processor seconds are those of the whole process, from its start for
the first turn; memory is what it held at the most.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from contestants import CONTESTANTS, GENERATOR, HOME, HUDI_RS, HUDI_RS_PROGRAM
from dataset import prepare
from inputs import KEY, ORDERING, PARTITION, Inputs
from page import put_on_page

import pyhudi

COMMAND = "python benchmarks/reads_beside_hudi_rs.py --write-docs"
TURNS, PROCESSES = 4, 3
LOG_BLOCKS = {"logs of Parquet blocks": "parquet", "logs of Avro blocks": "avro"}


@dataclass(frozen=True)
class Read:
    """One process: seconds and processor seconds of each turn, rows that it read, and bytes at its peak."""

    seconds: Sequence[float]
    cpu: Sequence[float]
    rows: int
    peak: int


def make_tables(inputs: Inputs, folder: Path) -> dict[str, Path]:
    """The tables by what they are called."""
    rows, changed = pq.read_table(inputs.base), pq.read_table(inputs.upsert_random)
    create = functools.partial(
        pyhudi.HudiTable.create, schema=rows.schema, record_key=KEY, partition_by=PARTITION, ordering_fields=ORDERING
    )
    tables = {"copy-on-write": folder / "cow", **{name: folder / block for name, block in LOG_BLOCKS.items()}}
    create(str(folder / "cow")).bulk_insert(rows)
    for block in LOG_BLOCKS.values():
        options = {"hoodie.compact.inline": "false", "hoodie.logfile.data.block.format": block}
        table = create(str(folder / block), table_type="mor", hudi_options=options)
        table.bulk_insert(rows)
        table.upsert(changed)
    return tables


def by_pyhudi(path: str) -> pa.Table:
    return pyhudi.HudiTable.for_path(path).scan().to_arrow()


def by_wheel(path: str) -> pa.Table:
    from hudi import HudiTableBuilder

    batches = HudiTableBuilder.from_base_uri(path).build().read()
    return pa.Table.from_batches([pa.record_batch(batch) for batch in batches])


READERS: Mapping[str, Callable[[str], pa.Table]] = {"pyhudi": by_pyhudi, "wheel": by_wheel}


def work(reader: str, path: str, turns: int) -> None:
    """Read a table so often, and print rows and seconds as the program of hudi-rs does."""
    for _ in range(turns):
        began = time.perf_counter()
        rows = READERS[reader](path)
        print(rows.num_rows, f"{time.perf_counter() - began:.4f}", flush=True)
        del rows


def measured(command: Sequence[str]) -> Read:
    seconds, cpu, used, peak, rows = [], [], 0.0, 0, 0
    with psutil.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            times, memory = process.cpu_times(), Path(f"/proc/{process.pid}/status").read_text()
            cpu.append(times.user + times.system - used)
            used = times.user + times.system
            peak = int(memory.partition("VmHWM:")[2].split()[0]) << 10
            rows = int(line.split()[0])
            seconds.append(float(line.split()[1]))
    if process.returncode:
        raise SystemExit(f"failed: {command}")
    return Read(seconds, cpu, rows, peak)


def readers(table: Path) -> dict[str, list[str]]:
    """What reads a table, by title."""
    own = [sys.executable, __file__, "--work"]
    found = {"pyhudi": [*own, "pyhudi", str(table), str(TURNS)]}
    if HUDI_RS_PROGRAM.exists():
        title = next(one.title for one in CONTESTANTS if one.name == HUDI_RS).partition(",")[0]
        found[f"{title}, its crate"] = [str(HUDI_RS_PROGRAM), "scan", str(table), str(TURNS)]
    else:
        print(f"the crate is left out: `python tools/hudi_rs.py` builds {HUDI_RS_PROGRAM}", file=sys.stderr)
    return {**found, f"hudi-rs {version('hudi')}, its wheel": [*own, "wheel", str(table), str(TURNS)]}


def report(taken: Mapping[tuple[str, str], Sequence[Read]], scale_factor: float) -> str:
    """A run as Markdown."""

    def median(values: Any) -> str:
        return f"{statistics.median(values):.2f}"

    when = f"{datetime.now(UTC):%Y-%m-%d}, load {os.getloadavg()[0]:.0f}"
    lines = [
        f"Scale factor {scale_factor:g}, {when}, medians of {PROCESSES} processes:",
        "",
        "| table | reader | first, s | CPU, s | again, s | CPU, s | peak, MiB |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for (table, reader), reads in taken.items():
        first = [median(read.seconds[0] for read in reads), median(read.cpu[0] for read in reads)]
        again = [
            median(one for read in reads for one in read.seconds[1:]),
            median(one for read in reads for one in read.cpu[1:]),
        ]
        peak = f"{statistics.median(read.peak for read in reads) / 2**20:.0f}"
        lines.append(" | ".join([f"| {table}", reader, *first, *again, peak]) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale-factor", type=float, default=0.5, help="of TPC-H; 0.5 is 3.0 million rows")
    parser.add_argument("--write-docs", action="store_true", help="record the run in docs/benchmarks.md")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        work(asked.work[0], asked.work[1], int(asked.work[2]))
        return
    inputs, _ = prepare(HOME / "data", asked.scale_factor, GENERATOR)
    taken: dict[tuple[str, str], list[Read]] = {}
    with tempfile.TemporaryDirectory(prefix="pyhudi-reads-") as folder:
        tables = make_tables(inputs, Path(folder))
        os.sync()
        for _ in range(PROCESSES):
            for name, table in tables.items():
                for reader, command in readers(table).items():
                    read = measured(command)
                    print(name, reader, read, file=sys.stderr, flush=True)
                    taken.setdefault((name, reader), []).append(read)
    if len({read.rows for reads in taken.values() for read in reads}) != 1:
        raise SystemExit("the readers disagree about the number of rows")
    text = report(taken, asked.scale_factor)
    print(text)
    if asked.write_docs:
        put_on_page(COMMAND, text)


if __name__ == "__main__":
    main()
