"""`pyhudi inspect`."""

from __future__ import annotations

import argparse
from pathlib import Path

from pyhudi.commands.arguments import TABLE, argument, command, opened, whole_number
from pyhudi.commands.conditions import conditions_of
from pyhudi.commands.output import Output


@command(
    TABLE,
    argument("--html", metavar="FILE", help="write the page into this file, which needs nothing else"),
    argument("--where", default="", metavar="CONDITION", help="show what a read with this condition opens"),
    argument(
        "--writes", type=whole_number, default=200, metavar="N", help="how many of the newest writes are read (200)"
    ),
    argument("--port", type=whole_number, default=0, metavar="N", help="the port on this machine (any free one)"),
)
def inspect(chosen: argparse.Namespace, output: Output) -> None:
    """Show a table in a browser: its timeline, files, writes and services. It is served to this machine alone.

    The page is drawn anew for each look. The command ends with Ctrl-C.
    """
    # Help does without what draws and serves.
    from pyhudi.environment import SYSTEM  # noqa: PLC0415
    from pyhudi.inspector.facts import collect  # noqa: PLC0415
    from pyhudi.inspector.page import Asked, page  # noqa: PLC0415
    from pyhudi.inspector.server import Inspector  # noqa: PLC0415

    table, first = opened(chosen), Asked(chosen.where, chosen.writes)

    def page_of(asked: Asked, *, answers: bool) -> str:
        facts = collect(table, asked.where, lambda text: conditions_of([text], table.schema), writes=asked.writes)
        return page(facts, asked, answers=answers)

    def page_of_now(asked: Asked) -> str:
        table.refresh()
        return page_of(asked, answers=True)

    if chosen.html is not None:
        Path(chosen.html).write_text(page_of(first, answers=False), encoding="utf-8")
        output.line(f"written: {chosen.html}")
        return
    with Inspector(page_of_now, SYSTEM.ids.uuid(), chosen.port, first=first) as server:
        output.line(f"The inspector is at {server.url}")
        output.line("Ctrl-C ends it.")
        server.serve_forever()
