"""Hooks of a store with faults: what happens at which call of a writer."""

from __future__ import annotations

from collections.abc import Callable

from pyhudi.format.file_names import parse_data_file
from pyhudi.testing.faults import SimulatedCrash

Hook = Callable[[str, str], None]


def once(wanted: Callable[[str, str], bool], act: Callable[[], object]) -> Hook:
    """A hook that acts at the first call that is wanted."""
    pending = [act]

    def hook(operation: str, path: str) -> None:
        if pending and wanted(operation, path):
            pending.pop()()

    return hook


def once_at(operation: str, path_part: str, act: Callable[[], object]) -> Hook:
    """A hook that acts at the first call of this operation whose path contains this."""
    return once(lambda name, path: name == operation and path_part in path, act)


def at(path_ends: str, name: str) -> Hook:
    """A hook by which the process dies at this operation on a path that ends like this."""

    def hook(operation: str, path: str) -> None:
        if operation == name and path.endswith(path_ends):
            raise SimulatedCrash

    return hook


def crash() -> None:
    """The process dies."""
    raise SimulatedCrash


def is_last_put(operation: str, path: str) -> bool:
    """Whether a call is the one that makes a commit visible."""
    return operation == "put_if_absent" and path.endswith("commit") and "/.hoodie/.aux" not in path


def is_data(path: str) -> bool:
    """Whether a path is that of a data file."""
    return parse_data_file(path.rpartition("/")[2]) is not None and not path.startswith(".hoodie")
