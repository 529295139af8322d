"""What the measurements say: medians, ratios, goals and disagreements, as JSON, as text and as Markdown."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import psutil
from contestants import CONTESTANTS, DELTA_SPARK, HUDI, HUDI_MOR, PARQUET, PARQUET_PARTITIONED, PYHUDI, PYHUDI_MOR
from operations import FIRST, OPERATIONS
from processes import CORES, Measurements

TITLES = {contestant.name: contestant.title for contestant in CONTESTANTS}
READS = ("scan", "aggregate", "lookup")
"""Compared with plain Parquet; everything else with real Hudi without its metadata table."""


LOG_READS = ("scan_after", "aggregate_after", "scan_base", "compact")
"""Compared with real Hudi's merge-on-read table."""


@dataclass(frozen=True)
class Goal:
    """pyhudi, or the contestant `own`, does `operation` at least `factor` times as fast as `reference`.

    The reference is judged by `reference_operation` where that is another one.
    """

    operation: str
    reference: str
    factor: float
    own: str = PYHUDI
    reference_operation: str | None = None


GOALS = (
    Goal(FIRST, HUDI, 4.0),
    Goal(FIRST, PARQUET, 1 / 0.7),
    Goal("bulk_insert", HUDI, 5.0),
    Goal("bulk_insert", PARQUET, 1 / 0.8),
    # Laid out as the table is.
    Goal("bulk_insert", PARQUET_PARTITIONED, 1.0),
    Goal("upsert_random", HUDI, 4.0),
    Goal("upsert_random", DELTA_SPARK, 2.5),
    # Within 10 % of the time.
    # The same rows in the same files, read in turns: plain Parquet without partitions is laid out otherwise.
    Goal("scan_again", PYHUDI, 1 / 1.1, reference_operation="scan_plain"),
    Goal("scan", PARQUET, 1 / 1.1),
    Goal("aggregate", PARQUET, 1 / 1.1),
    Goal("small_upsert", HUDI, 2.0),
    Goal("upsert_random", HUDI_MOR, 3.0, own=PYHUDI_MOR),
    Goal("scan_after", HUDI_MOR, 3.0, own=PYHUDI_MOR),
    Goal("aggregate_after", HUDI_MOR, 3.0, own=PYHUDI_MOR),
    Goal("scan_base", PARQUET, 1 / 1.1, own=PYHUDI_MOR, reference_operation="scan"),
    Goal("compact", HUDI_MOR, 3.0, own=PYHUDI_MOR),
)
NOT_MEASURED = "-"
FOREIGN_CORES_MAX = 0.2
"""Other programs may take this much before a run is not worth recording; watching the peer takes some of it."""
WORKER_BYTES_MAX = 1 << 30
"""Goal: what one Python worker of pyhudi holds at most while it upserts."""


def summarise(measured: Mapping[str, Measurements], *, scale_factor: float, rounds: int) -> dict[str, Any]:
    """Everything that was measured, as plain values for JSON; times in seconds, memory in bytes."""
    return {
        "scale_factor": scale_factor,
        "rounds": rounds,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": {
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "cores_used": CORES,
            "memory_bytes": psutil.virtual_memory().total,
        },
        "peers": {
            name: {
                "title": TITLES[name],
                "median_seconds": {operation: median(times) for operation, times in peer.seconds.items()},
                "median_cpu_seconds": {operation: median(times) for operation, times in peer.cpu_seconds.items()},
                "seconds": peer.seconds,
                "cpu_seconds": peer.cpu_seconds,
                "foreign_cores": peer.foreign_cores,
                "process_peak_bytes": peer.process_peak,
                "python_worker_peak_bytes": peer.python_worker_peak,
            }
            for name, peer in measured.items()
        },
        "disagreements": disagreements(measured),
    }


def disagreements(measured: Mapping[str, Measurements]) -> list[str]:
    """Where two peers, or two rounds of one, gave different answers: then the times mean nothing."""
    claims: dict[str, dict[str, str]] = {}
    for name, peer in measured.items():
        answers = [(operation, answer) for operation, answers in peer.answers.items() for answer in answers]
        tables = [(f"rows of {table}", rows) for prints in peer.fingerprints for table, rows in prints.items()]
        for subject, value in answers + tables:
            claims.setdefault(subject, {}).setdefault(str(value), TITLES[name])
    return [
        f"{subject}: " + "; ".join(f"{title} says {value}" for value, title in values.items())
        for subject, values in claims.items()
        if len(values) > 1
    ]


def interference(results: Mapping[str, Any]) -> list[str]:
    """Peers that were timed while other programs used the cores."""
    return [
        f"other programs kept {peer['foreign_cores']:.1f} cores busy while {peer['title']} was timed"
        for peer in results["peers"].values()
        if peer["foreign_cores"] > FOREIGN_CORES_MAX
    ]


def console_table(results: Mapping[str, Any]) -> str:
    """Seconds and ratios as aligned text."""
    return (
        f"seconds\n{_text(_seconds(results))}\n\n"
        f"processor seconds of all processes (small upsert: all ten)\n{_text(_cpu_seconds(results))}\n\n"
        f"times as fast as the reference\n{_text(_ratios(results))}"
    )


