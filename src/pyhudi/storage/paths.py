"""Which paths a store accepts, and which file names belong to the store itself.

Paths reach a store from table contents: partition values, file names in commit metadata of other writers. So
every store checks each one here, by the rules of `pyhudi.format.safe_paths`, before it touches anything.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from pyhudi.errors import UnsafePathError
from pyhudi.format.safe_paths import path_problem

TEMPORARY_PREFIX = ".pyhudi-tmp-"
"""Starts the names of files on their way to their final name. No instant, data file or log file looks like it."""
LOCK_NAME = ".pyhudi-lock"
"""The file in a local folder under whose lock `put_if_match` runs."""


def check_relative(path: str) -> str:
    """Return the path of an object if it stays below the root it is relative to.

    Raises `UnsafePathError` for an absolute path, an empty, `.` or `..` part, a backslash, a control
    character, or text that is not valid Unicode.
    """
    if not path:
        raise UnsafePathError("a file needs a name; this path is empty", path=path)
    problem = path_problem(path)
    if problem is not None:
        raise UnsafePathError(f"a path must stay below its root; this one {problem}", path=path)
    return path


def check_relative_folder(path: str) -> str:
    """Like `check_relative`, for a folder: `""` is the root."""
    return check_relative(path) if path else path


def check_inside(root: Path, path: str) -> None:
    """Raise `UnsafePathError` where a symbolic link leads a path of local disk out of its root.

    `path` is relative and may be missing, or `""`. The root itself may be a link of the user's. Cost: one look at each
    folder above the two.
    """
    real_root = os.path.realpath(root)
    real = os.path.realpath(root / path)
    if real != real_root and not real.startswith(real_root.rstrip("/") + "/"):
        raise UnsafePathError(
            "a symbolic link leads out of the table's base path; replace it by what it leads to, or remove it",
            path=path,
            base_path=str(root),
        )


def parent_of(path: str) -> str:
    """The folder of a relative path; `""` for a direct child of the root."""
    return path.rpartition("/")[0]


def join(folder: str, path: str) -> str:
    """`folder/path`, where either may be empty."""
    return f"{folder}/{path}" if folder and path else folder or path


def temporary_name() -> str:
    """A file name that nobody else uses."""
    return f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}"


def checksum_name(name: str) -> str:
    """The side file in which Hadoop's local file system keeps the checksums of a file."""
    return f".{name}.crc"


def is_side_file(name: str) -> bool:
    """Whether a local file is no object of its own: a temporary file, our lock, Hadoop's checksums of a file."""
    return name.startswith(TEMPORARY_PREFIX) or name == LOCK_NAME or (name[0] == "." and name.endswith(".crc"))


def local_path(uri: str) -> Path | None:
    """The folder behind a `file:` URI, or None for another scheme.

    As in Hadoop, nothing in such a URI is percent-encoded: `file:/tmp/a%20b` has a percent sign in its name.
    """
    if not uri.startswith("file:"):
        return None
    path = uri.removeprefix("file:").removeprefix("//localhost")
    return Path(path if not path.startswith("//") else path[2:])
