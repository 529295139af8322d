"""Drop the partitions that are older than an option says (hoodie.partition.ttl.strategy.days.retain)."""

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
    """Drop partitions, or say which ones would be dropped."""
    services = opened(chosen).services
    if chosen.dry_run:
        output.plan(services.plan_expiry(), "expires", stays="partitions stay")
        return 0
    output.result(services.expire_partitions(), none="no partition is too old")
    return 0
