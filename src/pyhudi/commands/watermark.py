"""Wait until a partition is complete, as a scheduler does before it begins a job on it."""

from __future__ import annotations

import argparse
import math
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from pyhudi.commands.arguments import JSON, TABLE, argument, command, names_of, opened
from pyhudi.commands.output import Output
from pyhudi.environment import SYSTEM

if TYPE_CHECKING:
    from pyhudi import HudiTable

NOT_COMPLETE: Final = 3
"""The exit status where the partition is not complete in time."""
_LEAST_SECONDS: Final = 0.1
_UNITS: Final = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_SPAN: Final = re.compile(r"(?:\d+[dhms])+")
EPILOG: Final = (
    "Exit status: 0 the partition is complete; 3 it is not, and the time is over; 1 something failed; 2 the arguments"
    " or the table were refused. What is printed names the write with which the partition was seen to be complete: give"
    " it as --after later, and the rows that were written to the partition since are counted."
)


def span(text: str) -> timedelta:
    """A span of time as 10m, 1h30m or 90s, as the type of an argument."""
    if not _SPAN.fullmatch(text):
        raise argparse.ArgumentTypeError(f"must be a span such as 10m, 1h30m or 90s, not {text!r}")
    return timedelta(**{_UNITS[unit]: float(number) for number, unit in re.findall(r"(\d+)([dhms])", text)})


@command(
    TABLE,
    argument("--partition", required=True, metavar="PARTITION", help="its path, such as 2026-11-22/09"),
    argument("--lateness", type=span, default=timedelta(), metavar="SPAN", help="how late events may be, such as 10m"),
    argument("--sources", type=names_of, default=[], metavar="NAMES", help="sources that must have written"),
    argument("--idle-after", type=span, metavar="SPAN", help="leave out sources that have written nothing for so long"),
    argument("--timeout", type=span, metavar="SPAN", help="how long to wait at most; 0s looks once"),
    argument("--poll", type=span, default=timedelta(seconds=10), metavar="SPAN", help="how often to look (10s)"),
    argument("--after", metavar="INSTANT", help="count the rows that were written to the partition after this write"),
    JSON,
    epilog=EPILOG,
)
def wait_for(chosen: argparse.Namespace, output: Output) -> int | None:
    """Wait until a partition is complete, by the event times that the writers of the table report."""
    table = opened(chosen)
    ends = None if chosen.timeout is None else SYSTEM.clock.monotonic() + chosen.timeout.total_seconds()
    while not (shown := _shown(table, chosen))["complete"]:
        left = math.inf if ends is None else ends - SYSTEM.clock.monotonic()
        if left <= 0:
            break
        SYSTEM.clock.sleep(min(max(chosen.poll.total_seconds(), _LEAST_SECONDS), left))
        table = table.refresh()
    output.record(shown)
    return None if shown["complete"] else NOT_COMPLETE


def _shown(table: HudiTable, chosen: argparse.Namespace) -> dict[str, object]:
    """What the command prints."""
    found = table.watermark(sources=chosen.sources, idle_after=chosen.idle_after)
    shown: dict[str, object] = {
        "partition": chosen.partition,
        "complete": found.covers(chosen.partition, lateness=chosen.lateness),
        "watermark": None if found.time is None else found.time.isoformat(),
        "instant": found.instant,
    }
    if chosen.after is not None:
        shown["late_rows"] = table.inspect.late_rows(chosen.partition, chosen.after)
    return shown
