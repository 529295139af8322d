"""What users of Hudi have said that it does for them, each measured: `make bench-claims`.

    python benchmarks/claims.py [NAME …] [--share 1.0] [--write-docs]

Each claim is measured in a process of its own, which prints lines of JSON. Counts, bytes and ratios do not depend on
other programs of the machine, processor seconds (`cpu`) hardly. Without Spark. `--share` makes all tables smaller.
`--write-docs` puts a run of all claims into `docs/claims.md` (`claims_page.py`).
"""

from __future__ import annotations

import argparse
import inspect
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from claims_page import write_page

import pyhudi
from pyhudi.api.handle import TableHandle
from pyhudi.engine.local import LocalEngine
from pyhudi.environment import SYSTEM
from pyhudi.format.timeline.instant import format_instant_time, next_instant_time
from pyhudi.storage.local import LocalStorage
from pyhudi.table.state import load_table
from pyhudi.testing.simulation.explore import Budget, explore
from pyhudi.testing.simulation.scenarios import matrix

WIDE = 8
SCHEMA = pa.schema(
    [("id", pa.string()), ("part", pa.string()), ("ts", pa.int64()), *((f"c{n}", pa.float64()) for n in range(WIDE))]
)
RECORD_INDEX = {"hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.record.index.enable": "true"}
UNMANAGED = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.parquet.small.file.limit": "0",
}


def rows_of(numbers: np.ndarray[Any, Any], partitions: int, turn: int, *, ordered: bool = True) -> pa.Table:
    """Rows with these numbers. Keys that are not `ordered` are spread over all values whatever the number."""
    chance = np.random.default_rng(turn)
    keys = numbers if ordered else (numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    columns = [
        pa.array(np.char.zfill(keys.astype(str), 20)),
        pa.array(np.char.add("p", (numbers % partitions).astype(str))),
        pa.array(np.full(len(numbers), turn, np.int64)),
        *(pa.array(chance.random(len(numbers))) for _ in range(WIDE)),
    ]
    return pa.table(columns, schema=SCHEMA)


def create(folder: Path, name: str, options: dict[str, str] | None = None, **more: Any) -> pyhudi.HudiTable:
    return pyhudi.HudiTable.create(
        folder / name, schema=SCHEMA, record_key="id", partition_by="part", ordering_fields="ts",
        hudi_options=options, **more,
    )  # fmt: skip


def sizes_below(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}


@contextmanager
def measured(**line: Any) -> Iterator[dict[str, Any]]:
    """Print a line with what the block has cost: what it puts into `folder` is counted as well."""
    folder = line.pop("folder", None)
    before = sizes_below(folder) if folder else {}
    wall, cpu = time.perf_counter(), time.process_time()
    yield line
    line |= {"seconds": round(time.perf_counter() - wall, 2), "cpu": round(time.process_time() - cpu, 2)}
    if folder:
        new = {path: size for path, size in sizes_below(folder).items() if path not in before}
        line |= {"mib_written": round(sum(new.values()) / 2**20, 2), "files_written": len(new)}
    print(json.dumps(line), flush=True)


def peak_mib() -> int:
    """What this process has held at most. (`ru_maxrss` of a child begins with what its parent held.)"""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) >> 10


def updates(folder: Path, share: float) -> None:
    """An order of magnitude less is written by an update of records than by a rewrite of what holds them."""
    count, partitions = int(2_000_000 * share), 20
    chance = np.random.default_rng(7)
    everything = np.arange(count)
    two = everything[everything % partitions < 2]
    changed = chance.choice(two, count // 100, replace=False)
    for kind in ("cow", "mor"):
        table = create(folder, kind, table_type=kind)
        table.bulk_insert(rows_of(everything, partitions, 0))
        with measured(table=kind, act="upsert of 1 % in two of 20 partitions", folder=folder / kind):
            table.upsert(rows_of(changed, partitions, 1))
    table = create(folder, "rewritten")
    table.bulk_insert(rows_of(everything, partitions, 0))
    with measured(table="cow", act="overwrite of the two partitions", folder=folder / "rewritten"):
        table.insert_overwrite(rows_of(two, partitions, 1))
    with measured(table="cow", act="overwrite of the table", folder=folder / "rewritten"):
        table.insert_overwrite_table(rows_of(everything, partitions, 2))


def upkeep(folder: Path, _share: float) -> None:
    """Tables that do not look after themselves cost twice as much."""
    for name, options in (("looked after", {}), ("not looked after", UNMANAGED)):
        table = create(folder, name.replace(" ", "-"), options)
        with measured(table=name, act="50 inserts of 1,000 rows"):
            for turn in range(50):
                table.insert(rows_of(np.arange(turn * 1000, (turn + 1) * 1000), 1, turn), hudi_options=options)
        table.refresh().scan().to_arrow()
        with measured(table=name, act="20 scans") as line:
            for _ in range(20):
                table.scan().to_arrow()
        files = sizes_below(folder / name.replace(" ", "-"))
        read = table.inspect.files().num_rows
        print(json.dumps({**line, "act": "files", "read": read, "on_disk": len(files)}), flush=True)


def bulk_insert(folder: Path, share: float) -> None:
    """A bulk insert takes time in proportion to its rows, and memory that does not grow."""
    for millions in (1, 2, 4, 8):
        count = int(millions * 1_000_000 * share)
        in_child("bulk_insert_once", str(folder / str(millions)), str(count))


def bulk_insert_once(folder: Path, count: int) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, count, 50_000):
            yield from rows_of(np.arange(first, min(count, first + 50_000)), 4, 0).to_batches()

    table = create(folder, "table")
    with measured(act="bulk insert", rows=count) as line:
        table.bulk_insert(pa.RecordBatchReader.from_batches(SCHEMA, batches()))
        line["peak_mib"] = peak_mib()


