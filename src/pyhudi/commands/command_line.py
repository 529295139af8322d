"""`python -m pyhudi COMMAND`: reads the arguments, and runs the command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyhudi.commands.bootstrap import add_bootstrap_command
from pyhudi.commands.services import add_services_command
from pyhudi.commands.streamer import add_streamer_command
from pyhudi.errors import HudiError

REFUSED = 2
"""The exit status for arguments, options and tables that are refused, as argparse has it for arguments."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit status: 0 if all is well, 1 if something failed, 2 if nothing was begun."""
    parser = argparse.ArgumentParser(prog="python -m pyhudi", description="Apache Hudi tables without a jar.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    add_services_command(commands)
    add_bootstrap_command(commands)
    add_streamer_command(commands)
    chosen = parser.parse_args(arguments)
    try:
        status: int = chosen.run(chosen)
    except HudiError as error:
        sys.stderr.write(f"{error}\n")
        return REFUSED
    return status
