"""Rewrite small files into files of a good size, sorted if options say by what."""

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
    """Cluster, or say which file slices would be put together."""
    services = opened(chosen).services
    if chosen.dry_run:
        output.plan(services.plan_clustering(), "clusters", stays="file slices stay")
        return 0
    output.result(services.cluster(on_progress=shown_on_terminal()), none="nothing to cluster", sizes=("bytes",))
    return 0
