"""`pyhudi doctor`."""

from __future__ import annotations

import argparse
from typing import Any

import pyhudi
from pyhudi.commands.arguments import JSON, OPTION, argument, command, opened, whole_number
from pyhudi.commands.output import Output
from pyhudi.errors import CorruptDataError, InvalidRequestError

_EPILOG = (
    "Exit status: 0 nothing is wrong (notes are work that is due); 1 there are errors or warnings; 2 the arguments or "
    "the table were refused."
)


@command(
    argument("path", metavar="PATH", nargs="?", help="the path or URI of the table; none: this machine"),
    argument("--fix", action="store_true", help="mend what can be mended, and look again"),
    argument("--store", action="store_true", help="try what the store below PATH keeps of its promises"),
    argument(
        "--files", type=whole_number, default=1000, metavar="N", help="how many file slices are opened at most (1000)"
    ),
    OPTION,
    JSON,
    epilog=_EPILOG,
)
def doctor(chosen: argparse.Namespace, output: Output) -> int:
    """Say what is wrong with a table, its store or this machine, and what mends it; with --fix mend it.

    Without a path it looks at this machine. With --store the path's store is tried, too, in a folder that goes again.
    """
    if chosen.path is None and (chosen.fix or chosen.store):
        raise InvalidRequestError("--fix and --store need the path of a table or of a folder of the store")
    if chosen.path is None:
        return _write(pyhudi.check_machine().to_pylist(), output)
    options = dict(chosen.option)
    found: list[dict[str, Any]] = []
    if chosen.store:
        found += pyhudi.check_store(chosen.path, hudi_options=options).to_pylist()
    try:
        table = _opened(chosen)
    except (pyhudi.errors.TableNotFoundError, CorruptDataError):
        of_folder = pyhudi.check_folder(chosen.path, hudi_options=options).to_pylist()
        if not of_folder and not chosen.store:
            raise
        return _write([*found, *of_folder], output)
    if chosen.fix:
        for step in table.recovery.mend(files=chosen.files):
            output.note(f"done: {step}")
        table = table.refresh()
    found += table.inspect.findings(files=chosen.files).to_pylist()
    return _write(found, output)


def _opened(chosen: argparse.Namespace) -> pyhudi.HudiTable:
    """The table; with --fix its properties are mended where they keep it from being opened."""
    try:
        return opened(chosen)
    except CorruptDataError:
        if not chosen.fix:
            raise
    pyhudi.check_folder(chosen.path, fix=True, hudi_options=dict(chosen.option))
    return opened(chosen)


def _write(found: list[dict[str, Any]], output: Output) -> int:
    if output.as_json:
        output.document(found)
    elif not found:
        output.line("nothing is wrong")
    for finding in found if not output.as_json else ():
        output.line(f"{finding['severity']}: {finding['problem']}{': ' if finding['path'] else ''}{finding['path']}")
        output.line(f"    {finding['detail']}")
        if finding["command"]:
            output.line(f"    pyhudi {finding['command']}")
    return 1 if any(finding["severity"] != "note" for finding in found) else 0
