"""`python -m pyhudi.testing`: explore schedules of concurrent writers, or replay one schedule."""

from __future__ import annotations

import argparse
import sys

from pyhudi.testing.simulation.campaign import run_campaign
from pyhudi.testing.simulation.explore import replay
from pyhudi.testing.simulation.schedule import MEANING, parse_schedule


def main() -> int:
    """Run the command, and return its exit status: 1 if an invariant was violated, else 0."""
    parser = argparse.ArgumentParser(prog="python -m pyhudi.testing", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long to explore")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random rounds")
    parser.add_argument("--processes", type=int, default=2, help="number of processes that explore")
    parser.add_argument("--only", default="", help="explore only scenarios whose names contain this, as mor8/lease/")
    parser.add_argument("--replay", metavar="SCHEDULE", help="replay the schedule that a failure printed")
    chosen = parser.parse_args()
    if chosen.replay is not None:
        return _replayed(chosen.replay)
    report = run_campaign(seconds=chosen.minutes * 60, seed=chosen.seed, processes=chosen.processes, wanted=chosen.only)
    sys.stdout.write(f"{report}\n")
    return 1 if report.failures else 0


def _replayed(text: str) -> int:
    result = replay(parse_schedule(text))
    for line in result.trace:
        choice = line.partition("=")[2] if line.startswith("--") else ""
        meaning = MEANING.get(choice, f"actor {choice} continues") if choice else ""
        sys.stdout.write(f"{line}  {meaning}\n" if meaning else f"{line}\n")
    sys.stdout.write(f"\n{result.violation or 'no invariant was violated'}\ndigest {result.digest}\n")
    return 1 if result.violation is not None else 0


if __name__ == "__main__":
    sys.exit(main())
