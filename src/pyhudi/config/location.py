"""Location of a table, from an argument or from an option."""

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
    """Options that name the folder of the table."""

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
        doc="The same as `path`.",
    )


def table_path(argument: str | os.PathLike[str] | None, options: Mapping[str, Any]) -> str:
    """The folder that the argument and the options of a call name. `options` have their known names.

    Raises:
        ConfigError: neither names a folder, or they name different folders.
    """
    given = read_group(LocationOptions, {name: text_of(value) for name, value in options.items() if value is not None})
    if not isinstance(argument, str | os.PathLike | None):
        raise ConfigError("the path of a table must be a str or a pathlib.Path", path=repr(argument))
    written = None if argument is None else os.fspath(argument)
    named = [path for path in (written, given.path, given.base_path) if path]
    if not named:
        raise ConfigError("the path of the table is missing: give the path of its folder")
    if any("\0" in path for path in named):
        raise ConfigError("a path must not contain a null character", path=repr(named[0]))
    if len({path.rstrip("/") for path in named}) > 1:
        raise ConfigError("the call names more than one table: give one path", paths=named)
    return named[0]
