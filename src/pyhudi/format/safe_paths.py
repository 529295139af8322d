"""Which paths may be followed: one decision for values of users, metadata of other writers, and what stores are asked.

A table is data that anybody may have written. A path in it decides what is opened, listed and deleted, so every path
is judged here before it goes anywhere: it must stay below the folder that it is relative to, on every store and
operating system that a table may lie on, and data never lies in the table's metadata folder.

Nothing is decoded: `%2e%2e` is a folder of that name, as in Hadoop. Nothing is repaired either.

Source: mission row S5-30; reliability.md 5.7, "path traversal".
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from pyhudi.errors import UnsafePathError

METADATA_FOLDER: Final = ".hoodie"
"""Where a table keeps its metadata, relative to the table."""

# Control characters cannot be listed from S3 (XML has no way to write them), a backslash is a separator to some, and
# half a surrogate pair has no UTF-8.
_FORBIDDEN: Final = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]")


def path_problem(path: str) -> str | None:
    """Why a relative path does not stay below its folder for certain, as the end of a sentence; None if it does.

    The empty path, which is the folder itself, has no problem.
    """
    if not path:
        return None
    if _FORBIDDEN.search(path):
        return "holds a backslash or a control character, or is not valid Unicode"
    parts = path.split("/")
    if "" in parts:
        return "starts or ends with '/', or has an empty folder name in it"
    if "." in parts or ".." in parts:
        return "is a step to another folder ('.' or '..')"
    return None


def data_path_problem(path: str) -> str | None:
    """Like `path_problem`, for a data file or a partition: these must not lie among metadata either."""
    problem = path_problem(path)
    if problem is None and any(map(is_metadata_folder, path.split("/"))):
        return f"leads into {METADATA_FOLDER!r}, the table's metadata"
    return problem


def name_problem(name: str) -> str | None:
    """Why a text is no name of one file, as the end of a sentence; None if it is one."""
    if not name:
        return "is empty"
    return "has folders in it" if "/" in name else path_problem(name)


def is_metadata_folder(name: str) -> bool:
    """Whether some file system takes this name for the metadata folder's.

    Those of macOS and Windows do not tell letter cases apart, and some pass over characters that cannot be seen.
    """
    if name.isascii():
        return name.lower() == METADATA_FOLDER
    seen = "".join(char for char in name if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFKC", seen).casefold() == METADATA_FOLDER


def check_data_path(path: str, *, source: str) -> str:
    """Return the path of a data file, or of a partition (which may be empty), that metadata name.

    Args:
        path: The path, relative to the table.
        source: The file that names it, for the error.

    Raises:
        UnsafePathError: nothing may be opened, listed or deleted at this path.
    """
    problem = data_path_problem(path)
    if problem is not None:
        raise UnsafePathError(
            f"a path in the table's metadata {problem}; nothing was done with it", path=source, named=path
        )
    return path


def check_file_name(name: str, *, source: str) -> str:
    """Return a name, or part of one, that metadata give: of a file, a file group, an instant.

    Raises:
        UnsafePathError: it is no name, but a path, or nothing.
    """
    problem = name_problem(name)
    if problem is not None:
        raise UnsafePathError(
            f"a name in the table's metadata {problem}; nothing was done with it", path=source, named=name
        )
    return name
