"""The time zone of the machine, as tests set it for a while."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def zone_of_machine(name: str) -> Iterator[None]:
    """Let this process be in a zone during the block. What the C library knows does not go with the variable alone."""
    before = os.environ.get("TZ")
    _enter(name)
    try:
        yield
    finally:
        _enter(before)


def _enter(name: str | None) -> None:
    if name is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = name
    time.tzset()