def key_order(folder: Path, share: float) -> None:
    """Bloom filters and key ranges find ordered keys in few files, and spread keys in all of them."""
    bloom = {"hoodie.index.type": "BLOOM", "hoodie.parquet.max.file.size": str(4 << 20)}
    for table_rows in (200_000, 2_000_000, 20_000_000):
        count = int(table_rows * share)
        for ordered in (True, False):
            name = f"{table_rows}-{ordered}"
            table = create(folder, name, bloom)
            for first in range(0, count, 1_000_000):
                numbers = np.arange(first, min(count, first + 1_000_000))
                table.bulk_insert(rows_of(numbers, 1, 0, ordered=ordered), hudi_options=bloom)
            newest = rows_of(np.arange(count - 2_000, count), 1, 1, ordered=ordered)
            files = table.refresh().inspect.files().num_rows
            for turn in ("first", "second"):
                with measured(rows=count, files=files, keys="ordered" if ordered else "spread", act=f"upsert, {turn}"):
                    table.upsert(newest, hudi_options=bloom)


def index_sizes(folder: Path, share: float) -> None:
    """An index of keys grows in proportion to them, so that it is the largest where most rows are events."""
    options = {**RECORD_INDEX, "hoodie.parquet.max.file.size": str(4 << 20)}
    for table_rows in (200_000, 2_000_000, 20_000_000):
        count = int(table_rows * share)
        table = create(folder, str(table_rows), options)
        for first in range(0, count, 1_000_000):
            numbers = np.arange(first, min(count, first + 1_000_000))
            table.bulk_insert(rows_of(numbers, 1, 0, ordered=False), hudi_options=options)
        index = sizes_below(folder / str(table_rows) / ".hoodie" / "metadata" / "record_index")
        line = {"index": "record index", "rows": count, "mib": round(sum(index.values()) / 2**20, 1)}
        newest = rows_of(np.arange(count - 2_000, count), 1, 1, ordered=False)
        line["files"] = table.refresh().inspect.files().num_rows
        for turn in ("first", "second"):
            with measured(**line, act=f"upsert, {turn}"):
                table.upsert(newest, hudi_options=options)


