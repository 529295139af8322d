"""How many micro-batches of 100 rows a minute a stream writes: `python benchmarks/streams.py`.

Each peer runs one query from Spark's own source of numbers into an empty table of 10,000 keys, which soon has them
all, so that a batch does not cost more because the table grows. The time of each batch is that of Spark's progress. The
first batches do not count: code is loaded and compiled.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from contestants import CONTESTANTS, HUDI, PYHUDI, Contestant

PEERS = (PYHUDI, HUDI)
WARM_UP = 20


def measure(contestant: Contestant, home: Path, table_type: str, batches: int) -> list[float]:
    """Seconds of each batch, in a process of the peer's own Python."""
    work = home / contestant.name
    work.mkdir()
    request = {
        "peer": contestant.peer,
        "jars": [str(jar) for jar in contestant.jars],
        "work": str(work),
        "type": table_type,
        "batches": WARM_UP + batches,
    }
    worker = Path(__file__).with_name("stream_worker.py")
    done = subprocess.run(
        [str(contestant.python), str(worker), json.dumps(request)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYSPARK_PYTHON": str(contestant.python)},
    )
    shutil.rmtree(work)
    seconds: list[float] = json.loads(done.stdout.splitlines()[-1])
    return seconds[WARM_UP:]


def report(seconds: dict[str, list[float]]) -> str:
    """A table for people: batches a minute, and whether the last ones take longer than the first."""
    titles = {one.name: one.title for one in CONTESTANTS}
    lines = [
        "| | batches a minute | times as many as Hudi | first tenth, s | last tenth, s | slowest, s |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    per_minute = {name: 60 * len(found) / sum(found) for name, found in seconds.items()}
    for name, found in seconds.items():
        tenth = max(1, len(found) // 10)
        first, last = statistics.median(found[:tenth]), statistics.median(found[-tenth:])
        ratio = f"{per_minute[name] / per_minute[HUDI]:.1f}" if HUDI in per_minute else "-"
        lines.append(
            f"| {titles[name]} | {per_minute[name]:.0f} | {ratio} | {first:.2f} | {last:.2f} | {max(found):.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=1_000)
    parser.add_argument("--type", choices=("COPY_ON_WRITE", "MERGE_ON_READ"), default="COPY_ON_WRITE")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=PEERS)
    asked = parser.parse_args()
    seconds = {}
    with tempfile.TemporaryDirectory(prefix="pyhudi-streams-") as folder:
        for contestant in CONTESTANTS:
            if contestant.name in asked.peers:
                seconds[contestant.name] = measure(contestant, Path(folder), asked.type, asked.batches)
                print(contestant.name, len(seconds[contestant.name]), file=sys.stderr, flush=True)
    print(f"{asked.batches} batches of 100 rows, {asked.type}\n")
    print(report(seconds))


if __name__ == "__main__":
    main()
