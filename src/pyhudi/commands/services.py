"""`pyhudi services`."""

from __future__ import annotations

import argparse
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyhudi.commands.arguments import JSON, TABLE, argument, command, names_of, opened
from pyhudi.commands.output import Output, finish_output, progress_on_terminal
from pyhudi.errors import HudiError, InvalidRequestError

if TYPE_CHECKING:
    from pyhudi import HudiTable

_EPILOG = (
    "Exit status: 0 if no service failed in the last round, 1 if one did, 2 if the arguments, an option or the table"
    " were refused. Ctrl-C and SIGTERM end the process after the service that is running; a second Ctrl-C ends it at"
    " once, and the next run finishes what it left."
)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < threading.TIMEOUT_MAX:
        raise argparse.ArgumentTypeError(f"must be a number of seconds above 0, not {text!r}")
    return seconds


@command(
    TABLE,
    argument("--every", type=_seconds, metavar="SECONDS", help="run again so many seconds after each round"),
    argument("--only", type=names_of, default=[], metavar="NAMES", help="only these, separated by commas"),
    argument("--dry-run", "--plan", action="store_true", help="only say what is due, and why"),
    JSON,
    epilog=_EPILOG,
)
def services(chosen: argparse.Namespace, output: Output) -> int:
    """Run table services, once or again and again, as a process beside writers."""
    if chosen.json and chosen.every is not None:
        raise InvalidRequestError("--json prints one document, and --every has no end: give one of them")
    table = opened(chosen)
    due = table.services.due()
    names = _names(due["service"].to_pylist(), chosen.only)
    if chosen.dry_run:
        planned = [row for row in due.to_pylist() if row["service"] in names]
        if chosen.json:
            output.document(planned)
            return 0
        for row in planned:
            output.line(f"{row['service']:<15} {'due' if row['due'] else 'not due':<8} {row['reason']}")
        return 0
    runs: list[dict[str, Any]] = []
    with _stopped_by_signals(output) as stop:
        has_failed = _round(table, names, stop, output, runs)
        while chosen.every is not None and not stop.wait(chosen.every):
            has_failed = _round(table, names, stop, output, runs)
    if chosen.json:
        output.document(runs)
    return 1 if has_failed else 0


def _names(known: list[str], wanted: list[str]) -> list[str]:
    """The services that may run, in their order. Raises `InvalidRequestError` for a name that is none."""
    for name in wanted:
        if name not in known:
            raise InvalidRequestError("there is no table service with this name", service=name, known=known)
    return [name for name in known if not wanted or name in wanted]


def _round(
    table: HudiTable, names: list[str], stop: threading.Event, output: Output, done: list[dict[str, Any]]
) -> bool:
    """Run what is due, one service after the other, until all have had their turn or the process is to end.

    Returns whether a service failed. The runs are added to `done` where they are to be one document, else written.
    """
    has_failed = False
    for name in names:
        if stop.is_set():
            break
        try:
            runs = table.services.run(only=name, on_progress=progress_on_terminal()).to_pylist()
        except HudiError as error:
            runs = [{"service": name, "outcome": "failed", "message": str(error)}]
        for run in runs:
            has_failed |= run["outcome"] == "failed"
            if output.as_json:
                done.append(run)
            else:
                output.line(_line(run))
    finish_output()
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
    counted = ", ".join([*counts, *took, *([run["message"]] if run["message"] else [])])
    return f"{run['service']:<15} {run['outcome']:<23} {run.get('instant') or '-':<17} {counted}".rstrip()


@contextmanager
def _stopped_by_signals(output: Output) -> Iterator[threading.Event]:
    """An event that the first SIGINT or SIGTERM sets; the second SIGINT interrupts, as without this."""
    stop = threading.Event()

    def end(number: int, _: object) -> None:
        stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        output.note(f"{signal.Signals(number).name}: ends after the service that is running")

    handlers = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