def markdown(results: Mapping[str, Any]) -> str:
    """The part of `docs/benchmarks.md` that is about one run."""
    machine = results["machine"]
    processor = f"{machine['processor']}, {machine['cores_used']} cores used, {machine['memory_bytes'] / 2**30:.0f} GiB"
    rounds = "one round" if results["rounds"] == 1 else f"medians of {results['rounds']} rounds"
    return "\n".join(
        [
            f"Scale factor {results['scale_factor']:g}, {rounds}, {results['date']}: {processor}.",
            "",
            "![Seconds that four of the operations take](benchmarks.png)",
            "",
            "Seconds, less is better:",
            "",
            _pipes(_seconds(results)),
            "",
            "Times as fast as the reference, more is better:",
            "",
            _pipes(_ratios(results)),
            "",
            "Processor seconds of all processes of a peer (`small upsert`: of all ten together):",
            "",
            _pipes(_cpu_seconds(results)),
            "",
            "Goals:",
            "",
            _pipes(_goals(results)),
            "",
            "Peak resident memory while upserting 10 %, in MiB:",
            "",
            _pipes(_memory(results)),
        ]
    )


def goals_text(results: Mapping[str, Any]) -> str:
    """Which goals were met, as aligned text."""
    return _text(_goals(results))


Rows = list[list[str]]


def _operations(results: Mapping[str, Any]) -> list[str]:
    done = {operation for peer in results["peers"].values() for operation in peer["median_seconds"]}
    return [operation for operation in OPERATIONS if operation in done]


def _seconds(results: Mapping[str, Any]) -> Rows:
    return _per_peer(results, lambda peer, operation: peer["median_seconds"].get(operation))


def _cpu_seconds(results: Mapping[str, Any]) -> Rows:
    return _per_peer(results, lambda peer, operation: peer["median_cpu_seconds"].get(operation))


def _ratios(results: Mapping[str, Any]) -> Rows:
    def ratio(peer: Mapping[str, Any], operation: str) -> float | None:
        reference = results["peers"].get(_reference(operation), {}).get("median_seconds", {})
        times = peer["median_seconds"]
        return reference[operation] / times[operation] if operation in times and operation in reference else None

    rows = _per_peer(results, ratio)
    references = ["*reference*", *[TITLES[_reference(operation)] for operation in _operations(results)]]
    return [rows[0], references, *rows[1:]]


def _reference(operation: str) -> str:
    if operation in LOG_READS:
        return HUDI_MOR
    return PARQUET if operation in READS else HUDI


def _per_peer(results: Mapping[str, Any], value: Callable[[Mapping[str, Any], str], float | None]) -> Rows:
    operations = _operations(results)
    head = ["", *[operation.replace("_", " ") for operation in operations]]
    body = [
        [peer["title"], *[_number(value(peer, operation)) for operation in operations]]
        for peer in results["peers"].values()
    ]
    return [head, *body]


def _goals(results: Mapping[str, Any]) -> Rows:
    peers = results["peers"]
    rows = [["pyhudi on Spark", "goal", "measured", "met"]]
    for goal in GOALS:
        compared = goal.reference_operation or goal.operation
        own = peers.get(goal.own, {}).get("median_seconds", {}).get(goal.operation)
        other = peers.get(goal.reference, {}).get("median_seconds", {}).get(compared)
        than = compared.replace("_", " ") if goal.reference == goal.own else TITLES[goal.reference]
        subject = f"{goal.operation.replace('_', ' ')}, times as fast as {than}"
        ratio = None if own is None or other is None else other / own
        rows.append(
            [subject, f"≥ {goal.factor:.2g}", _number(ratio), _verdict(None if ratio is None else ratio >= goal.factor)]
        )
    peak = peers.get(PYHUDI, {}).get("python_worker_peak_bytes", {}).get("upsert_random")
    measured = NOT_MEASURED if peak is None else f"{peak / 2**20:.0f} MiB"
    verdict = _verdict(None if peak is None else peak < WORKER_BYTES_MAX)
    return [*rows, ["largest Python worker, upsert random", "< 1024 MiB", measured, verdict]]


def _verdict(is_met: bool | None) -> str:
    if is_met is None:
        return NOT_MEASURED
    return "yes" if is_met else "**no**"


def _memory(results: Mapping[str, Any]) -> Rows:
    rows = [["", "all processes", "largest Python worker"]]
    for peer in results["peers"].values():
        together = peer["process_peak_bytes"].get("upsert_random")
        worker = peer["python_worker_peak_bytes"].get("upsert_random")
        if together is not None:
            rows.append([peer["title"], f"{together / 2**20:.0f}", f"{worker / 2**20:.0f}" if worker else NOT_MEASURED])
    return rows


def _number(value: float | None) -> str:
    if value is None:
        return NOT_MEASURED
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _text(rows: Rows) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            [row[0].ljust(widths[0]), *[cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]]
        )
        for row in rows
    )


def _pipes(rows: Rows) -> str:
    rule = ["---", *["---:"] * (len(rows[0]) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], rule, *rows[1:]])


def _processor() -> str:
    """The processor's name, where Linux tells it."""
    try:
        with open("/proc/cpuinfo") as info:  # noqa: PTH123
            names = [line.partition(":")[2].strip() for line in info if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.machine()