def even_work(folder: Path, share: float) -> None:
    """Look-ups of a skewed batch are spread evenly: no task has more than twice the mean to do.

    Half of the rows and nine tenths of the changes are of one partition of twenty. Four threads stand for four cores.
    """
    count = int(4_000_000 * share)
    numbers = np.arange(count)
    of = np.where(numbers % 2 == 0, 0, 1 + numbers // 2 % 19)
    names = pa.array(np.char.add("p", of.astype(str)))
    chance = np.random.default_rng(5)
    hot, others = (chance.permutation(numbers[chosen]) for chosen in (of == 0, of > 0))
    changed = np.sort(np.concatenate([hot[: count * 9 // 100], others[: count // 100]]))

    def skewed(chosen: np.ndarray[Any, Any], turn: int) -> pa.Table:
        rows = rows_of(chosen, 1, turn, ordered=False)
        return rows.set_column(1, SCHEMA.field("part"), names.take(pa.array(chosen)))

    for index in ("SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM"):
        options = {"hoodie.index.type": index, "hoodie.parquet.max.file.size": str(8 << 20)}
        create(folder, index, options).bulk_insert(skewed(numbers, 0), hudi_options=options)
        engine = WeighingEngine(parallelism=4)
        handle = TableHandle(load_table(LocalStorage(str(folder / index))), options, engine, SYSTEM)
        pyhudi.HudiTable(handle).upsert(skewed(changed, 1))
        for step in ("ask bloom filters", "look record keys up"):
            if spent := engine.spent[step]:
                most = round(max(spent) * len(spent) / sum(spent), 2)
                print(json.dumps({"index": index, "step": step, "tasks": len(spent), "most_over_mean": most}))


@dataclass(frozen=True)
class WeighingEngine(LocalEngine):
    """Notes the processor seconds of each task, by the description of its step."""

    spent: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def map(self, function: Callable[..., Any], tasks: Sequence[Any], *, description: str, **how: Any) -> list[Any]:
        def weighed(*given: Any) -> Any:
            began = time.thread_time()
            result = function(*given)
            self.spent[description].append(time.thread_time() - began)
            return result

        return super().map(weighed, tasks, description=description, **how)


def small_batches(folder: Path, share: float) -> None:
    """An index of keys finds a small batch seconds before Bloom filters do."""
    files, each = 200, max(50, int(5_000 * share))
    chance = np.random.default_rng(3)
    store = {"hoodie.index.type": "HBASE", "hoodie.index.hbase.store": f"sqlite://{folder / 'keys.db'}"}
    for index, options in (
        ("BLOOM", {"hoodie.index.type": "BLOOM"}),
        ("SIMPLE", {"hoodie.index.type": "SIMPLE"}),
        ("record index", RECORD_INDEX),
        ("SQLite", store),
    ):
        table = create(folder, index.replace(" ", "-"), options)
        everything = np.arange(files * each)
        table.bulk_insert(rows_of(everything, files, 0, ordered=False), hudi_options=options)
        for turn in range(3):
            keys = chance.choice(everything, 100, replace=False)
            with measured(index=index, files=files, act="delete of 100 keys that are not there", turn=turn):
                table.delete(rows_of(keys + files * each, files, 1, ordered=False), hudi_options=options)
            with measured(index=index, files=files, act="upsert of 100 keys", turn=turn):
                table.upsert(rows_of(keys, files, 1, ordered=False), hudi_options=options)


def delay(folder: Path, _share: float) -> None:
    """Three jobs one after the other, each every hour, or each minute: when an event is in the last table.

    The clock is simulated: a job that is due reads the table below up to its start and has written when it ends.
    """
    for period, name in ((3600, "each hour"), (60, "each minute")):
        layers = [create(folder, f"{period}-{layer}") for layer in range(3)]
        read_until: list[str | None] = [None, None]
        arrived: dict[str, int] = {}
        delays: list[int] = []
        number = 0
        for now in range(0, 4 * 3600, min(period, 600)):
            batch = rows_of(np.arange(number, number + 10), 1, now)
            layers[0].insert(batch)
            arrived |= dict.fromkeys(batch["id"].to_pylist(), now)
            number += 10
            if now % period:
                continue
            for job in (1, 0):  # of jobs that begin at one moment, the later one does not see what the earlier one adds
                source = layers[job].refresh()
                rows = source.changes(begin=read_until[job]).to_arrow().select(SCHEMA.names)
                read_until[job] = source.inspect.position()
                if rows.num_rows:
                    layers[job + 1].upsert(rows)
                    if job == 1:
                        delays += [now + period - arrived[key] for key in rows["id"].to_pylist()]
        print(
            json.dumps(
                {
                    "jobs": name,
                    "events": len(delays),
                    "median_minutes": float(np.median(delays)) / 60,
                    "longest_minutes": max(delays) / 60,
                }
            ),
            flush=True,
        )


def nested_source(folder: Path, files: int, rows: int, columns: int, partitions: int) -> int:
    """Parquet files with a key, a nested column and numbers; their rows in all."""
    chance = np.random.default_rng(1)
    for number in range(files):
        part = folder / f"part={number % partitions}"
        part.mkdir(parents=True, exist_ok=True)
        keys = pa.array(np.arange(number * rows, (number + 1) * rows)).cast(pa.string())
        nested = pa.StructArray.from_arrays([pa.array(chance.random(rows)), keys], ["x", "name"])
        data = {f"c{column:03}": chance.random(rows) for column in range(columns - 2)}
        pq.write_table(pa.table({"id": keys, "nested": nested, **data}), part / f"{number}.parquet")
    return files * rows


def bootstrap(folder: Path, share: float) -> None:
    """A bootstrap without copies reads keys alone: much quicker than a copy, the wider the rows the more."""
    nested_source(folder / "tiny", 1, 100, 4, 1)
    pyhudi.HudiTable.bootstrap(folder / "tiny", folder / "first", record_key="id")  # loads what is loaded once
    count = nested_source(folder / "many", 245, int(24_000 * share), 40, 35)
    with measured(act="metadata_only", files=245, rows=count, columns=40) as line:
        pyhudi.HudiTable.bootstrap(folder / "many", folder / "skeletons", record_key="id")
    rate = count / line["cpu"]
    print(json.dumps({"act": "metadata_only", "rows_per_cpu_second": round(rate)}), flush=True)
    for columns in (10, 40, 200):
        rows = nested_source(folder / f"of-{columns}", 8, int(24_000 * share), columns, 4)
        for mode in ("metadata_only", "full_record"):
            with measured(act=mode, rows=rows, columns=columns):
                target = folder / f"{mode}-{columns}"
                pyhudi.HudiTable.bootstrap(folder / f"of-{columns}", target, record_key="id", mode=mode)
    nested_source(folder / "large", 4, int(240_000 * share), 42, 1)
    in_child("bootstrap_once", str(folder), "metadata_only")
    in_child("bootstrap_once", str(folder), "full_record")


def bootstrap_once(folder: Path, mode: str) -> None:
    with measured(act=mode, files=4, columns=42) as line:
        pyhudi.HudiTable.bootstrap(folder / "large", folder / f"large-{mode}", record_key="id", mode=mode)
        line["peak_mib"] = peak_mib()


def instants(_folder: Path, _share: float) -> None:
    """Instants are distinct and rise though a thousand begin in a millisecond, and no order of writers loses a row.

    Explored are all pairs of writes of the simulator on one kind of table: a writer is interrupted at each of its
    effects once, for the whole of the other one. `make sim` explores the rest.
    """
    burst = [format_instant_time(time.time_ns() // 10**6, None)]
    while len(burst) < 10_000:
        burst.append(next_instant_time(burst[-1]))
    print(
        json.dumps({"instants": len(set(burst)), "rising": all(earlier < later for earlier, later in pairwise(burst))})
    )
    writes = {"update", "new", "both", "insert", "delete", "overwrite", "drop"}
    pairs = [pair for pair in matrix() if str(pair).startswith("cow8/lock/") and writes.issuperset(pair.roles)]
    found = [explore(pair, Budget(deviations=1, schedules=10_000, seconds=300)) for pair in pairs]
    line = {"pairs": len(found), "explored": sum(outcome.is_complete for outcome in found)}
    line |= {
        "orders": sum(outcome.schedules for outcome in found),
        "violations": sum(outcome.failure is not None for outcome in found),
    }
    print(json.dumps(line), flush=True)


CLAIMS: dict[str, Callable[[Path, float], None]] = {
    claim.__name__: claim
    for claim in (
        updates, upkeep, bulk_insert, key_order, index_sizes, even_work, small_batches, delay, bootstrap, instants
    )
}  # fmt: skip
PARTS: dict[str, Callable[..., None]] = {
    "bulk_insert_once": lambda folder, count: bulk_insert_once(Path(folder), int(count)),
    "bootstrap_once": lambda folder, mode: bootstrap_once(Path(folder), mode),
}


def in_child(part: str, *arguments: str) -> None:
    """Do a part in a process of its own, whose memory nothing else has used."""
    subprocess.run([sys.executable, __file__, "--part", part, *arguments], check=True)


def lines_of(name: str, share: float) -> list[dict[str, Any]]:
    """Measure a claim in a process of its own: its lines, which are printed, too."""
    what = (inspect.getdoc(CLAIMS[name]) or "").splitlines()[0]
    print(json.dumps({"claim": name, "what": what}), flush=True)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--part", name, folder, str(share)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for text in process.stdout or ():
                print(text, end="", flush=True)
                lines.append(json.loads(text))
    if process.returncode:
        sys.exit(process.returncode)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CLAIMS))
    parser.add_argument("--share", type=float, default=1.0, help="of the rows")
    parser.add_argument("--write-docs", action="store_true", help="record a run of all claims in docs/claims.md")
    parser.add_argument("--part", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.part:
        part, folder, *more = chosen.names
        if part in CLAIMS:
            CLAIMS[part](Path(folder), float(more[0]))
        else:
            PARTS[part](folder, *more)
        return
    lines = {name: lines_of(name, chosen.share) for name in chosen.names or CLAIMS}
    if chosen.write_docs:
        write_page(lines)


if __name__ == "__main__":
    main()
