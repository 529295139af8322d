"""Measures pyhudi against its peers: `make bench`, or `python benchmarks/run.py --help`.

Every peer gets the same rows, does the same operations and runs alone, in a process of its own, on the same two cores.
The reader's guide is `docs/benchmarks.md`.
"""

from __future__ import annotations

import argparse
import compileall
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contestants import BENCH_PYTHON, CONTESTANTS, GENERATOR, HOME, HUDI_RS, HUDI_RS_PROGRAM, REPOSITORY, Contestant
from dataset import prepare
from operations import OPERATIONS
from page import DOCS, PAGE, put_on_page
from processes import Measurements, PeerFailedError, measure
from report import console_table, goals_text, interference, markdown, summarise

RESULTS = HOME / "results.json"
CHART = DOCS / "benchmarks.png"
HERE = Path(__file__).resolve().parent


def main() -> int:
    arguments = _arguments()
    subprocess.run([sys.executable, HERE / "setup.py"], check=True)
    # Packages that pip installs have bytecode; an editable install has it from earlier runs alone, if Python keeps it.
    compileall.compile_dir(REPOSITORY / "src", quiet=1)
    inputs, warm_up = prepare(HOME / "data", arguments.scale_factor, GENERATOR)
    measured: dict[str, Measurements] = {}
    failures = []
    for contestant in _chosen(arguments.peers):
        print(f"{contestant.title} ...", flush=True)
        try:
            measured[contestant.name] = measure(
                contestant,
                inputs=inputs,
                warm_up=warm_up,
                operations=arguments.only,
                rounds=arguments.rounds,
                home=HOME,
            )
        except PeerFailedError as error:
            failures.append(str(error))
        # After each peer: a run that is stopped keeps what it has.
        results = summarise(measured, scale_factor=arguments.scale_factor, rounds=arguments.rounds)
        RESULTS.write_text(json.dumps(results, indent=1))
    print(f"\n{console_table(results)}\n\n{goals_text(results)}\n\nall figures: {RESULTS}")
    failures += [f"the peers disagree: {difference}" for difference in results["disagreements"]]
    if failures:
        print(*failures, sep="\n", file=sys.stderr)
        return 1
    for warning in (busy := interference(results)):
        print(f"warning: {warning}", file=sys.stderr)
    if arguments.write_docs and busy:
        print("not recorded: run it again when the machine has nothing else to do", file=sys.stderr)
        return 1
    if arguments.write_docs:
        write_docs(results)
    return 0


def write_docs(results: Mapping[str, Any]) -> None:
    """Put the run's tables into `docs/benchmarks.md` and draw its chart."""
    put_on_page("make bench", markdown(results))
    subprocess.run([BENCH_PYTHON, HERE / "chart.py", RESULTS, CHART], check=True)
    print(f"written: {PAGE} and {CHART}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale-factor", type=float, default=0.5, help="of TPC-H; 0.5 is 3.0 million rows")
    parser.add_argument("--only", nargs="+", choices=OPERATIONS, default=list(OPERATIONS), metavar="OPERATION")
    names = [contestant.name for contestant in CONTESTANTS]
    parser.add_argument("--peers", nargs="+", choices=names, default=names, metavar="PEER", help=", ".join(names))
    parser.add_argument("--rounds", type=int, default=1, help="the medians of so many rounds count")
    parser.add_argument("--write-docs", action="store_true", help="update docs/benchmarks.md and its chart")
    return parser.parse_args()


def _chosen(names: list[str]) -> list[Contestant]:
    if HUDI_RS in names and not HUDI_RS_PROGRAM.exists():
        # Half an hour of compiling is not for everybody.
        print(f"hudi-rs is left out: `python tools/hudi_rs.py` builds {HUDI_RS_PROGRAM}")
        names = [name for name in names if name != HUDI_RS]
    return [contestant for contestant in CONTESTANTS if contestant.name in names]


if __name__ == "__main__":
    sys.exit(main())
