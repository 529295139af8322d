"""The note in a commit's metadata that says which version of pyhudi made it."""

from __future__ import annotations

import functools
from importlib.metadata import version


@functools.cache
def own_version() -> str:
    """The version of pyhudi. Cached, because looking it up takes longer than the rest of a small commit."""
    return version("pyhudi")
