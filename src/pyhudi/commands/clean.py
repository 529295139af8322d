"""Delete the file slices that no retained state of the table needs."""

from __future__ import annotations

import argparse

from pyhudi.commands.arguments import add_dry_run, add_json, add_table, opened
from pyhudi.commands.output import Output
from pyhudi.commands.progress import shown_on_terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_table(parser)
    add_dry_run(parser)
    add_json(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Clean, or say what would be deleted."""
    services = opened(chosen).services
    if chosen.dry_run:
        output.plan(services.plan_clean(), "deletes", stays="file slices stay")
        return 0
    output.result(services.clean(on_progress=shown_on_terminal()), none="nothing to clean")
    return 0
