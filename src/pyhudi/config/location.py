"""Where a table is, as a call says it: by an argument, or by an option."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyhudi.config.option import option, read_group, text_of
from pyhudi.config.parsers import text
from pyhudi.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class LocationOptions:
    """Where the table is, for a call that has no argument for it, or repeats it."""

    path: str | None = option(
        "path",
        parse=text("the folder of the table, or its URI"),
        default=None,
        doc="The folder of the table.",
    )
    base_path: str | None = option(
        "hoodie.base.path",
        parse=text("the folder of the table, or its URI"),
        default=None,
        doc="The same.",
    )


def table_path(argument: str | os.PathLike[str] | None, options: Mapping[str, Any]) -> str:
    """The one folder that the argument of a call and the options of it name.

    `options` are under the names that pyhudi knows them by. Raises `ConfigError` where nothing names one, or several
    name different ones: which of them is written to must not be a matter of luck.
    """
    given = read_group(LocationOptions, {name: text_of(value) for name, value in options.items() if value is not None})
    if not isinstance(argument, str | os.PathLike | None):
        raise ConfigError("the path of a table is a text or a pathlib.Path", path=repr(argument))
    written = None if argument is None else os.fspath(argument)
    named = [path for path in (written, given.path, given.base_path) if path]
    if not named:
        raise ConfigError("a Hudi table has one path: give that of its folder")
    if any("\0" in path for path in named):
        raise ConfigError("a path has no null character", path=repr(named[0]))
    if len({path.rstrip("/") for path in named}) > 1:
        raise ConfigError("the call names more than one table: give one path", paths=named)
    return named[0]
