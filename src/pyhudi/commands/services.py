"""`python -m pyhudi services PATH`: runs table services, once or again and again, as a process beside writers."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyhudi.api.hudi_table import HudiTable
from pyhudi.commands.arguments import add_option_argument
from pyhudi.commands.progress import shown_on_terminal
from pyhudi.errors import HudiError, InvalidRequestError

_EPILOG = (
    "Exit status: 0 if no service failed in the last round, 1 if one did, 2 if the arguments, an option or the table"
    " were refused. Ctrl-C and SIGTERM end the process after the service that is running; a second Ctrl-C ends it at"
    " once, and the next run finishes what it left."
)


def add_services_command(commands: Any) -> None:
    """Add the command to those of the parser."""
    parser = commands.add_parser("services", help="run table services", description=__doc__, epilog=_EPILOG)
    parser.add_argument("path", help="the path or URI of the table")
    parser.add_argument("--every", type=_seconds, metavar="SECONDS", help="run again so many seconds after each round")
    parser.add_argument("--only", default="", metavar="NAMES", help="only these services, separated by commas")
    parser.add_argument("--plan", action="store_true", help="only say what is due, and why")
    add_option_argument(parser)
    parser.set_defaults(run=_run)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < threading.TIMEOUT_MAX:
        raise argparse.ArgumentTypeError("must be a number of seconds above 0")
    return seconds


def _run(chosen: argparse.Namespace) -> int:
    table = HudiTable.for_path(chosen.path, hudi_options=dict(chosen.option))
    names = _names(table, chosen.only)
    if chosen.plan:
        for row in table.services.due().to_pylist():
            if row["service"] in names:
                _say(f"{row['service']:<15} {'due' if row['due'] else 'not due':<8} {row['reason']}")
        return 0
    with _stopped_by_signals() as stop:
        has_failed = _round(table, names, stop)
        while chosen.every is not None and not stop.wait(chosen.every):
            has_failed = _round(table, names, stop)
    return 1 if has_failed else 0


def _names(table: HudiTable, only: str) -> list[str]:
    """The services that may run, in their order. Raises `InvalidRequestError` for a name that is none."""
    known = table.services.due()["service"].to_pylist()
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    for name in wanted:
        if name not in known:
            raise InvalidRequestError("there is no table service with this name", service=name, known=known)
    return [name for name in known if not wanted or name in wanted]


def _round(table: HudiTable, names: list[str], stop: threading.Event) -> bool:
    """Run what is due, one service after the other, until all have had their turn or the process is to end.

    Returns whether a service failed.
    """
    has_failed = False
    for name in names:
        if stop.is_set():
            break
        try:
            runs = table.services.run(only=name, on_progress=shown_on_terminal()).to_pylist()
        except HudiError as error:
            runs = [{"service": name, "outcome": "failed", "message": str(error)}]
        for run in runs:
            has_failed |= run["outcome"] == "failed"
            _say(_line(run))
    return has_failed


def _line(run: dict[str, Any]) -> str:
    """One run of a service for the reader."""
    counts = [
        f"{run[name]:,} {word}"
        for name, word in (
            ("files_written", "files written"),
            ("files_deleted", "files deleted"),
            ("rows", "rows"),
            ("bytes", "bytes"),
        )
        if run.get(name)
    ]
    took = [f"{run['seconds']:.2f} s"] if run["outcome"] == "done" else []
    told = ", ".join([*counts, *took, *([run["message"]] if run["message"] else [])])
    return f"{run['service']:<15} {run['outcome']:<23} {run.get('instant') or '-':<17} {told}".rstrip()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """An event that the first SIGINT or SIGTERM sets; the second SIGINT interrupts, as without this."""
    stop = threading.Event()

    def end(number: int, _: object) -> None:
        stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stderr.write(f"{signal.Signals(number).name}: ends after the service that is running\n")

    former = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
