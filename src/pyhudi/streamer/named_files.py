"""Files that options name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyhudi.errors import ConfigError, NotFoundError
from pyhudi.storage.bounded import read_at_most
from pyhudi.storage.open import open_storage

_BYTES_MAX: Final = 1024 * 1024


def text_of_file(file: str, options: Mapping[str, str]) -> str:
    """The text of a file, by its path or URI. `options`: of the stores.

    Raises `ConfigError` where there is no such file, and `StorageError`. Cost: one read.
    """
    folder, _, name = file.rpartition("/")
    storage = open_storage(folder or ("/" if file.startswith("/") else "."), options)
    try:
        return read_at_most(storage, name, _BYTES_MAX).decode()
    except NotFoundError as error:
        raise ConfigError("there is no such file", file=file) from error
