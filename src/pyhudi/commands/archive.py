"""Move the oldest completed instants from the active timeline to the archived one."""

from __future__ import annotations

import argparse

from pyhudi.commands.arguments import add_dry_run, add_json, add_table, opened
from pyhudi.commands.output import Output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_table(parser)
    add_dry_run(parser)
    add_json(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Archive, or say which instants would move."""
    services = opened(chosen).services
    if chosen.dry_run:
        output.plan(services.plan_archive(), "archives", stays="instants stay")
        return 0
    output.result(services.archive(), none="nothing to archive")
    return 0
