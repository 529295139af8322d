"""Files that options name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

from pyhudi.errors import ConfigError, NotFoundError
from pyhudi.format.properties import PROPERTIES_BYTES_MAX, parse_properties
from pyhudi.storage.bounded import read_at_most
from pyhudi.storage.open import open_storage

_BYTES_MAX: Final = 1024 * 1024
_INCLUDED_MAX: Final = 20
_INCLUDE: Final = re.compile(rb"^[ \t]*include[ \t]*=[ \t]*(.*?)[ \t\r]*$", re.MULTILINE)


def text_of_file(file: str, options: Mapping[str, str]) -> str:
    """The text of a file, by its path or URI. `options`: of the stores.

    Raises `ConfigError` where there is no such file, and `StorageError`. Cost: one read.
    """
    folder, name = _folder_and_name(file)
    try:
        return read_at_most(open_storage(folder, options), name, _BYTES_MAX).decode()
    except NotFoundError as error:
        raise ConfigError("there is no such file", file=file) from error


def properties_of_file(
    file: str | os.PathLike[str], options: Mapping[str, str], *, included_by: tuple[str, ...] = ()
) -> dict[str, str]:
    """The values of a property file, by its path or URI. `options`: of the stores; `included_by`: files around it.

    A line `include=…` stands for the lines of another file, whose path may be relative to the folder of this one. Later
    lines count over earlier ones. Raises `ConfigError` where there is no such file, or files include each other, and
    `CorruptDataError`. Cost: one read for each file.
    """
    path = os.fspath(file)
    if len(included_by) > _INCLUDED_MAX:
        raise ConfigError("property files include each other", files=included_by)
    folder, name = _folder_and_name(path)
    try:
        data = read_at_most(open_storage(folder, options), name, PROPERTIES_BYTES_MAX)
    except NotFoundError as error:
        raise ConfigError("there is no such property file", props=path) from error
    own, *others = _INCLUDE.split(data)
    values = parse_properties(own, path=path)
    for included, following in zip(others[::2], others[1::2], strict=True):
        other = included.decode("latin-1")
        if not other.startswith("/") and "://" not in other and not other.startswith("file:"):
            other = f"{folder.rstrip('/')}/{other}"
        values |= properties_of_file(other, options, included_by=(*included_by, path))
        values |= parse_properties(following, path=path)
    return values


def _folder_and_name(file: str) -> tuple[str, str]:
    folder, _, name = file.rpartition("/")
    return folder or ("/" if file.startswith("/") else "."), name
