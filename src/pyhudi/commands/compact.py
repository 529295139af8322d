"""Merge the logs of a merge-on-read table into new base files."""

from __future__ import annotations

import argparse

from pyhudi.commands.arguments import add_dry_run, add_json, add_table, opened
from pyhudi.commands.output import Output
from pyhudi.commands.progress import shown_on_terminal
from pyhudi.errors import InvalidRequestError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_table(parser)
    parser.add_argument("--logs", action="store_true", help="merge logs into one log for each slice instead")
    add_dry_run(parser)
    add_json(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Compact, or say which file slices would be."""
    services = opened(chosen).services
    if chosen.dry_run and chosen.logs:
        raise InvalidRequestError("--dry-run plans compactions, not --logs: leave one of them out")
    if chosen.dry_run:
        output.plan(services.plan_compaction(), "compacts", stays="file slices stay")
        return 0
    merge = services.compact_logs if chosen.logs else services.compact
    output.result(merge(on_progress=shown_on_terminal()), none="nothing to compact", sizes=("bytes",))
    return 0
