"""`python -m pyhudi`: the command line."""

from __future__ import annotations

import sys

from pyhudi.commands.command_line import main

if __name__ == "__main__":
    sys.exit(main())
