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
from typing import Any, NoReturn

from pyhudi import __version__
from pyhudi.commands.output import Output, finish_output
from pyhudi.commands.registry import COMMANDS, GROUPS
from pyhudi.commands.safe_text import safe_text
from pyhudi.errors import HudiError, InvalidRequestError, UnsupportedFeatureError

WELL, FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 130
"""The exit statuses: all is well; something failed, or was found to be wrong; nothing was begun; Ctrl-C."""

EXIT_STATUS = (
    "Exit status: 0 all is well; 1 something failed, is wrong or is not there; 2 the arguments, an option or the table "
    "were refused, and nothing was begun."
)


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are safe for a terminal: it quotes arguments, which may be names of files."""

    def error(self, message: str) -> NoReturn:
        """Write the usage and the complaint, and end."""
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
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f"did you mean {near[0]}?" if near else "`pyhudi --help` lists them"
        output.note(f"pyhudi: there is no command {name!r}: {hint}")
        return REFUSED
    module = module_of(name)
    chosen = parser_of(name).parse_args(rest)
    with _warnings_as_notes():
        try:
            status: int = module.run(chosen, Output(as_json=getattr(chosen, "json", False)))
        except HudiError as error:
            output.note(f"pyhudi {name}: {error}")
            return REFUSED if isinstance(error, InvalidRequestError | UnsupportedFeatureError) else FAILED
    return status


def module_of(name: str) -> Any:
    """The module of a command."""
    return importlib.import_module(f"pyhudi.commands.{COMMANDS[name].module}")


def parser_of(name: str) -> Parser:
    """The parser of a command's arguments."""
    module = module_of(name)
    paragraphs = (module.__doc__ or "").split("\n\n")
    parser = Parser(
        prog=f"pyhudi {name}",
        description=" ".join(paragraphs[0].split()),
        epilog=getattr(module, "EPILOG", EXIT_STATUS),
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    return parser


def usage() -> str:
    """The commands by group, a line for each."""
    lines = ["usage: pyhudi COMMAND [ARGUMENT …]", "", "Apache Hudi tables without Java and without Spark.", ""]
    size = max(map(len, COMMANDS))
    for group, commands in GROUPS.items():
        lines += [f"{group}:", *(f"  {name:<{size}}  {one.help}" for name, one in commands.items()), ""]
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
