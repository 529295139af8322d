"""List the instants of the active timeline: writes and services, completed or pending."""

from __future__ import annotations

import argparse

from pyhudi.commands.arguments import add_json, add_table, opened
from pyhudi.commands.output import Output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_table(parser)
    add_json(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Write a row per instant."""
    output.rows(opened(chosen).inspect.timeline(), none="no instants yet")
    return 0
