"""`pyhudi COMMAND`, and `python -m pyhudi COMMAND`: reads the arguments, and runs the command."""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from pyhudi import __version__
from pyhudi.commands.arguments import Command
from pyhudi.commands.output import Output, finish_output
from pyhudi.commands.registry import COMMANDS, GROUPS
from pyhudi.commands.safe_text import safe_text
from pyhudi.errors import HudiError, InvalidRequestError, UnsupportedFeatureError

WELL, FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 130
"""The exit statuses: all is well; something failed, or was found to be wrong; nothing was begun; Ctrl-C."""


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are safe for a terminal: it quotes arguments, which may be names of files."""

    refusal: str | None = None
    """What is wrong with the arguments, once that is found."""

    def error(self, message: str) -> NoReturn:
        """Write the usage and the complaint, and end."""
        self.refusal = message
        super().error(safe_text(message))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit status. Raises `SystemExit` where the parser ends, after help or a refusal."""
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        Output().note("interrupted")
        return INTERRUPTED
    finally:
        finish_output()


def _run(words: list[str]) -> int:
    output = Output()
    match words:
        case [] | ["-h" | "--help" | "help"]:
            output.text(usage())
            return WELL if words else REFUSED
        case ["--version"]:
            output.line(f"pyhudi {__version__}")
            return WELL
    name, *rest = words
    output = Output(as_json="--json" in rest)
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f"did you mean {near[0]}?" if near else "`pyhudi --help` lists them"
        unknown = InvalidRequestError(f"there is no command {name!r}: {hint}")
        output.note(f"pyhudi: {unknown}")
        output.failure(unknown)
        return REFUSED
    parser = parser_of(name)
    try:
        chosen = parser.parse_args(rest)
    except SystemExit:
        if parser.refusal is not None:
            output.failure(InvalidRequestError(parser.refusal))
        raise
    with _warnings_as_notes():
        try:
            status = command_of(name).run(chosen, output)
        except HudiError as error:
            output.note(f"pyhudi {name}: {error} (see {error.page})")
            output.failure(error)
            return REFUSED if isinstance(error, InvalidRequestError | UnsupportedFeatureError) else FAILED
    return WELL if status is None else status


def command_of(name: str) -> Command:
    """The command with this name. Its module is loaded."""
    module = importlib.import_module(f"pyhudi.commands.{COMMANDS[name].module}")
    found: Command = getattr(module, name.replace("-", "_"))
    return found


def parser_of(name: str) -> Parser:
    """The parser of a command's arguments."""
    found = command_of(name)
    parser = Parser(prog=f"pyhudi {name}", description=found.description, epilog=found.epilog, allow_abbrev=False)
    for add in found.arguments:
        add(parser)
    return parser


def usage() -> str:
    """The commands by group, a line for each."""
    lines = ["usage: pyhudi COMMAND [ARGUMENT …]", "", "Apache Hudi tables without Java and without Spark.", ""]
    size = max(map(len, COMMANDS))
    for group, commands in GROUPS.items():
        lines += [f"{group}:", *(f"  {name:<{size}}  {listed.help}" for name, listed in commands.items()), ""]
    lines += [
        "`pyhudi COMMAND --help` has the arguments. Credentials of a store come from the environment, or from",
        "--option KEY=VALUE.",
    ]
    return "\n".join(lines)


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Show warnings, and what pyhudi logs, in a line each, without the place in the code."""
    import logging  # noqa: PLC0415 - help does without

    handler = logging.StreamHandler()
    handler.emit = lambda record: Output().note(f"warning: {record.getMessage()}")  # type: ignore[method-assign]
    logger = logging.getLogger("pyhudi")
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings():
            if not sys.warnoptions and os.environ.get("PYTHONWARNINGS") is None:
                warnings.showwarning = lambda message, *_args, **_named: Output().note(f"warning: {message}")
            yield
    finally:
        logger.removeHandler(handler)
