"""What table services keep flat: commits of a long life, opening a table with a large archive, a plan of a large clean.

    python benchmarks/service_limits.py commits [1000] | opening [100000] | clean [1000000]

`commits`: upserts of 100 rows with no option set; the median of the first and of the last hundred, in milliseconds of
wall-clock and of processor time. `opening`: a table with so many archived instants and 30 active ones, and one without
the archive, opened in turn. `clean`: the plan of a clean of so many files in 100 partitions, ten versions of each file
group, whose listing is made up; seconds, and peak memory in MiB. Each line ends with the load of the machine.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from long_life import SCHEMA, batch

import pyhudi
from pyhudi.config.options_cleaning import CleaningOptions
from pyhudi.engine.local import LocalEngine
from pyhudi.format.metadata.commit import CommitMetadata, WriteStat, encode_commit_metadata
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.format.timeline.lsm_history import (
    VERSION_FILE,
    HistoryFile,
    HistoryRow,
    encode_history_file,
    encode_manifest,
    encode_version_file,
    history_file_name,
    manifest_name,
)
from pyhudi.services.cleaning.plan import plan_clean
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.open import open_storage
from pyhudi.storage.protocol import FileInfo, FolderListing, StorageSpec
from pyhudi.storage.registry import register
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path

PARTITIONS, VERSIONS, PER_HISTORY_FILE = 100, 10, 10_000


def new_table(path: Path) -> pyhudi.HudiTable:
    return pyhudi.HudiTable.create(str(path), schema=SCHEMA, record_key="id", ordering_fields="ts")


def report(name: str, **values: float) -> None:
    said = "  ".join(f"{key} {value:.4g}" for key, value in values.items())
    print(f"{name}: {said}  load {os.getloadavg()[0]:.1f}", flush=True)


def commits(path: Path, number: int) -> None:
    table = new_table(path / "table")
    wall, processor = [], []
    for turn in range(number):
        rows, began, used = batch(turn), time.perf_counter(), time.process_time()
        table.upsert(rows)
        processor.append((time.process_time() - used) * 1000)
        wall.append((time.perf_counter() - began) * 1000)
    # The first ten have fewer versions of files than are retained.
    for name, taken in (("wall-clock ms", wall), ("processor ms", processor)):
        first, last = statistics.median(taken[10:110]), statistics.median(taken[-100:])
        report(name, first=first, last=last, ratio=last / first)


def put_archive(path: Path, instants: int) -> None:
    storage = open_storage(str(path), {})
    version, files = load_table(storage).version, []
    for start in range(0, instants, PER_HISTORY_FILE):
        times = [f"2020{number:013d}" for number in range(start, min(instants, start + PER_HISTORY_FILE))]
        data = encode_history_file([HistoryRow(one, one, "commit", b"{}" * 500, None) for one in times])
        name = history_file_name(times, 3)
        storage.put(f"{version.history_folder}/{name}", data)
        files.append(HistoryFile(name, len(data), InstantTime(times[0]), InstantTime(times[-1]), 3))
    storage.put(f"{version.history_folder}/{manifest_name(1)}", encode_manifest(files))
    storage.put(f"{version.history_folder}/{VERSION_FILE}", encode_version_file(1))


def opening(path: Path, instants: int) -> None:
    paths = {"new": path / "new", "archived": path / "archived"}
    for one in paths.values():
        table = new_table(one)
        for turn in range(30):
            table.upsert(batch(turn))
    put_archive(paths["archived"], instants)
    actions: dict[str, Callable[[pyhudi.HudiTable], object]] = {
        "open": lambda table: table,
        "open and scan": lambda table: table.scan().to_arrow(),
    }
    for name, act in actions.items():
        taken: dict[str, list[float]] = {kind: [] for kind in paths}
        for _ in range(300):
            for kind, one in paths.items():
                began = time.perf_counter()
                act(pyhudi.HudiTable.for_path(str(one)))
                taken[kind].append((time.perf_counter() - began) * 1000)
        medians = {kind: statistics.median(times) for kind, times in taken.items()}
        report(f"{name}, ms", **medians, ratio=medians["archived"] / medians["new"])


TIMES = [f"2026010100{number:02d}00000" for number in range(VERSIONS)]
PATHS = [f"p={number:03d}" for number in range(PARTITIONS)]


def file_id(partition: str, group: int) -> str:
    return f"00000000-0000-0000-0000-{int(partition[2:]):04d}{group:08d}-0"


def file_path(partition: str, group: int, instant_time: str) -> str:
    return f"{partition}/{file_id(partition, group)}_0-1-1_{instant_time}.parquet"


class MadeUpListing(LocalStorage):
    """A store of a table whose timeline is there, and whose data files are only listed."""

    def __init__(self, folder: Path, groups: int) -> None:
        super().__init__(folder)
        self.groups = groups
        self._spec = register(self)  # tasks of the engine ask this store, too

    @property
    def spec(self) -> StorageSpec:
        return self._spec

    def list_folder(self, path: str) -> FolderListing:
        if path.startswith("p="):
            return FolderListing(self.list_recursive(path), ())
        found = super().list_folder(path)
        return found if path else FolderListing(found.files, (*found.folders, *PATHS))

    def list_recursive(self, path: str) -> tuple[FileInfo, ...]:
        if not path.startswith("p="):
            return super().list_recursive(path)
        groups = range(self.groups)
        return tuple(FileInfo(file_path(path, group, one), 1_000, 0) for group in groups for one in TIMES)


def put_commits(folder: Path, groups: int) -> None:
    new_table(folder)
    storage = open_storage(str(folder), {})
    version = load_table(storage).version
    for previous, time_of in zip(["null", *TIMES], TIMES, strict=False):
        stats = {
            partition: tuple(
                WriteStat(
                    file_id=file_id(partition, group),
                    path=file_path(partition, group, time_of),
                    partition_path=partition,
                    prev_commit=previous,
                    file_size_in_bytes=1_000,
                )
                for group in range(groups)
            )
            for partition in PATHS
        }
        metadata = CommitMetadata(operation=WriteOperation.UPSERT, stats_by_partition=stats)
        done = Instant(InstantTime(time_of), Action.COMMIT, InstantState.COMPLETED, InstantTime(time_of[:-1] + "1"))
        storage.put(instant_path(done, version), encode_commit_metadata(metadata, version))


def clean(path: Path, files: int) -> None:
    groups = files // PARTITIONS // VERSIONS
    # In a process of its own, whose memory does not count.
    made = multiprocessing.get_context("spawn").Process(target=put_commits, args=(path / "table", groups))
    made.start()
    made.join()
    storage = MadeUpListing(path / "table", groups)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    table, began, used = load_table(storage), time.perf_counter(), time.process_time()
    options = CleaningOptions(commits_retained=2)
    planned = plan_clean(table, options, LocalEngine(), now_ms=0, zone=None, explains=False)
    seconds, processor = time.perf_counter() - began, time.process_time() - used
    assert planned.plan is not None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    names = len(planned.plan.paths)
    report(
        "clean plan", files=files, to_delete=names, s=seconds, processor_s=processor, peak_mib=peak, before_mib=before
    )


def main() -> None:
    actions = {"commits": (commits, 1_000), "opening": (opening, 100_000), "clean": (clean, 1_000_000)}
    act, default = actions[sys.argv[1]]
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        act(Path(folder), int(sys.argv[2]) if len(sys.argv) > 2 else default)


if __name__ == "__main__":
    main()
