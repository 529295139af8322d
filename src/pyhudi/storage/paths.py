"""Rules for the paths that a store accepts, and the names of the store's own side files.

Paths come from table contents, for example from partition values or from commit metadata of other writers.
Therefore every store checks each path here, by the rules of `pyhudi.format.safe_paths`, before it uses it.
"""

from __future__ import annotations

import os
import stat
import uuid
from pathlib import Path

from pyhudi.errors import UnsafePathError
from pyhudi.format.safe_paths import path_problem

TEMPORARY_PREFIX = ".pyhudi-tmp-"
"""Prefix of the names of temporary files. No instant file, data file or log file has a name that begins with it."""
LOCK_NAME = ".pyhudi-lock"
"""The lock file that `put_if_match` creates in a local folder."""


def check_relative(path: str) -> str:
    """Return the path of an object, if it stays below its root.

    Raises:
        UnsafePathError: the path is empty or absolute, has an empty, `.` or `..` part, a backslash or a control
            character, or is not valid Unicode.
    """
    if not path:
        raise UnsafePathError("the path of a file must not be empty", path=path)
    problem = path_problem(path)
    if problem is not None:
        raise UnsafePathError(f"a path must stay below its root; this one {problem}", path=path)
    return path


def check_relative_folder(path: str) -> str:
    """Like `check_relative`, for a folder: `""` is the root."""
    return check_relative(path) if path else path


def check_inside(root: str, path: str) -> None:
    """Refuse a path on local disk that a symbolic link leads out of its root.

    `path` was checked by `check_relative`, may be `""`, and need not exist. The root itself may be a symbolic link.
    Cost: one `lstat` for each folder of `path`; where one is a symbolic link, one for each on both whole paths.

    Raises:
        UnsafePathError: the path leads out of the root.
    """
    if not _may_lead_elsewhere(root, path):
        return
    real_root = os.path.realpath(root)
    real = os.path.realpath(join(root, path))
    if real != real_root and not real.startswith(real_root.rstrip("/") + "/"):
        raise UnsafePathError(
            "a symbolic link leads out of the table's base path; replace it by its target, or remove it",
            path=path,
            base_path=root,
        )


def _may_lead_elsewhere(root: str, path: str) -> bool:
    """Whether a part of a path below a root is a symbolic link, or cannot be examined."""
    here = root
    for part in path.split("/") if path else ():
        here = f"{here}/{part}"
        try:
            mode = os.lstat(here).st_mode
        except FileNotFoundError:
            return False  # nor is there anything below it
        except OSError:
            return True
        if stat.S_ISLNK(mode):
            return True
    return False


def parent_of(path: str) -> str:
    """The folder of a relative path; `""` for a direct child of the root."""
    return path.rpartition("/")[0]


def join(folder: str, path: str) -> str:
    """`folder/path`, where either may be empty."""
    return f"{folder}/{path}" if folder and path else folder or path


def lie_in_each_other(first: str, second: str) -> bool:
    """Whether one of two folders, by the URIs of their stores, is the other one, or lies in it."""
    roots = (f"{first}/", f"{second}/")
    return roots[0].startswith(roots[1]) or roots[1].startswith(roots[0])


def temporary_name() -> str:
    """A unique name for a temporary file."""
    return f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}"


def checksum_name(name: str) -> str:
    """The side file in which Hadoop's local file system keeps the checksums of a file."""
    return f".{name}.crc"


def is_side_file(name: str) -> bool:
    """Whether a local file is not an object of the store: a temporary file, the lock file or a Hadoop checksum file."""
    return name.startswith(TEMPORARY_PREFIX) or name == LOCK_NAME or (name[0] == "." and name.endswith(".crc"))


def local_path(uri: str) -> Path | None:
    """The folder behind a `file:` URI, or None for another scheme.

    As in Hadoop, nothing in such a URI is percent-encoded: the folder of `file:/tmp/a%20b` has a percent sign in its
    name.
    """
    if not uri.startswith("file:"):
        return None
    path = uri.removeprefix("file:").removeprefix("//localhost")
    return Path(path if not path.startswith("//") else path[2:])
