"""Fuzz the parsers: `python -m tests.fuzz --inputs 1000000 --seed 1`, or `--replay FILE --targets NAME`.

An input that fails is made small and kept below `--save`, in a folder of its target's name, ready for `--replay` and,
once the parser is mended, for the corpus.
"""

# ruff: noqa: T201 - it talks to whoever runs it
from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.campaign import Finding, Report, carry_out, replays, shared_out
from tests.fuzz.registry import TARGETS

_TOLD_EVERY_SECONDS = 30.0


def main() -> int:
    """Run what the command line asks for; 0 where nothing was found."""
    asked = _arguments()
    names = asked.targets.split(",") if asked.targets else list(TARGETS)
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        print(f"no such target: {', '.join(unknown)}; there are {', '.join(TARGETS)}")
        return 2
    started = time.monotonic()
    if asked.replay:
        # A kept input lies in a folder with the name of its target.
        target = asked.targets or asked.replay.resolve().parent.name
        report = carry_out(replays([(target, asked.replay.read_bytes())]), workers=1)
    else:
        report = carry_out(shared_out(asked.inputs, names, asked.seed), workers=asked.workers, tell=_teller())
    _print_counts(report, time.monotonic() - started, asked.seed)
    for finding in report.findings.values():
        _print_finding(finding, asked.save)
    return 1 if report.findings else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="over all targets together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--targets", default="", help="names separated by commas; all of them by default")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--replay", type=Path, help="one input; its folder or --targets names the parser")
    parser.add_argument("--save", type=Path, default=Path("artifacts/fuzz"), help="where failing inputs are kept")
    return parser.parse_args()


def _teller() -> Callable[[Report], None]:
    last = time.monotonic()

    def tell(report: Report) -> None:
        nonlocal last
        if time.monotonic() - last > _TOLD_EVERY_SECONDS:
            last = time.monotonic()
            print(f"  {report.inputs} inputs, {len(report.findings)} findings", file=sys.stderr, flush=True)

    return tell


def _print_counts(report: Report, seconds: float, seed: int) -> None:
    print(f"{'target':20}{'inputs':>10}{'accepted':>10}{'refused':>10}{'failed':>8}{'per second':>12}")
    for name, counts in report.counts.items():
        total = sum(counts.values())
        speed = total / report.seconds[name] if report.seconds[name] else 0
        parts = f"{counts['accepted']:>10}{counts['refused']:>10}{counts['failed']:>8}"
        print(f"{name:20}{total:>10}{parts}{speed:>12.0f}")
    print(f"{report.inputs} inputs of {len(report.counts)} targets, seed {seed}, {seconds:.0f} s: ", end="")
    print(f"{len(report.findings)} findings{'' if report.is_whole else ', interrupted'}")


def _print_finding(finding: Finding, folder: Path) -> None:
    kept = folder / finding.target / hashlib.sha256(finding.data).hexdigest()[:12]
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(finding.data)
    print(f"\n--- {finding.target}: {finding.signature} (input {finding.number})")
    print(finding.detail.rstrip())
    print(f"input of {len(finding.data)} bytes: {finding.data[:200]!r}")
    print(f"again: python -m tests.fuzz --replay {kept}")


if __name__ == "__main__":
    raise SystemExit(main())
