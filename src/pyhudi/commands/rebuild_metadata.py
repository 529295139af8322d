"""Drop the metadata table and build it again from the table: the repair of one that is damaged or behind."""

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
    """Build it again, or say where it differs from the store."""
    table = opened(chosen)
    if chosen.dry_run:
        found = table.inspect.metadata_check()
        output.rows(found, sizes=("stored_bytes", "listed_bytes"), none="the metadata table agrees with the store")
    else:
        output.record({"built": list(table.recovery.rebuild_metadata_table())})
    return 0
