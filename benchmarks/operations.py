"""What is measured, in the order in which it happens. A round is one life of two tables."""

from __future__ import annotations

import functools
import gc
import os
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from inputs import Inputs
from peers.protocol import PAIRED_SCANS, Peer

FIRST = "first_bulk_insert"
"""What a job that runs once sees: in a process that has done nothing yet but start its session."""
OPERATIONS = {
    FIRST: "load all rows into a new table, as the first thing that a session does",
    "bulk_insert": "load all rows into a new table",
    "bulk_insert_computed": "load all rows, with a column that Spark computes, into a new table",
    "scan": "read all columns of all rows",
    "scan_again": "read all columns of all rows once more, in turn with scan_plain",
    "scan_plain": "read the same rows from plain Parquet in files cut the same way, in the same session",
    "aggregate": "sum two columns over all rows",
    "lookup": "find one record by its key",
    "upsert_random": "upsert a random 10 %",
    "scan_after": "read all columns of all rows after that upsert",
    "aggregate_after": "sum two columns over all rows after it",
    "scan_base": "read all columns without the logs",
    "incremental": "pull the rows of that upsert",
    "upsert_newest": "upsert the newest 1 %",
    "delete": "delete a random 1 %",
    "compact": "make one base file of each base file and its logs",
    "small_upsert": "upsert 100 rows into 100,000 (median of 10)",
}
"""Name and description of every operation."""
PAIRS = 5
"""How often `scan_again` and `scan_plain` take turns."""
WRITES = ("bulk_insert", "upsert_random", "upsert_newest", "delete")


class Report(Protocol):
    """Takes what happens in a round, as it happens."""

    def begin(self, operation: str) -> None:
        """An operation begins."""
        ...

    def end(self, operation: str, seconds: list[float], answer: Any) -> None:
        """An operation is done; it ran once or, for `small_upsert`, several times."""
        ...


class Round:
    """Runs the operations of one round on one peer. Operations that were not asked for run only if others need them."""

    def __init__(self, peer: Peer, inputs: Inputs, folder: Path, wanted: frozenset[str], report: Report) -> None:
        self._peer, self._inputs, self._folder, self._report = peer, inputs, folder, report
        self._wanted = wanted - peer.lacks
        self._written: list[str] = []

    def run(self) -> dict[str, list[str]]:
        """All operations; returns the fingerprints of the tables as they are at the end, by what was done to them."""
        fingerprints = {}
        if self._wanted - {"small_upsert"}:
            rows = self._large_table(self._folder / "large")
            fingerprints[f"the table after {', '.join(self._written)}"] = rows
        if "small_upsert" in self._wanted:
            fingerprints["the table after small_upsert"] = self._small_table(self._folder / "small")
        shutil.rmtree(self._folder, ignore_errors=True)
        return fingerprints

    def _large_table(self, table: Path) -> list[str]:
        peer, inputs = self._peer, self._inputs
        self._measure("bulk_insert", lambda: peer.bulk_insert(table, inputs.base), needed=True)
        computed = self._folder / "computed"
        self._measure("bulk_insert_computed", lambda: peer.bulk_insert_computed(computed, inputs.base))
        shutil.rmtree(computed, ignore_errors=True)
        self._measure("scan", lambda: peer.scan(table))
        self._scan_in_turns(table)
        self._measure("aggregate", lambda: peer.aggregate(table))
        self._measure("lookup", lambda: peer.lookup(table, inputs.lookup_key))
        pulls = "incremental" in self._wanted
        position = peer.position(table) if pulls else None
        self._measure("upsert_random", lambda: peer.upsert(table, inputs.upsert_random), needed=pulls)
        self._measure("scan_after", lambda: peer.scan(table))
        self._measure("aggregate_after", lambda: peer.aggregate(table))
        self._measure("scan_base", lambda: peer.scan_base(table))
        self._measure(
            "incremental",
            lambda: peer.changes(table, position),
            answer=lambda: peer.count_changes(table, position),
        )
        self._measure("upsert_newest", lambda: peer.upsert(table, inputs.upsert_newest))
        self._measure("delete", lambda: peer.delete(table, inputs.delete))
        self._measure("compact", lambda: peer.compact(table))
        return peer.fingerprint(table)

    def _scan_in_turns(self, table: Path) -> None:
        """Two layouts of the same rows, in turns: what a session learns as it goes on is good for both."""
        if not self._wanted & PAIRED_SCANS:
            return
        peer, plain = self._peer, self._folder / "plain"
        turns = {"scan_again": partial(peer.scan, table), "scan_plain": partial(peer.scan_plain, plain)}
        peer.lay_out_plain(table, plain)
        for scan in turns.values():
            scan()
        for _ in range(PAIRS):
            for operation, scan in turns.items():
                self._measure(operation, scan)
        shutil.rmtree(plain)

    def _small_table(self, table: Path) -> list[str]:
        peer, inputs = self._peer, self._inputs
        peer.bulk_insert(table, inputs.small_base)
        settle()
        self._report.begin("small_upsert")
        seconds = [_timed(functools.partial(peer.upsert, table, batch))[0] for batch in inputs.small_batches]
        self._report.end("small_upsert", seconds, None)
        return peer.fingerprint(table)

    def _measure(
        self,
        operation: str,
        run: Callable[[], Any],
        *,
        needed: bool = False,
        answer: Callable[[], Any] | None = None,
    ) -> None:
        """Time one operation. `answer` is what it should be judged by, where that is not what it returns."""
        if operation in WRITES and (needed or operation in self._wanted):
            self._written.append(operation)
        if operation not in self._wanted:
            if needed:
                run()
            return
        settle()
        self._report.begin(operation)
        seconds, result = _timed(run)
        self._report.end(operation, [seconds], result if answer is None else answer())


def settle() -> None:
    """Finish what an earlier operation left to the kernel and the collector, so that the next does not pay for it."""
    gc.collect()
    os.sync()


def _timed(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result
